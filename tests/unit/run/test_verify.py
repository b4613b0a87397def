"""What ``verify`` says of one snapshot after another, and of what happened since a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator import resources
from migrator.errors import Unreadable, UsageError, VerificationFailed
from migrator.hashing import podcliqueset, schemes
from migrator.planning.options import PlanOptions
from migrator.resources import Resource
from migrator.run import migration, record
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE
from migrator.run.operator import OperatorFlags
from migrator.run.verify import VerifyOptions, VerifyResult, verify
from testbed import operator_installation as installation
from testbed import workloads
from testbed.trees import State, grow
from tests.faults import cluster
from tests.support.clock import Clock, context_of
from tests.support.memory_store import MemoryStore
from tests.support.tables import table

SOURCE, TARGET, NAMESPACE = "legacy-1.34", "legacy-1.35", "grove-system"
PLAN = PlanOptions(target=TARGET)
Change = Callable[[dict[str, Any]], object]
_EARLIER, _LATER = "2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z"  # than the migration


class Site(MemoryStore):
    """A cluster in memory, its clock, what verify finds in it, and what others do to it."""

    def __init__(self, *objects: dict[str, Any], **options: Any) -> None:
        super().__init__(*objects, **options)
        self.clock = Clock()
        now = datetime(2026, 3, 1, tzinfo=UTC)
        self.context = context_of(self.clock, lambda: now, "verifier", sleep=self.clock.sleep)

    def verified(
        self, *, source: str = "auto", target: str = TARGET, after: bool = True, **options: Any
    ) -> VerifyResult:
        """What verify finds."""
        plan = PlanOptions(source=source, target=target)
        return verify(self, VerifyOptions(plan, after_upgrade=after, **options), self.context)

    def fails(self, words: str, **options: Any) -> str:
        """Check that verify fails, with these words in its message; returns the message."""
        with pytest.raises(VerificationFailed, match=words) as failed:
            self.verified(**options)
        return str(failed.value)

    def change(self, how: Change, kind: Resource = resources.POD_CLIQUES, name: str = "disagg-0-frontend") -> None:
        """Change an object as others would."""
        self.edit(kind, "default", name, how)

    def lost(self, name: str = "disagg-0-frontend") -> dict[str, Any]:
        """Delete the first pod of a PodClique, and return it."""
        pods = (pod for pod in self.everything(resources.PODS) if "labels" in pod["metadata"])
        gone = next(pod for pod in pods if pod["metadata"]["labels"].get("grove.io/podclique") == name)
        self.drop(resources.PODS, "default", gone["metadata"]["name"])
        return gone

    def records(self) -> list[str]:
        """The names of the ConfigMaps that runs leave."""
        names = [item["metadata"]["name"] for item in self.everything(CONFIG_MAPS)]
        return [name for name in names if name.startswith("grove-migrator")]


@pytest.fixture
def migrated() -> Site:
    """A cluster after a migration, with its record and the new operator."""
    site = Site({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for pcs, state in (
        (workloads.disaggregated("disagg"), State(updated=True)),
        (workloads.standalone("patient", on_delete=True), State(updated=True, leftovers={"frontend": "4567b"})),
    ):
        for item in grow(pcs, podcliqueset.SetHasher(pcs).under(schemes.by_name(SOURCE)), state):
            site.put(item)
    migration.run(site, RunOptions(plan=PLAN, flags=OperatorFlags(NAMESPACE)), site.context)
    for item in (*cluster.operator(image=cluster.NEW_IMAGE), installation.pod(cluster.NEW_IMAGE, name="new-1")):
        site.put(item)
    return site


@pytest.mark.parametrize("after", [True, False], ids=["after the upgrade", "before it"])
def test_a_migrated_cluster_with_leftovers_is_verified(migrated: Site, *, after: bool) -> None:
    """Target values and OnDelete leftovers pass; the record goes once it has served the comparison that uses it up."""
    assert migrated.records()
    migrated.verified(after=after)
    assert bool(migrated.records()) is not after


def _old_value(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["grove.io/pod-template-hash"] = "4567c"


def _generation(value: str) -> Change:
    return lambda item: item["status"].update(currentPodCliqueSetGenerationHash=value)


BEFORE = podcliqueset.SetHasher(workloads.disaggregated("disagg")).under(schemes.by_name(SOURCE))


def _begun(moment: str, *, ended: bool = False) -> Change:
    end = {"updateEndedAt": moment} if ended else {}
    return lambda item: item["status"].update(updateProgress={"updateStartedAt": moment, **end})


@table(
    "kind name moment ended fails",
    ("An update of the set began since, and is in flight.", (resources.POD_CLIQUE_SETS, "disagg", _LATER, False, True)),
    (
        "An update of a scaling group began since.",
        (resources.POD_CLIQUE_SCALING_GROUPS, "disagg-0-workers", _LATER, False, True),
    ),
    ("An update of a PodClique began since.", (resources.POD_CLIQUES, "disagg-0-frontend", _LATER, False, True)),
    ("An update that has ended left the pods.", (resources.POD_CLIQUES, "disagg-0-frontend", _LATER, True, False)),
    ("The run saw that update, and went on.", (resources.POD_CLIQUE_SETS, "disagg", _EARLIER, False, False)),
    ("Under OnDelete progress touches no pod.", (resources.POD_CLIQUES, "patient-0-frontend", _LATER, False, False)),
)
def test_an_update_that_began_since_the_migration_fails_while_it_is_in_flight(
    migrated: Site, kind: Resource, name: str, moment: str, *, ended: bool, fails: bool
) -> None:
    """The operator found a change; whether it costs a pod shows at its end."""
    migrated.change(_begun(moment, ended=ended), kind, name)
    if fails:
        migrated.fails(rf"{name}: an update that began at 2026-04-01 00:00:00 UTC has not ended, and it is later")
    else:
        migrated.verified()


def test_a_status_that_lags_behind_is_reported_and_does_not_fail(migrated: Site) -> None:
    """An older generation in a status, of which no scheme knows, costs no pod where label and pods are current."""
    migrated.change(_generation("4567c"))
    found = migrated.verified()
    assert [problem.field for problem in found.noticed] == ["/status/currentPodCliqueSetGenerationHash"]
    assert "no pod depends on it" in found.noticed[0].message


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (_old_value, "/metadata/labels/grove.io~1pod-template-hash is 4567c, not legacy-1.35's"),
        (_generation(BEFORE.generation), "/status/currentPodCliqueSetGenerationHash is "),
    ],
    ids=["a foreign value", "a value that was not migrated"],
)
def test_what_changed_for_the_worse_is_named_with_its_object(migrated: Site, how: Change, words: str) -> None:
    """A foreign value, or one of the source's, fails and names the PodClique."""
    migrated.change(how)
    assert words in migrated.fails("PodClique default/disagg-0-frontend")
    assert migrated.records()


