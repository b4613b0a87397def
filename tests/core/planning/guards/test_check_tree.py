"""All guards on one tree: what follows from what, and what ``--allow`` turns into a warning."""

from __future__ import annotations

import pytest

from migrator.planning.model import Severity, TreeState
from tests.support.builders import DELETION, LABEL, LATER, OLD, World, refusals


def test_a_tree_at_rest_has_no_findings() -> None:
    """A settled family, with everything that Grove stores, is neither refused nor warned about."""
    decided = World().grow(replicas=2, maps=True, progress=("updateProgress", "rollingUpdateProgress")).decide()
    assert (decided.state, decided.source, decided.findings) == (TreeState.MIGRATE, "legacy-1.34", ())


def test_everything_that_refuses_is_reported_at_once() -> None:
    """A tree with several troubles names them all in one run, each once."""
    world = World().grow().take("PodCliqueSet", "web", "/status/updateProgress/updateEndedAt")
    world.put("PodClique", "web-0-sg-0-work", DELETION, LATER)
    world.put("Pod", "web-0-front-0", LABEL)
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"] = OLD
    found = refusals(world.findings())
    assert sorted(found) == sorted(set(found))
    assert {code for code, _, _ in found} == {"GM-102", "GM-106", "GM-111"}
    assert {f.follows for f in world.findings() if f.code in {"GM-106", "GM-111"}} == {"GM-102"}
    assert all(f.follows is None for f in world.findings() if f.code == "GM-102")


@pytest.mark.parametrize(
    ("kind", "name", "code"), [("PodClique", "web-0-front", "GM-109"), ("Pod", "web-0-sg-1-work-1", "GM-111")]
)
def test_an_override_leaves_the_foreign_value(kind: str, name: str, code: str) -> None:
    """An allowed stray value stays as it is, with a warning, and everything else of the tree is migrated."""
    world = World().grow(maps=True)
    before = len(world.decide().changes)
    decided = world.put(kind, name, LABEL).decide(allow=[code])
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")
    (finding,) = decided.findings
    assert (finding.code, finding.severity) == (code, Severity.WARNING)
    assert finding.message.endswith(f"(allowed by --allow {code})")
    assert len(decided.changes) == before - 1
    assert all((change.ref.name, change.field) != (name, LABEL) for change in decided.changes)


def test_an_override_leaves_a_warning_as_it_is() -> None:
    """What would not have refused was not allowed by anybody."""
    world = World().grow().put("PodClique", "web-0-front", "/status/currentPodTemplateHash")
    assert [finding.code for finding in world.findings()] == ["GM-109"]
    assert world.findings(allow=["GM-109"]) == world.findings()


def test_an_override_allows_its_own_code_only() -> None:
    """Allowing pods does not allow PodCliques."""
    world = World().grow().put("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-sg-0-work", LABEL)
    decided = world.decide(allow=["GM-111"])
    assert (decided.state, decided.source) == (TreeState.REFUSED, None)
    assert {code for code, _, _ in refusals(decided.findings)} == {"GM-109"}
