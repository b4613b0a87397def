"""Fields that only one of two operators knows, and that a template sets."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.hashing.layouts import minors
from migrator.planning.new_fields import newer_fields

PATH = "/spec/template/cliques/0/spec/podSpec"


def spec(**fields: Any) -> dict[str, Any]:
    """A set with one clique."""
    return {"template": {"cliques": [{"name": "a", "spec": {"podSpec": fields}}]}}


@pytest.mark.parametrize(
    ("older", "newer", "fields", "found"),
    [
        ("1.33", "1.34", {"hostnameOverride": "x"}, ["/hostnameOverride"]),
        ("1.34", "1.33", {"hostnameOverride": "x"}, []),
        ("1.33", "1.34", {"hostnameOverride": None}, []),
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
    ],
)
def test_a_field_that_only_the_newer_minor_knows_is_named(
    older: str, newer: str, fields: dict[str, Any], found: list[str]
) -> None:
    """With its JSON Pointer, however deep it is, and only where it is set."""
    assert newer_fields(spec(**fields), older, newer) == tuple(f"{PATH}{path}" for path in found)


@pytest.mark.parametrize("minor", minors())
def test_a_minor_has_nothing_that_it_does_not_have(minor: str) -> None:
    """A minor beside itself adds nothing."""
    assert newer_fields(spec(hostnameOverride="x", containers=[{"name": "a"}]), minor, minor) == ()
