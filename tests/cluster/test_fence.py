"""The fence side against a real API server: what the tests in memory take for granted is true there."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from kubernetes import client, config

from migrator.errors import AlreadyExists, LeaseLost, LostRace, Refused, TestFailed
from migrator.exact_json import JSONObject
from migrator.grove.model import (
    POINTER_TEMPLATE_HASH_LABEL,
    Change,
    Place,
    Plan,
    PodCliqueSet,
    Ref,
    SetHashes,
    Tree,
    TreePlan,
    TreeState,
)
from migrator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Op,
    Resource,
)
from migrator.run import authorizer, events, operator
from migrator.run.context import Context
from migrator.run.execute import Patch
from migrator.run.fence import Fence, monotonic
from migrator.run.lease import micro_time
from migrator.run.record import RUN_NAME, CliqueBaseline, Recorder, RunRecord, Table
from migrator.store import Deadline, DryRun
from migrator.stores.kube.store import KubeStore, connect
from tests.run.test_operator import CONFIG, LABELS

pytestmark = pytest.mark.controlplane

SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
LEASE = "grove-operator-leader-election"


@pytest.fixture
def store(control_plane: Any) -> KubeStore:
    """The control plane, as its administrator."""
    return connect(kubeconfig=str(control_plane.kubeconfig), request_timeout=5)


@pytest.fixture
def namespace(store: KubeStore) -> Iterator[str]:
    """A namespace of this test's own."""
    name = f"fence-{uuid.uuid4().hex[:8]}"
    made = store.create(NAMESPACES, "", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    store.delete(NAMESPACES, "", name, made["metadata"]["uid"])


def fence_of(store: KubeStore, namespace: str, identity: str, *, duration: float = 2.0, request: float = 0.5) -> Fence:
    """A fence with real clocks and a short Lease."""
    return Fence(
        store,
        namespace=namespace,
        name=LEASE,
        duration=duration,
        identity=identity,
        request_timeout=request,
        clock=monotonic,
        sleep=time.sleep,
    )


def spec_of(store: KubeStore, namespace: str) -> dict[str, Any]:
    """The Lease's spec as the server has it."""
    spec: dict[str, Any] = store.get(LEASES, namespace, LEASE)["spec"]
    return spec


def eventually(seen: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is true."""
    until = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.05)


def test_a_lease_is_created_kept_and_released(store: KubeStore, namespace: str) -> None:
    """The whole life of a Lease is accepted by the server, beyond its duration, and ends as client-go ends it."""
    fence = fence_of(store, namespace, "we_1")
    fence.acquire(monotonic() + 20)
    first = spec_of(store, namespace)
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("we_1", 2, 0)
    began = monotonic()
    while monotonic() < began + 5:
        fence.check()
        time.sleep(0.05)
    assert spec_of(store, namespace)["renewTime"] > first["renewTime"]
    fence.release()
    last = spec_of(store, namespace)
    assert (last.get("holderIdentity") or "", last["leaseDurationSeconds"]) == ("", 1)
    fence_of(store, namespace, "next_1").acquire(monotonic() + 0.5)
    assert spec_of(store, namespace)["leaseTransitions"] == 1


def test_a_dead_operators_lease_is_taken_over(store: KubeStore, namespace: str) -> None:
    """A Lease as client-go leaves it on a kill, with a clock a year ahead, is waited out and taken."""
    ahead = micro_time(datetime.now(UTC) + timedelta(days=365))
    spec = {
        "holderIdentity": "grove-operator-7d4_1",
        "leaseDurationSeconds": 2,
        "acquireTime": ahead,
        "renewTime": ahead,
        "leaseTransitions": 4,
    }
    body = {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": LEASE, "namespace": namespace},
        "spec": spec,
    }
    store.create(LEASES, namespace, body)
    fence = fence_of(store, namespace, "we_1")
    began = monotonic()
    fence.acquire(began + 30)
    assert monotonic() - began >= 2.5
    assert spec_of(store, namespace)["leaseTransitions"] == 5
    fence.release()


def test_a_stolen_lease_is_noticed(store: KubeStore, namespace: str) -> None:
    """The server takes a takeover by anybody; our next renewal fails its test, and check says so."""
    fence = fence_of(store, namespace, "we_1")
    fence.acquire(monotonic() + 20)
    store.patch(LEASES, namespace, LEASE, (Op("replace", "/spec/holderIdentity", "thief_1"),))
    eventually(lambda: not fence.held)
    with pytest.raises(LeaseLost):
        fence.check()
    fence.release()
    assert spec_of(store, namespace)["holderIdentity"] == "thief_1"


def test_many_contenders_hold_it_one_at_a_time(store: KubeStore, namespace: str) -> None:
    """Eight threads that contend for one Lease are never inside together, and all of them get it."""
    inside: list[str] = []
    overlaps: list[list[str]] = []
    served: set[str] = set()

    def contend(identity: str) -> None:
        fence = fence_of(store, namespace, identity)
        fence.acquire(monotonic() + 60)
        inside.append(identity)
        if len(inside) > 1:
            overlaps.append(list(inside))
        time.sleep(0.1)
        fence.check()
        inside.remove(identity)
        served.add(identity)
        fence.release()

    threads = [threading.Thread(target=contend, args=(f"migrator_{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert overlaps == []
    assert len(served) == 8


def test_a_living_holder_wins(store: KubeStore, namespace: str) -> None:
    """A second migrator gives up on its deadline, naming the first."""
    first = fence_of(store, namespace, "first_1")
    first.acquire(monotonic() + 20)
    with pytest.raises(LostRace, match="first_1"):
        fence_of(store, namespace, "second_1").acquire(monotonic() + 5)
    first.check()
    first.release()


def table(uid: str, cliques: int) -> Table:
    """A table of so many PodCliques."""
    hashes = SetHashes("b565bfb877d777fb5b5", {"worker": "6944cfcdb5d4947564c"})
    baseline = {
        f"set-{index}-worker": CliqueBaseline(2, f"2026-01-02T03:{index % 60:02}:05Z", 2, 2) for index in range(cliques)
    }
    return Table("ns", "set", uid, 1, "legacy-1.34", "legacy-1.35", hashes, hashes, "digest", baseline=baseline)


RUN = RunRecord("run-1", "we_1", "auto", "legacy-1.35", datetime(2026, 1, 2, tzinfo=UTC), None, "started", 1, "o:1<&>")


def test_a_large_record_is_stored_and_forgotten(store: KubeStore, namespace: str) -> None:
    """Tables of 100,000 pods fit into ConfigMaps, are read back whole, replaced, and deleted without a trace."""
    recorder = Recorder(store, namespace)
    recorder.save_run(RUN)
    tables = [table(str(uuid.uuid4()), 500) for _ in range(100)]
    recorder.save_tables(tables)
    recorder.save_tables([table("one-more", 1)])
    recorder.save_run(replace(RUN, state="writing"))
    recorded = Recorder(store, namespace).load()
    assert recorded.run == replace(RUN, state="writing")
    assert recorded.tables == {t.uid: t for t in (*tables, table("one-more", 1))}
    recorder.delete_all()
    assert Recorder(store, namespace).load().run is None
    names = store.list(CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace=namespace).items
    assert [name for name in names if name.startswith("grove-migrator")] == []


def test_pieces_are_cut_by_the_servers_limit(store: KubeStore, namespace: str) -> None:
    """A piece as full as they come is accepted as one ConfigMap."""
    noise = [
        replace(table(str(uuid.uuid4()), 0), baseline={uuid.uuid4().hex: CliqueBaseline(1, uuid.uuid4().hex, 1, 1)})
        for _ in range(20_000)
    ]
    recorder = Recorder(store, namespace)
    recorder.save_tables(noise)
    assert len(recorder.load().tables) == 20_000
    names = store.list(CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace=namespace, metadata_only=True).items
    assert sum(name.startswith("grove-migrator-tables-") for name in names) > 1


def test_a_record_written_meanwhile_is_not_overwritten(store: KubeStore, namespace: str) -> None:
    """The server's own test of the old text decides, angle brackets and ampersands included."""
    Recorder(store, namespace).save_run(RUN)
    text = store.get(CONFIG_MAPS, namespace, RUN_NAME)["data"]["run.json"]
    Recorder(store, namespace).save_run(replace(RUN, state="other"))
    with pytest.raises(TestFailed):
        store.patch(CONFIG_MAPS, namespace, RUN_NAME, (Op("test", "/data/run.json", text),))
    with pytest.raises(AlreadyExists):
        store.create(
            CONFIG_MAPS,
            namespace,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": RUN_NAME, "namespace": namespace}},
        )


@pytest.fixture
def installation(store: KubeStore, namespace: str) -> Iterator[operator.Operator]:
    """The chart's Deployment and its configuration."""
    store.create(
        CONFIG_MAPS,
        namespace,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "grove-operator-cm-0a1b2c3d"},
            "data": {"config.yaml": CONFIG},
            "immutable": True,
        },
    )
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "grove-operator", "namespace": namespace, "labels": LABELS},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "containers": [{"name": "grove-operator", "image": "grove-operator:v0.1.0-alpha.9"}],
                    "volumes": [{"name": "operator-config", "configMap": {"name": "grove-operator-cm-0a1b2c3d"}}],
                },
            },
        },
    }
    made = store.create(DEPLOYMENTS, namespace, body)
    found = operator.find(store, namespace=namespace, deployment=None, lease_name=None)
    assert found is not None
    yield found
    store.delete(DEPLOYMENTS, namespace, "grove-operator", made["metadata"]["uid"])
    for ref in operator.refresh(store, found).pods:
        store.delete(PODS, ref.ref.namespace, ref.ref.name, ref.ref.uid)


