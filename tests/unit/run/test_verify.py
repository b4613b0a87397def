"""What ``verify`` says of one snapshot after another, and of what happened since a migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from migrator import kinds
from migrator.errors import Unreadable, VerificationFailed
from migrator.exact_json import JSONObject
from migrator.hashing import podcliqueset, schemes
from migrator.kinds import Resource
from migrator.run import migration
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE, RECORD
from migrator.run.operator import OperatorFlags
from migrator.run.record import Record, parse
from migrator.run.record import State as RunState
from migrator.run.verify import VerifyOptions, VerifyResult, verify
from testbed import operator_installation as installation
from testbed import workloads
from testbed.trees import State, grow
from tests.faults import cluster
from tests.support.builders import options_of
from tests.support.clock import Clock, context_of
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table

SOURCE, TARGET, NAMESPACE = "legacy-1.34", "legacy-1.35", "grove-system"
PLAN = options_of(target=TARGET)
Change = Callable[[dict[str, Any]], object]
_EARLIER, _LATER = "2026-02-01T00:00:00Z", "2026-04-01T00:00:00Z"  # than the migration


class Site(MemoryCluster):
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
        plan = options_of(source=source, target=target)
        return verify(self, VerifyOptions(plan, after_upgrade=after, **options), self.context)

    def fails(self, words: str, **options: Any) -> str:
        """Check that verify fails, with these words in its message; returns the message."""
        with pytest.raises(VerificationFailed, match=words) as failed:
            self.verified(**options)
        return str(failed.value)

    def change(self, how: Change, kind: Resource = kinds.POD_CLIQUES, name: str = "disagg-0-frontend") -> None:
        """Change an object as others would."""
        self.edit(kind, "default", name, how)

    def recorded(self, **changes: Any) -> Record:
        """What the run has recorded, with some of it changed by hand."""
        text = self.read(kinds.LEASES, NAMESPACE, OWN_LEASE)["metadata"]["annotations"][RECORD]
        found = parse(text, NAMESPACE)
        assert found is not None
        changed = replace(found, **changes)
        annotations = {RECORD: changed.text()}
        self.edit(kinds.LEASES, NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations=annotations))
        return changed

    def made_at(self, moment: str, *, label: str = "disagg-0-frontend") -> None:
        """Let the pods of a PodClique be made at another time."""
        for pod in self.everything(kinds.PODS):
            if pod["metadata"].get("labels", {}).get("grove.io/podclique") == label:
                name = pod["metadata"]["name"]
                self.edit(kinds.PODS, "default", name, lambda body: body["metadata"].update(creationTimestamp=moment))


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
    """Target values and OnDelete leftovers pass, and nothing is written: a second verification says the same."""
    writes = len(migrated.writes())
    assert migrated.verified(after=after) == migrated.verified(after=after)
    assert len(migrated.writes()) == writes


def test_the_promise_is_said_in_numbers(migrated: Site) -> None:
    """Pods that are older than the migration, and younger ones that no update replaced: a node was drained."""
    found = migrated.verified()
    assert found.older is not None
    migrated.made_at(_LATER)
    drained = migrated.verified()
    assert (drained.older, drained.younger) == (found.older - 1, 1)


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
    ("An update of the set began since, and is in flight.", (kinds.POD_CLIQUE_SETS, "disagg", _LATER, False, True)),
    (
        "An update of a scaling group began since.",
        (kinds.POD_CLIQUE_SCALING_GROUPS, "disagg-0-workers", _LATER, False, True),
    ),
    ("An update of a PodClique began since.", (kinds.POD_CLIQUES, "disagg-0-frontend", _LATER, False, True)),
    ("An update that has ended left the pods.", (kinds.POD_CLIQUES, "disagg-0-frontend", _LATER, True, False)),
    ("The run saw that update, and went on.", (kinds.POD_CLIQUE_SETS, "disagg", _EARLIER, False, False)),
    ("Under OnDelete progress touches no pod.", (kinds.POD_CLIQUES, "patient-0-frontend", _LATER, False, False)),
)
def test_an_update_that_began_since_the_migration_fails_while_it_is_in_flight(
    migrated: Site, kind: Resource, name: str, moment: str, *, ended: bool, fails: bool
) -> None:
    """The operator found a change; whether it costs a pod shows at its end."""
    migrated.change(_begun(moment, ended=ended), kind, name)
    if fails:
        migrated.fails(rf"{name}: an update is open that began at 2026-04-01 00:00:00 UTC, after the migration")
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


@table(
    "began made of fails",
    ("An update that began since, and a pod that is younger.", (_LATER, "2026-04-01T00:00:05Z", _EARLIER, True)),
    ("By clocks that differ by less than a minute.", (_LATER, "2026-03-31T23:59:30Z", _EARLIER, True)),
    ("The pod is older than the migration.", (_LATER, _EARLIER, _EARLIER, False)),
    ("The update is older than the migration.", (_EARLIER, _LATER, _EARLIER, False)),
    ("So is no PodClique of a set that was scaled: alpha.12-rc1 updates each.", (_LATER, _LATER, _LATER, False)),
)
def test_a_pod_that_an_update_replaced_fails(migrated: Site, began: str, made: str, of: str, *, fails: bool) -> None:
    """W3: a pod that was lost in another way, by a drain or by hand, does not."""
    migrated.change(_begun(began, ended=True))
    migrated.change(lambda item: item["metadata"].update(creationTimestamp=of))
    migrated.made_at(made)
    if fails:
        migrated.fails("disagg-0-frontend: 1 pod of 1 replaced by an update that began at 2026-04-01 00:00:00 UTC")
    else:
        migrated.verified()


def _edited(moment: str, **entry: Any) -> Change:
    fields = {"f:spec": {"f:template": {"f:cliques": {}}}}
    found = {"manager": "argocd-controller", "operation": "Update", "time": moment, "fieldsV1": fields, **entry}
    return lambda item: item["metadata"].update(managedFields=[found])


def test_a_set_that_was_edited_is_its_owners(migrated: Site) -> None:
    """W4: an update after the edit is what its owner wants: noticed with manager, time and pods, and in no promise."""
    before = migrated.verified()
    migrated.change(_edited(_LATER), kinds.POD_CLIQUE_SETS, "disagg")
    migrated.change(_begun(_LATER))
    found = migrated.verified()
    said = str(found.noticed)
    assert "argocd-controller has edited its template at 2026-04-01 00:00:00 UTC" in said
    assert before.older is not None
    assert found.older is not None
    assert found.older < before.older


@table(
    "entry",
    ("The edit is older than the migration.", ({"time": _EARLIER},)),
    ("A scale is no edit.", ({"subresource": "scale"},)),
    ("Neither is what has no template in it.", ({"fieldsV1": {"f:spec": {"f:replicas": {}}}},)),
    ("The update is older than the edit.", ({"time": "2026-04-03T00:00:00Z"},)),
)
def test_an_update_without_an_edit_before_it_is_the_operators(migrated: Site, entry: dict[str, Any]) -> None:
    """Then the migration did not keep its promise."""
    migrated.change(_edited(_LATER, **entry), kinds.POD_CLIQUE_SETS, "disagg")
    migrated.change(_begun(_LATER))
    migrated.fails("an update is open that began at 2026-04-01 00:00:00 UTC")


@pytest.mark.parametrize("updated", [True, False])
def test_if_every_set_was_edited_nothing_is_shown(migrated: Site, *, updated: bool) -> None:
    """Then no pod shows anything; but who owns the template may have written the replicas: that begins no update."""
    before = migrated.verified()
    for name in ("disagg", "patient"):
        migrated.change(_edited(_LATER), kinds.POD_CLIQUE_SETS, name)
        if updated:
            migrated.change(_begun(_LATER, ended=True), kinds.POD_CLIQUE_SETS, name)
    if updated:
        migrated.fails("every set was edited since the migration")
    else:
        assert migrated.verified() == before


@pytest.mark.parametrize("after", [True, False])
def test_a_label_that_is_missing_is_no_hash_of_the_target(migrated: Site, *, after: bool) -> None:
    """The operator takes a pod or PodClique without it for outdated; under OnDelete it is left alone."""
    migrated.change(
        lambda item: item["metadata"]["labels"].pop("grove.io/pod-template-hash"), name="patient-0-frontend"
    )
    migrated.verified(after=after)
    migrated.change(lambda item: item["metadata"]["labels"].pop("grove.io/pod-template-hash"))
    migrated.fails("has no label grove.io/pod-template-hash", after=after)


START = r"start it: kubectl scale deployment/grove-operator -n grove-system --replicas=1"


@pytest.mark.parametrize(
    ("image", "replicas", "remedy"),
    [(cluster.OLD_IMAGE, 0, "upgrade first"), (cluster.OLD_IMAGE, 1, "upgrade first"), (cluster.NEW_IMAGE, 0, START)],
)
def test_before_the_upgrade_there_is_no_after(migrated: Site, image: str, replicas: int, remedy: str) -> None:
    """With the operator at zero, or the old one running, it fails with the next step."""
    migrated.drop(kinds.PODS, NAMESPACE, "new-1")
    for item in cluster.operator(image=image, replicas=replicas):
        migrated.put(item)
    if replicas:
        migrated.put(installation.pod(image, name="old-1"))
    migrated.fails(rf"no operator of legacy-1\.35 runs .*: {remedy}")
    if replicas:
        migrated.verified(target_image=image)


def test_the_old_operator_must_be_gone(migrated: Site) -> None:
    """A pod of it beside the new one, or another installation, acts on hashes that it does not know."""
    migrated.put(installation.pod(cluster.OLD_IMAGE, name="old-1"))
    migrated.fails("old-1 .*runs beside the operator of legacy-1.35")
    migrated.drop(kinds.PODS, NAMESPACE, "old-1")
    migrated.put(installation.deployment(cluster.OLD_IMAGE, namespace="other"))
    migrated.fails("Deployment other/grove-operator runs .*alpha.9 beside the operator of legacy-1.35")
    for image, replicas, namespace in ((cluster.NEW_IMAGE, 1, "other"), (cluster.OLD_IMAGE, 0, "a-first")):
        migrated.put(installation.deployment(image, namespace=namespace, replicas=replicas))
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
    """A pod of the target that is told to end, is pending, or crashes has not shown what it does."""
    for part, more in (("metadata", metadata), ("status", status)):
        migrated.edit(kinds.PODS, NAMESPACE, "new-1", lambda pod, part=part, more=more: pod[part].update(more))
    migrated.fails(r"no operator of legacy-1\.35 runs .*: its pods do not run or are not ready")


def _restarted(seconds_ago: int, last: JSONObject) -> Change:
    """An operator without a readiness probe: its container ended, and runs again since then."""
    began = (datetime(2026, 3, 1, tzinfo=UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    container = {"name": "grove-operator", "ready": True, "restartCount": 7, "state": {"running": {"startedAt": began}}}
    return lambda pod: pod["status"].update(containerStatuses=[{**container, "lastState": last}])


@pytest.mark.parametrize("last", [{"terminated": {"exitCode": 1}}, {}], ids=["a crash", "not known"])
def test_between_two_restarts_an_operator_is_not_ready(migrated: Site, last: JSONObject) -> None:
    """It looks well for as long as its container lives; the pod is named."""
    migrated.edit(kinds.PODS, NAMESPACE, "new-1", _restarted(20, last))
    assert "operator Pod grove-system/new-1" in migrated.fails("has restarted 7 times, and again at 23:59:40 UTC")


@pytest.mark.parametrize(("seconds_ago", "code"), [(200, 1), (20, 0)], ids=["long ago", "a renewed certificate"])
def test_a_restart_that_is_no_crash_loop_is_forgiven(migrated: Site, seconds_ago: int, code: int) -> None:
    """It was long ago, or the container ended by itself and without an error."""
    migrated.edit(kinds.PODS, NAMESPACE, "new-1", _restarted(seconds_ago, {"terminated": {"exitCode": code}}))
    migrated.verified()


def test_a_record_that_cannot_be_read_counts_after_the_upgrade_only(migrated: Site) -> None:
    """Hashes alone are verified without it; after an upgrade it is needed, and its loss is not passed over."""
    damaged = {RECORD: "{"}
    migrated.edit(kinds.LEASES, NAMESPACE, OWN_LEASE, lambda body: body["metadata"].update(annotations=damaged))
    assert not migrated.verified(after=False).compared
    with pytest.raises(Unreadable, match="cannot be read"):
        migrated.verified()


def test_the_record_of_a_run_that_did_not_end_fails(migrated: Site) -> None:
    """In any namespace: it is to be run again, which closes the record."""
    migrated.recorded(state=RunState.WRITING)
    migrated.fails("did not end, and may have written: run it again")


def test_without_a_record_only_values_and_operators_are_verified(migrated: Site) -> None:
    """Somebody has deleted our Lease: nobody knows when the run was, and it says so."""
    migrated.change(_begun(_LATER))
    migrated.fails("an update is open")
    migrated.drop(kinds.LEASES, NAMESPACE, OWN_LEASE)
    found = migrated.verified()
    assert (found.compared, found.older, found.younger) == (False, None, None)
    migrated.change(_old_value)
    migrated.fails("4567c")


def test_a_condition_that_a_killed_run_left_is_named(migrated: Site) -> None:
    """It is no failure of the migration, and a rerun removes it."""
    _, hook = installation.webhook()
    hook["metadata"]["name"] = "podclique-validating-webhook"
    hook["webhooks"][0]["matchConditions"] = [{"name": "grove-migrator", "expression": "true"}]
    migrated.put(hook)
    assert "still leaves an account of grove-migrator out" in str(migrated.verified().noticed)


def test_no_set_at_all_is_not_verified() -> None:
    """Where the CRDs are missing; a cluster without sets has nothing to verify."""
    Site(without=[kinds.POD_CLIQUE_SETS]).fails("CRDs are not installed", after=False)
    assert Site().verified(after=False).sets == 0


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


def test_a_reason_is_logged_once(migrated: Site) -> None:
    """Of five minutes of waiting the log says what is wrong, and when that becomes something else."""
    migrated.change(_begun(_LATER))
    migrated.clock.on_sleep.append(lambda _: migrated.change(_old_value) if len(migrated.clock.slept) == 3 else None)
    with capture_logs() as logs:
        migrated.context = replace(migrated.context, log=structlog.get_logger())
        migrated.fails("after 6 snapshots", wait=10.0)
    assert [(one["attempt"], one["problems"]) for one in logs if one["event"] == "verify_failed"] == [(1, 1), (4, 2)]


def test_what_cannot_settle_ends_the_wait(migrated: Site) -> None:
    """A pod that was replaced does not come back: the rest of --wait is not waited for."""
    migrated.change(_begun(_LATER, ended=True))
    migrated.made_at(_LATER)
    waited = migrated.clock()
    migrated.fails("after 1 snapshot:", wait=100.0)
    assert migrated.clock() == waited
