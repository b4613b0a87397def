"""Progress of long stages, on a terminal only: objects that were read, and patches that were sent.

It is rich's own bar on stderr, and erased when the stage is over. Log lines appear above it. An error of the terminal
does not stop the run. Nothing is drawn into pipes, files or CI.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self, TextIO, TypeVar, cast

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.text import Text

from migrator.cli.log import Unbreakable
from migrator.exact_json import JSONObject
from migrator.resources import HOLDERS, Resource
from migrator.store import DryRun, Store

T = TypeVar("T")

_PATCHES: Final = {
    DryRun.NONE: "patches sent",
    DryRun.CLIENT: "patches planned",
    DryRun.SERVER: "patches tried",
}


class Progress:
    """Stages while its ``with`` block lasts, with what they count and how long they take; nothing if nobody watches.

    Somebody watches a terminal that can move its cursor, outside CI. ``stream`` is where log lines go, during the
    block and outside it. ``expected`` is how many patches are going to be sent.
    """

    def __init__(self, stream: TextIO) -> None:
        self._watched = stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._bars = Bars(
            *(SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()),
            console=Console(file=cast("TextIO", Unbreakable(stream))),
            transient=True,
            redirect_stdout=False,  # stdout is data
            redirect_stderr=False,
            disable=not self._watched,
        )
        self.stream = cast("TextIO", _Above(self._bars)) if self._watched else stream
        self.expected = 0
        self._patches: TaskID | None = None
        self._patched = 0

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[], None]]:
        """Show a stage while it lasts; each call of the returned function counts one thing done."""
        task = self._bars.add_task(name, total=None)
        numbers = itertools.count(1)
        try:
            yield lambda: self._bars.update(task, description=f"{name} {next(numbers):,}")
        finally:
            self._bars.remove_task(task)

    def watch(self, store: Store) -> Store:
        """The same store, whose lists and patches are shown."""
        return cast("Store", _WatchedStore(store, self)) if self._watched else store

    def patched(self, mode: DryRun) -> None:
        """Count a patch of that mode."""
        if self._patches is None:
            self._patches = self._bars.add_task("", total=self.expected or None)
        self._patched += 1
        of = f" of {self.expected:,}" if self._patched <= self.expected else ""
        text = f"{_PATCHES[mode]} {self._patched:,}{of}"
        self._bars.update(self._patches, description=text, completed=self._patched)


class _Above:
    """A terminal for log lines: each appears above the progress and is not wrapped."""

    def __init__(self, bars: Bars) -> None:
        self._console = bars.console
        self.isatty = bars.console.file.isatty

    def write(self, text: str) -> None:
        self._console.print(Text.from_ansi(text.removesuffix("\n")), soft_wrap=True)

    def flush(self) -> None:
        """Every line is flushed as it is written."""


class _WatchedStore:
    """A store that reports lists, and patches of hashes, to a :class:`Progress`."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store = store
        self._progress = progress

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the store's
        return getattr(self._store, name)

    def within(self, left: Callable[[], float]) -> Store:
        return self._progress.watch(self._store.within(left))

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        **options: Any,  # noqa: ANN401 - the store's
    ) -> tuple[T, ...]:
        with self._progress.stage(f"reading {resource.plural}") as count:
            return self._store.list(resource, lambda raw: (count(), project(raw))[1], **options)

    def patch(
        self,
        resource: Resource,
        *where: Any,  # noqa: ANN401 - the store's
        **options: Any,  # noqa: ANN401 - the store's
    ) -> JSONObject:
        answer = self._store.patch(resource, *where, **options)
        if resource in HOLDERS:
            self._progress.patched(self._store.dry_run)
        return answer
