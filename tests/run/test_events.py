"""Events: one per PodCliqueSet, as events.k8s.io/v1 demands, and never a reason to fail."""

from __future__ import annotations

import pytest
import structlog
from structlog.testing import LogCapture

from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised, Unreachable
from migrator.grove.objects import PodCliqueSet, Ref, Tree
from migrator.planning.model import Change, Finding, Plan, Severity, TreePlan, TreeState
from migrator.resources import EVENTS
from migrator.run import events
from migrator.run.context import Context
from tests.support.small_cluster import START, Clock, SmallCluster, context_of
from tests.support.tables import table


@pytest.fixture
def logs() -> LogCapture:
    """What was logged."""
    return LogCapture()


@pytest.fixture
def context(logs: LogCapture) -> Context:
    """A context whose log is captured."""
    clock = Clock()
    log = structlog.wrap_logger(None, processors=[logs])
    return context_of(clock, lambda: START, "grove-migrator-x7k2p_1", sleep=clock.sleep, log=log, threads=True)


def tree_plan(name: str, state: TreeState, *findings: Finding) -> TreePlan:
    """A tree with one change."""
    ref = Ref("PodCliqueSet", "ns", name, f"uid-{name}")
    pcs = PodCliqueSet(ref, {}, {}, 1, terminating=False, spec={}, status={})
    change = Change(ref, "/status/currentGenerationHash", "444", "555")
    return TreePlan(Tree(pcs), "legacy-1.34", "legacy-1.35", state, (change,), findings)


def finding(code: str, severity: Severity = Severity.REFUSAL) -> Finding:
    """A finding with a message."""
    return Finding(code, severity, Ref("PodCliqueSet", "ns", "a"), None, f"message of {code}")


PLAN = Plan(
    "auto",
    "v0.1.0-alpha.11",
    (
        tree_plan("a", TreeState.MIGRATE),
        tree_plan("b", TreeState.DONE),
        tree_plan("c", TreeState.REFUSED, finding("GM-101"), finding("GM-102"), finding("GM-112", Severity.WARNING)),
        tree_plan("d", TreeState.SKIPPED),
        tree_plan("e", TreeState.MIGRATE),
    ),
)


def test_every_migrated_set_gets_one_event(context: Context) -> None:
    """A Normal event about each set that was migrated, and none about the others."""
    cluster = SmallCluster()
    events.migrated(cluster, PLAN, context)
    found = cluster.list(EVENTS, lambda raw: raw)
    assert sorted(event["regarding"]["name"] for event in found) == ["a", "e"]
    assert {(event["type"], event["reason"], event["metadata"]["namespace"]) for event in found} == {
        ("Normal", "HashesMigrated", "ns")
    }
    assert "1 stored hashes were migrated from legacy-1.34 to legacy-1.35" in found[0]["note"]


def test_every_refused_set_gets_its_codes(context: Context) -> None:
    """A Warning with the codes of the refusals, warnings left out."""
    cluster = SmallCluster()
    events.refused(cluster, PLAN, context)
    (event,) = cluster.list(EVENTS, lambda raw: raw)
    assert (event["type"], event["reason"]) == ("Warning", "MigrationRefused")
    assert event["note"] == "not migrated to legacy-1.35 (GM-101, GM-102): message of GM-101"


def test_an_event_has_what_the_api_requires(context: Context) -> None:
    """The fields of events.k8s.io/v1, with six fraction digits and no deprecated ones."""
    ref = Ref("PodCliqueSet", "ns", "demo", "u")
    texts = {"reason": "HashesMigrated", "note": "done", "identity": context.identity}
    assert events.build(ref, kind="Normal", now=START, **texts) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "demo-", "namespace": "ns"},
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "grove.io/migrator",
        "reportingInstance": "grove-migrator-x7k2p_1",
        "action": "Migrate",
        "reason": "HashesMigrated",
        "type": "Normal",
        "note": "done",
        "regarding": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "namespace": "ns",
            "name": "demo",
            "uid": "u",
        },
    }


@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
@pytest.mark.parametrize("length", [1, 250, 1024, 1025, 5000])
def test_texts_are_cut_by_bytes(letter: str, length: int) -> None:
    """Go counts bytes: at most 1024 of the note and 128 of the instance, and whole letters only."""
    texts = {"reason": "r", "note": letter * length, "identity": letter * length}
    event = events.build(Ref("PodCliqueSet", "ns", "demo"), kind="Normal", now=START, **texts)
    for field, limit in (("note", 1024), ("reportingInstance", 128)):
        text = event[field]
        assert len(text.encode()) <= limit
        assert (text == letter * length) is (len((letter * length).encode()) <= limit)
        assert set(text) <= {letter, "."}


ONE = "One event that cannot be written keeps no other from being written, and fails nothing."
ALL = "Without the right, or without a server, one attempt and one warning are enough."


@table(
    "error times tried warned",
    *((ONE, (error, 1, 2, "event_not_written")) for error in (ApiError("no", status=500), LostReply("no reply"))),
    *((ALL, (error, 100, 1, "events_not_written")) for error in (NotAuthorised("403"), Unreachable("refused"))),
)
def test_a_failure_is_logged_and_no_reason_to_fail(
    context: Context, logs: LogCapture, error: MigratorError, *, times: int, tried: int, warned: str
) -> None:
    """Whether another event is tried depends on whether it could fare better."""
    cluster = SmallCluster()
    cluster.fail(lambda: error, verb="create", times=times)
    events.migrated(cluster, PLAN, context)
    assert (len(cluster.writes()), len(cluster.names(EVENTS))) == (tried, tried - 1)
    assert [(entry["event"], entry["log_level"]) for entry in logs.entries] == [(warned, "warning")]
