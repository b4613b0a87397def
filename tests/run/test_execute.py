"""Which patch is sent when, and what ends the sending."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import structlog

from migrator.grove.model import POINTER_TEMPLATE_HASH_LABEL, Change, Place, Ref
from migrator.planning.patches import Batch, patches_of
from migrator.resources import Op, Resource
from migrator.run.execute import Executor, Outcome
from migrator.store import DryRun

_PLACES = {
    "Pod": (Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL),
    "PodClique": (Place.CLIQUE_LABEL, POINTER_TEMPLATE_HASH_LABEL),
    "PodCliqueScalingGroup": (Place.GROUP_GENERATION, "/status/currentPodCliqueSetGenerationHash"),
    "PodCliqueSet": (Place.SET_GENERATION, "/status/currentGenerationHash"),
}
_SILENT = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class Sink:
    """Takes every patch, remembers the order in which they began and ended, and can do something first."""

    dry_run = DryRun.NONE

    def __init__(self, before: Callable[[str], object] = lambda _name: None) -> None:
        self.log: list[tuple[str, str]] = []
        self._before = before
        self._lock = threading.Lock()

    def patch(
        self, resource: Resource, _namespace: str, name: str, _ops: Sequence[Op], *, subresource: str = ""
    ) -> Any:
        """A patch of the store."""
        del subresource
        with self._lock:
            self.log.append(("begin", f"{resource.kind} {name}"))
        self._before(name)
        with self._lock:
            self.log.append(("end", f"{resource.kind} {name}"))
        return {}

    @property
    def begun(self) -> list[str]:
        """Objects in the order in which their patches were sent."""
        return [what for when, what in self.log if when == "begin"]


def tree(name: str, pods: int = 3) -> Batch:
    """A set with a few pods, a PodClique and a scaling group, whose hashes shall change."""
    kinds = [("Pod", f"{name}-pod-{n}") for n in range(pods)]
    kinds += [("PodClique", f"{name}-clique"), ("PodCliqueScalingGroup", f"{name}-group"), ("PodCliqueSet", name)]
    changes = [Change(Ref(kind, "a", own, own), *_PLACES[kind], "old", "new") for kind, own in kinds]
    return Batch(Ref("PodCliqueSet", "a", name, name), patches_of(changes))


def run(
    sink: Sink, batches: Sequence[Batch], *, workers: int, stopping: Callable[[], bool] = lambda: False
) -> list[Outcome]:
    """Send everything."""
    executor = Executor(sink, check=lambda: None, stopping=stopping, workers=workers, log=_SILENT)  # type: ignore[arg-type]
    return executor.run(batches)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_within_a_tree_a_rank_begins_when_the_last_has_ended(workers: int) -> None:
    """However many workers there are: pods, then PodCliques, then scaling groups, and the PodCliqueSet last."""
    sink = Sink()
    outcomes = run(sink, [tree(f"t{n}") for n in range(5)], workers=workers)
    assert all(outcome.complete and len(outcome.written) == 6 for outcome in outcomes)
    for n in range(5):
        own = [(when, what.split()[0]) for when, what in sink.log if what.split()[1].split("-")[0] == f"t{n}"]
        kinds = ["Pod"] * 6 + ["PodClique"] * 2 + ["PodCliqueScalingGroup"] * 2 + ["PodCliqueSet"] * 2
        assert [kind for _, kind in own] == kinds


def test_a_tree_is_begun_only_when_a_worker_has_nothing_else_to_do() -> None:
    """One worker finishes a tree before it begins the next, so that a crash leaves one half-written at most."""
    sink = Sink()
    run(sink, [tree("t0"), tree("t1")], workers=1)
    assert [name.split()[1].split("-")[0] for name in sink.begun] == ["t0"] * 6 + ["t1"] * 6


def test_trees_are_under_way_at_the_same_time() -> None:
    """The last patches of one tree do not keep the other workers idle: they begin the next trees."""
    meeting = threading.Barrier(3, timeout=20)
    sink = Sink(lambda name: meeting.wait() if "-" not in name else None)
    outcomes = run(sink, [tree(f"t{n}", pods=1) for n in range(3)], workers=3)
    assert all(outcome.complete for outcome in outcomes)


def test_no_tree_is_begun_after_the_signal() -> None:
    """Asked to stop, a run finishes the trees that it began, and begins no other."""
    sink = Sink()
    outcomes = run(sink, [tree(f"t{n}") for n in range(4)], workers=1, stopping=lambda: len(sink.begun) > 6)
    assert [outcome.batch.ref.name for outcome in outcomes] == ["t0", "t1"]
    assert all(outcome.complete for outcome in outcomes)


@pytest.mark.parametrize("workers", [1, 4])
def test_a_bug_ends_the_run_at_once(workers: int) -> None:
    """An exception that is not ours is raised as it is, and what was not yet sent is not sent any more."""

    def fail(name: str) -> None:
        if name == "t0-pod-3":
            raise ZeroDivisionError(name)

    sink = Sink(fail)
    with pytest.raises(ZeroDivisionError):
        run(sink, [tree("t0", pods=200)], workers=workers)
    assert not [name for name in sink.begun if not name.startswith("Pod ")]
    assert len(sink.begun) < 200
