"""No operator acts beside half-written sets while they are read: that may take longer than an operator's start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from migrator.run.context import Context
from migrator.run.operator import Found, Operator
from migrator.run.seen import Observation

#: Seconds between two looks for an operator that may act: it does so two seconds after its start (measured).
LOOK_OFTEN: Final = 1.0


def to_stop(seen: Observation) -> Operator | None:
    """The operator that is to be scaled to zero, if there is one and we may.

    While a run goes back that is whichever has replicas; otherwise one that no Lease keeps out and that does not know
    the hashes which are being written.
    """
    installed, options = seen.operator, seen.options
    if installed is None or not (installed.replicas and options.stop_operator):
        return None
    return installed if options.revert or (seen.acts and not options.is_target(installed.image)) else None


@contextmanager
def kept_out(
    seen: Observation, find: Callable[[], Found], stop: Callable[[Operator], None], context: Context
) -> Iterator[None]:
    """Stop it at once, and every second again while the block runs, in a thread that changes nothing but its scale.

    A look or a stop that fails is repeated; an operator that still runs after the block is seen by the next look.
    """
    over = threading.Event()  # a look may outlast the block, and an operator that is started after that may run

    def keep(look: Callable[[], Found]) -> None:
        with suppress(Exception):
            installed = to_stop(replace(seen, found=look()))
            if installed is not None and not over.is_set():
                stop(installed)

    end: Callable[[], object] = over.set
    try:
        keep(lambda: seen.found)
        end = context.repeat(lambda: keep(find), LOOK_OFTEN)
        yield
    finally:  # if Ctrl-C comes while the thread starts, that looks until the process ends, and stops nothing
        over.set()
        end()
