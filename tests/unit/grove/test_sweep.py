"""Every string of Grove's objects is looked at, and the known places are not reported."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.grove.hash_fields import HASH_FIELDS, HashSearch, stored_hashes
from tests.support.builders import World
from tests.support.tables import table

VALUE = "9d897d788d8574bcd49"


def seen(raw: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    """Pointer, value and set of everything that is reported of one object."""
    sweep = HashSearch()
    sweep.scan(raw)
    return [(found.field, found.value, found.part_of) for found in sweep.possible_hashes]


def test_no_known_place_is_reported() -> None:
    """What an operator stores at rest is in known places only, and every known place is used."""
    world = World().grow(maps=True)
    for kind in ("PodClique", "PodCliqueScalingGroup"):
        for item in world.all(kind):
            item["status"]["rollingUpdateProgress"] = item["status"]["updateProgress"]
    assert {item.place for tree in world.snapshot().trees for item in stored_hashes(tree)} == set(HASH_FIELDS)
    assert [found for raw in world.objects for found in seen(raw)] == []


def test_each_stored_hash_is_what_stands_in_its_field() -> None:
    """A value that no other field has is read where it was put, in entries of a list too."""
    world = World().grow(maps=True, replicas=2)
    expected = {place: f"4{number}" for number, place in enumerate(world.values())}
    for (kind, name, field), value in expected.items():
        world.put(kind, name, field, value)
    assert world.values() == expected


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


SHAPE = "What is too short, too long, or not in the ten digits of a hash, is not a hash."


@table(
    "kind parts",
    *(
        (SHAPE, ("PodClique", {"metadata": {"name": "x"}, "spec": {"text": text}}))
        for text in ("", "web", "4445", VALUE + "x", "a" + VALUE[1:], VALUE * 2, "v0.1.0-alpha.9")
    ),
    (
        "Pods are read as metadata, and their specs are the user's.",
        ("Pod", {"metadata": {"name": "x"}, "spec": {"hostname": VALUE}}),
    ),
    (
        "ManagedFields names fields, it holds no values.",
        ("Pod", {"metadata": {"name": "x", "managedFields": [{"manager": VALUE}]}}),
    ),
)
def test_other_strings_are_not(kind: str, parts: dict[str, Any]) -> None:
    """Nothing is reported that is not a hash, and nothing where no hash can be."""
    assert seen({"kind": kind, **parts}) == []


def test_a_string_that_is_no_hash_does_not_stand_in_for_one() -> None:
    """A known place without a hash, and a hash in an unknown one: the number of strings is right, the place is not."""
    label = {"grove.io/pod-template-hash": "x" * 15}
    raw = {"kind": "Pod", "metadata": {"name": "x", "labels": label, "annotations": {"hash": VALUE}}}
    assert seen(raw) == [("/metadata/annotations/hash", VALUE, None)]


def test_an_object_that_is_read_twice_is_reported_once() -> None:
    """A list that begins again shows objects a second time."""
    sweep = HashSearch()
    for _ in range(2):
        sweep.scan({"kind": "PodClique", "metadata": {"name": "x"}, "spec": {"hash": VALUE}})
    assert len(sweep.possible_hashes) == 1
