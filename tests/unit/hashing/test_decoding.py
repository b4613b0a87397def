"""What Go's decoder refuses in a PodCliqueSet is refused with its path; what it reads in its own way is read so."""

from __future__ import annotations

from typing import Any

import pytest

from migrator import exact_json
from migrator.errors import DecodeError
from migrator.hashing import layouts, quantity, schemes, spew
from migrator.hashing.fnv import Piece, plain
from migrator.hashing.podcliqueset import hash_pod_clique_set
from testbed.workloads import standalone

LEGACY = schemes.by_name("legacy-1.34")


def with_template(**fields: Any) -> dict[str, Any]:
    """A PodCliqueSet with these fields in its template."""
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
        (with_template(cliques=[{"spec": {"minAvailable": 1 << 31}}]), "spec.template.cliques[0].spec.minAvailable"),
        (
            with_template(cliques=[{"spec": {"podSpec": {"terminationGracePeriodSeconds": 1 << 63}}}]),
            "spec.template.cliques[0].spec.podSpec.terminationGracePeriodSeconds",
        ),
        (with_template(cliqueStartupType=1), "spec.template.cliqueStartupType"),
        (with_template(priorityClassName=[]), "spec.template.priorityClassName"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_path(pcs: dict[str, Any], path: str) -> None:
    """Above the pod template too, where nothing is hashed by the layout."""
    with pytest.raises(DecodeError) as refused:
        hash_pod_clique_set(pcs, LEGACY)
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("cpu", "message"),
    [
        *((text, "suffix is unknown") for text in ("4kk", "4e99999999999999999999")),
        ("e-99", "no quantity"),
        ("1" * 4001, "more than 4000 characters"),
        ("1" * 30 + "e200000", "more than a hundred thousand digits"),
    ],
)
def test_a_quantity_that_go_cannot_hold_is_refused(cpu: str, message: str) -> None:
    """One with a suffix that Kubernetes does not know, one without a digit, and more digits than any resource has."""
    with pytest.raises(DecodeError, match=message):
        quantity.parse(cpu)


def test_a_quantity_of_four_thousand_characters_is_read() -> None:
    """The longest that is taken is read to its last digit: 1 and 3999 zeros."""
    assert quantity.parse("1" + 3999 * "0").unscaled == 10**4008


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"release": "x", "algorithm": "legacy", "minor": "1.2"}', "line 1: there is no scheme legacy-1.2"),
        ('{"release": "x", "minor": "1.34"}', "line 1: 'algorithm'"),
    ],
)
def test_a_wrong_line_of_the_release_table_is_named(line: str, message: str) -> None:
    """Whoever adds a release sees which line does not read, and why."""
    with pytest.raises(ValueError, match=message):
        schemes.parse_releases(line)


def test_a_layout_under_another_digest_is_refused() -> None:
    """A record whose layout was changed by hand is not adopted: its name is the digest of what it holds."""
    name = f"legacy-{layouts.digest_name({})}"
    with pytest.raises(ValueError, match="has another digest"):
        schemes.adopt_layouts({name + "0": {}})


@pytest.mark.parametrize("text", ["\u00a02Gi", "2Gi\u2003", "\t2Gi", "2Gi\n", "\u30001"])
def test_white_space_around_a_quantity_is_refused_where_its_spelling_decides(text: str) -> None:
    """Go trims such a character and refuses its escape; which of them stood in the JSON is not known any more."""
    with pytest.raises(DecodeError, match="white space around it"):
        quantity.parse(text)
    assert quantity.parse(" 2Gi ") == quantity.parse("2Gi")


def test_a_struct_of_a_layout_may_hold_what_json_never_fills() -> None:
    """Unexported fields print their zero; a type that no layout knows is an error that names it."""
    layout = {
        "v1.Odd": (("hidden", None, "int32"), ("Shown", "shown", "string")),
        "v1.Bad": (("Field", "field", "v1.None"),),
    }
    types = spew.Types(layout)
    out: list[Piece] = []
    types.printer("v1.Odd").emit({"shown": "x"}, out)
    assert plain(out) == "{hidden:(int32)0 Shown:(string)x}"
    with pytest.raises(TypeError, match=r"the layout has no type v1\.None"):
        types.printer("v1.Bad")


def test_only_json_is_read_and_written() -> None:
    """NaN is not JSON, and a value of Python's own has no JSON text."""
    with pytest.raises(ValueError, match="NaN is not JSON"):
        exact_json.loads("[NaN]")
    with pytest.raises(TypeError, match="set is not a JSON value"):
        exact_json.dumps({"a": {1}})
