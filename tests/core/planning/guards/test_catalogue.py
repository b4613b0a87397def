"""The catalogue of codes, and the page that explains each of them."""

from __future__ import annotations

import re

import pytest

from migrator.planning import guards
from migrator.planning.advisories import HAZARDS
from migrator.planning.guards.base import warn
from tests.support.paths import ROOT


def sections() -> dict[str, str]:
    """The catalogue's text for each code."""
    text = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (GM-\d{3})\b", text, flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a code has two anchors"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_anchor_of_its_own() -> None:
    """Each guard and each hazard is explained once, and nothing else is."""
    assert set(sections()) == set(guards.CATALOGUE) | set(HAZARDS)


@pytest.mark.parametrize("code", guards.CATALOGUE)
def test_the_catalogue_says_why_and_what_may_be_overridden(code: str) -> None:
    """Each section says how to see it, what to do, why it refuses, and whether --allow accepts the code, truthfully."""
    text, guard = sections()[code], guards.CATALOGUE[code]
    assert "**Judged:**" in text
    assert "kubectl" in text
    assert ("**Override:** `--allow" in text) is guard.overridable
    assert ("**Override:** no" in text) is not guard.overridable
    assert guard.title in text


def test_an_unknown_code_is_nobodys() -> None:
    """A finding cannot have a code that does not exist."""
    with pytest.raises(KeyError):
        warn("GM-999", None, None, "")
