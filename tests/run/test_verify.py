"""What ``verify`` says of one snapshot after another, and of what happened since a migration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator import resources
from migrator.errors import LostRace, Refused, UsageError, VerificationFailed
from migrator.hashing import podcliqueset, schemes
from migrator.planning.options import PlanOptions
from migrator.resources import Resource
from migrator.run import loop
from migrator.run.context import Context, RunOptions
from migrator.run.leases import OWN_LEASE
from migrator.run.operator import Flags
from migrator.run.record import Recorder
from migrator.run.verify import VerifyOptions, VerifyResult, close, closing, verify
from testbed import workloads
from testbed.trees import State, grow
from tests.simulation import cluster
from tests.simulation.world import operator_pod
from tests.support.memory_store import MemoryStore
from tests.support.small_cluster import Clock, context_of

SOURCE, TARGET, NAMESPACE = "legacy-1.34", "legacy-1.35", "grove-system"
PLAN = PlanOptions(target=TARGET)
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def clock() -> Clock:
    """A clock that moves by sleeping only."""
    return Clock()


@pytest.fixture
def context(clock: Clock) -> Context:
    """Surroundings without a log."""
    return context_of(clock, lambda: datetime(2026, 3, 1, tzinfo=UTC), "verifier", sleep=clock.sleep)


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
    loop.run(store, RunOptions(plan=PLAN, flags=Flags(NAMESPACE)), context)
    for item in (*cluster.operator(image=cluster.NEW_IMAGE), operator_pod("new-1", cluster.NEW_IMAGE)):
        store.put(item)
    return store


def verified(store: MemoryStore, context: Context, *, after: bool = True, settle: float = 0.0) -> VerifyResult:
    """What verify finds."""
    options = VerifyOptions(PLAN, settle=settle, interval=1.0, after_upgrade=after)
    return verify(store, options, context)


def fails(store: MemoryStore, context: Context, words: str, **options: Any) -> str:
    """Check that verify fails, with these words in its message; returns the message."""
    with pytest.raises(VerificationFailed, match=words) as failed:
        verified(store, context, **options)
    return str(failed.value)


def change(
    store: MemoryStore, how: Change, kind: Resource = resources.POD_CLIQUES, name: str = "disagg-0-frontend"
) -> None:
    """Change an object as others would."""
    store.edit(kind, "default", name, how)


def lost(store: MemoryStore, clique: str = "disagg-0-frontend") -> dict[str, Any]:
    """Delete the first pod of a PodClique, and return it."""
    gone = next(
        pod
        for pod in store.everything(resources.PODS)
        if pod["metadata"].get("labels", {}).get("grove.io/podclique") == clique
    )
    store.drop(resources.PODS, "default", gone["metadata"]["name"])
    return gone


def replaced(store: MemoryStore) -> str:
    """Delete a pod of a PodClique, and create a younger one; returns the name of the one of before."""
    gone = lost(store)
    young = {"name": "disagg-0-frontend-young", "uid": "young", "creationTimestamp": "2026-05-01T00:00:00Z"}
    store.put({**gone, "metadata": {**gone["metadata"], **young}})
    return str(gone["metadata"]["name"])


def records(store: MemoryStore) -> list[str]:
    """The names of the ConfigMaps that runs leave."""
    names = [item["metadata"]["name"] for item in store.everything(resources.CONFIG_MAPS)]
    return [name for name in names if name.startswith("grove-migrator")]


def test_a_migrated_cluster_with_leftovers_is_verified_and_its_record_goes(
    migrated: MemoryStore, context: Context
) -> None:
    """Target values and OnDelete leftovers pass, and the record that served is removed."""
    assert records(migrated)
    assert verified(migrated, context).attempts == 1
    assert records(migrated) == []


def test_without_after_upgrade_the_record_stays(migrated: MemoryStore, context: Context) -> None:
    """Only the comparison with the record uses it up."""
    verified(migrated, context, after=False)
    assert records(migrated)


def _old_value(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["grove.io/pod-template-hash"] = "4567c"


def _generation(value: str) -> Change:
    return lambda item: item["status"].update(currentPodCliqueSetGenerationHash=value)


def _behind(item: dict[str, Any]) -> None:
    item["status"]["updatedReplicas"] = 0


BEFORE = podcliqueset.hash_pod_clique_set(workloads.disaggregated("disagg"), schemes.by_name(SOURCE))


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

    change(migrated, begin, resource, name)
    if passes:
        assert verified(migrated, context).attempts == 1
    else:
        fails(migrated, context, rf"{name}: an update began at 2026-04-01T00:00:00Z, after")


def test_a_status_that_lags_behind_is_reported_and_does_not_fail(migrated: MemoryStore, context: Context) -> None:
    """An older generation in a status, of which no scheme knows, costs no pod where label and pods are current."""
    change(migrated, _generation("4567c"))
    found = verified(migrated, context)
    assert [problem.field for problem in found.noticed] == ["/status/currentPodCliqueSetGenerationHash"]
    assert "no pod depends on it" in found.noticed[0].message


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (_old_value, "/metadata/labels/grove.io~1pod-template-hash is 4567c, not legacy-1.35's"),
        (_generation(BEFORE.generation_hash), "/status/currentPodCliqueSetGenerationHash is "),
        (_behind, "updatedReplicas is 0 of 1, before the upgrade it was 1 of 1"),
    ],
    ids=["a foreign value", "a value that was not migrated", "replicas behind"],
)
def test_what_changed_for_the_worse_is_named_with_its_object(
    migrated: MemoryStore, context: Context, how: Change, words: str
) -> None:
    """A foreign value or fallen updatedReplicas fails, naming the PodClique."""
    change(migrated, how)
    assert words in fails(migrated, context, "PodClique default/disagg-0-frontend")
    assert records(migrated)


def test_an_update_under_on_delete_is_no_failure(migrated: MemoryStore, context: Context) -> None:
    """There the operator writes progress without touching a pod."""
    begun = {"updateStartedAt": "2026-04-01T00:00:00Z"}
    change(migrated, lambda item: item["status"]["updateProgress"].update(begun), name="patient-0-frontend")
    verified(migrated, context)


def test_a_missing_pod_is_counted_and_events_tell_how_it_ended(migrated: MemoryStore, context: Context) -> None:
    """A pod younger than the record does not replace one of before, and an eviction is told from a deletion."""
    _event(migrated, "TaintManagerEviction", replaced(migrated))
    fails(migrated, context, r"1 of its 1 earlier pods are missing; Events of its pods: TaintManagerEviction \(1\)")


def test_events_of_other_pods_do_not_explain_a_missing_one(migrated: MemoryStore, context: Context) -> None:
    """Neither a pod that still lives nor one of a PodClique whose name begins alike tells how a pod ended."""
    replaced(migrated)
    _event(migrated, "Unhealthy", "disagg-0-frontend-young")
    _event(migrated, "Preempted", "disagg-0-frontend-two-abcde")
    fails(migrated, context, "are missing; Events of its pods: none")


def _event(store: MemoryStore, reason: str, pod: str) -> None:
    metadata = {"name": f"{pod}.{reason}", "namespace": "default"}
    regarding = {"kind": "Pod", "namespace": "default", "name": pod}
    kind = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    store.put({**kind, "metadata": metadata, "reason": reason, "regarding": regarding})


def owners_deeds(result: VerifyResult) -> str:
    """What was noticed, as one text."""
    return "; ".join(problem.message for problem in result.noticed)


def test_what_owners_do_is_reported_and_does_not_fail(migrated: MemoryStore, context: Context) -> None:
    """A set deleted, another scaled in: what should be there now is there, and the record has served."""
    migrated.drop(resources.POD_CLIQUE_SETS, "default", "patient")
    clique = migrated.read(resources.POD_CLIQUES, "default", "disagg-0-workers-0-decode")
    wanted = clique["spec"]["replicas"] - 1
    lost(migrated, "disagg-0-workers-0-decode")

    def scale_in(item: dict[str, Any]) -> None:
        item["spec"]["replicas"] = wanted
        item["status"].update(replicas=wanted, updatedReplicas=wanted)

    change(migrated, scale_in, name="disagg-0-workers-0-decode")
    said = owners_deeds(verified(migrated, context))
    assert "PodCliqueSet default/patient was there before the upgrade, and was deleted since" in said
    assert "disagg-0-workers-0-decode was scaled in" in said
    assert records(migrated) == []


def test_a_set_that_is_scaled_in_needs_no_pods_of_that_replica(migrated: MemoryStore, context: Context) -> None:
    """Its PodCliques are gone as they should be."""
    migrated.drop(resources.POD_CLIQUES, "default", "patient-0-frontend")
    fails(migrated, context, "patient-0-frontend is missing")
    change(migrated, lambda item: item["spec"].update(replicas=0), resources.POD_CLIQUE_SETS, "patient")
    assert "patient-0-frontend is gone: its owner scaled it in" in owners_deeds(verified(migrated, context))


def test_a_set_that_was_edited_is_its_owners(migrated: MemoryStore, context: Context) -> None:
    """Its pods are replaced because its owner wants that: nothing of it is compared."""

    def edit(item: dict[str, Any]) -> None:
        item["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "new:2"

    change(migrated, edit, resources.POD_CLIQUE_SETS, "patient")
    assert "PodCliqueSet default/patient was edited" in owners_deeds(verified(migrated, context))


@pytest.mark.parametrize("replicas", [0, 1])
def test_before_the_upgrade_there_is_no_after(migrated: MemoryStore, context: Context, replicas: int) -> None:
    """With the operator at zero, or the old one running, it fails and the record stays."""
    migrated.drop(resources.PODS, NAMESPACE, "new-1")
    for item in cluster.operator(replicas=replicas):
        migrated.put(item)
    if replicas:
        migrated.put(operator_pod("old-1", cluster.OLD_IMAGE))
    fails(migrated, context, r"no operator of legacy-1\.35 runs")
    assert records(migrated)
    if replicas:
        verify(migrated, VerifyOptions(PLAN, after_upgrade=True, target_image=cluster.OLD_IMAGE), context)


def test_without_a_record_what_can_be_seen_is_verified(migrated: MemoryStore, context: Context) -> None:
    """A run with nothing to migrate leaves no record, and a second verification finds none: neither is a failure."""
    assert verified(migrated, context).compared
    assert not verified(migrated, context).compared
    change(migrated, _old_value)
    fails(migrated, context, "4567c")


@pytest.mark.parametrize(("source", "target"), [("auto", "legacy-1.33"), ("legacy-1.33", TARGET)])
def test_the_record_of_another_migration_is_not_passed_over(
    migrated: MemoryStore, context: Context, source: str, target: str
) -> None:
    """It may be needed to finish or undo that one, so the message names both and what to do."""
    message = rf"a run from auto to legacy-1\.35 .* from {source} to {target}: .* `verify --close`"
    with pytest.raises(UsageError, match=message):
        verify(migrated, VerifyOptions(PlanOptions(source=source, target=target), after_upgrade=True), context)
    assert records(migrated)


@pytest.mark.parametrize(("digit", "good"), [("a", True), ("b", False)])
def test_the_running_build_must_be_the_one_that_was_read(
    migrated: MemoryStore, context: Context, digit: str, *, good: bool
) -> None:
    """After an upgrade to a binary the operator's pod must have been pulled by that binary's digest."""
    status = [{"name": "grove-operator", "imageID": f"registry.example/op@sha256:{64 * digit}"}]
    migrated.edit(resources.PODS, NAMESPACE, "new-1", lambda pod: pod["status"].update(containerStatuses=status))
    options = VerifyOptions(PLAN, after_upgrade=True, target_digests=frozenset({f"sha256:{64 * 'a'}"}))
    if good:
        assert verify(migrated, options, context).attempts == 1
        return
    with pytest.raises(VerificationFailed, match=r"operator pod .*new-1 .* but the binary was read from sha256:aaa"):
        verify(migrated, options, context)
    assert records(migrated)


def test_no_set_at_all_is_not_verified(context: Context) -> None:
    """Neither where the CRDs are missing nor where the record names sets."""
    bare = MemoryStore(without=[resources.POD_CLIQUE_SETS])
    fails(bare, context, "CRDs are not installed", after=False)
    assert verified(MemoryStore(), context, after=False).trees == 0


def test_an_empty_cluster_beside_a_record_is_another_cluster(migrated: MemoryStore, context: Context) -> None:
    """The record names sets, and there is none."""
    for name in ("disagg", "patient"):
        migrated.drop(resources.POD_CLIQUE_SETS, "default", name)
    for after in (False, True):
        fails(migrated, context, "the record names 2", after=after)


def test_a_record_can_always_be_closed(migrated: MemoryStore, context: Context) -> None:
    """Closing says what is given up, and refuses where only the record can translate a set."""
    options = VerifyOptions(PLAN)
    found = closing(migrated, options)
    assert "the way back of 2 PodCliqueSets" in found.gives_up[0]
    before = migrated.read(resources.POD_CLIQUES, "default", "disagg-0-frontend")
    table = next(t for t in Recorder(migrated, NAMESPACE).load().tables if t.name == "disagg")
    old = table.source_hashes.templates["frontend"]
    change(migrated, lambda item: item["status"].update(currentPodTemplateHash=old))
    with pytest.raises(Refused, match="half-migrated"):
        closing(migrated, options)
    migrated.put(before)
    close(migrated, found.home, context)
    assert records(migrated) == []
    with pytest.raises(UsageError):
        closing(migrated, options)


def test_a_record_is_not_taken_from_a_run_that_is_at_work(migrated: MemoryStore, context: Context) -> None:
    """Another holder of our Lease needs it: closing loses the race, and a verification only reports that."""
    lease = migrated.read(resources.LEASES, NAMESPACE, OWN_LEASE)
    lease["spec"].update(holderIdentity="another_1", leaseDurationSeconds=60)
    migrated.put(lease)
    with pytest.raises(LostRace, match="another_1"):
        close(migrated, closing(migrated, VerifyOptions(PLAN)).home, context)
    assert verified(migrated, context).attempts == 1
    assert records(migrated)


def test_a_state_that_is_only_late_settles(migrated: MemoryStore, context: Context, clock: Clock) -> None:
    """Replicas that catch up within --settle pass, after as many snapshots as it took."""
    change(migrated, _behind)
    began = clock()

    def catch_up(_: float) -> None:
        if clock() >= began + 3:
            change(migrated, lambda item: item["status"].update(updatedReplicas=1))

    clock.on_sleep.append(catch_up)
    assert verified(migrated, context, settle=10.0).attempts == 4


def test_what_cannot_settle_ends_the_wait(migrated: MemoryStore, context: Context, clock: Clock) -> None:
    """A lost pod does not come back, so the rest of --settle is not waited for."""
    migrated.drop(resources.POD_CLIQUES, "default", "disagg-0-frontend")
    waited = clock()
    fails(migrated, context, "after 1 snapshots", settle=100.0)
    assert clock() == waited


def test_without_a_record_an_update_in_flight_is_not_passed_over(
    migrated: MemoryStore, context: Context, clock: Clock
) -> None:
    """It may be the upgrade's, and its end would look like a migrated cluster: it is not waited for."""
    assert verified(migrated, context).compared
    begun = {"updateStartedAt": "2026-04-01T00:00:00Z"}
    change(migrated, lambda item: item["status"].update(updateProgress=begun), resources.POD_CLIQUE_SETS, "disagg")
    waited = clock()
    fails(migrated, context, "no record shows whether the upgrade began it", settle=100.0)
    assert clock() == waited
