"""Webhooks that answer only while the operator runs, as from alpha.14 on: GM-202, and --allow GM-202."""

from __future__ import annotations

from typing import Any

import pytest

from migrator import kinds
from migrator.cluster import LONGEST_WRITE
from migrator.errors import Rejected, Unreachable
from migrator.run.leases import OWN_LEASE
from tests.cluster.webhooks import AUTHORIZER, GUARD, configuration
from tests.faults import cluster
from tests.faults.process import (
    FAILED,
    KILLED,
    MOMENTS,
    REFUSED,
    STUCK,
    At,
    Ending,
    Moment,
    Step,
    kill,
    kill_at,
    raising,
    when,
)
from tests.faults.world import LONGER_THAN_A_LEASE, World

NAMES = (GUARD[0], AUTHORIZER[0])
CONFIGURATIONS = kinds.VALIDATING_WEBHOOK_CONFIGURATIONS
ALLOW = frozenset({"GM-202"})
ACCOUNT = "system:serviceaccount:grove-system:grove-migrator"


def guarded(*, authorizer: bool = True) -> World:
    """A cluster of alpha.14, with Grove's authorizer on."""
    world = World(cluster.grown())
    world.store.put(configuration(*GUARD))
    if authorizer:
        world.store.put(configuration(*AUTHORIZER))
    return world


def conditions(world: World) -> list[Any]:
    found = [world.store.read(CONFIGURATIONS, "", name) for name in world.store.names(CONFIGURATIONS)]
    return [one for body in found for one in body["webhooks"][0].get("matchConditions") or ()]


def answering(world: World, *, spreads: float = 0.0, more: At = lambda _step: None) -> At:
    """What the API server does with a patch that a webhook matches: it fails while no operator serves that.

    A condition takes so many seconds until every API server ``spreads`` it.
    """
    since: dict[str, float] = {}

    def at(step: Step) -> None:
        more(step)
        kind, _, rest = step.target.partition("/")
        name = {"podcliques": NAMES[0], "pods": NAMES[1]}.get(kind)
        if name is None or "/" in rest or step.kind == "read" or step.verb != "patch" or step.moment != "before":
            return
        if name not in world.store.names(CONFIGURATIONS):
            return
        hook = world.store.read(CONFIGURATIONS, "", name)["webhooks"][0]
        if hook.get("matchConditions"):
            since.setdefault(name, world.seconds)
            if world.seconds - since[name] >= spreads:
                return
        if world.replicas == 0 or kind == "pods":  # the authorizer denies every account but the operator's
            raise Rejected(f"failed calling webhook {hook['name']}", denied_by=hook["name"])

    return at


def run(world: World, more: At = lambda _step: None, *, spreads: float = 0.0, **options: Any) -> Any:
    return world.start(at=answering(world, spreads=spreads, more=more)).run(**options)


def test_without_the_flag_a_denial_is_a_refusal_before_anything_is_touched() -> None:
    """The authorizer denies our account while the operator runs, though it would not fail closed without it."""
    world = guarded()
    world.store.drop(CONFIGURATIONS, "", NAMES[0])
    world.store.edit(CONFIGURATIONS, "", NAMES[1], lambda body: body["webhooks"][0].update(failurePolicy="Ignore"))
    process = world.start(at=answering(world))
    process.run(code=REFUSED)
    assert process.writes == []
    assert world.replicas == 1


@pytest.mark.parametrize("spreads", [0.0, 12.0])
@pytest.mark.parametrize("authorizer", [False, True])
def test_with_the_flag_a_migration_and_its_revert_succeed(spreads: float, *, authorizer: bool) -> None:
    """Our account alone is left out meanwhile, and put back at the end, also where API servers see it late."""
    world, seen = guarded(authorizer=authorizer), list[Any]()
    run(world, lambda _: seen.extend(conditions(world)), spreads=spreads, allow=ALLOW)
    assert world.grove() == world.after
    assert conditions(world) == []
    assert {one["expression"] for one in seen} == {f"request.userInfo.username != '{ACCOUNT}'"}
    run(world, spreads=spreads, allow=ALLOW, revert=True)
    assert world.grove() == world.undone
    assert conditions(world) == []


@pytest.mark.parametrize("authorizer", [False, True])
def test_a_denial_that_outlasts_the_condition_is_a_refusal(*, authorizer: bool) -> None:
    """The operator is given back, and no Job tries again: half a minute is enough for every API server."""
    world = guarded(authorizer=authorizer)
    assert "GM-202" in str(run(world, spreads=1e9, allow=ALLOW, code=REFUSED))
    assert world.replicas == 1
    assert conditions(world) == []


