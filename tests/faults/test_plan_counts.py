"""A plan against the model of the operator: the pods that are counted, and those that are replaced."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.planning.model import SetState
from tests.faults.operators import ALPHA_11, ALPHA_12_RC1, MAIN, Line, would_roll
from tests.support.builders import ENDED, OLD, World, clique

SOURCE, TARGET = "legacy-1.34", "legacy-1.35"
#: What a place may hold: a hash of a scheme, one of an older template, or nothing.
_VALUES: Final = (SOURCE, TARGET, OLD, None)
_OVERRIDES: Final = ("GM-101", "GM-102")


@pytest.mark.parametrize(
    ("target", "line"),
    [("v0.1.0-alpha.11", ALPHA_11), ("v0.1.0-alpha.12-rc1", ALPHA_12_RC1), ("main-fcc3b3bb", MAIN)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_plan_counts_every_pod_that_the_operator_replaces(target: str, line: Line) -> None:
    """Whatever a set, its standalone PodClique and a pod hold: without the migration, and with it and overrides."""
    for of_set, of_clique, of_update, of_pod in product((SOURCE, TARGET, "", None), _VALUES, _VALUES, _VALUES):
        world = _world(of_set, of_clique, of_update, of_pod)
        plan = world.decide(target=target, allow=_OVERRIDES)
        state = (of_set, of_clique, of_update, of_pod)
        assert plan.disruption.pods >= _replaced(world, line), state
        if plan.state is not SetState.REFUSED:
            world.apply(plan.changes)
            assert plan.remaining.pods == _replaced(world, line), state


def _world(of_set: str | None, of_clique: str | None, of_update: str | None, of_pod: str | None) -> World:
    """Two pods of one clique under the source, one of them finished, in which some places hold something else."""
    world = World().grow(cliques=[clique("front")], groups={}, progress=(), scheme=SOURCE)
    hashes = {scheme: world.hashes(scheme) for scheme in (SOURCE, TARGET)}

    def generation(value: str | None) -> str | None:
        return hashes[value].generation if value in hashes else value

    def template(value: str | None) -> str | None:
        return hashes[value].templates["front"] if value in hashes else value

    status = world.of("PodClique", "web-0-front")["status"]
    world.pcs["status"]["currentGenerationHash"] = generation(of_set)
    status["currentPodCliqueSetGenerationHash"] = generation(of_clique)
    status["currentPodTemplateHash"] = template(of_clique)
    if of_update is not None:
        found = {"podCliqueSetGenerationHash": generation(of_update), "podTemplateHash": template(of_update)}
        status["updateProgress"] = {**ENDED, **found}
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = template(of_pod) or ""
    world.of("Pod", "web-0-front-1")["status"] = {"phase": "Succeeded"}
    return world


def _replaced(world: World, line: Line) -> int:
    objects = {(o["kind"], o["metadata"]["namespace"], o["metadata"]["name"]): o for o in world.objects}
    return len(would_roll(objects, TARGET, line))
