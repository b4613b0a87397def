"""What the cluster in memory offers to tests; tests/cluster/store compares its answers with an API server's."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.errors import LostReply
from migrator.resources import CONFIG_MAPS, POD_CLIQUES, PODS, Op
from migrator.store import DryRun
from tests.support.memory_store import MemoryStore

LABEL = "/metadata/labels/grove.io~1pod-template-hash"


def swap(path: str, old: str, new: str) -> tuple[Op, Op]:
    """A compare-and-swap."""
    return Op("test", path, old), Op("replace", path, new)


def clique() -> dict[str, Any]:
    """A PodClique with a hash in its label."""
    metadata = {"name": "c", "namespace": "a", "labels": {"grove.io/pod-template-hash": "old"}}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "metadata": metadata, "spec": {"replicas": 2}}


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod with labels."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": {"containers": []}}


def test_label_patch_moves_the_version_and_not_the_generation() -> None:
    """A label does not belong to the spec: resourceVersion changes, generation stays."""
    store = MemoryStore(clique())
    before = store.read(POD_CLIQUES, "a", "c")["metadata"]
    store.patch(POD_CLIQUES, "a", "c", swap(LABEL, "old", "new"))
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


def test_client_side_dry_run_sends_nothing() -> None:
    """Nothing reaches the cluster, a patch that would fail included."""
    store = MemoryStore(clique())
    dry = store.in_dry_run(DryRun.CLIENT)
    assert dry.patch(POD_CLIQUES, "a", "c", swap(LABEL, "another", "new")) == {}
    assert dry.create(CONFIG_MAPS, "a", {"metadata": {"name": "m"}}) == {"metadata": {"name": "m"}}
    dry.delete(POD_CLIQUES, "a", "c", "any")
    assert store.requests == []


def test_list_selects_by_namespace_and_labels() -> None:
    """Lists are narrowed as the API server narrows them, and metadata is all that is read if asked for."""
    store = MemoryStore(pod("a", app="x"), pod("b", app="y"))
    listing = store.list(PODS, lambda raw: raw, namespace="default", label_selector="app=x", metadata_only=True)
    assert [raw["metadata"]["name"] for raw in listing] == ["a"]
    assert set(listing[0]) == {"apiVersion", "kind", "metadata"}
    assert store.list(PODS, lambda raw: raw, namespace="elsewhere") == ()


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
        store.patch(POD_CLIQUES, "a", "c", swap(LABEL, "old", "new"))
    assert store.read(POD_CLIQUES, "a", "c")["metadata"]["labels"]["grove.io/pod-template-hash"] == "old"
    with pytest.raises(LostReply):
        store.patch(POD_CLIQUES, "a", "c", swap(LABEL, "old", "new"))
    assert store.read(POD_CLIQUES, "a", "c")["metadata"]["labels"]["grove.io/pod-template-hash"] == "new"
    assert [request.number for request in store.writes(POD_CLIQUES)] == [1, 2]


def test_what_is_returned_is_a_copy() -> None:
    """Nobody changes the cluster by changing an answer."""
    store = MemoryStore(clique())
    store.get(POD_CLIQUES, "a", "c")["spec"]["replicas"] = 9
    store.list(POD_CLIQUES, lambda raw: raw)[0]["spec"]["replicas"] = 9
    assert store.read(POD_CLIQUES, "a", "c")["spec"]["replicas"] == 2
