"""The fence side against a real API server: what the tests in memory take for granted is true there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import AlreadyExists, LeaseLost, NotFound, Refused
from migrator.grove.hash_fields import POD_LABEL
from migrator.grove.objects import Ref
from migrator.planning.model import AlreadyNew, Change, SetHashes, Table
from migrator.planning.patches import Patch
from migrator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Op,
    Resource,
)
from migrator.run import admission, operator
from migrator.run.leases import OWN_LEASE, PARKED, Lease, Leases, micro_time, monotonic
from migrator.run.record import Recorded, Recorder
from migrator.run.tables import Baseline, CliqueBaseline, OperatorBefore, Replicas, RunRecord
from migrator.stores.kube.store import KubeStore, connect
from testbed import operator_installation as installed
from testbed.controlplane.client import eventually
from tests.cluster.helm.reader import shell
from tests.cluster.manifests.site import made
from tests.repo.pages import blocks
from tests.support.small_cluster import context_of

pytestmark = pytest.mark.controlplane

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
LEASE = "grove-operator-leader-election"


@pytest.fixture
def store(control_plane: Any) -> KubeStore:
    """The control plane, as its administrator."""
    return connect(kubeconfig=str(control_plane.kubeconfig), request_timeout=5)


def leases_of(store: KubeStore, namespace: str, identity: str) -> Leases:
    """Leases with real clocks."""
    return Leases(store, namespace, context_of(monotonic, lambda: datetime.now(UTC), identity, threads=True))


def spec_of(store: KubeStore, namespace: str, name: str = OWN_LEASE) -> dict[str, Any]:
    """The Lease's spec as the server has it."""
    spec: dict[str, Any] = store.get(LEASES, namespace, name)["spec"]
    return spec


def test_leases_are_created_kept_parked_and_released(store: KubeStore, namespace: str) -> None:
    """The whole life of both Leases is accepted by the server, and ends as client-go ends it, or parked."""
    leases = leases_of(store, namespace, "we_1")
    for name in (OWN_LEASE, LEASE):
        leases.take(name)
    first = spec_of(store, namespace)
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("we_1", 60, 0)
    eventually(lambda: spec_of(store, namespace)["renewTime"] > first["renewTime"], what="no renewal")
    assert leases.left() > 0
    leases.let_go(park=True)
    last, parked = spec_of(store, namespace), spec_of(store, namespace, LEASE)
    assert (last.get("holderIdentity") or "", last["leaseDurationSeconds"]) == ("", 1)
    assert (parked["holderIdentity"], parked["leaseDurationSeconds"]) == (PARKED, 3600)
    following = leases_of(store, namespace, "next_1")
    for name in (OWN_LEASE, LEASE):
        assert following.look(name).standing is Lease.FREE
        following.take(name)
    assert spec_of(store, namespace, LEASE)["leaseTransitions"] == 1
    following.let_go(park=False)


def test_the_runbook_gives_up_a_parked_lease(
    store: KubeStore, namespace: str, control_plane: Any, tmp_path: Path
) -> None:
    """Its command takes the Lease away that keeps every operator out."""
    leases = leases_of(store, namespace, "we_1")
    leases.take(OWN_LEASE)
    leases.take(LEASE)
    leases.let_go(park=True)
    [block] = blocks("upgrade", "When something goes wrong")
    assert "-n grove-system " in block
    command = block.replace("-n grove-system ", f"-n {namespace} ")
    shell(command, tmp_path, KUBECONFIG=str(control_plane.kubeconfig), HOME=str(tmp_path))
    with pytest.raises(NotFound):
        store.get(LEASES, namespace, LEASE)


def test_a_dead_operators_lease_is_taken_over(store: KubeStore, namespace: str) -> None:
    """A Lease as client-go leaves it on a kill, with a clock a year ahead, is waited out and taken."""
    ahead = micro_time(datetime.now(UTC) + timedelta(days=365))
    spec = {"holderIdentity": "grove-operator-7d4_1", "leaseDurationSeconds": 2, "leaseTransitions": 4}
    spec |= {"acquireTime": ahead, "renewTime": ahead}
    store.create(LEASES, namespace, made(LEASES.api_version, LEASES.kind, LEASE, namespace, spec=spec))
    leases = leases_of(store, namespace, "we_1")
    assert leases.look(LEASE).standing is Lease.HELD
    eventually(lambda: leases.look(LEASE).standing is Lease.FREE, what="the dead holder is not waited out")
    leases.take(LEASE)
    assert spec_of(store, namespace, LEASE)["leaseTransitions"] == 5
    leases.let_go(park=False)


