"""Fields that only one of two operators knows, and that a template sets."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.hashing import layouts
from migrator.planning.guards.fields import differing_fields
from migrator.planning.model import SetState
from tests.support.builders import World, clique, refusals, warnings

PATH = "/spec/template/cliques/0/spec/podSpec"


def cliques(**fields: Any) -> list[dict[str, Any]]:
    return [{"name": "a", "spec": {"podSpec": fields}}]


@pytest.mark.parametrize(
    ("older", "newer", "fields", "found"),
    [
        ("1.33", "1.34", {"hostnameOverride": "x"}, ["/hostnameOverride"]),
        ("1.34", "1.33", {"hostnameOverride": "x"}, []),
        ("1.33", "1.34", {"hostnameOverride": None, "containers": None}, []),
        ("1.34", "1.35", {"hostnameOverride": "x"}, []),
        (
            "1.33",
            "1.34",
            {"containers": [{"name": "a"}, {"name": "b", "restartPolicyRules": []}]},
            ["/containers/1/restartPolicyRules"],
        ),
        (
            "1.34",
            "1.35",
            {
                "volumes": [
                    {"name": "v", "projected": {"sources": [{"podCertificate": {"userAnnotations": {"k": "v"}}}]}}
                ]
            },
            ["/volumes/0/projected/sources/0/podCertificate/userAnnotations"],
        ),
        ("1.34", "1.35", {"workloadRef": {"name": "w"}}, ["/workloadRef"]),
        ("1.34", "1.35", {"schedulingGroup": {"podGroupName": "x"}}, []),
    ],
)
def test_a_field_that_only_the_newer_minor_knows_is_named(
    older: str, newer: str, fields: dict[str, Any], found: list[str]
) -> None:
    """With its JSON Pointer, however deep it is, and only where it is set."""
    known_to = differing_fields(cliques(**fields), older, newer)
    assert [path for path, minor in known_to if minor == newer] == [f"{PATH}{path}" for path in found]


def test_fields_below_a_map_and_of_a_type_that_became_a_struct(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout may change a type that stands in a map, or replace one by a struct."""
    base = dict(layouts.load("1.34"))
    pod_spec = base["v1.PodSpec"]
    assert not isinstance(pod_spec, str)
    base["v1.PodSpec"] = (*pod_spec, ("Extra", "extra", "map[string]v1.Extra"), ("Size", "size", "v1.Size"))
    found = {
        "older": base | {"v1.Extra": (("A", "a", "string"),), "v1.Size": "int32"},
        "newer": base | {"v1.Extra": (("A", "a", "string"), ("B", "b", "string")), "v1.Size": (("N", "n", "int32"),)},
    }
    monkeypatch.setattr(layouts, "load", found.__getitem__)
    found_fields = differing_fields(cliques(extra={"k": {"b": "v"}}, size={"n": 1}), "older", "newer")
    assert list(found_fields) == [(f"{PATH}/extra/*/b", "newer")]


def test_a_field_that_only_the_target_knows_refuses() -> None:
    """A set field that the running operator ignores would change the pods for real: rewriting would hide it."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["workloadRef"] = {"name": "x", "podGroup": "y"}
    field = "/spec/template/cliques/1/spec/podSpec/workloadRef"
    assert refusals(world.findings()) == [("GM-125", "web", field)]


def test_a_field_that_only_the_source_knows_warns() -> None:
    """A set field that the next operator ignores changes no hash of its own, but new pods will lack it."""
    cliques = [clique("front")]
    cliques[0]["spec"]["podSpec"]["workloadRef"] = {"name": "x", "podGroup": "y"}
    decided = World().grow(cliques=cliques, groups={}, scheme="legacy-1.35").decide("auto", "legacy-1.36")
    field = "/spec/template/cliques/0/spec/podSpec/workloadRef"
    assert decided.state == SetState.MIGRATE
    assert warnings(decided.findings) == [("GM-134", "web", field)]
