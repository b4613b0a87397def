"""The cluster in memory answers as the API server does: everything built on it is only as good as this."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.errors import AlreadyExists, ApiError, Conflict, LostReply, NotFound, Rejected, TestFailed
from migrator.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, POD_CLIQUES, POD_GANG_MAPS, PODS, Op
from migrator.store import DryRun
from tests.support.memory_store import SELF_SUBJECT_REVIEWS, MemoryStore

HASH = "/metadata/labels/grove.io~1pod-template-hash"


def clique(**more: Any) -> dict[str, Any]:
    """A PodClique with a hash in its label and one in its status."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {"name": "c", "namespace": "a", "labels": {"grove.io/pod-template-hash": "old"}},
        "spec": {"replicas": 2},
        "status": {"currentPodTemplateHash": "old"},
        **more,
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod with labels."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {"containers": []}}


def deployment(replicas: int) -> dict[str, Any]:
    """The operator's Deployment."""
    metadata = {"name": "grove-operator", "namespace": "grove-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": replicas}}


def swap(path: str, old: Any, new: Any) -> tuple[Op, Op]:
    """Replace a value if it is still ``old``."""
    return Op("test", path, old), Op("replace", path, new)


def test_label_patch_moves_the_version_and_not_the_generation() -> None:
    """A label does not belong to the spec: resourceVersion changes, generation stays."""
    store = MemoryStore(clique())
    before = store.read(POD_CLIQUES, "a", "c")["metadata"]
    store.patch(POD_CLIQUES, "a", "c", swap(HASH, "old", "new"))
    after = store.read(POD_CLIQUES, "a", "c")["metadata"]
    assert after["labels"]["grove.io/pod-template-hash"] == "new"
    assert after["generation"] == before["generation"]
    assert int(after["resourceVersion"]) > int(before["resourceVersion"])


def test_spec_edit_moves_the_generation_once() -> None:
    """A spec that changes bumps the generation, the same spec again moves nothing."""
    store = MemoryStore(clique())
    for _ in range(2):
        store.edit(POD_CLIQUES, "a", "c", lambda body: body["spec"].update(replicas=3))
    metadata = store.read(POD_CLIQUES, "a", "c")["metadata"]
    assert (metadata["generation"], metadata["resourceVersion"]) == (2, "2")


def test_status_and_labels_do_not_mix() -> None:
    """A main patch drops its status part, a status patch all others, both without a word."""
    store = MemoryStore(clique())
    both = (Op("replace", HASH, "new"), Op("replace", "/status/currentPodTemplateHash", "new"))
    store.patch(POD_CLIQUES, "a", "c", both)
    assert store.read(POD_CLIQUES, "a", "c")["status"]["currentPodTemplateHash"] == "old"
    both = (Op("replace", HASH, "newer"), Op("replace", "/status/currentPodTemplateHash", "newer"))
    store.patch(POD_CLIQUES, "a", "c", both, subresource="status")
    body = store.read(POD_CLIQUES, "a", "c")
    assert body["status"]["currentPodTemplateHash"] == "newer"
    assert body["metadata"]["labels"]["grove.io/pod-template-hash"] == "new"


def test_failed_test_writes_nothing() -> None:
    """A patch applies as a whole or not at all."""
    store = MemoryStore(clique())
    before = store.everything()
    with pytest.raises(TestFailed):
        store.patch(POD_CLIQUES, "a", "c", (Op("replace", HASH, "new"), Op("test", "/metadata/uid", "another")))
    assert store.everything() == before


@pytest.mark.parametrize(
    ("ops", "error"),
    [
        ((Op("replace", HASH, "no label!"),), Rejected),
        ((Op("replace", "/metadata/uid", "another"),), Rejected),
        ((Op("replace", "/metadata/resourceVersion", "0"),), Conflict),
    ],
)
def test_what_no_patch_may_do_is_no_failed_test(ops: tuple[Op, ...], error: type[ApiError]) -> None:
    """Validation and conflicts have their own errors, so that they are not taken for a lost race."""
    with pytest.raises(error):
        MemoryStore(clique()).patch(POD_CLIQUES, "a", "c", ops)


def test_server_side_dry_run_validates_and_stores_nothing() -> None:
    """``dryRun=All`` fails where the patch would, and leaves everything as it was."""
    store = MemoryStore(clique())
    before = store.everything()
    dry = store.in_dry_run(DryRun.SERVER)
    dry.patch(POD_CLIQUES, "a", "c", swap(HASH, "old", "new"))
    with pytest.raises(TestFailed):
        dry.patch(POD_CLIQUES, "a", "c", swap(HASH, "another", "new"))
    dry.delete(POD_CLIQUES, "a", "c", store.read(POD_CLIQUES, "a", "c")["metadata"]["uid"])
    assert store.everything() == before
    assert store.writes() == []


def test_client_side_dry_run_sends_nothing() -> None:
    """Nothing reaches the cluster, a patch that would fail included."""
    store = MemoryStore(clique())
    dry = store.in_dry_run(DryRun.CLIENT)
    assert dry.patch(POD_CLIQUES, "a", "c", swap(HASH, "another", "new")) == {}
    assert dry.create(CONFIG_MAPS, "a", {"metadata": {"name": "m"}}) == {"metadata": {"name": "m"}}
    dry.delete(POD_CLIQUES, "a", "c", "any")
    assert store.requests == []