def test_a_missing_pod_is_counted(migrated: Site) -> None:
    """A pod younger than the record does not replace one of before."""
    gone = migrated.lost()
    migrated.put({**gone, "metadata": {**gone["metadata"], "name": "disagg-0-frontend-young", "uid": "young"}})
    migrated.fails(r"lacks 1 of its earlier pods \(1\)")


def test_what_owners_do_is_reported_and_does_not_fail(migrated: Site) -> None:
    """A set deleted, another scaled in: what should be there now is there, and the record that is asked has served."""
    migrated.drop(resources.POD_CLIQUE_SETS, "default", "patient")
    assert migrated.verified(after=False).noticed == ()
    decode = migrated.read(resources.POD_CLIQUES, "default", "disagg-0-workers-0-decode")
    wanted = decode["spec"]["replicas"] - 1
    migrated.lost("disagg-0-workers-0-decode")

    def scale_in(item: dict[str, Any]) -> None:
        item["spec"]["replicas"] = wanted
        item["status"].update(replicas=wanted, updatedReplicas=wanted)

    migrated.change(scale_in, name="disagg-0-workers-0-decode")
    said = str(migrated.verified().noticed)
    assert "PodCliqueSet default/patient was deleted after the migration" in said
    assert "disagg-0-workers-0-decode was scaled in" in said
    assert migrated.records() == []


def test_a_set_that_is_scaled_in_needs_no_pods_of_that_replica(migrated: Site) -> None:
    """Its PodCliques are gone as they should be."""
    migrated.drop(resources.POD_CLIQUES, "default", "patient-0-frontend")
    migrated.fails("patient-0-frontend is missing")
    migrated.change(lambda item: item["spec"].update(replicas=0), resources.POD_CLIQUE_SETS, "patient")
    assert "patient-0-frontend was removed: its owner scaled it in" in str(migrated.verified().noticed)


