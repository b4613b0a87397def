"""What Go's decoder refuses in a PodCliqueSet is refused with its path; what it reads in its own way is read so."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.errors import DecodeError
from migrator.hashing import layouts, quantity, schemes
from migrator.hashing.podcliqueset import TemplateHasher, hash_pod_clique_set
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
        ({"spec": {"replicas": "one"}}, "spec.replicas"),
        (with_template(cliques=[{"spec": {"minAvailable": 1 << 31}}]), "spec.template.cliques[0].spec.minAvailable"),
        (with_template(cliqueStartupType=1), "spec.template.cliqueStartupType"),
        (with_template(priorityClassName=[]), "spec.template.priorityClassName"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_its_path(pcs: dict[str, Any], path: str) -> None:
    """Above the pod template too, where nothing is hashed by the layout."""
    with pytest.raises(DecodeError) as refused:
        hash_pod_clique_set(pcs, LEGACY)
    assert refused.value.path == path


def test_a_set_without_cliques_has_the_hash_of_nothing() -> None:
    """Absent, null and empty lists of cliques give the sum of no bytes."""
    without = with_template()
    del without["spec"]["template"]["cliques"]
    found = [
        hash_pod_clique_set(pcs, LEGACY) for pcs in (without, with_template(cliques=None), with_template(cliques=[]))
    ]
    assert found == [hash_pod_clique_set({}, LEGACY)] * 3


@pytest.mark.parametrize(
    ("pod_spec", "message"),
    [
        ({"terminationGracePeriodSeconds": 1 << 63}, "does not fit into int64"),
        ({"containers": [{"resources": {"limits": {"cpu": "4kk"}}}]}, "suffix is unknown"),
        ({"containers": [{"resources": {"limits": {"cpu": "e-99"}}}]}, "no quantity"),
        ({"containers": [{"resources": {"limits": {"cpu": "4e99999999999999999999"}}}]}, "suffix is unknown"),
        ({"containers": [{"resources": {"limits": {"cpu": "1" * 4001}}}]}, "more than 4000 characters"),
    ],
)
def test_a_number_that_go_cannot_hold_is_refused(pod_spec: dict[str, Any], message: str) -> None:
    """An integer beyond its type, a quantity with a suffix that Kubernetes does not know, and one without a digit."""
    with pytest.raises(DecodeError, match=message):
        TemplateHasher({"podSpec": pod_spec}).under(LEGACY)


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
