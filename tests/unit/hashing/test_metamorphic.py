"""How a hash must answer to a change of its input, whatever the hashes are; needs no Go."""

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
from tests.support.layout_walk import REFUSED, Place, document, filled, places, underlying

# What pull request 566 sorts. Everything else that is a list must keep its order.
IN_EVERY_CONTAINER = ("ports", "volumeMounts", "volumeDevices", "resources.claims")
SORTED = {
    *(
        f"podSpec.{name}"
        for name in (
            "containers",
            "ephemeralContainers",
            "volumes",
            "imagePullSecrets",
            "hostAliases",
            "topologySpreadConstraints",
            "resourceClaims",
            "schedulingGates",
        )
    ),
    *(
        f"podSpec.{containers}.0.{name}"
        for containers in ("containers", "initContainers", "ephemeralContainers")
        for name in IN_EVERY_CONTAINER
    ),
}
# The set's priority class always takes its place.
OVERRIDDEN = "podSpec.priorityClassName"


def _hash(template: Mapping[str, Any], scheme: str) -> str:
    return TemplateHasher(template).under(schemes.by_name(scheme))


def _places(minor: str) -> list[Place]:
    return [place for place in places(minor) if place.type.removeprefix("*") not in REFUSED]


def _lists(minor: str) -> list[Place]:
    return [place for place in _places(minor) if underlying(minor, place.type).startswith("[]")]


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
def test_reversing_a_list_always_flips_legacy(minor: str) -> None:
    """The legacy hash tells every list of a template from its reverse."""
    for place in _lists(minor):
        first, second = _two_orders(minor, place)
        assert _hash(first, f"legacy-{minor}") != _hash(second, f"legacy-{minor}"), place


@pytest.mark.parametrize("minor", MINORS)
def test_reversing_a_list_flips_canonical_unless_it_is_sorted(minor: str) -> None:
    """The canonical hash ignores the order of exactly the lists that pull request 566 sorts."""
    equal = set()
    for place in _lists(minor):
        first, second = _two_orders(minor, place)
        if _hash(first, f"canonical-{minor}") == _hash(second, f"canonical-{minor}"):
            equal.add(str(place))
    assert equal == SORTED


def _two_orders(minor: str, place: Place) -> tuple[Any, Any]:
    element = underlying(minor, place.type)[2:]
    one, two = filled(minor, element, 1), filled(minor, element, 2)
    return document(place.path, [one, two]), document(place.path, [two, one])


@pytest.mark.parametrize("minor", MINORS)
def test_every_field_of_the_layout_flips_the_hash_when_set(minor: str) -> None:
    """Setting any field that JSON can reach changes both hashes, except the pod's own priority class."""
    silent = set()
    for place in _places(minor):
        unset, with_value = document(place.path[:-1], {}), document(place.path, filled(minor, place.type))
        for algorithm in ("legacy", "canonical"):
            if _hash(unset, f"{algorithm}-{minor}") == _hash(with_value, f"{algorithm}-{minor}"):
                silent.add(str(place))
    assert silent == {OVERRIDDEN}


@pytest.mark.parametrize("minor", MINORS)
def test_every_quantity_tells_its_spellings_apart(minor: str) -> None:
    """1, 1000m and 1.0 are one amount and three hashes, wherever a quantity stands."""
    for place in _places(minor):
        bare = underlying(minor, place.type.removeprefix("*"))
        if bare == "resource.Quantity":
            spelt: list[Any] = ["1", "1000m", "1.0"]
        elif bare.endswith("]resource.Quantity"):
            spelt = [{"cpu": "1"}, {"cpu": "1000m"}, {"cpu": "1.0"}]
        else:
            continue
        hashes = {_hash(document(place.path, value), f"legacy-{minor}") for value in spelt}
        assert len(hashes) == len(spelt), place


@pytest.mark.parametrize("minor", MINORS)
def test_empty_is_not_absent_but_null_is(minor: str) -> None:
    """An empty list, map or pointed-to struct changes the hash; null nowhere does."""
    for place in _places(minor):
        absent = _hash(document(place.path[:-1], {}), f"legacy-{minor}")
        assert _hash(document(place.path, None), f"legacy-{minor}") == absent, place
        basic = underlying(minor, place.type.removeprefix("*"))
        if basic.startswith("[]"):
            assert _hash(document(place.path, []), f"legacy-{minor}") != absent, place
        elif basic.startswith("map[") or (
            place.type.startswith("*v1.") and isinstance(filled(minor, place.type), dict)
        ):
            assert _hash(document(place.path, {}), f"legacy-{minor}") != absent, place


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