def test_zero_is_an_absent_field_of_a_scale() -> None:
    """Down is tested by value, back up by absence, as with ``autoscaling/v1``."""
    store = MemoryStore(deployment(2))
    at = ("grove-system", "grove-operator")
    store.patch(DEPLOYMENTS, *at, swap("/spec/replicas", 2, 0), subresource="scale")
    assert store.read(DEPLOYMENTS, *at)["spec"]["replicas"] == 0
    assert store.get(DEPLOYMENTS, *at, subresource="scale")["spec"] == {}
    with pytest.raises(TestFailed):
        store.patch(DEPLOYMENTS, *at, swap("/spec/replicas", 0, 2), subresource="scale")
    store.patch(DEPLOYMENTS, *at, swap("/spec/replicas", None, 2), subresource="scale")
    assert store.read(DEPLOYMENTS, *at)["spec"]["replicas"] == 2


def test_list_selects_by_namespace_and_labels() -> None:
    """Lists are narrowed as the API server narrows them, and metadata is all that is read if asked for."""
    store = MemoryStore(pod("a", app="x"), pod("b", app="y"))
    listing = store.list(PODS, lambda raw: raw, namespace="default", label_selector="app=x", metadata_only=True)
    assert [raw["metadata"]["name"] for raw in listing.items] == ["a"]
    assert set(listing.items[0]) == {"apiVersion", "kind", "metadata"}
    assert store.list(PODS, lambda raw: raw, namespace="elsewhere").items == ()


def test_a_resource_that_is_not_installed_is_not_found() -> None:
    """A missing CRD is an error of its own, never an empty list."""
    with pytest.raises(NotFound):
        MemoryStore(without=[POD_GANG_MAPS]).list(POD_GANG_MAPS, lambda raw: raw)


def test_create_twice_already_exists() -> None:
    """A name is taken once."""
    store = MemoryStore()
    store.create(CONFIG_MAPS, "a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    with pytest.raises(AlreadyExists):
        store.create(CONFIG_MAPS, "a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})


def test_a_lease_time_needs_six_fraction_digits() -> None:
    """What the API server cannot decode is refused here too."""
    body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": "l"}}
    with pytest.raises(ApiError, match="six fraction digits"):
        MemoryStore().create(LEASES, "a", {**body, "spec": {"renewTime": "2026-01-01T00:00:00Z"}})


def test_delete_spares_another_object_of_that_name() -> None:
    """A record of ours is deleted by uid; what has taken its name stays."""
    store = MemoryStore(clique())
    store.delete(POD_CLIQUES, "a", "c", "another")
    store.delete(POD_CLIQUES, "a", "gone", "any")
    assert len(store.everything()) == 1


def test_drop_takes_what_is_owned_along() -> None:
    """A deleted set takes its tree along, as the garbage collector does."""
    store = MemoryStore(clique())
    owner = {"kind": "PodClique", "name": "c", "uid": store.read(POD_CLIQUES, "a", "c")["metadata"]["uid"]}
    owned = pod("p")
    owned["metadata"]["ownerReferences"] = [owner]
    store.put(owned)
    store.drop(POD_CLIQUES, "a", "c")
    assert store.everything() == []


def test_injected_errors_come_before_or_after_the_write() -> None:
    """Before: the request never arrived. After: it was applied, and its answer got lost."""
    store = MemoryStore(clique())
    store.inject(lambda: LostReply("cut"), when=lambda r: r.verb == "patch")
    store.inject(lambda: LostReply("cut"), when=lambda r: r.number == 2, applied=True)
    with pytest.raises(LostReply):
        store.patch(POD_CLIQUES, "a", "c", swap(HASH, "old", "new"))
    assert store.read(POD_CLIQUES, "a", "c")["metadata"]["labels"]["grove.io/pod-template-hash"] == "old"
    with pytest.raises(LostReply):
        store.patch(POD_CLIQUES, "a", "c", swap(HASH, "old", "new"))
    assert store.read(POD_CLIQUES, "a", "c")["metadata"]["labels"]["grove.io/pod-template-hash"] == "new"
    assert [request.number for request in store.writes(POD_CLIQUES)] == [1, 2]


def test_what_is_returned_is_a_copy() -> None:
    """Nobody changes the cluster by changing an answer."""
    store = MemoryStore(clique())
    store.get(POD_CLIQUES, "a", "c")["spec"]["replicas"] = 9
    store.list(POD_CLIQUES, lambda raw: raw).items[0]["spec"]["replicas"] = 9
    assert store.read(POD_CLIQUES, "a", "c")["spec"]["replicas"] == 2


def test_who_we_are() -> None:
    """A SelfSubjectReview names the user and is stored nowhere."""
    store = MemoryStore(user="alice")
    assert store.create(SELF_SUBJECT_REVIEWS, "", {"metadata": {}})["status"]["userInfo"]["username"] == "alice"
    assert store.everything() == []
