"""Which patch is sent when, and what ends the sending."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from migrator.errors import LeaseLost, LostReply, MigratorError, NotAuthorised, NotFound, Rejected
from migrator.errors import TestFailed as FailedTest
from migrator.grove.hash_fields import POD_LABEL
from migrator.grove.objects import Ref
from migrator.planning import patches
from migrator.planning.model import Change
from migrator.planning.patches import Batch, Patch
from migrator.resources import Resource
from migrator.run.execute import MAX_ATTEMPTS, Executor, SetConflict
from migrator.store import DryRun, Write

_FIELDS = {
    "Pod": POD_LABEL.pointer,
    "PodClique": POD_LABEL.pointer,
    "PodCliqueScalingGroup": "/status/currentPodCliqueSetGenerationHash",
    "PodCliqueSet": "/status/currentGenerationHash",
}
_SILENT = structlog.wrap_logger(
    structlog.ReturnLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


class Sink:
    """Takes every patch, remembers the order in which they began and ended, and can do something first.

    As many are under way as may be, and the last that began is the first that ends. ``answer`` is what becomes of one.
    ``at_once``: all that are under way end before the next is asked for.
    """

    dry_run = DryRun.NONE

    def __init__(
        self,
        before: Callable[[str], object] = lambda _name: None,
        answer: Callable[[str], MigratorError | None] = lambda _name: None,
        *,
        at_once: bool = False,
    ) -> None:
        self.log: list[tuple[str, str]] = []
        self.replaced: list[list[str]] = []
        self.objects: dict[str, Any] = {}
        self._before = before
        self._answer = answer
        self._at_once = at_once

    def patches(
        self, take: Callable[[], tuple[Any, Write] | None], *, concurrency: int
    ) -> Iterator[tuple[Any, MigratorError | None]]:
        """Patches of the store."""
        under_way: list[tuple[Any, Write]] = []
        while True:
            while len(under_way) < concurrency and (found := take()) is not None:
                under_way.append(found)
                self.log.append(("begin", f"{found[1].resource.kind} {found[1].name}"))
                self.replaced.append([op.path for op in found[1].ops if op.op == "replace"])
                self._before(found[1].name)
            if not under_way:
                return
            for _ in range(len(under_way) if self._at_once else 1):
                key, write = under_way.pop()
                self.log.append(("end", f"{write.resource.kind} {write.name}"))
                yield key, self._answer(write.name)

    def get(self, _resource: Resource, _namespace: str, name: str) -> Any:
        """An object as it is now."""
        return self.objects[name]

    @property
    def begun(self) -> list[str]:
        """Objects in the order in which their patches were sent."""
        return [what for when, what in self.log if when == "begin"]


def tree(name: str, pods: int = 3) -> Batch:
    """A set with a few pods, a PodClique and a scaling group, whose hashes are to change."""
    kinds = [("Pod", f"{name}-pod-{n}") for n in range(pods)]
    kinds += [("PodClique", f"{name}-clique"), ("PodCliqueScalingGroup", f"{name}-group"), ("PodCliqueSet", name)]
    changes = tuple(Change(Ref(kind, "a", own, own), _FIELDS[kind], "old", "new") for kind, own in kinds)
    return Batch(Ref("PodCliqueSet", "a", name, name), changes)


def executor(sink: Sink, *, concurrency: int = 1, **more: Callable[[], Any]) -> Executor:
    """One that always may send, and is never asked to stop; ``more`` has another ``check``, ``stopping`` or ``log``."""
    given: dict[str, Any] = {"check": lambda: None, "stopping": lambda: False, "log": _SILENT, **more}
    return Executor(sink, concurrency=concurrency, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_within_a_tree_a_rank_begins_when_the_last_has_ended(concurrency: int) -> None:
    """Whatever the concurrency: pods, then PodCliques, then scaling groups, and the PodCliqueSet last."""
    sink = Sink()
    outcomes = executor(sink, concurrency=concurrency).run([tree(f"t{n}") for n in range(5)])
    assert all(outcome.complete and outcome.written == 6 for outcome in outcomes)
    for n in range(5):
        own = [(when, what.split()[0]) for when, what in sink.log if what.split()[1].split("-")[0] == f"t{n}"]
        kinds = ["Pod"] * 6 + ["PodClique"] * 2 + ["PodCliqueScalingGroup"] * 2 + ["PodCliqueSet"] * 2
        assert [kind for _, kind in own] == kinds


def test_a_tree_is_begun_only_when_a_worker_has_nothing_else_to_do() -> None:
    """One worker finishes a tree before it begins the next, so that a crash leaves one half-written at most."""
    sink = Sink()
    executor(sink).run([tree("t0"), tree("t1")])
    assert [name.split()[1].split("-")[0] for name in sink.begun] == ["t0"] * 6 + ["t1"] * 6


def test_trees_are_under_way_at_the_same_time() -> None:
    """The last patches of one tree do not keep the others waiting: the next trees are begun."""
    sink = Sink()
    outcomes = executor(sink, concurrency=3).run([tree(f"t{n}", pods=1) for n in range(3)])
    assert all(outcome.complete for outcome in outcomes)
    assert sink.log[:3] == [("begin", f"Pod t{n}-pod-0") for n in range(3)]


@pytest.mark.parametrize("reverse", [False, True])
def test_a_patch_is_made_when_it_is_sent(monkeypatch: pytest.MonkeyPatch, *, reverse: bool) -> None:
    """Forth and back none waits to be sent, because a set may have hundreds of thousands."""
    made, unsent = list[Patch](), list[int]()

    def make(*given: Any) -> Patch:
        made.append(Patch(*given))
        return made[-1]

    monkeypatch.setattr(patches, "Patch", make)
    sink = Sink(lambda _name: unsent.append(len(made) - len(sink.begun)))
    executor(sink).run([replace(tree("t0"), reverse=reverse)])
    assert unsent == [0] * 6


def test_no_tree_is_begun_after_the_signal() -> None:
    """Asked to stop, a run finishes the trees that it began, and begins no other."""
    sink = Sink()
    outcomes = executor(sink, stopping=lambda: len(sink.begun) > 6).run([tree(f"t{n}") for n in range(4)])
    assert [outcome.batch.ref.name for outcome in outcomes] == ["t0", "t1"]
    assert all(outcome.complete for outcome in outcomes)


def test_a_status_is_written_after_the_labels_of_its_kind() -> None:
    """They are two ranks: the labels of all PodCliques, then the statuses."""
    fields = (POD_LABEL.pointer, "/status/currentPodTemplateHash")
    refs = [Ref("PodClique", "a", name, name) for name in ("c0", "c1")]
    changes = tuple(Change(ref, field, "old", "new") for ref in refs for field in fields)
    sink = Sink()
    executor(sink, concurrency=4).run([Batch(refs[0], changes)])
    assert [when for when, _ in sink.log] == ["begin", "begin", "end", "end"] * 2
    assert [*map(len, sink.replaced)] == [1] * 4


def test_the_log_has_each_tree_that_is_written_and_its_writes() -> None:
    """A dry run is marked as one."""
    sink = Sink()
    sink.dry_run = DryRun.SERVER
    with capture_logs() as logs:
        executor(sink, log=structlog.get_logger()).run([tree("t0"), tree("t1", pods=1)])
    known = {"event": "tree_written", "log_level": "info", "namespace": "a", "dry_run": "server"}
    found = [line for line in logs if line["event"] == "tree_written"]
    assert found == [{**known, "name": "t0", "writes": 6}, {**known, "name": "t1", "writes": 4}]


@pytest.mark.parametrize("lost", [False, True])
def test_only_a_lost_reply_is_in_doubt_where_every_answer_came(*, lost: bool) -> None:
    """A bug between two patches leaves none under way."""
    sink = Sink(answer=lambda _name: LostReply("") if lost else None)
    sink.objects["t0-pod-0"] = pod("t0-pod-0", "new")
    sending = executor(sink, check=lambda: 1 // (1 - len(sink.begun)))
    with pytest.raises(ZeroDivisionError):
        sending.run([tree("t0")])
    assert (len(sink.begun), sending.doubtful) == (1, lost)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_bug_ends_the_run_at_once(concurrency: int) -> None:
    """An exception that is not ours is raised as it is, nothing more is sent, and what is under way is in doubt."""

    def fail(name: str) -> None:
        if name == "t0-pod-3":
            raise ZeroDivisionError(name)

    sink = Sink(fail)
    sending = executor(sink, concurrency=concurrency)
    with pytest.raises(ZeroDivisionError):
        sending.run([tree("t0", pods=200)])
    assert sending.doubtful, "a patch may be in flight: a reader must wait for it"
    assert not [name for name in sink.begun if not name.startswith("Pod ")]
    assert len(sink.begun) < 200


# --- what an answer leads to ------------------------------------------------------------------------------------------


def pod(name: str, value: str, uid: str | None = None) -> Any:
    """A pod as it is read again."""
    return {"metadata": {"uid": uid or name, "labels": {"grove.io/pod-template-hash": value}}}


@pytest.mark.parametrize("error", [FailedTest(""), LostReply("")])
@pytest.mark.parametrize("value", ["old", "new", "other"])
def test_a_failed_test_and_a_lost_reply_are_looked_up(error: MigratorError, value: str) -> None:
    """The new value is success, the old one is sent again, and any other is somebody else's."""
    answers = iter([error])
    sink = Sink(answer=lambda name: next(answers, None) if name == "t0-pod-0" else None)
    sink.objects["t0-pod-0"] = pod("t0-pod-0", value)
    sending = executor(sink)
    (outcome,) = sending.run([tree("t0", pods=1)])
    assert sink.begun.count("Pod t0-pod-0") == (2 if value == "old" else 1)
    assert outcome.complete is (value != "other")
    assert isinstance(outcome.error, SetConflict) is (value == "other")
    assert sending.doubtful is isinstance(error, LostReply)
    assert outcome.written == (isinstance(error, LostReply) if value == "other" else len(list(outcome.batch.patches)))


