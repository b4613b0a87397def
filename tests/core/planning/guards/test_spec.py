"""Fields of the template that only one of the two operators knows."""

from __future__ import annotations

from migrator.planning.model import TreeState
from tests.support.builders import World, clique, refusals, warnings


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
    assert (decided.state, warnings(decided.findings)) == (TreeState.MIGRATE, [("GM-134", "web", field)])


def test_a_field_that_neither_side_knows_is_ignored() -> None:
    """What both operators ignore changes nothing."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["schedulingGroup"] = {"podGroupName": "x"}
    assert world.findings() == []
