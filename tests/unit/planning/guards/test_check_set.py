"""All guards on one set: what is reported together, and what ``--allow`` turns into a warning."""

from __future__ import annotations

import pytest

from migrator.planning.model import SetState, Severity
from tests.support.builders import DELETION, LABEL, LATER, OLD, World, refusals


def test_a_set_at_rest_has_no_findings() -> None:
    """A settled set, with everything that Grove stores, is neither refused nor warned about."""
    decided = World().grow(replicas=2, maps=True, progress=("updateProgress", "rollingUpdateProgress")).decide()
    assert (decided.state, decided.source, decided.findings) == (SetState.MIGRATE, "legacy-1.34", ())


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
    assert (decided.state, decided.source) == (SetState.MIGRATE, "legacy-1.34")
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