def test_the_condition_is_added_after_our_record_and_before_the_stop() -> None:
    """So that a killed run shows that it was there, and nobody waits for an operator that is at zero."""
    met, opening = list[Step](), f"{CONFIGURATIONS.plural}/{NAMES[0]}"
    run(guarded(), met.append, allow=ALLOW)
    order = [step.target for step in met if step.write and step.moment == "after"]
    first, last = order.index, order[::-1].index
    assert first("leases/grove-migrator") < first(opening) < first("deployments/grove-operator/scale")
    assert last(f"leases/{cluster.LEASE}") < last(opening)


@pytest.mark.parametrize("revert", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_rerun_or_a_revert_removes_what_a_killed_run_left(moment: Moment, *, revert: bool) -> None:
    """Killed at its writes, one in four; the condition concerns our account alone meanwhile."""
    total = list[Step]()
    run(guarded(), total.append, allow=ALLOW)
    for number in range(1, max(step.write for step in total) + 1, 4):
        world = guarded()
        run(world, kill_at(number, moment), allow=ALLOW, code=KILLED)
        world.advance(LONGER_THAN_A_LEASE)
        run(world, allow=ALLOW, revert=revert)
        assert conditions(world) == [], number
        assert world.grove() in ((world.undone, world.before) if revert else (world.after,))


def test_what_a_run_could_not_remove_is_removed_by_the_next() -> None:
    """It has ended well but for that: nothing else is left to be done."""
    world = guarded(authorizer=False)
    closes = when(
        lambda step: (
            (step.resource, step.kind, step.moment) == (CONFIGURATIONS, "write", "before") and bool(conditions(world))
        ),
        raising(lambda: Unreachable("HTTP 503")),
    )
    run(world, closes, allow=ALLOW)
    assert conditions(world)
    run(world)
    assert conditions(world) == []


def test_what_a_run_left_that_died_after_our_first_look_is_removed() -> None:
    """It wrote every hash while we stood still before the lock, so that nothing is left to write: 0, and put back."""
    world, endings = guarded(), list[Ending]()
    dies = when(lambda step: step.is_grove and step.moment == "after" and world.grove() == world.after, kill)
    locks = when(
        lambda step: (step.kind, step.moment) == ("dry run", "before"),
        lambda _: endings.append(run(world, dies, allow=ALLOW, code=KILLED)),
        times=1,
    )
    run(world, locks, allow=ALLOW)
    assert endings
    assert conditions(world) == []


def test_a_condition_that_arrives_late_is_removed() -> None:
    """The reply to the patch that adds it was lost, so the run ends before the stop: 1, and nothing is changed."""
    world = guarded(authorizer=False)
    world.latency = 0.05
    opens = when(
        lambda step: step.resource == CONFIGURATIONS and step.write > 0,
        lambda step: step.process.hold_back(LONGEST_WRITE - 1),
        times=1,
    )
    run(world, opens, allow=ALLOW, code=FAILED)
    world.advance(LONGEST_WRITE)
    assert conditions(world) == []


@pytest.mark.parametrize("error", [lambda: Rejected("is invalid"), lambda: Unreachable("HTTP 503")])
def test_it_is_removed_at_every_end(error: Any) -> None:
    """Put back after a lasting rejection, or half-way in an outage of all patches of pods."""
    world = guarded()

    def strike(step: Step) -> None:
        if step.is_grove and step.moment == "before" and step.resource == kinds.PODS and step.write > 14:
            raise error()

    run(world, strike, allow=ALLOW, code=(REFUSED, STUCK))
    assert conditions(world) == []


def test_a_dry_run_adds_nothing() -> None:
    """And says so."""
    world = guarded(authorizer=False)
    process = world.start(at=answering(world))
    process.run(allow=ALLOW, dry_run=True)
    assert process.writes == []
    assert conditions(world) == []


def test_a_webhook_that_is_not_groves_is_never_edited() -> None:
    """No rerun would put it back; it appears right before the stop, when no plan refuses it any more."""
    world, name = guarded(), "somebodys-webhook"
    appears = when(
        lambda step: (step.name, step.kind) == (OWN_LEASE, "write"),
        lambda _: world.store.put(configuration(name, "pods.example.test")),
        times=1,
    )
    process = world.start(at=answering(world, more=appears))
    process.run(allow=ALLOW, code=None)
    assert name not in {step.name for step in process.writes}