def test_a_replica_that_is_being_removed_is_its_owners(migrated: Site) -> None:
    """A scale-in is no loss while the PodClique and its pods still end."""
    ends = {"deletionTimestamp": "2026-04-01T00:00:00Z"}
    migrated.change(lambda item: item["metadata"].update(ends), name="patient-0-frontend")
    for pod in migrated.everything(resources.PODS):
        if pod["metadata"].get("labels", {}).get("grove.io/podclique") == "patient-0-frontend":
            migrated.edit(
                resources.PODS, "default", pod["metadata"]["name"], lambda item: item["metadata"].update(ends)
            )
    migrated.fails("patient-0-frontend lacks")
    migrated.change(lambda item: item["spec"].update(replicas=0), resources.POD_CLIQUE_SETS, "patient")
    assert "patient-0-frontend was removed: its owner scaled it in" in str(migrated.verified().noticed)


def test_a_set_that_was_edited_is_its_owners(migrated: Site) -> None:
    """Its pods are replaced because its owner wants that: nothing of it is compared."""
    migrated.change(lambda pcs: cluster.edit(pcs, "frontend"), resources.POD_CLIQUE_SETS, "patient")
    assert "PodCliqueSet default/patient was edited" in str(migrated.verified().noticed)


START = r"start it: kubectl scale deployment/grove-operator -n grove-system --replicas=1"


@pytest.mark.parametrize(
    ("image", "replicas", "remedy"),
    [(cluster.OLD_IMAGE, 0, "upgrade first"), (cluster.OLD_IMAGE, 1, "upgrade first"), (cluster.NEW_IMAGE, 0, START)],
)
def test_before_the_upgrade_there_is_no_after(migrated: Site, image: str, replicas: int, remedy: str) -> None:
    """With the operator at zero, or the old one running, it fails with the next step, and the record stays."""
    migrated.drop(resources.PODS, NAMESPACE, "new-1")
    for item in cluster.operator(image=image, replicas=replicas):
        migrated.put(item)
    if replicas:
        migrated.put(installation.pod(image, name="old-1"))
    migrated.fails(rf"no operator of legacy-1\.35 runs .*: {remedy}")
    assert migrated.records()
    if replicas:
        migrated.verified(target_image=image)


def test_the_old_operator_must_be_gone(migrated: Site) -> None:
    """A pod of it beside the new one, or another installation, acts on hashes that it does not know."""
    migrated.put(installation.pod(cluster.OLD_IMAGE, name="old-1"))
    migrated.fails("old-1 .*runs beside the operator of legacy-1.35")
    migrated.drop(resources.PODS, NAMESPACE, "old-1")
    migrated.put(installation.deployment(cluster.OLD_IMAGE, namespace="other"))
    migrated.fails("Deployment other/grove-operator runs .*alpha.9 beside the operator of legacy-1.35")
    assert migrated.records()
    for image, replicas in ((cluster.OLD_IMAGE, 0), (cluster.NEW_IMAGE, 1)):
        migrated.put(installation.deployment(image, namespace="other", replicas=replicas))
        migrated.verified(after=True)


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"deletionTimestamp": "2026-03-01T00:00:00Z"}, {}),
        ({}, {"phase": "Pending"}),
        ({}, {"containerStatuses": [{"name": "grove-operator", "ready": False}]}),
    ],
)
def test_a_pod_that_does_not_run_the_operator_proves_nothing(
    migrated: Site, metadata: dict[str, str], status: dict[str, Any]
) -> None:
    """A pod of the target that is told to end, is pending, or crashes has not shown what it does: the record stays."""
    for part, more in (("metadata", metadata), ("status", status)):
        migrated.edit(resources.PODS, NAMESPACE, "new-1", lambda pod, part=part, more=more: pod[part].update(more))
    migrated.fails(r"no operator of legacy-1\.35 runs .*: its pods do not run or are not ready")
    assert migrated.records()


def test_a_record_that_cannot_be_read_counts_after_the_upgrade_only(migrated: Site) -> None:
    """Hashes alone are verified without it; after an upgrade it is needed, and its loss is not passed over."""
    damaged = {"run.json": "{"}
    migrated.edit(CONFIG_MAPS, NAMESPACE, record.RUN_NAME, lambda body: body["data"].update(damaged))
    assert not migrated.verified(after=False).compared
    with pytest.raises(Unreadable, match="cannot be read"):
        migrated.verified()


