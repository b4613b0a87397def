"""What ``verify`` says of one snapshot after another, and of what happened since a migration."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from migrator import resources
from migrator.errors import UsageError, VerificationFailed
from migrator.hashing import podcliqueset, schemes
from migrator.planning.options import PlanOptions
from migrator.resources import Resource
from migrator.run import migrate
from migrator.run.context import Context
from migrator.run.migrate import RunOptions
from migrator.run.record import Recorder
from migrator.run.verify import VerifyOptions, verify
from migrator.store import Deadline
from tests.support import workloads
from tests.support.memory_store import MemoryStore
from tests.support.trees import State, grow

SOURCE, TARGET, NAMESPACE = "legacy-1.34", "legacy-1.35", "grove-system"
Change = Callable[[dict[str, Any]], object]


class Clock:
    """Seconds that pass by sleeping only; observers see each sleep."""

    def __init__(self) -> None:
        self.now = 0.0
        self.observers: list[Callable[[], object]] = []

    def __call__(self) -> float:
        """Seconds so far."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds
        for observer in self.observers:
            observer()


@pytest.fixture
def clock() -> Clock:
    """A clock that starts at zero."""
    return Clock()


@pytest.fixture
def context(clock: Clock) -> Context:
    """Surroundings without a log."""
    return Context(
        clock=clock,
        now=lambda: datetime(2026, 3, 1, tzinfo=UTC),
        sleep=clock.sleep,
        identity="verifier",
        run_id="test",
        log=structlog.get_logger(),
        stop=threading.Event(),
        deadline=Deadline(clock),
        workers=1,
    )


@pytest.fixture
def migrated(context: Context) -> MemoryStore:
    """A cluster after a migration, with its record, and no operator yet."""
    store = MemoryStore({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for pcs, state in (
        (workloads.disaggregated("disagg"), State(updated=True)),
        (workloads.standalone("patient", on_delete=True), State(updated=True, leftovers={"frontend": "4567b"})),
    ):
        for item in grow(pcs, podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(SOURCE)), state):
            store.put(item)
    migrate.run(store, RunOptions(plan=PlanOptions(target=TARGET), operator_namespace=NAMESPACE), context)
    return store


def check(store: MemoryStore, context: Context, *, after: bool = True, settle: float = 0.0) -> int:
    """Run verify; returns the number of snapshots."""
    options = VerifyOptions(target=TARGET, settle=settle, interval=1.0, after_upgrade=after)
    return verify(store, options, context, recorder=Recorder(store, NAMESPACE) if after else None).attempts


def records(store: MemoryStore) -> list[str]:
    """The names of the ConfigMaps that runs leave."""
    return [item["metadata"]["name"] for item in store.everything(resources.CONFIG_MAPS)]


def test_a_migrated_cluster_with_leftovers_is_verified_and_its_record_goes(
    migrated: MemoryStore, context: Context
) -> None:
    """Target values and OnDelete leftovers pass, and the record that served is removed."""
    assert records(migrated)
    assert check(migrated, context) == 1
    assert records(migrated) == []


def test_without_after_upgrade_the_record_stays(migrated: MemoryStore, context: Context) -> None:
    """Only the comparison with the record uses it up."""
    check(migrated, context, after=False)
    assert records(migrated)


def test_after_upgrade_without_a_record_is_a_usage_error(migrated: MemoryStore, context: Context) -> None:
    """There is nothing to compare with, and that is said instead of passing."""
    Recorder(migrated, NAMESPACE).delete_all()
    with pytest.raises(UsageError, match="there is none"):
        check(migrated, context)


def _old_value(item: dict[str, Any]) -> None:
    item["status"]["currentPodCliqueSetGenerationHash"] = "4567c"


def _new_update(item: dict[str, Any]) -> None:
    item["status"]["updateProgress"]["updateStartedAt"] = "2026-04-01T00:00:00Z"


def _behind(item: dict[str, Any]) -> None:
    item["status"]["updatedReplicas"] = 0


@pytest.mark.parametrize(
    ("resource", "name", "ended", "passes"),
    [
        (resources.POD_CLIQUES, "disagg-0-frontend", True, True),
        (resources.POD_CLIQUES, "disagg-0-frontend", False, False),
        (resources.POD_CLIQUES, "disagg-0-workers-0-prefill", True, False),
        (resources.POD_CLIQUE_SCALING_GROUPS, "disagg-0-workers", True, False),
        (resources.POD_CLIQUE_SETS, "disagg", True, False),
    ],
)
def test_a_standalone_pod_cliques_update_is_nothing_once_it_has_ended(
    migrated: MemoryStore, context: Context, resource: Resource, name: str, *, ended: bool, passes: bool
) -> None:
    """alpha.12-rc1 begins one of each; one of a set, a group or a grouped PodClique means that pods were replaced."""

    def begin(item: dict[str, Any]) -> None:
        progress = item["status"].setdefault("updateProgress", {})
        progress["updateStartedAt"] = "2026-04-01T00:00:00Z"
        progress.pop("updateEndedAt", None)
        if ended:
            progress["updateEndedAt"] = "2026-04-01T00:00:01Z"

    migrated.edit(resource, "default", name, begin)
    if passes:
        assert check(migrated, context) == 1
        return
    with pytest.raises(VerificationFailed, match=rf"{name}: an update began at 2026-04-01T00:00:00Z, after"):
        check(migrated, context)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_old_value, "/status/currentPodCliqueSetGenerationHash is 4567c, not legacy-1.35's"),
        (_behind, "updatedReplicas is 0 of 1, before the upgrade it was 1 of 1"),
    ],
    ids=["a foreign value", "replicas behind"],
)
def test_what_changed_for_the_worse_is_named_with_its_object(
    migrated: MemoryStore, context: Context, change: Change, words: str
) -> None:
    """A foreign value or fallen updatedReplicas fails, naming the PodClique."""
    migrated.edit(resources.POD_CLIQUES, "default", "disagg-0-frontend", change)
    with pytest.raises(VerificationFailed, match="PodClique default/disagg-0-frontend") as failed:
        check(migrated, context)
    assert words in str(failed.value)
    assert records(migrated)


