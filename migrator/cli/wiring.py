"""The store, the log, the clock and the identity of a run, made from the flags."""

from __future__ import annotations

import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from migrator.cli import log
from migrator.cli.options import ClusterFlags, Session
from migrator.errors import UsageError

if TYPE_CHECKING:
    from migrator.planning.options import Selection
    from migrator.run.context import Context
    from migrator.store import Deadline, DryRun, Store
    from migrator.stores.dump.store import DumpStore

#: The operator's namespace in Grove's documentation. The record is looked for there if no operator is found.
DEFAULT_NAMESPACE: Final = "grove-system"

#: Where a pod finds the namespace that it runs in (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
_OWN_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(
    cluster: ClusterFlags, *, dry_run: DryRun, qps: float | None = None, deadline: Deadline | None = None
) -> Store:
    """The cluster that the flags name, or the one that we run in."""
    from migrator.stores.kube import store as kube_store  # noqa: PLC0415 - the client costs 0.6 s and is of no use to a dump

    return kube_store.connect(
        kubeconfig=cluster.kubeconfig,
        context=cluster.context,
        dry_run=dry_run,
        request_timeout=cluster.request_timeout,
        qps=qps,
        deadline=deadline,
    )


def context_of(cluster: ClusterFlags) -> str | None:
    """The kubeconfig context that is used; ``None`` without a kubeconfig, as in a pod."""
    from migrator.stores.kube import contexts  # noqa: PLC0415 - --help needs none of it

    return contexts.chosen(cluster.kubeconfig, cluster.context)


def open_store(cluster: ClusterFlags, *dumps: str | None, dry_run: DryRun, qps: float | None = None) -> Store:
    """The dump that was named, in one file or several, or else the cluster."""
    files = [dump for dump in dumps if dump is not None]
    if not files:
        return connect(cluster, dry_run=dry_run, qps=qps)
    return read_dump(*files, dry_run=dry_run)


def read_dump(*paths: str, dry_run: DryRun) -> DumpStore:
    """The output of kubectl in one file or several; raises ``UsageError`` for a dump without a PodCliqueSet."""
    from migrator.grove.trees import DUMP_COMMAND  # noqa: PLC0415 - of no use to a cluster
    from migrator.resources import POD_CLIQUE_SETS  # noqa: PLC0415
    from migrator.stores.dump.store import DumpStore  # noqa: PLC0415

    store = DumpStore.read(*paths, dry_run=dry_run)
    if not store.list(POD_CLIQUE_SETS, lambda _raw: True).items:
        counts = [f"{number} {kind}{'s' if number != 1 else ''}" for kind, number in sorted(store.found.items())]
        there = f" but {', '.join(counts)}" if counts else " and no other object"
        raise UsageError(f"{store.name} has no PodCliqueSet{there}; dump with `{DUMP_COMMAND}`")
    return store


def context(
    session: Session,
    stop: threading.Event,
    timeout: float | None = None,
    *,
    at_once: int | None = None,
    stream: TextIO | None = None,
) -> Context:
    """Real clocks, a real log, and an identity that no other process has; ``timeout`` is in seconds.

    The log goes to ``stream``, or else to stderr.
    """
    from migrator.run.context import Context  # noqa: PLC0415 - --help needs none of it
    from migrator.run.leases import monotonic  # noqa: PLC0415
    from migrator.store import MOST_AT_ONCE, Deadline  # noqa: PLC0415

    run_id = uuid.uuid4().hex[:12]
    return Context(
        clock=monotonic,
        now=lambda: datetime.now(UTC),
        sleep=lambda seconds: (stop.wait(seconds), None)[1],
        rest=time.sleep,
        identity=f"{socket.gethostname()}_{run_id}",
        run_id=run_id,
        log=log.configure(
            stream or sys.stderr, run_id=run_id, level=session.level, form=session.log_format, known=session.shown
        ),
        stop=stop,
        deadline=Deadline(monotonic, timeout),
        at_once=at_once or MOST_AT_ONCE,
        namespace=own_namespace(),
    )


def selection(cluster: ClusterFlags) -> Selection:
    """The PodCliqueSets that ``-n`` and ``-l`` mean; raises ``UsageError`` for a bad selector."""
    from migrator.planning.options import Selection  # noqa: PLC0415 - --help needs none of it
    from migrator.selectors import matches_labels  # noqa: PLC0415

    matches_labels(cluster.selector, {})  # a bad selector is an error even where there is nothing to match
    return Selection(cluster.namespace, cluster.selector)


def adopt_recorded(cluster: ClusterFlags) -> None:
    """Make the layouts in the cluster's record known, if it has any."""
    from migrator.run import operator, record  # noqa: PLC0415 - --help needs none of it
    from migrator.store import DryRun  # noqa: PLC0415

    store = connect(cluster, dry_run=DryRun.CLIENT)
    found = operator.find(store, operator.Flags(), everywhere=False)
    record.Recorder(store, found.home or own_namespace() or DEFAULT_NAMESPACE).load()


def own_namespace() -> str | None:
    """The namespace of the pod that this process runs in; ``None`` outside a cluster."""
    try:
        return _OWN_NAMESPACE.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


@contextmanager
def at_once(*signals: signal.Signals) -> Iterator[None]:
    """While nothing is under way, let the signals end us at once, as they do without :func:`stopping`."""
    usual = {signal.SIGINT: signal.default_int_handler}
    with ExitStack() as stack:
        for number in signals:
            stack.callback(signal.signal, number, signal.signal(number, usual.get(number, signal.SIG_DFL)))
        yield


@contextmanager
def stopping(*signals: signal.Signals) -> Iterator[threading.Event]:
    """An event that the signals set, at which a run ends at the next safe point; a second signal ends it at once."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in signals}

    def ask(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])

    with ExitStack() as stack:
        for number in signals:
            stack.callback(signal.signal, number, signal.signal(number, ask))
        yield stop