def owners_of_replicas(store: KubeStore, namespace: str) -> list[str]:
    """Who owns spec.replicas besides the manager that created the Deployment."""
    fields = store.get(DEPLOYMENTS, namespace, "grove-operator")["metadata"]["managedFields"]
    return [
        entry["manager"]
        for entry in fields
        if "f:replicas" in (entry["fieldsV1"].get("f:spec") or {}) and entry.get("subresource") == "scale"
    ]


def test_the_operator_is_found_stopped_and_restored(
    store: KubeStore, namespace: str, installation: operator.Operator
) -> None:
    """Down to zero pods and back, through /scale alone, and no field owner of ours stays on spec.replicas."""
    assert (installation.namespace, installation.replicas, installation.version) == (namespace, 1, "v0.1.0-alpha.9")
    assert installation.lease_name == LEASE
    operator.scale(store, installation, 0)
    down = operator.wait_until_gone(store, installation, clock=monotonic, sleep=time.sleep, deadline=monotonic() + 60)
    assert (down.replicas, down.pods) == (0, ())
    assert owners_of_replicas(store, namespace) == []
    operator.scale(store, down, 1)
    assert operator.refresh(store, down).replicas == 1
    assert owners_of_replicas(store, namespace) == []


def test_scaling_from_a_stale_number_is_noticed(
    store: KubeStore, namespace: str, installation: operator.Operator
) -> None:
    """Somebody else scaled to 3 meanwhile: the server's test fails, and the present number goes to zero."""
    operator.scale(store, installation, 0)
    operator.scale(store, replace(installation, replicas=0), 3)
    operator.scale(store, installation, 0)
    assert operator.refresh(store, installation).replicas == 0
    assert owners_of_replicas(store, namespace) == []


