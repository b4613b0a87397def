"""Reads, lists, creations and dry runs: a real API server and the cluster in memory answer them alike."""

from __future__ import annotations

import pytest

from migrator.errors import AlreadyExists, ApiError, NotFound, Rejected, TestFailed
from migrator.exact_json import JSONObject
from migrator.kinds import DEPLOYMENTS, LEASES, Op
from migrator.kube.store import KubeCluster
from testbed import operator_installation as installation
from tests.cluster.store.things import ABSENT, HASH, NAMESPACE, REPLACE, THINGS, Both, create_thing
from tests.support.memory_objects import CONFIG_MAPS

pytestmark = pytest.mark.controlplane


def config_map(name: str, **metadata: object) -> JSONObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_absent_things_are_not_found(store: Both) -> None:
    """An absent object and an absent kind are both NotFound, for reads and for patches."""
    with pytest.raises(NotFound):
        store.get(THINGS, NAMESPACE, "absent")
    with pytest.raises(NotFound):
        store.patch(THINGS, NAMESPACE, "absent", (REPLACE,))
    with pytest.raises(NotFound):
        store.list(ABSENT, str)


def test_a_name_is_taken_once(store: Both) -> None:
    """Who creates an object first has it."""
    body = {**config_map("record"), "data": {"a": "1"}}
    store.create(CONFIG_MAPS, NAMESPACE, body)
    with pytest.raises(AlreadyExists):
        store.create(CONFIG_MAPS, NAMESPACE, body)


def test_pages_make_one_list(cluster: KubeCluster) -> None:
    """More objects than a page holds are all there once, of one version, narrowed by labels as asked."""
    for number in range(505):
        cluster.create(CONFIG_MAPS, NAMESPACE, config_map(f"page-{number:04d}", labels={"page": "x"}))

    def brief(raw: JSONObject) -> tuple[str, ...]:
        return raw["kind"], raw["apiVersion"], raw["metadata"]["name"]

    listing = cluster.list(CONFIG_MAPS, brief, namespace=NAMESPACE, label_selector="page=x", metadata_only=True)
    assert listing == tuple(("ConfigMap", "v1", f"page-{number:04d}") for number in range(505))


def test_metadata_only_has_neither_spec_nor_status(cluster: KubeCluster) -> None:
    """Metadata lists carry what trees are built from, and not the rest."""
    create_thing(cluster, "metadata-only")
    found = cluster.list(THINGS, lambda raw: raw, metadata_only=True)
    (raw,) = (raw for raw in found if raw["metadata"]["name"] == "metadata-only")
    assert set(raw) == {"apiVersion", "kind", "metadata"}
    assert raw["kind"] == THINGS.kind
    assert raw["metadata"]["labels"]["grove.io/pod-template-hash"] == "old"


def test_dry_runs_write_nothing(store: Both) -> None:
    """A dry run is validated by the server, and changes nothing."""
    before = create_thing(store, "dry-run")
    dry = store.in_dry_run()
    dry.patch(THINGS, NAMESPACE, "dry-run", (REPLACE,))
    with pytest.raises(TestFailed):
        dry.patch(THINGS, NAMESPACE, "dry-run", (Op("test", HASH, "other"), REPLACE))
    dry.create(CONFIG_MAPS, NAMESPACE, config_map("dry"))
    assert store.get(THINGS, NAMESPACE, "dry-run") == before
    with pytest.raises(NotFound):
        store.get(CONFIG_MAPS, NAMESPACE, "dry")


def test_scale_to_zero_and_back(store: Both) -> None:
    """Zero replicas are an absent field of a Scale; the Deployment's own value follows."""
    store.create(DEPLOYMENTS, NAMESPACE, installation.deployment("c:1", replicas=2, namespace=NAMESPACE))

    def scale(old: int | None, new: int) -> tuple[int, JSONObject]:
        ops = (Op("test", "/spec/replicas", old), Op("replace", "/spec/replicas", new))
        answer = store.patch(DEPLOYMENTS, NAMESPACE, installation.NAME, ops, subresource="scale")
        return store.get(DEPLOYMENTS, NAMESPACE, installation.NAME)["spec"]["replicas"], answer["spec"]

    assert scale(2, 0) == (0, {})
    with pytest.raises(TestFailed):
        scale(0, 2)
    assert scale(None, 2) == (2, {"replicas": 2})


def test_lease_times_need_six_digits(store: Both) -> None:
    """A Lease with a time in any other form cannot be decoded; with six fraction digits it can."""
    body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "lease"}}
    spec = {"holderIdentity": "us", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    with pytest.raises(ApiError):
        store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "renewTime": "2026-01-01T00:00:00Z"}})
    with pytest.raises(Rejected):
        store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "leaseDurationSeconds": 0}})
    created = store.create(LEASES, NAMESPACE, {**body, "spec": {**spec, "renewTime": "2026-01-01T00:00:00.000000Z"}})
    assert created["spec"]["holderIdentity"] == "us"


def test_discovery_shows_the_kinds_that_can_be_listed(cluster: KubeCluster) -> None:
    """Every kind of a group, once and without its subresources; nothing for a group that is not there."""
    assert cluster.kinds(THINGS.group) == (THINGS,)
    assert cluster.kinds("nobody.example") == ()
