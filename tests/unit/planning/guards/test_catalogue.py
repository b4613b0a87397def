"""The catalogue of codes with the page that explains them, and all guards on one set."""

from __future__ import annotations

import re

import pytest

from migrator.errors import UsageError
from migrator.planning.guards import CATALOGUE, allowed_codes
from migrator.planning.known_issues import KNOWN_ISSUES
from migrator.planning.model import SetState, Severity
from tests.support.builders import DELETION, LABEL, LATER, OLD, World, refusals
from tests.support.paths import ROOT

PAGE, _, GONE = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8").partition("## Codes that are gone")


def sections() -> dict[str, str]:
    """The page's text for each code."""
    parts = re.split(r"^### (GM-\d{3})\b", PAGE, flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a code has two anchors"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_anchor_of_its_own() -> None:
    """Each guard and each known issue is explained once, and nothing else is."""
    assert set(sections()) == set(CATALOGUE) | set(KNOWN_ISSUES)


def test_every_guard_has_a_name_of_its_own() -> None:
    """``--allow`` takes it."""
    names = {guard.name for guard in CATALOGUE.values()}
    assert len(names) == len(CATALOGUE)
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in names)


@pytest.mark.parametrize("code", CATALOGUE)
def test_the_page_says_what_it_means_what_to_do_and_how_to_see_it(code: str) -> None:
    """In this order, with the guard's name and title, and --allow where it is accepted."""
    text, guard = sections()[code], CATALOGUE[code]
    verb = "Refuses" if guard.severity is Severity.REFUSAL else "Warns"
    assert text.startswith(f"\n**{guard.title}** (`{guard.name}`). {verb}")
    assert text.index("**Do:**") < text.index("**See it:**")
    assert "kubectl" in text or "grove-migrator" in text
    assert (f"`--allow {code}" in text) is guard.overridable


def test_only_overridable_codes_are_accepted() -> None:
    """--allow takes a code that exists and may be overridden, and the error names those."""
    accepted = {code: guard.name for code, guard in CATALOGUE.items() if guard.overridable}
    assert allowed_codes(accepted) == allowed_codes(accepted.values()) == set(accepted)
    with pytest.raises(UsageError, match=f"cannot be overridden; --allow accepts {', '.join(sorted(accepted))}"):
        allowed_codes(["unknown-place"])
    with pytest.raises(UsageError, match="no guard has this code or name"):
        allowed_codes(["GM-999"])


def test_everything_that_refuses_is_reported_at_once() -> None:
    """A set with several troubles names them all in one run, each once, the update first."""
    world = World().grow().take("PodCliqueSet", "web", "/status/updateProgress/updateEndedAt")
    world.put("PodClique", "web-0-sg-0-work", DELETION, LATER)
    world.put("Pod", "web-0-front-0", LABEL)
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"] = OLD
    found = refusals(world.findings())
    assert sorted(found, key=str) == sorted(set(found), key=str)
    assert [code for code, _, _ in found] == ["GM-102", "GM-102", "GM-101"]


@pytest.mark.parametrize("allow", ["GM-101", "gm-101", "foreign-value"])
@pytest.mark.parametrize(("kind", "name"), [("PodClique", "web-0-front"), ("Pod", "web-0-sg-1-work-1")])
def test_an_override_leaves_the_foreign_value(kind: str, name: str, allow: str) -> None:
    """An allowed stray value stays as it is, with a warning, and everything else of the set is migrated."""
    world = World().grow(maps=True)
    before = len(world.decide().changes)
    decided = world.put(kind, name, LABEL).decide(allow=[allow])
    assert (decided.state, str(decided.source)) == (SetState.MIGRATE, "legacy-1.34")
    (finding,) = decided.findings
    assert (finding.code, finding.severity) == ("GM-101", Severity.WARNING)
    assert finding.message.endswith("(allowed by --allow GM-101)")
    assert len(decided.changes) == before - 1
    assert all((change.ref.name, change.field) != (name, LABEL) for change in decided.changes)


def test_an_override_leaves_a_warning_as_it_is() -> None:
    """What would not have refused was not allowed by anybody."""
    world = World().grow().put("PodClique", "web-0-front", "/status/currentPodTemplateHash")
    assert [finding.code for finding in world.findings()] == ["GM-107"]
    assert world.findings(allow=["GM-101"]) == world.findings()


@pytest.mark.parametrize(
    "of", [("PodCliqueSet", "web", "/status/currentGenerationHash"), ("Pod", "web-0-front-0", LABEL)]
)
def test_an_override_allows_only_what_its_finding_says(of: tuple[str, str, str]) -> None:
    """The set's own hash is never left alone, a pod's may be, and another code does not help."""
    world = World().grow().put(*of)
    (finding,) = world.findings()
    assert ("--allow GM-101" in finding.remedy) is (of[0] == "Pod")
    assert (refusals(world.findings(allow=["GM-101"])) == []) is (of[0] == "Pod")
    assert refusals(world.findings(allow=["GM-102"])) == [("GM-101", *of[1:])]


def test_a_code_is_never_used_again() -> None:
    """Scripts know what it meant: the page lists the codes that are gone, and the next guard takes another."""
    gone = set(re.findall(r"GM-\d{3}", GONE))
    assert gone
    assert gone.isdisjoint({*CATALOGUE, *KNOWN_ISSUES})
