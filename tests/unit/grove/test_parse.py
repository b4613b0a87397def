"""One raw object to what a decision needs; anything of the wrong shape is refused with object and path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator.errors import InputError
from migrator.grove import parse
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH, Ref
from tests.support.builders import EARLIER, LATER, World

Trim = Callable[[dict[str, Any]], Any]

TRIMS: dict[str, tuple[Trim, str]] = {
    "PodCliqueSet": (parse.pod_clique_set, "web"),
    "PodCliqueScalingGroup": (parse.scaling_group, "web-0-sg"),
    "PodClique": (parse.pod_clique, "web-0-front"),
    "Pod": (parse.pod, "web-0-front-0"),
    "PodGangMap": (parse.pod_gang_map, "web-0"),
    "PodGang": (parse.pod_gang, "web-0-1767323045000000000"),
}


def raw(kind: str) -> dict[str, Any]:
    return World().grow(maps=True).of(kind, TRIMS[kind][1])


@pytest.mark.parametrize("kind", TRIMS)
def test_every_kind_keeps_its_identity(kind: str) -> None:
    """Kind, namespace, name, uid and deletion are kept of each kind; no namespace is the default one."""
    make, name = TRIMS[kind]
    body = raw(kind)
    found = make(body)
    assert found.ref == Ref(kind, "default", name, body["metadata"]["uid"])
    assert not found.terminating
    del body["metadata"]["namespace"]
    body["metadata"]["deletionTimestamp"] = LATER
    assert make(body).ref.namespace == "default"
    assert make(body).terminating


@pytest.mark.parametrize("kind", TRIMS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"uid": uid}, "has no metadata.uid: it is a manifest, not a dump; dump with") for uid in (None, "", 5)),
        *(({"labels": labels}, "metadata.labels is not a map of strings") for labels in ("x", {"x": 1})),
    ],
)
def test_broken_metadata_is_refused(kind: str, change: dict[str, Any], message: str) -> None:
    """Without its uid an object cannot be patched safely, and labels are strings."""
    body = raw(kind)
    body["metadata"] |= change
    with pytest.raises(InputError, match=message):
        TRIMS[kind][0](body)


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodCliqueScalingGroup", "PodClique"])
def test_absent_parts_are_empty(kind: str) -> None:
    """Objects without spec and status have empty ones, and those without labels are of no replica."""
    body = raw(kind)
    body["spec"], body["metadata"]["labels"] = None, None
    del body["status"]
    found = TRIMS[kind][0](body)
    assert found.spec == {}
    assert found.status == {}
    assert not (found.labels if kind == "PodCliqueSet" else found.set_index)


@pytest.mark.parametrize(
    ("owners", "uid"),
    [
        ([{"uid": "other", "controller": False}, {"uid": "u", "controller": True}], "u"),
        *(([{"uid": "u", **more}], None) for more in ({}, {"controller": False}, {"controller": "true"})),
        ([{"uid": 5, "controller": True}], None),
        *((owners, None) for owners in (None, [], ["PodClique"], {"controller": True}, True)),
    ],
)
def test_only_a_controller_owns(owners: object, uid: str | None) -> None:
    """Any other owner says nothing of the tree that an object belongs to; a file may hold anything."""
    assert parse.controller_uid({"ownerReferences": owners}) == uid


@pytest.mark.parametrize(("generation", "expected"), [(3, 3), (None, 0), ("3", 0)])
def test_a_generation_is_a_number(generation: object, expected: int) -> None:
    """An absent generation counts as none."""
    body = raw("PodCliqueSet")
    body["metadata"]["generation"] = generation
    assert parse.pod_clique_set(body).generation == expected


@pytest.mark.parametrize("other", [{"subresource": "scale"}, {"fieldsV1": {"f:spec": {"f:replicas": {}}}}, {"time": 5}])
def test_an_edit_is_a_write_of_the_template(other: dict[str, Any]) -> None:
    """Neither a scale nor a write without a time is one."""
    body, edit = raw("PodCliqueSet"), {"manager": "me", "time": LATER, "fieldsV1": {"f:spec": {"f:template": {}}}}
    body["metadata"]["managedFields"] = [{**edit, **other}, edit, None]
    assert [manager for manager, _ in parse.pod_clique_set(body).edits] == ["me"]


def put(body: Any, path: str, value: object) -> None:
    """Write a value at a path, into the first entry of a list on the way."""
    *steps, last = path.split(".")
    for step in steps:
        body = body.setdefault(step, {})
        body = body[0] if isinstance(body, list) else body
    body[last] = value


@pytest.mark.parametrize(
    ("kind", "path", "shape", "value"),
    [
        ("PodCliqueSet", "spec", "an object", 5),
        ("PodCliqueSet", "status", "an object", "x"),
        ("PodCliqueSet", "spec.updateStrategy", "an object", "OnDelete"),
        ("PodCliqueSet", "spec.template", "an object", []),
        ("PodCliqueSet", "spec.template.cliques", "a list of objects", {}),
        ("PodCliqueSet", "spec.template.cliques", "a list of objects", ["front"]),
        ("PodCliqueSet", "spec.template.topologyConstraint", "an object", "rack"),
        ("PodCliqueSet", "spec.template.cliques.name", "a string", ["front"]),
        ("PodCliqueSet", "spec.template.cliques.labels", "an object", ["a"]),
        ("PodCliqueSet", "spec.template.cliques.annotations", "an object", "a"),
        ("PodCliqueSet", "spec.template.cliques.topologyConstraint", "an object", "rack"),
        ("PodCliqueSet", "spec.template.cliques.spec", "an object", 1),
        ("PodCliqueSet", "spec.template.cliques.spec.podSpec", "an object", 1),
        ("PodCliqueSet", "spec.template.cliques.spec.podSpec.containers", "a list of objects", [None]),
        ("PodCliqueSet", "spec.template.cliques.spec.podSpec.containers.resources", "an object", 1),
        ("PodCliqueSet", "spec.template.cliques.spec.podSpec.containers.resources.limits", "an object", ["cpu"]),
        ("PodCliqueSet", "spec.template.cliques.spec.podSpec.initContainers", "a list of objects", [None]),
        ("PodCliqueSet", "spec.template.podCliqueScalingGroups", "a list of objects", "sg"),
        ("PodCliqueSet", "spec.template.podCliqueScalingGroups.cliqueNames", "a list of strings", [1]),
        ("PodCliqueSet", "spec.template.podCliqueScalingGroups.topologyConstraint", "an object", "rack"),
        ("PodCliqueSet", "status.conditions", "a list of objects", {}),
        ("PodCliqueSet", "status.lastErrors", "a list of objects", "ERR"),
        ("PodCliqueSet", "status.updateProgress", "an object", []),
        ("PodCliqueSet", "status.updateProgress.currentlyUpdating", "an object or a list of objects", 1),
        ("PodCliqueSet", "status.rollingUpdateProgress", "an object", True),
        ("PodCliqueSet", "status.rollingUpdateProgress.currentlyUpdating", "an object or a list of objects", 1),
        ("PodCliqueScalingGroup", "spec.cliqueNames", "a list of strings", "work"),
        ("PodCliqueScalingGroup", "status.conditions", "a list of objects", 1),
        ("PodClique", "status", "an object", []),
        ("PodClique", "status.updateProgress", "an object", "x"),
        ("PodClique", "status.updateProgress.readyPodsSelectedToUpdate", "an object", "x"),
        ("PodClique", "status.rollingUpdateProgress.readyPodsSelectedToUpdate.completed", "a list of strings", 3),
        ("PodCliqueScalingGroup", "status.updateProgress.readyReplicaIndicesSelectedToUpdate", "an object", [1]),
        ("PodClique", "status.updateProgress.readyReplicaIndicesSelectedToUpdate", "an object", "x"),
        ("PodGangMap", "spec.entries", "a list of objects", {"epoch": "1"}),
        ("PodGangMap", "spec.entries.epoch", "a string", ["1"]),
    ],
)
def test_a_wrong_shape_is_refused_with_its_path(kind: str, path: str, shape: str, value: object) -> None:
    """A file may hold anything: what is looked into later is checked once, and named. Null is absent, as in Go."""
    make, name = TRIMS[kind]
    body = raw(kind)
    put(body, path, value)
    with pytest.raises(InputError, match=f"^{kind} default/{name}: {path} is not {shape}$"):
        make(body)
    put(body, path, None)
    assert make(body).ref.name == name


def test_a_pod_keeps_little() -> None:
    """Of a pod its hash and the owner that its label names are kept, and nothing is made up without labels."""
    body = raw("Pod")
    hash_of, owner = body["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH], "web-0-front"
    for expected in ((hash_of, owner), (None, None)):
        found = parse.pod(body)
        assert (found.template_hash, found.pod_clique_label) == expected
        body["metadata"].pop("labels", None)


@pytest.mark.parametrize(
    ("key", "is_named"),
    [
        ("scheduling.k8s.io/group-name", True),
        ("scheduling.volcano.sh/group-name", True),
        ("pod-group-name", True),
        ("example.com/group-name", False),
    ],
)
def test_a_pod_may_be_in_a_pod_group_of_another_scheduler(key: str, *, is_named: bool) -> None:
    """Each of three schedulers has an annotation of its own (Grove issue 837)."""
    body = raw("Pod")
    body["metadata"]["annotations"] = {key: "group"}
    assert parse.pod(body).in_other_gang is is_named


def test_a_pod_spec_of_a_clique_is_let_go() -> None:
    """A PodClique's own pod spec is never hashed, and large; the rest of its spec stays."""
    found = parse.pod_clique(raw("PodClique"))
    assert dict(found.spec) == {"replicas": 2, "roleName": "front"}
    assert found.created == EARLIER