def test_a_stolen_lease_is_noticed(store: KubeStore, namespace: str) -> None:
    """The server takes a takeover by anybody; our next renewal fails its test, and nothing is sent any more."""
    leases = leases_of(store, namespace, "we_1")
    leases.take(OWN_LEASE)
    store.patch(LEASES, namespace, OWN_LEASE, (Op("replace", "/spec/holderIdentity", "thief_1"),))
    eventually(lambda: leases.look(OWN_LEASE).standing is Lease.LOST, what="the theft is not noticed")
    with pytest.raises(LeaseLost):
        store.within(leases.left).create(CONFIG_MAPS, namespace, {"metadata": {"name": "never"}})
    leases.let_go(park=False)
    assert spec_of(store, namespace)["holderIdentity"] == "thief_1"


def test_of_many_contenders_one_gets_it(store: KubeStore, namespace: str) -> None:
    """Eight threads that contend for one Lease: one holds it, and the others see whom."""
    held: list[str] = []

    def contend(identity: str) -> None:
        leases = leases_of(store, namespace, identity)
        leases.take(OWN_LEASE)
        if leases.look(OWN_LEASE).standing is Lease.OURS:
            held.append(identity)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(contend, [f"migrator_{number}" for number in range(8)]))
    assert held == [spec_of(store, namespace)["holderIdentity"]]


def table(uid: str, *, kept: int = 0) -> Table:
    """A table of a set, with so many values that were the target's before."""
    hashes = SetHashes("b565bfb877d777fb5b5", {"worker": "6944cfcdb5d4947564c"})
    values = tuple(
        AlreadyNew(Ref("Pod", "ns", uuid.uuid4().hex, str(uuid.uuid4())), "/metadata/x", "444") for _ in range(kept)
    )
    return Table("ns", "set", uid, 1, "legacy-1.34", "legacy-1.35", hashes, hashes, "digest", values, "run-1")


def baseline(uid: str, cliques: int) -> Baseline:
    """A baseline of so many PodCliques with two pods each."""
    found = {
        f"set-{index}-worker": CliqueBaseline((uuid.uuid4().hex[:16], uuid.uuid4().hex[:16]), Replicas(2, 2))
        for index in range(cliques)
    }
    return Baseline(uid, "run-1", found)


STOPPED = OperatorBefore(1, "o:1<&>", "u")
RUN = RunRecord(
    "run-1", "we_1", "1.0", "auto", "legacy-1.35", datetime(2026, 1, 2, tzinfo=UTC), None, "stopping", stopped=STOPPED
)


def test_a_large_record_is_stored_and_forgotten(store: KubeStore, namespace: str) -> None:
    """The pods of 100,000 fit into ConfigMaps cut by the server's limit, are read back, and deleted without a trace."""
    recorder = Recorder(store, namespace)
    recorder.save(Recorded(RUN))
    uids = [str(uuid.uuid4()) for _ in range(100)]
    tables = tuple(table(uid, kept=100) for uid in uids)
    baselines = [baseline(uid, 500) for uid in uids]
    recorder.save(Recorded(RUN, tables), baselines=baselines)
    wanted = Recorded(replace(RUN, state="writing"), (*tables, table("one-more")))
    recorder.save(wanted)
    assert Recorder(store, namespace).load() == wanted
    assert Recorder(store, namespace).baselines() == {found.uid: found for found in baselines}
    names = store.list(CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace=namespace, metadata_only=True)
    assert sum(name.startswith("grove-migrator-tables-") for name in names) > 2
    recorder.delete_all()
    assert Recorder(store, namespace).load().run is None
    names = store.list(CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace=namespace)
    assert [name for name in names if name.startswith("grove-migrator")] == []