def test_an_update_under_on_delete_is_no_failure(migrated: MemoryStore, context: Context) -> None:
    """There the operator writes progress without touching a pod."""
    migrated.edit(resources.POD_CLIQUES, "default", "patient-0-frontend", _new_update)
    check(migrated, context)


def test_a_missing_pod_is_counted_and_events_tell_how_it_ended(migrated: MemoryStore, context: Context) -> None:
    """A pod younger than the record does not replace one of before, and an eviction is told from a deletion."""
    pods = [
        p
        for p in migrated.everything(resources.PODS)
        if p["metadata"]["labels"]["grove.io/podclique"] == "disagg-0-frontend"
    ]
    gone = pods[0]
    migrated.drop(resources.PODS, "default", gone["metadata"]["name"])
    young = {**gone, "metadata": {**gone["metadata"], "name": "disagg-0-frontend-young", "uid": "young"}}
    young["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
    migrated.put(young)
    _event(migrated, "TaintManagerEviction", gone["metadata"]["name"])
    with pytest.raises(VerificationFailed) as failed:
        check(migrated, context)
    assert "1 of the 1 pods of before are missing; Events of its pods: TaintManagerEviction (1)" in str(failed.value)


def test_events_of_other_pods_do_not_explain_a_missing_one(migrated: MemoryStore, context: Context) -> None:
    """Neither a pod that still lives nor one of a PodClique whose name begins alike tells how a pod ended."""
    gone = next(
        pod
        for pod in migrated.everything(resources.PODS)
        if pod["metadata"]["labels"]["grove.io/podclique"] == "disagg-0-frontend"
    )
    migrated.drop(resources.PODS, "default", gone["metadata"]["name"])
    young = {**gone, "metadata": {**gone["metadata"], "name": "disagg-0-frontend-young", "uid": "young"}}
    young["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
    migrated.put(young)
    _event(migrated, "Unhealthy", "disagg-0-frontend-young")
    _event(migrated, "Preempted", "disagg-0-frontend-two-abcde")
    with pytest.raises(VerificationFailed, match="are missing; Events of its pods: none"):
        check(migrated, context)


def _event(store: MemoryStore, reason: str, pod: str) -> None:
    store.put(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{pod}.{reason}", "namespace": "default"},
            "reason": reason,
            "regarding": {"kind": "Pod", "namespace": "default", "name": pod},
        }
    )


def test_a_set_that_is_gone_is_named(migrated: MemoryStore, context: Context) -> None:
    """A PodCliqueSet of the record that no longer exists fails."""
    migrated.drop(resources.POD_CLIQUE_SETS, "default", "disagg")
    with pytest.raises(VerificationFailed, match="PodCliqueSet default/disagg was there before the upgrade"):
        check(migrated, context)


def test_a_state_that_is_only_late_settles(migrated: MemoryStore, context: Context, clock: Clock) -> None:
    """Replicas that catch up within --settle pass, after as many snapshots as it took."""
    migrated.edit(resources.POD_CLIQUES, "default", "disagg-0-frontend", _behind)

    def catch_up() -> None:
        if clock() >= 3:
            migrated.edit(
                resources.POD_CLIQUES,
                "default",
                "disagg-0-frontend",
                lambda item: item["status"].update(updatedReplicas=1),
            )

    clock.observers.append(catch_up)
    assert check(migrated, context, settle=10.0) == 4


def test_what_cannot_settle_ends_the_wait(migrated: MemoryStore, context: Context, clock: Clock) -> None:
    """A lost pod does not come back, so the rest of --settle is not waited for."""
    migrated.drop(resources.POD_CLIQUE_SETS, "default", "disagg")
    with pytest.raises(VerificationFailed, match="after 1 snapshots"):
        check(migrated, context, settle=100.0)
    assert clock() == 0