def test_a_patch_that_never_holds_is_given_up() -> None:
    """Somebody writes to it all the time."""
    sink = Sink(answer=lambda name: FailedTest("") if name == "t0-pod-0" else None)
    sink.objects["t0-pod-0"] = pod("t0-pod-0", "old")
    (outcome,) = executor(sink).run([tree("t0", pods=1)])
    assert sink.begun == ["Pod t0-pod-0"] * MAX_ATTEMPTS
    assert isinstance(outcome.error, SetConflict)


@pytest.mark.parametrize("uid", [None, "another"])
def test_an_object_that_is_gone_is_passed_over(uid: str | None) -> None:
    """Deleted, or replaced by another of its name: it was not ours to change."""
    gone = NotFound("") if uid is None else FailedTest("")
    sink = Sink(answer=lambda name: gone if name == "t0-pod-0" else None)
    sink.objects["t0-pod-0"] = pod("t0-pod-0", "old", uid)
    (outcome,) = executor(sink).run([tree("t0", pods=1)])
    assert outcome.complete
    assert outcome.written == len(list(outcome.batch.patches)) - 1


def test_a_definite_error_ends_its_tree_and_begins_no_other() -> None:
    """No further rank, and no further tree."""
    sink = Sink(answer=lambda name: Rejected("") if name == "t0-clique" else None)
    (outcome,) = executor(sink).run([tree("t0", pods=1), tree("t1")])
    assert sink.begun == ["Pod t0-pod-0", "PodClique t0-clique"]
    assert isinstance(outcome.error, Rejected)


