"""The catalogue of codes with the page that explains them, and all guards on one set."""

from __future__ import annotations

import re

import pytest

from migrator.errors import UsageError
from migrator.planning.guards import CATALOGUE, allowed_codes
from migrator.planning.known_issues import KNOWN_ISSUES
from tests.support.paths import ROOT

PAGE, _, GONE = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8").partition("## Codes that are gone")


def sections() -> dict[str, str]:
    parts = re.split(r"^### (GM-\d{3})\b", PAGE, flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a code has two anchors"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_anchor_of_its_own() -> None:
    """Each guard and each known issue is explained once, under the title that the tool prints, and nothing else is."""
    titles = {code: text[3:].partition("**")[0].removesuffix(".") for code, text in sections().items()}
    assert titles == {code: entry.title for code, entry in {**CATALOGUE, **KNOWN_ISSUES}.items()}


def test_every_guard_has_a_name_of_its_own() -> None:
    """``--allow`` takes it."""
    names = {guard.name for guard in CATALOGUE.values()}
    assert len(names) == len(CATALOGUE)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_page_says_what_it_means_what_to_do_and_how_to_see_it(code: str) -> None:
    """In this order, with the guard's name and title, and --allow where it is accepted."""
    text, guard = sections()[code], CATALOGUE[code]
    verb = "Warns" if guard.warns else "Refuses"
    assert text.startswith(f"\n**{guard.title}** (`{guard.name}`). {verb}")
    assert text.index("**Do:**") < text.index("**See it:**")
    assert "kubectl" in text or "grove-migrator" in text
    assert (f"`--allow {code}" in text) is guard.overridable


def test_only_overridable_codes_are_accepted() -> None:
    """--allow takes a code that exists and may be overridden, and the error names those."""
    accepted = {code: guard.name for code, guard in CATALOGUE.items() if guard.overridable}
    assert allowed_codes(map(str.lower, accepted)) == allowed_codes(accepted.values()) == set(accepted)
    with pytest.raises(UsageError, match=f"cannot be overridden; --allow accepts {', '.join(sorted(accepted))}"):
        allowed_codes(["unknown-place"])
    with pytest.raises(UsageError, match="no guard has this code or name"):
        allowed_codes(["GM-999"])


def test_a_code_is_never_used_again() -> None:
    """Scripts know what it meant: the page lists the codes that are gone, and the next guard takes another."""
    gone = set(re.findall(r"GM-\d{3}", GONE))
    assert gone
    assert gone.isdisjoint({*CATALOGUE, *KNOWN_ISSUES})
