"""How a hash must answer to its input where golden vectors, which set each place, have no example."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from migrator import exact_json
from migrator.errors import DecodeError
from migrator.hashing import podcliqueset, quantity, schemes, spew
from migrator.hashing.podcliqueset import SetHasher, TemplateHasher
from testbed.oracle import MINORS
from testbed.workloads import standalone
from tests.golden.compare import UNKNOWABLE, set_hashes
from tests.golden.vectors import vectors
from tests.support.layout_walk import REFUSED, Place, document, fields, places, underlying


def _hash(template: Mapping[str, Any], scheme: str) -> str:
    return TemplateHasher(template).under(schemes.by_name(scheme))


def test_null_is_absent() -> None:
    """In every field of a struct at once; one that is the same in several places or minors is tried in one of them."""
    tried = dict[tuple[str, ...], tuple[Place, str]]()
    for minor in MINORS:
        for place in places(minor):
            struct = underlying(minor, place.type.removeprefix("*")).removeprefix("[]")
            if names := [name for name, kind in fields(minor, struct) if kind.removeprefix("*") not in REFUSED]:
                tried[struct, *names] = place, minor
    for (_, *names), (place, minor) in tried.items():
        path = (*place.path, 0) if underlying(minor, place.type).startswith("[]") else place.path
        absent = _hash(document(path, {}), f"legacy-{minor}")
        assert _hash(document(path, dict.fromkeys(names)), f"legacy-{minor}") == absent, place
    assert len(tried) > 100


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


def test_what_is_nested_very_deep_is_ignored_if_no_layout_knows_it() -> None:
    """A field that no layout knows may be nested deeper than Python recurses."""
    scheme = schemes.by_name("legacy-1.35")
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    hashes = {TemplateHasher({"podSpec": spec}).under(scheme) for spec in ({"unknown": deep}, {})}
    assert len(hashes) == 1


def test_schemes_share_work_and_nothing_else() -> None:
    """One hasher gives under every scheme, in any order and twice, what a new one gives."""
    known = [vector for vector in vectors.read(vectors.POD_CLIQUE_SETS) if None not in vector.hashes.values()]
    sets = [vector for vector in known[::24] if set_hashes(vector.input, vectors.SCHEMES[0]) != UNKNOWABLE]
    rng = random.Random(3)  # noqa: S311 - nothing here is a secret
    for vector in sets:
        hasher = SetHasher(vector.input)
        for name in [*rng.sample(vectors.SCHEMES, len(vectors.SCHEMES)), vectors.SCHEMES[0]]:
            found = hasher.under(schemes.by_name(name))
            assert found == podcliqueset.SetHasher(vector.input).under(schemes.by_name(name)), vector.id
            assert found.generation == vector.hashes[name]["generationHash"], vector.id
    assert len(sets) > 4


# --- what Go's decoder refuses is refused with its path; what it reads in its own way is read so ----------------------


LEGACY = schemes.by_name("legacy-1.34")


def with_template(**fields: Any) -> dict[str, Any]:
    pcs = standalone()
    pcs["spec"]["template"] |= fields
    return pcs


@pytest.mark.parametrize(
    ("pcs", "path"),
    [
        ({"spec": []}, "spec"),
        ({"spec": {"template": "x"}}, "spec.template"),
        (with_template(cliques={}), "spec.template.cliques"),
        (with_template(cliques=[None]), "spec.template.cliques[0]"),
        (with_template(cliques=["a"]), "spec.template.cliques[0]"),
        (with_template(cliques=[{"name": 1}]), "spec.template.cliques[0].name"),
        (with_template(cliques=[{"name": "a", "spec": 1}]), "spec.template.cliques[0].spec"),
        *(({"spec": {"replicas": count}}, "spec.replicas") for count in ("one", 1.5, True)),
        *(
            (with_template(cliques=[{"spec": {count: 1 << 31}}]), f"spec.template.cliques[0].spec.{count}")
            for count in ("replicas", "minAvailable")
        ),
        (
            with_template(cliques=[{"spec": {"podSpec": {"terminationGracePeriodSeconds": 1 << 63}}}]),
            "spec.template.cliques[0].spec.podSpec.terminationGracePeriodSeconds",
        ),
        (
            with_template(cliques=[{"spec": {"podSpec": {"overhead": {"cpu": True}}}}]),
            "spec.template.cliques[0].spec.podSpec.overhead.cpu",
        ),
        (with_template(cliques=[{"labels": []}]), "spec.template.cliques[0].labels"),
        (with_template(cliqueStartupType=1), "spec.template.cliqueStartupType"),
        (with_template(priorityClassName=[]), "spec.template.priorityClassName"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_path(pcs: dict[str, Any], path: str) -> None:
    """Above the pod template too, where nothing is hashed by the layout."""
    with pytest.raises(DecodeError) as refused:
        SetHasher(pcs).under(LEGACY)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        ("e-99", "no quantity"),
        ("1kk", "its suffix is unknown"),
        ("", "must not be empty"),
        ("1" * 4001, "more than 4000 characters"),
        ("1" * 30 + "e200000", "more than a hundred thousand digits"),
    ],
)
def test_a_quantity_that_cannot_be_held_is_refused(cpu: str, message: str) -> None:
    """One without a digit or a known suffix, and more digits than any resource has."""
    with pytest.raises(DecodeError, match=message):
        quantity.parse(cpu)


def test_a_quantity_of_four_thousand_characters_is_read() -> None:
    """The longest that is taken is read to its last digit: 1 and 3999 zeros."""
    assert quantity.parse("1" + 3999 * "0").unscaled == 10**4008


@pytest.mark.parametrize("text", ["\u00a02Gi", "2Gi\u2003", "\t2Gi", "2Gi\n", "\u30001"])
def test_white_space_around_a_quantity_is_refused_where_its_spelling_decides(text: str) -> None:
    """Go trims such a character and refuses its escape; which of them stood in the JSON is not known any more."""
    with pytest.raises(DecodeError, match="white space around it"):
        quantity.parse(text)
    assert quantity.parse(" 2Gi ") == quantity.parse("2Gi")


def test_only_json_is_read_and_written() -> None:
    """NaN is not JSON, and a value of Python's own has no JSON text."""
    with pytest.raises(ValueError, match="NaN is not JSON"):
        exact_json.loads("[NaN]")
    with pytest.raises(TypeError, match="set is not a JSON value"):
        exact_json.dumps({"a": {1}})


def test_a_type_that_a_layout_does_not_have_is_named() -> None:
    """A new layout with a kind of type that nothing prints must not get other hashes."""
    with pytest.raises(TypeError, match="the layout has no type uint8"):
        spew.Types({}).printer("uint8")