@pytest.mark.parametrize(("rejected", "first"), [("t0-pod-3", Rejected), ("t0-pod-0", NotAuthorised)])
def test_a_tree_that_has_an_error_sends_nothing_again(rejected: str, first: type[MigratorError]) -> None:
    """Neither what was ready, nor what would be sent again; the first error counts."""

    def answer(name: str) -> MigratorError | None:
        later = NotAuthorised("") if name == "t0-pod-1" else LostReply("")
        return Rejected("") if name == rejected else later

    sink = Sink(answer=answer, at_once=True)
    sink.objects |= {f"t0-pod-{n}": pod(f"t0-pod-{n}", "old") for n in range(9)}
    (outcome,) = executor(sink, concurrency=4).run([tree("t0", pods=9)])
    assert sink.begun == [f"Pod t0-pod-{n}" for n in range(4)]
    assert isinstance(outcome.error, first)


_FAILED, _LOST, _REJECTED = FailedTest(""), LostReply(""), Rejected("")


@pytest.mark.parametrize(
    ("answers", "complete"),
    [
        ({"t1-pod-0": _FAILED}, ["t0", "t2"]),
        ({"t1-pod-0": _FAILED, "t2-pod-0": _LOST}, ["t0", "t2"]),
        ({"t1-pod-0": _REJECTED}, []),
        ({"t1-pod-0": _FAILED, "t2-pod-0": _REJECTED}, []),
    ],
)
def test_a_conflict_stops_its_own_set_only(answers: dict[str, MigratorError], complete: list[str]) -> None:
    """After any other error no set begins its next rank."""
    left = dict(answers)
    sink = Sink(answer=lambda name: left.pop(name, None), at_once=True)
    sink.objects |= {"t1-pod-0": pod("t1-pod-0", "other"), "t2-pod-0": pod("t2-pod-0", "old")}
    sending = executor(sink, concurrency=3)
    outcomes = sending.run([tree(f"t{n}", pods=1) for n in range(3)])
    assert [outcome.batch.ref.name for outcome in outcomes if outcome.complete] == complete
    assert complete or {what.split()[0] for what in sink.begun} == {"Pod"}