def again(store: KubeStore, namespace: str) -> operator.Operator:
    """The installation as it is now."""
    found = operator.find(store, operator.OperatorFlags(namespace, "grove-operator")).operator
    assert found is not None
    return found


@pytest.fixture
def installation(store: KubeStore, namespace: str) -> Iterator[operator.Operator]:
    """The chart's Deployment and its configuration."""
    store.create(CONFIG_MAPS, namespace, {**installed.config_map(namespace=namespace), "immutable": True})
    body = installed.deployment(installed.image("v0.1.0-alpha.9"), namespace=namespace)
    uid = store.create(DEPLOYMENTS, namespace, body)["metadata"]["uid"]
    found = again(store, namespace)
    yield found
    pods = again(store, namespace).pods
    store.delete(DEPLOYMENTS, namespace, "grove-operator", uid)
    for pod in pods:
        store.delete(PODS, pod.ref.namespace, pod.ref.name, pod.ref.uid)


def owners_of_replicas(store: KubeStore, namespace: str) -> list[str]:
    """Who owns spec.replicas besides the manager that created the Deployment."""
    fields = store.get(DEPLOYMENTS, namespace, "grove-operator")["metadata"]["managedFields"]
    through_scale = [entry for entry in fields if entry.get("subresource") == "scale"]
    return [entry["manager"] for entry in through_scale if "f:replicas" in (entry["fieldsV1"].get("f:spec") or {})]


def test_the_operator_is_found_stopped_and_restored(
    store: KubeStore, namespace: str, installation: operator.Operator
) -> None:
    """Down to zero pods and back, through /scale alone, and no field owner of ours stays on spec.replicas."""
    assert (installation.namespace, installation.replicas, installation.lease_name) == (namespace, 1, LEASE)
    operator.scale(store, installation, 0)
    eventually(lambda: again(store, namespace).gone, what="the operator's pods are still there")
    assert owners_of_replicas(store, namespace) == []
    operator.scale(store, again(store, namespace), 1)
    assert again(store, namespace).replicas == 1
    assert owners_of_replicas(store, namespace) == []


@pytest.fixture
def webhook(store: KubeStore, namespace: str) -> Iterator[str]:
    """The authorizer as the chart renders it, with nothing behind it, for this test's namespace only."""
    name = f"authorizer-webhook-{namespace}"
    hook = {
        "name": admission.WEBHOOK,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": "grove-operator", "namespace": namespace, "path": "/x"}},
        "failurePolicy": "Fail",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
        "sideEffects": "None",
    }
    kind = VALIDATING_WEBHOOK_CONFIGURATIONS
    created = store.create(kind, "", made(kind.api_version, kind.kind, name, None, webhooks=[hook]))
    yield name
    store.delete(kind, "", name, created["metadata"]["uid"])


@pytest.fixture
def label_patch(store: KubeStore, namespace: str) -> Patch:
    """A pod as Grove labels it, and the planned change of its hash label."""
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "grove.io/pod-template-hash": "444"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
    }
    with suppress(AlreadyExists):  # where no controller makes it
        store.create(SERVICE_ACCOUNTS, namespace, made("v1", "ServiceAccount", "default", namespace))
    ref = Ref("Pod", namespace, "p", store.create(PODS, namespace, body)["metadata"]["uid"])
    return Patch(ref, "", (Change(ref, POD_LABEL.pointer, "444", "555"),))


def test_the_authorizer_is_seen_and_proven(store: KubeStore, webhook: str, label_patch: Patch) -> None:
    """With nothing behind it, it is found by its configuration, and a dry run of a label patch is refused."""
    findings = operator.find(store, operator.OperatorFlags()).findings
    assert any(finding.code == "GM-202" and webhook in finding.message for finding in findings)

    def denied() -> bool:
        try:
            admission.probe(store, [label_patch])
        except Refused as error:
            return "GM-202" in str(error)
        return False

    eventually(denied, what="the authorizer denies nothing")
    pod = store.get(PODS, label_patch.ref.namespace, "p")
    assert pod["metadata"]["labels"]["grove.io/pod-template-hash"] == "444"
