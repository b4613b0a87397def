"""Where a tree holds hashes, in which order they are written, and the strings elsewhere that may be hashes."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain, groupby
from typing import Any

import pytest

from migrator.grove.places import HASH_FIELDS, RANKS, SET_GENERATION, HashField, HashSearch, stored_hashes
from migrator.planning.patches import RESOURCES
from tests.support.builders import LATER, World
from tests.support.paths import ROOT
from tests.support.tables import table


def fields(world: World) -> list[tuple[str, str, str]]:
    """Kind, object and field of every stored hash, in the order of writing."""
    (tree,) = world.snapshot().trees
    return [(item.ref.kind, item.ref.name, item.field) for item in stored_hashes(tree)]


def allowed(place: HashField) -> bool:
    """Whether the role and the first admission policy let the Job's account write a hash in that place."""
    templates = ROOT / "charts" / "grove-migrator" / "templates"
    policy, *_ = (templates / "policy.yaml").read_text(encoding="utf-8").split("\n---\n")
    rules = re.findall(
        r"resources: \[(.*)\]\n +verbs: \[patch\]", (templates / "rbac.yaml").read_text(encoding="utf-8")
    )
    plural = RESOURCES[place.kind].plural
    resource = f"{plural}/status" if place.subresource else plural
    patched = {name for found in rules for name in found.split(", ")}
    resources = patched & {name for found in re.findall(r"resources: \[(.*)\]", policy) for name in found.split(", ")}
    part, *steps = place.path
    if part == "metadata":
        return steps[0] == "labels" and resource in resources and f"'{plural}': '{steps[-1]}'" in policy
    named = all(f"'{step}'" in policy for step in steps if step != "*")
    return resource in resources and named and (part == "status" or plural == "podgangmaps")


def test_role_and_policy_allow_every_place() -> None:
    """Else the Job would be denied on a cluster."""
    assert [(place.kind, place.pointer) for place in HASH_FIELDS if not allowed(place)] == [], (
        "rbac.yaml must permit to patch this kind, and policy.yaml must name the field where the others are named"
    )


def test_a_set_is_written_from_the_bottom() -> None:
    """Pods first, the set last; one patch for each kind and subresource."""
    (tree,) = World().grow(maps=True).snapshot().trees
    order = [key for key, _ in groupby((item.ref.kind, item.place.subresource) for item in stored_hashes(tree))]
    assert order == [
        ("Pod", ""),
        ("PodClique", ""),
        ("PodClique", "status"),
        ("PodCliqueScalingGroup", "status"),
        ("PodGangMap", ""),
        ("PodGang", ""),
        ("PodCliqueSet", "status"),
    ]
    assert list(RANKS) == order
    assert HASH_FIELDS[-1] == SET_GENERATION


@pytest.mark.parametrize("value", [None, "", 5])
def test_an_absent_hash_is_no_stored_hash(value: object) -> None:
    """Absent, null and empty values, and values that are not text, hold no hash and are left as they are."""
    world = World().grow(pods=1, maps=True)
    for kind, name, field in fields(world):
        world.put(kind, name, field, "" if "/metadata/" in field else value)
    assert fields(world) == []


def test_what_is_on_its_way_out_holds_no_hash() -> None:
    """Terminating pods and PodGangs are nobody's concern."""
    world = World().grow(pods=1, maps=True)
    names = ("web-0-front-0", "web-0-1767323045000000000")
    for kind, name in zip(("Pod", "PodGang"), names, strict=True):
        world.of(kind, name)["metadata"]["deletionTimestamp"] = LATER
    assert not {name for _, name, _ in fields(world)} & set(names)


def test_an_entry_is_identified_by_its_epoch() -> None:
    """Entries are addressed by position, so a patch must test what stands there; alpha.10-rc1 has nothing to test."""
    world = World().grow(maps=True)
    del world.of("PodGangMap", "web-0")["spec"]["entries"][1]["epoch"]
    (tree,) = world.snapshot().trees
    entries = [item for item in stored_hashes(tree) if item.ref.kind == "PodGangMap"]
    assert [item.identity for item in entries] == [("/spec/entries/0/epoch", "1767323045000000000"), None]


# --- every string of Grove's objects is looked at ---------------------------------------------------------------------


VALUE = "9d897d788d8574bcd49"


