"""The cluster, the log, the clock and the identity of a run, made from the flags."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from migrator.cli import log
from migrator.cli.flags import session
from migrator.cluster import CONCURRENCY, Cluster, Deadline
from migrator.dump import Dump
from migrator.errors import DUMP_COMMAND, Forbidden, MigratorError, UsageError
from migrator.kinds import POD_CLIQUE_SETS
from migrator.run.context import Context
from migrator.run.leases import monotonic
from migrator.run.webhooks import account_of

if TYPE_CHECKING:
    from migrator.cli.progress import Progress

#: Where a pod finds the namespace that it runs in (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(kubeconfig: str | None, context: str | None, deadline: Deadline | None = None) -> Cluster:
    """The cluster that the flags name, or the one that we run in."""
    from migrator.kube import store  # the client costs 0.2 s, and a dump does not need it

    return store.connect(kubeconfig=kubeconfig, context=context, waiting=_waiting, deadline=deadline)


def _waiting(plugin: str) -> None:
    log.write_warning(
        "credential_plugin_slow",
        f"Still waiting for the credential plugin {plugin}. It may be waiting for you to log in.",
    )


@contextmanager
def naming_the_account(cluster: Cluster, hint: str = "") -> Iterator[None]:
    """Say in the error of a missing permission which account lacks it, as the API server knows it."""
    try:
        yield
    except Forbidden as error:
        account = ""
        with suppress(MigratorError):
            name = account_of(cluster)
            account = "" if name in str(error) else f"account {name}: "
        raise Forbidden(f"{account}{error}{hint}") from error


def read_dump(*paths: str) -> Dump:
    """The output of kubectl in one file or several; raises ``UsageError`` for a dump without a PodCliqueSet."""
    cluster = Dump.read(*paths)
    if not cluster.list(POD_CLIQUE_SETS, lambda _raw: True):
        raise UsageError(f"{cluster.name} has no PodCliqueSet; dump with `{DUMP_COMMAND}`")
    return cluster


def progress() -> Progress:
    """The progress of a command, on stderr."""
    from migrator.cli.progress import Progress  # rich costs 0.1 s, and --help and completion draw nothing

    return Progress(sys.stderr)


def context(progress: Progress, timeout: float | None = None) -> Context:
    """Real clocks, a log above the progress, and an identity of our own; ``timeout`` is in seconds."""
    run_id, asked, stop = uuid.uuid4().hex[:12], session(), threading.Event()
    return Context(
        clock=monotonic,
        now=now,
        sleep=stop.wait,
        rest=time.sleep,
        identity=f"{socket.gethostname()}_{run_id}",
        run_id=run_id,
        log=log.logger(
            progress.stream,
            log_format=asked.log_format,
            verbose=asked.verbose,
            run_id=run_id,
        ),
        stop=stop,
        deadline=Deadline(monotonic, timeout),
        concurrency=CONCURRENCY,
        namespace=own_namespace(),
        progress=progress.show,
    )


def now() -> datetime:
    """The time on the wall."""
    return datetime.now(UTC)


def own_namespace() -> str | None:
    """The namespace of the pod that this process runs in; ``None`` outside a cluster."""
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip()
    except OSError:
        return None


@contextmanager
def stop_on(stop: threading.Event, *signals: signal.Signals) -> Iterator[None]:
    """Let the signals set ``stop``, which ends a run at the next safe point; a second one of a kind ends it at once.

    A signal that is ignored, as SIGHUP is under nohup, stays ignored. So is a second SIGHUP, because a shell and its
    terminal send one each.
    """
    handlers = {number: signal.getsignal(number) for number in signals}
    before = {number: handler for number, handler in handlers.items() if handler is not signal.SIG_IGN}

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.set()
        with suppress(RuntimeError):  # the signal may have come while stderr was written to
            again = " Press Ctrl-C again to leave them unfinished." if number == signal.SIGINT else ""
            log.write_warning("stopping", f"Stopping: grove-migrator finishes the sets that it has started.{again}")
        signal.signal(number, signal.SIG_IGN if number == signal.SIGHUP else before[signal.Signals(number)])

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
