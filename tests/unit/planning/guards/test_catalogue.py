"""The catalogue of codes, and the page that explains each of them."""

from __future__ import annotations

import re

import pytest

from migrator.planning import guards
from migrator.planning.guards import report
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.planning.model import Severity
from tests.support.paths import ROOT


def sections() -> dict[str, str]:
    """The catalogue's text for each code."""
    text = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (GM-\d{3})\b", text, flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a code has two anchors"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_anchor_of_its_own() -> None:
    """Each guard and each known issue is explained once, and nothing else is."""
    assert set(sections()) == set(guards.CATALOGUE) | set(ISSUE_TITLES)


def test_every_guard_has_a_name_of_its_own() -> None:
    """``--allow`` takes it."""
    names = {guard.name for guard in guards.CATALOGUE.values()}
    assert len(names) == len(guards.CATALOGUE) == 22
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)


@pytest.mark.parametrize("code", guards.CATALOGUE)
def test_the_page_says_what_it_means_what_to_do_and_how_to_see_it(code: str) -> None:
    """In this order, with the guard's name and title, and --allow where it is accepted."""
    text, guard = sections()[code], guards.CATALOGUE[code]
    verb = "Refuses" if guard.severity is Severity.REFUSAL else "Warns"
    assert text.startswith(f"\n**{guard.title}** (`{guard.name}`). {verb}")
    assert text.index("**Do:**") < text.index("**See it:**")
    assert "kubectl" in text or "grove-migrator" in text
    assert (f"`--allow {code}" in text) is guard.overridable


def test_an_unknown_code_is_nobodys() -> None:
    """A finding cannot have a code that does not exist."""
    with pytest.raises(KeyError):
        report("GM-999", None, None, "")
