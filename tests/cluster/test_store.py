"""One seam, three stores: a real API server, a file and the cluster in memory answer the same requests alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from migrator import exact_json
from migrator.errors import AlreadyExists, ApiError, ClusterError, Conflict, NotFound, Rejected, TestFailed
from migrator.exact_json import JSONNumber, JSONObject
from migrator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    LEASES,
    POD_CLIQUES,
    PODS,
    Op,
    Resource,
)
from migrator.store import FIELD_MANAGER, DryRun, Store, Write
from migrator.stores.dump.store import DumpStore
from migrator.stores.kube import store as kube_store
from migrator.stores.kube.store import KubeStore
from testbed.controlplane.server import ControlPlane
from tests.support.memory_objects import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SELF_SUBJECT_REVIEWS
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.controlplane

NAMESPACE = "store-test"
#: Stands for a PodClique on the API server, so that this test needs none of Grove's CRDs.
THINGS = Resource("store.test", "v1", "things", "Thing")
ABSENT = Resource("store.test", "v1", "nothings", "Nothing")
HASH = "/metadata/labels/grove.io~1pod-template-hash"
#: Strings that Go's JSON escapes, or could, and that must equal themselves in a test all the same.
TEMPLATE = {
    "args": ["a && b > c < d", "line\u2028and\u2029paragraph", "tab\t newline\n bell\x07 delete\x7f", 'q"\\/'],
    "env": [{"name": "CAF\u00c9", "value": "\U0001f600"}, {"name": "EMPTY", "value": ""}],
    "counts": {"one": 1, "half": JSONNumber("0.5"), "none": 0, "yes": True},
}


def thing(name: str, *, status: bool = True) -> JSONObject:
    """An object with a hash in a label and, unless told otherwise, one in its status."""
    return {
        "apiVersion": THINGS.api_version,
        "kind": THINGS.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"grove.io/pod-template-hash": "old", "app": "x"},
            "annotations": {"slash/key": "2"},
        },
        "spec": {"template": TEMPLATE, "tilde~key": "1"},
        **({"status": {"hash": "old", "count": 1, "conditions": [{"type": "A"}, {"type": "B"}]}} if status else {}),
    }


@dataclass(frozen=True, slots=True)
class Case:
    """A patch; the placeholders ``UID`` and ``GENERATION`` in its tests become the object's own."""

    name: str
    ops: tuple[Op, ...]
    subresource: str = ""
    status: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a patch: the error's class, and the parts of the object that a patch can change."""

    outcome: str
    parts: dict[str, Any] = field(default_factory=dict)


def check(path: str, value: object) -> Op:
    """A test."""
    return Op("test", path, value)


