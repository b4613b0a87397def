"""What the options mean: schemes by name, and which overrides are accepted."""

from __future__ import annotations

import pytest

from migrator.errors import UnknownScheme, UsageError
from migrator.hashing import schemes
from migrator.planning.options import PlanOptions, direction
from tests.support.builders import World


@pytest.mark.parametrize(
    ("source", "target", "candidates", "targets"),
    [
        ("auto", "legacy-1.35", [s.name for s in schemes.released_schemes()], ["legacy-1.35"] * 5),
        ("v0.1.0-alpha.9", "0.1.0-alpha.11", ["legacy-1.34"], ["legacy-1.35"]),
        ("legacy-1.33", "canonical", ["legacy-1.33"], ["canonical-1.33"]),
        (
            "auto",
            "canonical",
            [s.name for s in schemes.released_schemes()],
            [f"canonical-{s.minor}" for s in schemes.released_schemes()],
        ),
    ],
)
def test_names_become_schemes(source: str, target: str, candidates: list[str], targets: list[str]) -> None:
    """Releases and schemes by name, ``auto`` for what some build has spoken, ``canonical`` over the source's layout."""
    way = direction(PlanOptions(source=source, target=target))
    assert [scheme.name for scheme in way.candidates] == candidates
    assert [way.target_of(scheme).name for scheme in way.candidates] == targets


@pytest.mark.parametrize(
    ("source", "target", "error", "message"),
    [
        ("legacy-1.99", "legacy-1.35", UnknownScheme, "not a known release or scheme"),
        ("auto", "v9.9.9", UnknownScheme, "v9.9.9 is newer than"),
        ("canonical", "legacy-1.35", UsageError, "such as canonical-1.34"),
        ("v0.1.0-alpha.10-rc1", "legacy-1.35", UsageError, "puts the hash into object names"),
        ("auto", "v0.1.0-alpha.10-rc1", UsageError, "puts the hash into object names"),
    ],
)
def test_names_that_stand_for_nothing_are_refused(
    source: str, target: str, error: type[UsageError], message: str
) -> None:
    """What is not in the table is never guessed, and alpha.10-rc1 cannot be migrated."""
    with pytest.raises(error, match=message):
        direction(PlanOptions(source=source, target=target))


def test_a_bad_override_is_refused_before_anything_is_looked_at() -> None:
    """--allow is checked even where there is nothing to migrate."""
    with pytest.raises(UsageError, match="GM-120"):
        World().plan(allow=["GM-120"])
