"""What ``verify`` says of one snapshot after another, and of what happened since a migration."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from migrator import kinds
from migrator.errors import Unreadable
from migrator.exact_json import JSONObject
from migrator.kinds import Resource
from migrator.releases.table import Named, named
from migrator.run import migration
from migrator.run.context import RunOptions
from migrator.run.leases import OPERATOR_LEASE, OWN_LEASE, PARKED, RECORD
from migrator.run.operator import OperatorFlags
from migrator.run.verify import VerifyOptions, VerifyResult, verify
from testbed import operator_installation as installation
from tests.support.builders import LABEL, World, options_of
from tests.support.clock import Clock, context_of
from tests.support.memory_store import MemoryCluster

NAMESPACE, PLAN = "grove-system", options_of()
OLD, NEW = map(installation.image, ("v0.1.0-alpha.9", "v0.1.0-alpha.11"))
NOW, LATER = datetime(2026, 3, 1, tzinfo=UTC), "2026-04-01T00:00:00Z"  # of the migration, and after it
Change = Callable[[dict[str, Any]], object]


class Site(MemoryCluster):
    """A cluster in memory, its clock, what verify finds in it, and what others do to it."""

    def __init__(self, *objects: dict[str, Any], **options: Any) -> None:
        super().__init__(*objects, **options)
        self.clock = Clock()
        self.context = context_of(self.clock, lambda: NOW, "verifier", sleep=self.clock.sleep)

    def verified(self, *, after: bool = True, **options: Any) -> VerifyResult:
        """What verify finds, which is no problem."""
        found = self._verify(after_upgrade=after, **options)
        assert found.problems == ()
        return found

    def fails(self, words: str, *, after: bool = True, **options: Any) -> str:
        """Check that verify finds problems, with these words in their messages; returns the messages."""
        said = "; ".join(one.message for one in self._verify(after_upgrade=after, **options).problems)
        assert re.search(words, said)
        return said

    def _verify(self, *, target: Named = PLAN.target, **options: Any) -> VerifyResult:
        return verify(self, VerifyOptions(replace(PLAN, target=target), **options), self.context)

    def change(self, how: Change, kind: Resource = kinds.POD_CLIQUES, name: str = "web-0-front") -> None:
        self.edit(kind, "default", name, how)

    def change_record(self, how: Callable[[str], str]) -> None:
        lease = self.read(kinds.LEASES, NAMESPACE, OWN_LEASE)
        lease["metadata"]["annotations"][RECORD] = how(lease["metadata"]["annotations"][RECORD])
        self.put(lease)

    def make_a_pod_anew(self) -> None:
        self.change(lambda pod: pod["metadata"].update(creationTimestamp=LATER), kinds.PODS, "web-0-front-0")


@cache
def _migrated() -> tuple[JSONObject, ...]:
    world = World().grow(pods=1).grow("patient", on_delete=True).put("Pod", "patient-0-front-0", LABEL)
    site = Site(*world.objects)
    migration.run(site, RunOptions(PLAN, flags=OperatorFlags(NAMESPACE)), site.context)
    site.put(installation.deployment(NEW))
    site.put(installation.pod(NEW, name="new-1"))
    return tuple(site.everything())


@pytest.fixture
def migrated() -> Site:
    """A cluster after a migration, with its record, a leftover of OnDelete, and the new operator."""
    return Site(*_migrated())


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
    migrated.make_a_pod_anew()
    drained = migrated.verified()
    assert drained.older == found.older - 1
    assert drained.younger == 1
    migrated.change(lambda pcs: pcs["metadata"].update(deletionTimestamp=LATER), kinds.POD_CLIQUE_SETS, "web")
    assert migrated.verified().younger == 0, "a set that is being deleted is in no promise"


def _old_value(item: dict[str, Any]) -> None:
    item["metadata"]["labels"]["grove.io/pod-template-hash"] = "4567c"


def _begun(moment: str, *, ended: bool = False) -> Change:
    end = {"updateEndedAt": moment} if ended else {}
    return lambda item: item["status"].update(updateProgress={"updateStartedAt": moment, **end})


def test_a_set_that_was_edited_is_its_owners(migrated: Site) -> None:
    """W4: an update after the edit is what its owner wants: noticed with manager, time and pods, and in no promise."""
    before = migrated.verified()
    edit = {"manager": "argocd-controller", "time": LATER, "fieldsV1": {"f:spec": {"f:template": {}}}}
    migrated.change(lambda pcs: pcs["metadata"].update(managedFields=[edit]), kinds.POD_CLIQUE_SETS, "web")
    migrated.change(_begun(LATER), kinds.POD_CLIQUE_SETS, "web")
    found = migrated.verified()
    assert "argocd-controller has edited its template at 2026-04-01 00:00:00 UTC" in str(found.noticed)
    assert (found.older or 0) < (before.older or 0)


@pytest.mark.parametrize(
    ("image", "replicas", "remedy"),
    [(OLD, 0, "follow the commands of"), (OLD, 1, "follow the commands of"), (NEW, 0, "start it$")],
)
def test_before_the_upgrade_there_is_no_after(migrated: Site, image: str, replicas: int, remedy: str) -> None:
    """With the operator at zero, or the old one running, it fails with the next step, which never is the upgrade."""
    migrated.drop(kinds.PODS, NAMESPACE, "new-1")
    migrated.put(installation.deployment(image, replicas=replicas))
    if replicas:
        migrated.put(installation.pod(image, name="old-1"))
    migrated.fails(rf"no operator of legacy-1\.35 runs .*: {remedy}")
    if replicas:
        migrated.verified(target_image=image)


@pytest.mark.parametrize("release", ["v0.1.0-alpha.10", "v0.1.0-alpha.11"])
def test_the_release_that_was_named_or_a_newer_one_runs(migrated: Site, release: str) -> None:
    """An older one with the same hashes is not what the user upgrades to."""
    migrated.verified(target=named(release))
    migrated.fails(
        f"no operator of v0.1.0-alpha.12-rc1 runs .*{NEW}.*: follow the commands of `grove-migrator plan`",
        target=named("v0.1.0-alpha.12-rc1"),
    )


def test_the_old_operator_must_be_gone(migrated: Site) -> None:
    """A pod of it beside the new one, or another installation, acts on hashes that it does not know."""
    migrated.put(installation.pod(OLD, name="old-1"))
    migrated.fails("old-1 .*runs beside the operator of legacy-1.35")
    migrated.drop(kinds.PODS, NAMESPACE, "old-1")
    migrated.put(installation.deployment(OLD, namespace="other"))
    migrated.fails("Deployment other/grove-operator runs .*alpha.9 beside the operator of legacy-1.35")
    for image, replicas, namespace in ((NEW, 1, "other"), (OLD, 0, "a-first")):
        migrated.put(installation.deployment(image, namespace=namespace, replicas=replicas))
        migrated.verified(after=True)


def test_an_operator_that_would_replace_pods_is_not_to_be_started() -> None:
    """A revert has put the old hashes back, and the target's operator is at zero."""
    site = Site(*World().grow(pods=1).objects, installation.deployment(NEW, replicas=0))
    assert "start it" not in site.fails(r"no operator of legacy-1\.35 runs .*: follow the commands of")


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
    began = (NOW - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
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


@pytest.mark.parametrize("after", [False, True])
def test_a_record_that_cannot_be_read_is_not_passed_over(migrated: Site, *, after: bool) -> None:
    """It proves a run, which may not have ended."""
    migrated.change_record(lambda _: "{")
    with pytest.raises(Unreadable, match="cannot be read"):
        migrated.verified(after=after)


@pytest.mark.parametrize("after", [False, True])
def test_the_record_of_a_run_that_did_not_end_fails(migrated: Site, *, after: bool) -> None:
    """In any namespace: it is to be run again, which closes the record and lets an operator start."""
    migrated.change_record(lambda text: text.replace("done", "writing"))
    migrated.fails("did not end, and may have written: run it again", after=after)


def test_without_a_record_only_values_and_operators_are_verified(migrated: Site) -> None:
    """Somebody has deleted our Lease: nobody knows when the run was, and it says so."""
    migrated.change(_begun(LATER))
    migrated.fails("an update is open")
    migrated.drop(kinds.LEASES, NAMESPACE, OWN_LEASE)
    found = migrated.verified()
    assert found.older is None
    assert found.younger is None
    migrated.change(_old_value)
    migrated.fails("4567c")


def test_a_condition_that_a_killed_run_left_is_named(migrated: Site) -> None:
    """It is no failure of the migration, and a rerun removes it."""
    hook = installation.webhook()
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
    migrated.change(_begun(LATER))
    began = migrated.clock()

    def end(_: float) -> None:
        if migrated.clock() >= began + 3:
            migrated.change(_begun(LATER, ended=True))

    migrated.clock.on_sleep.append(end)
    migrated.verified(wait=10.0)
    assert migrated.clock() == began + 4


def test_a_reason_is_logged_once(migrated: Site) -> None:
    """Of five minutes of waiting the log says what is wrong, and when that becomes something else."""
    migrated.change(_begun(LATER))
    migrated.clock.on_sleep.append(lambda _: migrated.change(_old_value) if len(migrated.clock.slept) == 3 else None)
    with capture_logs() as logs:
        migrated.context = replace(migrated.context, log=structlog.get_logger())
        migrated.fails("an update is open", wait=10.0)
    assert [(one["attempt"], one["problems"]) for one in logs if one["event"] == "verify_failed"] == [(1, 1), (4, 2)]


def test_what_cannot_settle_ends_the_wait(migrated: Site) -> None:
    """A pod that was replaced does not come back: the rest of --wait is not waited for."""
    migrated.change(_begun(LATER, ended=True), kinds.POD_CLIQUE_SETS, "web")
    migrated.make_a_pod_anew()
    waited = migrated.clock()
    replaced = "PodClique default/web-0-front: 1 pod of 1 replaced by an update that began at 2026-04-01 00:00:00"
    migrated.fails(f"{replaced} UTC, after the migration", wait=100.0)
    assert migrated.clock() == waited


def test_pods_that_are_being_replaced_end_the_wait() -> None:
    """After an upgrade without a migration each minute of --wait costs pods, and a run keeps those that are left."""
    site = Site(*World().grow(pods=1).objects, installation.deployment(NEW), installation.pod(NEW, name="new-1"))
    site.fails("the new operator may be replacing their pods now", wait=100.0)
    assert site.clock.slept == []


def test_a_parked_operator_replaces_no_pod() -> None:
    """It waits for its Lease, so the run that gives it back comes first."""
    world = World().grow(pods=1)
    spec = {"holderIdentity": PARKED}
    metadata = {"name": OPERATOR_LEASE, "namespace": NAMESPACE}
    lease = {"apiVersion": kinds.LEASES.api_version, "kind": kinds.LEASES.kind, "metadata": metadata, "spec": spec}
    site = Site(*world.objects, installation.deployment(NEW), installation.pod(NEW, name="new-1"), lease)
    assert "may be replacing" not in site.fails("is parked")