REPLACE = Op("replace", HASH, "new")
REPLACE_STATUS = Op("replace", "/status/hash", "new")
CASES = (
    Case("swap-label", (check("/metadata/uid", "UID"), check(HASH, "old"), REPLACE)),
    Case("swap-label-that-moved", (check(HASH, "other"), REPLACE)),
    Case("other-uid", (check("/metadata/uid", "00000000-0000-4000-8000-00000000ffff"), REPLACE)),
    Case("generation", (check("/metadata/generation", "GENERATION"), REPLACE)),
    Case("generation-as-text", (check("/metadata/generation", "1"), REPLACE)),
    Case("generation-as-float", (check("/metadata/generation", JSONNumber("1.0")), REPLACE)),
    Case("generation-as-boolean", (check("/metadata/generation", bool(1)), REPLACE)),
    Case("replace-creates-an-absent-key", (Op("replace", "/metadata/labels/fresh", "1"),)),
    Case("replace-below-an-absent-parent", (Op("replace", "/spec/no/where", "1"),)),
    Case("add-key", (Op("add", "/metadata/labels/fresh", "1"),)),
    Case("remove-key", (Op("remove", "/metadata/labels/app"),)),
    Case("remove-absent-key", (Op("remove", "/metadata/labels/fresh"),)),
    Case("null-asserts-absence", (check("/metadata/deletionTimestamp", None), REPLACE)),
    Case("null-for-a-value-that-is-there", (check(HASH, None), REPLACE)),
    Case("null-below-an-absent-parent", (check("/spec/no/where", None), REPLACE)),
    Case("all-or-nothing", (REPLACE, check("/metadata/labels/app", "y"))),
    Case("test-after-replace-sees-it", (REPLACE, check(HASH, "new"))),
    Case("escaped-pointers", (check("/spec/tilde~0key", "1"), Op("replace", "/metadata/annotations/slash~1key", "3"))),
    Case("whole-template", (check("/spec/template", TEMPLATE), REPLACE)),
    Case("template-in-another-order", (check("/spec/template", dict(reversed(TEMPLATE.items()))), REPLACE)),
    Case("template-with-another-argument", (check("/spec/template", {**TEMPLATE, "args": ["a && b"]}), REPLACE)),
    Case("template-with-a-key-less", (check("/spec/template", {"args": TEMPLATE["args"]}), REPLACE)),
    Case("template-seen-from-status", (check("/spec/template", TEMPLATE), REPLACE_STATUS), "status"),
    Case("label-seen-from-status", (check(HASH, "old"), REPLACE_STATUS), "status"),
    Case("label-through-status", (REPLACE, REPLACE_STATUS), "status"),
    Case("status-through-the-main-resource", (REPLACE, REPLACE_STATUS)),
    Case("status-that-moved", (check("/status/hash", "other"), REPLACE_STATUS), "status"),
    Case("below-no-status", (check("/status/hash", "old"), REPLACE_STATUS), "status", status=False),
    Case("replace-below-no-status", (REPLACE_STATUS,), "status", status=False),
    Case(
        "list-element",
        (check("/status/conditions/1/type", "B"), Op("replace", "/status/conditions/1/type", "C")),
        "status",
    ),
    Case("list-index-out-of-range", (check("/status/conditions/2/type", "C"),), "status"),
    Case("replace-out-of-range", (Op("replace", "/status/conditions/2", {"type": "C"}),), "status"),
    Case("append-to-a-list", (Op("add", "/status/conditions/-", {"type": "C"}),), "status"),
    Case("insert-into-a-list", (Op("add", "/status/conditions/0", {"type": "C"}),), "status"),
    Case("remove-from-a-list", (Op("remove", "/status/conditions/0"),), "status"),
    Case("integer-for-text", (check("/spec/tilde~0key", 1), REPLACE)),
    Case("text-for-integer", (check("/status/count", "1"), REPLACE_STATUS), "status"),
    Case("no-operations", ()),
)


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[KubeStore]:
    """The API server, with a kind of our own and an empty namespace."""
    store = kube_store.connect(kubeconfig=str(control_plane.kubeconfig), context=None)
    versions = {
        "name": THINGS.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    crd = {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": THINGS.qualified_name},
        "spec": {
            "group": THINGS.group,
            "scope": "Namespaced",
            "names": {"plural": THINGS.plural, "singular": "thing", "kind": THINGS.kind},
            "versions": [versions],
        },
    }
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for resource, body in ((CUSTOM_RESOURCE_DEFINITIONS, crd), (NAMESPACES, namespace)):
        store.create(resource, "", body)
    for _ in range(100):
        try:
            store.list(THINGS, str)
        except NotFound:
            time.sleep(0.1)
        else:
            break
    yield store
    for resource, name in ((CUSTOM_RESOURCE_DEFINITIONS, THINGS.qualified_name), (NAMESPACES, NAMESPACE)):
        store.delete(resource, "", name, store.get(resource, "", name)["metadata"]["uid"])


Both = KubeStore | MemoryStore


@pytest.fixture(params=["cluster", "memory"])
def store(cluster: KubeStore, request: pytest.FixtureRequest) -> Both:
    """The API server, and the cluster in memory that stands for it elsewhere."""
    return cluster if request.param == "cluster" else MemoryStore(without=[ABSENT])


def create_thing(cluster: Both, name: str, *, status: bool = True) -> JSONObject:
    """Create a thing on the API server; its status takes a second request."""
    body = thing(name, status=status)
    cluster.create(THINGS, NAMESPACE, body)
    if status:
        cluster.patch(THINGS, NAMESPACE, name, (Op("add", "/status", body["status"]),), subresource="status")
    return cluster.get(THINGS, NAMESPACE, name)


def as_clique(body: JSONObject) -> JSONObject:
    """The same object as a PodClique: the kind that a file and the cluster in memory know."""
    return {**body, "apiVersion": POD_CLIQUES.api_version, "kind": POD_CLIQUES.kind}


def ops_of(case: Case, body: JSONObject) -> tuple[Op, ...]:
    """The case's patch of an object."""
    own = {"UID": body["metadata"]["uid"], "GENERATION": body["metadata"]["generation"]}
    return tuple(
        Op(op.op, op.path, own.get(op.value, op.value) if isinstance(op.value, str) else op.value) for op in case.ops
    )


def outcome_of(store: Store, resource: Resource, case: Case, body: JSONObject) -> Result:
    """Send the case's patch and look what came of it."""
    ops = ops_of(case, body)
    outcome = "ok"
    try:
        store.patch(resource, NAMESPACE, case.name, ops, subresource=case.subresource)
    except ClusterError as error:
        outcome = type(error).__name__
    after = store.get(resource, NAMESPACE, case.name)
    parts = {
        "labels": after["metadata"].get("labels"),
        "annotations": after["metadata"].get("annotations"),
        "generation": after["metadata"]["generation"],
        "spec": after["spec"],
        "status": after.get("status"),
    }
    return Result(outcome, parts)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_patches_mean_the_same_everywhere(cluster: KubeStore, tmp_path: Path, case: Case) -> None:
    """The same patch has the same outcome, and leaves the same object, on a cluster, in memory and in a file.

    Hashes are tested and replaced, so a file knows these two operations only.
    """
    body = create_thing(cluster, case.name, status=case.status)
    expected = outcome_of(cluster, THINGS, case, body)
    assert outcome_of(MemoryStore(as_clique(body)), POD_CLIQUES, case, body) == expected
    if not {op.op for op in case.ops} <= {"test", "replace"}:
        return
    dump = tmp_path / "dump.json"
    dump.write_text(exact_json.dumps(as_clique(body)), encoding="utf-8")
    assert outcome_of(DumpStore.read(str(dump)), POD_CLIQUES, case, body) == expected


def test_patches_of_a_stream_mean_what_single_ones_do(cluster: KubeStore) -> None:
    """All the patches at a time, over TLS: each has the outcome that it has alone."""
    sent = [replace(case, name=f"stream-{case.name}") for case in CASES]
    bodies = {case.name: create_thing(cluster, case.name, status=case.status) for case in sent}
    writes = iter(
        (case.name, Write(THINGS, NAMESPACE, case.name, ops_of(case, bodies[case.name]), case.subresource))
        for case in sent
    )
    answers = cluster.patches(lambda: next(writes, None), concurrency=8)
    found = {name: type(error).__name__ if error else "ok" for name, error in answers}
    expected = {
        case.name: outcome_of(MemoryStore(as_clique(bodies[case.name])), POD_CLIQUES, case, bodies[case.name]).outcome
        for case in sent
    }
    assert found == expected
    assert set(found.values()) >= {"ok", "TestFailed"}


def test_large_patches_of_a_stream_arrive_whole(cluster: KubeStore) -> None:
    """A set's template is tested as it was read, and may fill more than a socket takes at once."""
    template = {"args": ["x" * 400_000, TEMPLATE]}
    for number in range(6):
        body = thing(f"large-{number}")
        cluster.create(THINGS, NAMESPACE, {**body, "spec": {"template": template}})
    ops = (check("/spec/template", template), REPLACE)
    writes = iter((number, Write(THINGS, NAMESPACE, f"large-{number}", ops)) for number in range(6))
    assert dict(cluster.patches(lambda: next(writes, None), concurrency=3)) == dict.fromkeys(range(6))
    labels = [cluster.get(THINGS, NAMESPACE, f"large-{number}")["metadata"]["labels"] for number in range(6)]
    assert [label["grove.io/pod-template-hash"] for label in labels] == ["new"] * 6


@pytest.mark.parametrize(
    ("ops", "error"),
    [
        ((Op("replace", HASH, "no label!"),), Rejected),
        ((Op("replace", "/metadata/uid", "00000000-0000-4000-8000-00000000ffff"),), Rejected),
        ((Op("replace", "/metadata/labels", 5),), Rejected),
        ((Op("replace", "/metadata/resourceVersion", "7"),), Conflict),
        ((Op("test", HASH, "other"),), TestFailed),
    ],
    ids=["label", "uid", "type", "version", "test"],
)
def test_validation_is_no_failed_test(store: Both, ops: tuple[Op, ...], error: type[ApiError]) -> None:
    """What the API server refuses for good is told from a value that moved."""
    name = f"validation-{error.__name__.lower()}-{len(str(ops))}"
    create_thing(store, name)
    with pytest.raises(error) as caught:
        store.patch(THINGS, NAMESPACE, name, ops)
    assert type(caught.value) is error
    assert "line\u2028" not in str(caught.value)
    assert "a && b" not in str(caught.value)


def test_absent_things_are_not_found(store: Both) -> None:
    """An absent object and an absent kind are both NotFound, for reads and for patches."""
    with pytest.raises(NotFound):
        store.get(THINGS, NAMESPACE, "absent")
    with pytest.raises(NotFound):
        store.patch(THINGS, NAMESPACE, "absent", (REPLACE,))
    with pytest.raises(NotFound):
        store.list(ABSENT, str)


def test_create_and_delete(store: Both) -> None:
    """A name is taken once; a delete needs the uid, and to delete what is gone already is not an error."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "record"}, "data": {"a": "1"}}
    store.create(CONFIG_MAPS, NAMESPACE, body)
    with pytest.raises(AlreadyExists):
        store.create(CONFIG_MAPS, NAMESPACE, body)
    store.delete(CONFIG_MAPS, NAMESPACE, "record", "00000000-0000-4000-8000-00000000ffff")
    uid = store.get(CONFIG_MAPS, NAMESPACE, "record")["metadata"]["uid"]
    for _ in range(2):
        store.delete(CONFIG_MAPS, NAMESPACE, "record", uid)
    with pytest.raises(NotFound):
        store.get(CONFIG_MAPS, NAMESPACE, "record")


def test_pages_make_one_list(cluster: KubeStore) -> None:
    """More objects than a page holds are all there once, of one version, narrowed by labels as asked."""
    for number in range(505):
        metadata = {"name": f"page-{number:04d}", "labels": {"page": "x"}}
        cluster.create(CONFIG_MAPS, NAMESPACE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    listing = cluster.list(
        CONFIG_MAPS,
        lambda raw: (raw["kind"], raw["apiVersion"], raw["metadata"]["name"]),
        namespace=NAMESPACE,
        label_selector="page=x",
        metadata_only=True,
    )
    assert listing.items == tuple(("ConfigMap", "v1", f"page-{number:04d}") for number in range(505))
    assert listing.resource_version.isdecimal()


def test_metadata_only_has_neither_spec_nor_status(cluster: KubeStore) -> None:
    """Metadata lists carry what trees are built from, and not the rest."""
    create_thing(cluster, "metadata-only")
    (raw,) = (
        raw
        for raw in cluster.list(THINGS, lambda raw: raw, metadata_only=True).items
        if raw["metadata"]["name"] == "metadata-only"
    )
    assert set(raw) == {"apiVersion", "kind", "metadata"}
    assert raw["kind"] == THINGS.kind
    assert raw["metadata"]["labels"]["grove.io/pod-template-hash"] == "old"


def test_dry_runs_write_nothing(store: Both) -> None:
    """On the server a dry run is validated, and on neither side does anything change."""
    before = create_thing(store, "dry-run")
    dry = store.in_dry_run(DryRun.SERVER)
    dry.patch(THINGS, NAMESPACE, "dry-run", (REPLACE,))
    with pytest.raises(TestFailed):
        dry.patch(THINGS, NAMESPACE, "dry-run", (Op("test", HASH, "other"), REPLACE))
    dry.delete(THINGS, NAMESPACE, "dry-run", before["metadata"]["uid"])
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "dry"}}
    dry.create(CONFIG_MAPS, NAMESPACE, body)
    client = store.in_dry_run(DryRun.CLIENT)
    assert client.patch(THINGS, NAMESPACE, "dry-run", (Op("test", HASH, "other"), REPLACE)) == {}
    assert client.create(CONFIG_MAPS, NAMESPACE, body) == body
    client.delete(THINGS, NAMESPACE, "dry-run", before["metadata"]["uid"])
    assert store.get(THINGS, NAMESPACE, "dry-run") == before
    with pytest.raises(NotFound):
        store.get(CONFIG_MAPS, NAMESPACE, "dry")


def test_writes_carry_our_field_manager(cluster: KubeStore) -> None:
    """Nobody but us is named as the writer of what we wrote."""
    create_thing(cluster, "managed")
    cluster.patch(THINGS, NAMESPACE, "managed", (Op("replace", "/metadata/labels/app", "y"),))
    entries = cluster.get(THINGS, NAMESPACE, "managed")["metadata"]["managedFields"]
    assert {entry["manager"] for entry in entries} == {FIELD_MANAGER}


def test_scale_to_zero_and_back(store: Both) -> None:
    """Zero replicas are an absent field of a Scale; the Deployment's own value follows."""
    container = {"name": "c", "image": "example.com/c:1"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "operator"}},
            "template": {"metadata": {"labels": {"app": "operator"}}, "spec": {"containers": [container]}},
        },
    }
    store.create(DEPLOYMENTS, NAMESPACE, body)

    def scale(old: int | None, new: int) -> int:
        ops = (Op("test", "/spec/replicas", old), Op("replace", "/spec/replicas", new))
        store.patch(DEPLOYMENTS, NAMESPACE, "operator", ops, subresource="scale")
        return int(store.get(DEPLOYMENTS, NAMESPACE, "operator")["spec"]["replicas"])

    assert scale(2, 0) == 0
    assert "replicas" not in store.get(DEPLOYMENTS, NAMESPACE, "operator", subresource="scale")["spec"]
    with pytest.raises(TestFailed):
        scale(0, 2)
    assert scale(None, 2) == 2