@pytest.fixture
def as_service_account(store: KubeStore, namespace: str, control_plane: Any, tmp_path: Path) -> Iterator[KubeStore]:
    """The cluster as the ServiceAccount of the Job."""
    store.create(
        SERVICE_ACCOUNTS,
        namespace,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "grove-migrator"}},
    )
    binding = store.create(
        CLUSTER_ROLE_BINDINGS,
        "",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{namespace}-migrator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "grove-migrator", "namespace": namespace}],
        },
    )
    api = client.CoreV1Api(config.new_client_from_config(str(control_plane.kubeconfig)))
    request: Any = {"spec": {"expirationSeconds": 600}}
    token = api.create_namespaced_service_account_token("grove-migrator", namespace, request).status.token
    kubeconfig = yaml.safe_load(Path(control_plane.kubeconfig).read_text(encoding="utf-8"))
    kubeconfig["users"][0]["user"] = {"token": token}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    yield connect(kubeconfig=str(path), request_timeout=5)
    store.delete(CLUSTER_ROLE_BINDINGS, "", f"{namespace}-migrator", binding["metadata"]["uid"])


@pytest.fixture
def webhook(store: KubeStore, namespace: str) -> Iterator[str]:
    """The authorizer as the chart renders it, with nothing behind it, for this test's namespace only."""
    name = f"authorizer-webhook-{namespace}"
    body: JSONObject = {
        "apiVersion": VALIDATING_WEBHOOK_CONFIGURATIONS.api_version,
        "kind": VALIDATING_WEBHOOK_CONFIGURATIONS.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": authorizer.WEBHOOK,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": {"name": "grove-operator", "namespace": namespace, "path": "/x"}},
                "failurePolicy": "Fail",
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
                "sideEffects": "None",
            }
        ],
    }
    made = store.create(VALIDATING_WEBHOOK_CONFIGURATIONS, "", body)
    yield name
    store.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, "", name, made["metadata"]["uid"])


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
        store.create(
            SERVICE_ACCOUNTS, namespace, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        )
    made = store.create(PODS, namespace, body)
    ref = Ref("Pod", namespace, "p", made["metadata"]["uid"])
    return Patch(ref, "", (Change(ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, "444", "555"),), 0)


