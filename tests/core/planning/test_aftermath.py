"""What happened to a set after its migration, from its table and what is there now."""

from __future__ import annotations

from dataclasses import replace

from migrator.planning.aftermath import since
from migrator.planning.baseline import baseline_of
from tests.support.builders import World


def test_a_scaling_group_that_came_later_has_nothing_to_be_compared_with() -> None:
    """Its owner scaled the set out; only what was there at the migration can have fallen behind."""
    world = World().grow()
    before = baseline_of(world.snapshot().trees[0])
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["updatedReplicas"] = 0
    now = world.snapshot().trees[0]
    assert [str(problem.ref) for problem in since(now, before)] == ["PodCliqueScalingGroup default/web-0-sg"]
    assert list(since(now, replace(before, scaling_groups={}))) == []
