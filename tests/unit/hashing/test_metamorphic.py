"""How a hash must answer to a change of its input where golden vectors, which set each place, have no example."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

import pytest

from migrator.errors import DecodeError
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import TemplateHasher, dump_template, hash_pod_clique_set
from testbed.oracle import MINORS
from tests.golden.compare import UNKNOWABLE, template_hash
from tests.golden.vectors import vectors
from tests.support.layout_walk import REFUSED, Place, document, places


def _hash(template: Mapping[str, Any], scheme: str) -> str:
    return TemplateHasher(template).under(schemes.by_name(scheme))


def _places(minor: str) -> list[Place]:
    return [place for place in places(minor) if place.type.removeprefix("*") not in REFUSED]


def _shuffled(value: Any, rng: random.Random) -> Any:
    """Return equal JSON with the keys of every object in another order; fieldsV1 is bytes, not an object."""
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: value[key] if key == "fieldsV1" else _shuffled(value[key], rng) for key in keys}
    if isinstance(value, list):
        return [_shuffled(inner, rng) for inner in value]
    return value


@pytest.mark.parametrize("scheme", ["legacy-1.33", "canonical-1.36"])
def test_the_order_of_keys_never_matters(scheme: str) -> None:
    """Shuffling the keys of every object of a golden template leaves its hash as it is."""
    rng = random.Random(566)  # noqa: S311 - nothing here is a secret
    taken = [
        vector
        for vector in vectors.read(vectors.TEMPLATES)
        if vector.hashes[scheme] and template_hash(vector.input, scheme) != UNKNOWABLE
    ]
    for vector in taken:
        assert _hash(_shuffled(vector.input, rng), scheme) == vector.hashes[scheme], vector.id
    assert len(taken) > 2000


@pytest.mark.parametrize("minor", MINORS)
def test_null_is_absent(minor: str) -> None:
    """Null changes the hash nowhere."""
    for place in _places(minor):
        absent = _hash(document(place.path[:-1], {}), f"legacy-{minor}")
        assert _hash(document(place.path, None), f"legacy-{minor}") == absent, place


@pytest.mark.parametrize("minor", MINORS)
def test_fields_of_other_minors_are_ignored(minor: str) -> None:
    """A field that only other minors know is as good as absent, whatever its value."""
    known = set(places(minor))
    foreign = {place for other in MINORS for place in places(other)} - known
    assert foreign
    values: tuple[Any, ...] = ("anything", 5, [], {"x": 1})
    for place in foreign:
        if any(place.path[: len(outer.path)] == outer.path for outer in foreign - {place}):
            continue  # its parent is as foreign
        without = _hash(document(place.path[:-1], {}), f"legacy-{minor}")
        for value in values:
            assert _hash(document(place.path, value), f"legacy-{minor}") == without, place


def _set(startup: str | None, *names: str) -> dict[str, Any]:
    cliques = [{"name": name, "spec": {"podSpec": {"hostname": f"of-{name}"}}} for name in names]
    return {"spec": {"template": {"cliqueStartupType": startup, "cliques": cliques}}}


def _generation(pcs: Mapping[str, Any], scheme: str) -> str:
    return hash_pod_clique_set(pcs, schemes.by_name(scheme)).generation_hash


def test_nothing_beside_the_templates_is_hashed() -> None:
    """Replicas, roles, dependencies, scaling groups and metadata reach no hash."""
    plain = _set(None, "a", "b")
    dressed = copy.deepcopy(plain)
    dressed["metadata"] = {"name": "n", "labels": {"l": "1"}, "generation": 7}
    dressed["status"] = {"currentGenerationHash": "x"}
    dressed["spec"]["replicas"] = 9
    dressed["spec"]["template"]["podCliqueScalingGroups"] = [{"name": "g", "cliqueNames": ["a"]}]
    dressed["spec"]["template"]["cliques"][1]["spec"] |= {"replicas": 5, "roleName": "r", "startsAfter": ["a"]}
    for name in vectors.SCHEMES:
        scheme = schemes.by_name(name)
        assert hash_pod_clique_set(dressed, scheme) == hash_pod_clique_set(plain, scheme)


@pytest.mark.parametrize("minor", MINORS)
def test_what_depends_on_the_operators_process_is_refused(minor: str) -> None:
    """A time is printed with the operator's time zone, and fieldsV1 as its bytes: set they are refused, null is nil."""
    refused = [place for place in places(minor) if place.type.removeprefix("*") in REFUSED]
    assert {place.path[-1] for place in refused} == {"creationTimestamp", "deletionTimestamp", "time", "fieldsV1"}
    for place in refused:
        for value in ("2024-05-06T07:08:09Z", "2024-05-06T7:08:09Z", {"f:a": {}}, 5, ""):
            with pytest.raises(DecodeError, match=r"which (is|are) not known here") as error:
                _hash(document(place.path, value), f"legacy-{minor}")
            assert error.value.path.endswith(f".{place.path[-1]}")


def test_keys_that_go_cannot_tell_apart_are_refused() -> None:
    """Lone surrogates are all U+FFFD to Go, so two keys of them are one; one such key is hashed."""
    assert _hash({"labels": {"\ud800": "a"}}, "legacy-1.35") == _hash({"labels": {"\ufffd": "a"}}, "legacy-1.35")
    for other in ("\udc00", "\ufffd"):
        with pytest.raises(DecodeError, match="one key to Go"):
            _hash({"labels": {"\ud800": "a", other: "a"}}, "legacy-1.35")


def test_the_dump_is_what_the_facts_say() -> None:
    """The text of the worked example begins, ends and measures as Go printed it."""
    template = {
        "labels": {"b": "2", "a": "1"},
        "podSpec": {
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "1500m"}}, "env": []}],
            "priorityClassName": "ignored",
        },
    }
    text = dump_template(template, schemes.by_name("legacy-1.35"))
    assert text.startswith("(*v1.PodTemplateSpec){ObjectMeta:(v1.ObjectMeta){Name:(string) GenerateName:(string) ")
    assert text.endswith(" HostnameOverride:(*string)<nil> WorkloadRef:(*v1.WorkloadReference)<nil>}}")
    assert len(text.encode()) == 3027
    assert _hash(template, "legacy-1.35") == "585f88995f9f7c5c9b5f"