@pytest.fixture
def context() -> Context:
    """A context with real clocks."""
    return Context(
        clock=monotonic,
        now=lambda: datetime.now(UTC),
        sleep=time.sleep,
        identity="grove-migrator_1",
        run_id="r",
        log=structlog.wrap_logger(structlog.ReturnLogger()),
        stop=threading.Event(),
        deadline=Deadline(monotonic),
    )


def test_the_authorizer_is_seen_proven_and_passed(
    store: KubeStore, as_service_account: KubeStore, webhook: str, label_patch: Patch, context: Context
) -> None:
    """Denied without the exemption, accepted with it for our ServiceAccount alone, denied again without it."""
    ours, in_dry_run = as_service_account, as_service_account.in_dry_run(DryRun.SERVER)
    found = authorizer.blocking(ours)
    assert found is not None
    assert found.configuration == webhook
    eventually(lambda: _denied(in_dry_run, label_patch))
    assert authorizer.exempt(ours, context)
    assert authorizer.exempt(ours, context)
    assert authorizer.blocking(ours) is None
    assert authorizer.probe(in_dry_run, [label_patch], sleep=time.sleep) == 1
    assert _denied(store.in_dry_run(DryRun.SERVER), label_patch)
    pod = store.get(PODS, label_patch.ref.namespace, "p")
    assert pod["metadata"]["labels"]["grove.io/pod-template-hash"] == "444"
    assert authorizer.withdraw(ours, context.log) == 1
    assert "matchConditions" not in store.get(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook)["webhooks"][0]
    eventually(lambda: _denied(in_dry_run, label_patch))


def test_foreign_conditions_survive(
    store: KubeStore, as_service_account: KubeStore, webhook: str, context: Context
) -> None:
    """Our entry stands beside somebody else's and leaves without it."""
    foreign = {"name": "foreign", "expression": "true"}
    ops = (Op("add", "/webhooks/0/matchConditions", [foreign]),)
    store.patch(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook, ops)
    assert authorizer.exempt(as_service_account, context)
    found = store.get(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook)["webhooks"][0]["matchConditions"]
    assert [entry["name"] for entry in found] == ["foreign", authorizer.EXEMPTION]
    authorizer.withdraw(as_service_account, context.log)
    found = store.get(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook)["webhooks"][0]["matchConditions"]
    assert found == [foreign]


def test_a_person_is_not_exempted(store: KubeStore, webhook: str, context: Context) -> None:
    """The administrator's own name is read from the server, and refused."""
    with pytest.raises(Refused, match="ServiceAccount"):
        authorizer.exempt(store, context)
    assert "matchConditions" not in store.get(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook)["webhooks"][0]


def _denied(store: KubeStore, patch: Patch) -> bool:
    try:
        return authorizer.probe(store, [patch]) == 0
    except Refused:
        return True


def test_events_are_accepted(store: KubeStore, namespace: str, context: Context) -> None:
    """The server takes our Events, the longest note included."""
    ref = Ref("PodCliqueSet", namespace, "demo", str(uuid.uuid4()))
    pcs = PodCliqueSet(ref, {}, {}, 1, terminating=False, spec={}, status={})
    change = Change(ref, Place.SET_GENERATION, "/status/currentGenerationHash", "444", "555")
    done = TreePlan(Tree(pcs), "legacy-1.34", "legacy-1.35", TreeState.MIGRATE, (change,))
    events.migrated(store, Plan("auto", "legacy-1.35", (done,)), context)
    note = "\N{LATIN SMALL LETTER E WITH ACUTE}" * 2000
    body = events.build(
        ref, kind="Warning", reason="MigrationRefused", note=note, identity="i" * 500, now=context.now()
    )
    store.create(EVENTS, namespace, body)
    found = store.list(EVENTS, lambda raw: (raw["reason"], raw["regarding"]["uid"]), namespace=namespace).items
    assert sorted(found) == [("HashesMigrated", ref.uid), ("MigrationRefused", ref.uid)]