def test_only_what_is_left_of_a_patch_is_sent_again() -> None:
    """A test of what has its new value already would fail."""
    fields, ref = ["/metadata/labels/a", "/metadata/labels/b"], Ref("Pod", "a", "p", "p")
    answers = iter([_LOST])
    sink = Sink(answer=lambda _name: next(answers, None))
    sink.objects["p"] = {"metadata": {"uid": "p", "labels": {"a": "new", "b": "old"}}}
    changes = tuple(Change(ref, field, "old", "new") for field in fields)
    (outcome,) = executor(sink).run([Batch(ref, changes)])
    assert (sink.replaced, outcome.written) == ([fields, fields[1:]], 1)


def test_the_check_comes_before_every_patch_and_every_repetition() -> None:
    """Once it raises nothing more is sent, not even what was sent before."""
    sink = Sink(answer=lambda _name: LostReply(""))
    sink.objects["t0-pod-0"] = pod("t0-pod-0", "old")

    def check() -> None:
        if sink.begun:
            raise LeaseLost("gone")

    (outcome,) = executor(sink, check=check).run([tree("t0", pods=1)])
    assert sink.begun == ["Pod t0-pod-0"]
    assert isinstance(outcome.error, LeaseLost)


def test_a_tree_whose_last_patch_ends_after_the_first_error_is_complete() -> None:
    """What was under way still counts: no further patch of the tree was due."""
    sink = Sink(answer=lambda name: Rejected("") if name == "t1" else None)
    last = [replace(whole, changes=whole.changes[-1:]) for whole in (tree("t0"), tree("t1"))]
    first, second = executor(sink, concurrency=2).run(last)
    assert (first.complete, second.complete) == (True, False)