def test_a_record_without_pods_is_not_compared_with_them(migrated: Site) -> None:
    """There were too many for a ConfigMap: the hashes are verified, and nobody claims that no pod is missing."""
    recorded = (recorder := record.Recorder(migrated, NAMESPACE)).load()
    recorder.save(replace(recorded, tables=tuple(replace(table, pods={}) for table in recorded.tables)))
    assert not migrated.verified().compared


def test_the_record_of_a_run_that_did_not_end_fails_and_stays(migrated: Site) -> None:
    """Nobody knows whether it has proven everything: it is to be run again, which closes the record."""
    recorded = (recorder := record.Recorder(migrated, NAMESPACE)).load()
    assert recorded.run is not None
    recorder.save(replace(recorded, run=replace(recorded.run, state="writing", finished=None)))
    migrated.fails("did not end: run it again first")
    assert migrated.records()


def test_without_a_record_what_can_be_seen_is_verified(migrated: Site) -> None:
    """A run with nothing to migrate leaves no record, and a second verification finds none: neither is a failure."""
    assert migrated.verified().compared
    assert not migrated.verified().compared
    migrated.change(_old_value)
    migrated.fails("4567c")


@pytest.mark.parametrize(("source", "target"), [("auto", "legacy-1.33"), ("legacy-1.33", TARGET)])
def test_the_record_of_another_migration_is_not_passed_over(migrated: Site, source: str, target: str) -> None:
    """It may be needed to finish or undo that one, so the message names it and what to do."""
    message = r"another run, from auto to legacy-1\.35: verify that one with --to legacy-1\.35"
    with pytest.raises(UsageError, match=message):
        migrated.verified(source=source, target=target)
    assert migrated.records()


def test_no_set_at_all_is_not_verified() -> None:
    """Neither where the CRDs are missing nor where the record names sets."""
    Site(without=[resources.POD_CLIQUE_SETS]).fails("CRDs are not installed", after=False)
    assert Site().verified(after=False).sets == 0


def test_an_empty_cluster_beside_a_record_is_another_cluster(migrated: Site) -> None:
    """The record names sets, and there is none."""
    for name in ("disagg", "patient"):
        migrated.drop(resources.POD_CLIQUE_SETS, "default", name)
    for after in (False, True):
        migrated.fails("the record names 2", after=after)


def test_a_record_that_a_run_holds_stays(migrated: Site) -> None:
    """Verified all the same: another migration holds the Lease, so the record is left to it."""
    spec = {"holderIdentity": "another_1", "leaseDurationSeconds": 60}
    migrated.edit(resources.LEASES, NAMESPACE, OWN_LEASE, lambda lease: lease["spec"].update(spec))
    migrated.verified()
    assert migrated.records()


def test_a_state_that_is_only_late_settles(migrated: Site) -> None:
    """A PodClique's update that ends within --wait passes, after as many snapshots as it took."""
    migrated.change(_begun(_LATER))
    began = migrated.clock()

    def end(_: float) -> None:
        if migrated.clock() >= began + 3:
            migrated.change(_begun(_LATER, ended=True))

    migrated.clock.on_sleep.append(end)
    migrated.verified(wait=10.0)
    assert migrated.clock() == began + 4


@pytest.mark.parametrize("resource", [resources.POD_CLIQUES, resources.PODS])
def test_what_cannot_settle_ends_the_wait(migrated: Site, resource: Resource) -> None:
    """A lost pod does not come back, alone or with its PodClique: the rest of --wait is not waited for."""
    migrated.lost()
    if resource == resources.POD_CLIQUES:
        migrated.drop(resource, "default", "disagg-0-frontend")
    waited = migrated.clock()
    migrated.fails("after 1 snapshot:", wait=100.0)
    assert migrated.clock() == waited


def test_without_a_record_an_update_in_flight_is_not_passed_over(migrated: Site) -> None:
    """It may be the upgrade's, and its end would look like a migrated cluster: it is not waited for."""
    assert migrated.verified().compared
    migrated.change(_begun(_EARLIER), resources.POD_CLIQUE_SETS, "disagg")
    waited = migrated.clock()
    migrated.fails("no record shows whether the upgrade began it", wait=100.0)
    assert migrated.clock() == waited