def test_lease_times_need_six_digits(store: Both) -> None:
    """A Lease with a time in any other form cannot be decoded; with six fraction digits it can."""
    body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "lease"}}
    spec = {"holderIdentity": "us", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    with pytest.raises(ApiError) as caught:
        store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "renewTime": "2026-01-01T00:00:00Z"}})
    assert caught.value.status == 400
    with pytest.raises(Rejected):
        store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "leaseDurationSeconds": 0}})
    created = store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "renewTime": "2026-01-01T00:00:00.000000Z"}})
    assert created["spec"]["holderIdentity"] == "us"


def test_who_we_are(store: Both) -> None:
    """A SelfSubjectReview, which is created and never stored, names the user."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    assert store.create(SELF_SUBJECT_REVIEWS, "", body)["status"]["userInfo"]["username"]


def test_discovery_shows_the_kinds_that_can_be_listed(cluster: KubeStore) -> None:
    """Every kind of a group, once and without its subresources; nothing for a group that is not there."""
    assert cluster.kinds(THINGS.group) == (THINGS,)
    assert cluster.kinds("nobody.example") == ()


@pytest.mark.parametrize("metadata_only", [True, False])
def test_pods_can_be_listed_by_phase(cluster: KubeStore, *, metadata_only: bool) -> None:
    """The API server selects pods by their phase, and refuses a field that it does not select by."""
    listing = cluster.list(PODS, dict, field_selector="status.phase!=Running", metadata_only=metadata_only)
    assert all((pod.get("status") or {}).get("phase") != "Running" for pod in listing.items)
    with pytest.raises(ApiError):
        cluster.list(PODS, dict, field_selector="status.nothing=x", metadata_only=metadata_only)