def seen(raw: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Pointer, value and set of everything that is reported of one object."""
    sweep = HashSearch()
    sweep.scan(raw)
    found = chain.from_iterable(sweep.possible_hashes.values())
    return [(one.field, one.value, one.part_of) for one in found]


def test_an_object_without_a_controller_has_no_known_place() -> None:
    """It is part of no tree, so nothing would migrate its hashes."""
    clique = World().grow().of("PodClique", "web-0-front")
    assert seen(clique) == []
    del clique["metadata"]["ownerReferences"]
    assert {field for field, _, _ in seen(clique)} >= {"/metadata/labels/grove.io~1pod-template-hash"}


@pytest.mark.parametrize("place", HASH_FIELDS, ids=lambda place: f"{place.kind} {place.pointer}")
def test_a_hash_in_any_place_is_stored_and_not_reported(place: HashField) -> None:
    """Wherever a row of the table leads, trimming keeps the value, and only there it is no possible hash."""
    world = World().grow(maps=True)
    [*_, item] = world.all(place.kind)
    node, at = item, place.pointer.replace("*", "0")
    for step in place.path[:-1]:
        node = node[0] if step == "*" else node.setdefault(step, {})
    node[place.path[-1]] = VALUE
    found = world.values().get((place.kind, item["metadata"]["name"], at))
    assert found == VALUE, "grove/parse.py does not keep it, or places.py does not read it there"
    assert seen(item) == []


@pytest.mark.parametrize(
    ("kind", "path", "pointer"),
    [
        ("PodClique", ("metadata", "annotations", "grove.io/hash"), "/metadata/annotations/grove.io~1hash"),
        ("PodClique", ("spec", "hash"), "/spec/hash"),
        ("PodCliqueSet", ("status", "history", 0, "hash"), "/status/history/0/hash"),
        ("PodCliqueScalingGroup", ("status", "hashes", 1), "/status/hashes/1"),
        ("PodGangMap", ("spec", "entries", 0, "other"), "/spec/entries/0/other"),
        ("PodGang", ("spec", "podgroups", 0, "templateHash"), "/spec/podgroups/0/templateHash"),
        ("Pod", ("metadata", "annotations", "a~b"), "/metadata/annotations/a~0b"),
        ("ClusterTopologyBinding", ("spec", "hash"), "/spec/hash"),
    ],
)
def test_a_hash_anywhere_else_is_reported(kind: str, path: tuple[str | int, ...], pointer: str) -> None:
    """Whatever kind and however deep, with its JSON Pointer and the set that its labels name."""
    raw: dict[str, Any] = {"kind": kind, "metadata": {"name": "x", "labels": {"app.kubernetes.io/part-of": "web"}}}
    node: Any = VALUE
    for step in reversed(path[1:]):
        node = [*["other"] * step, node] if isinstance(step, int) else {step: node}
    raw[str(path[0])] = {**raw.get(str(path[0]), {}), **node}
    assert seen(raw) == [(pointer, VALUE, "web")]


@pytest.mark.parametrize("name", [f"web-0-{VALUE}-0", f"web-{VALUE}", f"web-0-{VALUE}-sg-0"])
@pytest.mark.parametrize(
    ("meta", "field"),
    [
        (lambda name: {"name": name}, "/metadata/name"),
        (lambda name: {"name": "x", "labels": {"a/b": name}}, "/metadata/labels/a~1b"),
    ],
    ids=["name", "label"],
)
def test_a_hash_in_a_name_or_a_label_is_reported(name: str, meta: Callable[[str], dict[str, Any]], field: str) -> None:
    """A name that holds the hash would have to change with it, and names cannot."""
    assert seen({"kind": "PodGang", "metadata": meta(name)}) == [(field, VALUE, None)]


@pytest.mark.parametrize("labels", [["x"], {"app.kubernetes.io/part-of": ["web"]}])
def test_labels_of_a_wrong_shape_name_no_set(labels: object) -> None:
    """A file may hold anything; an API server would not have stored them."""
    raw = {"kind": "ClusterTopology", "metadata": {"name": "x", "labels": labels}, "spec": {"hash": VALUE}}
    assert seen(raw) == [("/spec/hash", VALUE, None)]


SHAPE = "What is too short, too long, or not in the ten digits of a hash, is not a hash."


@table(
    "kind parts",
    *(
        (SHAPE, ("PodClique", {"metadata": {"name": "x"}, "spec": {"text": text}}))
        for text in ("", f"x-{VALUE}", "web", "4445", VALUE + "x", "a" + VALUE[1:], VALUE * 2, "v0.1.0-alpha.9")
    ),
    (
        "Pods are read as metadata, and their specs are the user's.",
        ("Pod", {"metadata": {"name": "x"}, "spec": {"hostname": VALUE}}),
    ),
    ("A spec that is no object.", ("PodClique", {"metadata": {"name": "x"}, "spec": 5})),
    (
        "ManagedFields names fields, it holds no values.",
        ("Pod", {"metadata": {"name": "x", "managedFields": [{"manager": VALUE}]}}),
    ),
)
def test_other_strings_are_not(kind: str, parts: dict[str, Any]) -> None:
    """Nothing is reported that is not a hash, and nothing where no hash can be."""
    assert seen({"kind": kind, **parts}) == []


def test_a_hash_is_found_at_any_depth() -> None:
    """The parameters of a resource claim may hold anything, nested as deeply as the API server reads it."""
    parameters: dict[str, Any] = {"x": VALUE}
    for _ in range(5000):
        parameters = {"x": parameters}
    raw = {"kind": "PodCliqueSet", "metadata": {"name": "x"}, "spec": parameters}
    assert [value for _, value, _ in seen(raw)] == [VALUE]


def test_an_object_that_is_read_twice_is_reported_once() -> None:
    """A list that begins again shows objects a second time."""
    sweep = HashSearch()
    for _ in range(2):
        sweep.scan({"kind": "PodClique", "metadata": {"name": "x"}, "spec": {"hash": VALUE}})
    assert [len(found) for found in sweep.possible_hashes.values()] == [1]
