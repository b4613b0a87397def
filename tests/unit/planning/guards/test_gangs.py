"""Gangs: their termination during the downtime."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from migrator.planning.model import SetState
from migrator.planning.planner import Known, make_plan
from tests.support.builders import EARLIER, LATER, NOW, World, clique, options_of, refusals
from tests.support.tables import table

CLIQUE, GROUP = ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")


def condition(kind: str, status: str, since: datetime | str | None) -> list[dict[str, Any]]:
    text = since.isoformat().replace("+00:00", "Z") if isinstance(since, datetime) else since
    return [{"type": kind, "status": status, "reason": "Because", "lastTransitionTime": text}]


@pytest.mark.parametrize(("kind", "name"), [CLIQUE, GROUP])
@pytest.mark.parametrize(
    ("delay", "since", "refused"),
    [
        ("4h0m0s", NOW - timedelta(hours=4, seconds=-301), False),
        ("4h0m0s", NOW - timedelta(hours=4, seconds=-300), True),
        ("4h0m0s", NOW - timedelta(hours=5), True),
        ("4h0m0s", NOW, False),
        *((delay, NOW, True) for delay in ("0", "30s")),
        ("5m0.5s", NOW, False),
        ("5m", NOW, True),
        (None, NOW - timedelta(hours=3, minutes=54), False),
        (None, NOW - timedelta(hours=3, minutes=55), True),
        *((delay, NOW, True) for delay in ("for ever", "4d", "1h, 4h")),  # which Go does not read
        ("4h0m0s", None, True),
        ("4h0m0s", "2026-01-02T04:04:05", False),
        ("4h0m0s", "long ago", True),
    ],
)
def test_gang_termination_during_the_downtime_refuses(
    kind: str, name: str, delay: str | None, since: datetime | str | None, *, refused: bool
) -> None:
    """State 14: a breach whose delay ends within five minutes refuses, beside writes that take less than a second."""
    world = World().grow().put("PodCliqueSet", "web", "/spec/template/terminationDelay", delay)
    world.put(kind, name, "/status/conditions", condition("MinAvailableBreached", "True", since))
    expected = [("GM-116", name, "/status/conditions")] if refused else []
    assert refusals(world.findings()) == expected
    assert world.decide(allow=["GM-116"]).state is SetState.MIGRATE


@pytest.mark.parametrize(("stopped", "advised"), [(False, "bring its pods back"), (True, "run with --allow GM-116: ")])
def test_a_gang_beside_a_half_way_run_can_only_be_given_up(*, stopped: bool, advised: str) -> None:
    """While no operator runs, nobody makes its pods, and the webhook that would accept a longer delay is gone."""
    world = World().grow()
    since = NOW - timedelta(hours=5)
    world.put(*CLIQUE, "/status/conditions", condition("MinAvailableBreached", "True", since))
    plan = make_plan(world.snapshot(), options_of(), Known(now=NOW, half_way=True, stopped=stopped))
    assert [finding.remedy.startswith(advised) for finding in plan.refusals] == [True]


@pytest.mark.parametrize(("replicas", "refused"), [(1, False), (2, True)])
def test_a_member_whose_group_is_below_its_minimum_is_left_to_the_group(replicas: int, *, refused: bool) -> None:
    """Grove ends a replica of a group if enough others are left; otherwise the group's own condition decides."""
    world = World().grow(group_replicas=replicas)
    since = NOW - timedelta(hours=5)
    member, group = ("PodClique", "web-0-sg-0-work"), world.of(*GROUP)
    world.put(*member, "/status/conditions", condition("MinAvailableBreached", "True", since))
    group["spec"]["minAvailable"] = 1
    group["status"]["conditions"] = condition("MinAvailableBreached", "False", since)
    expected = [("GM-116", member[1], "/status/conditions")] if refused else []
    assert refusals(world.findings()) == expected
    group["status"]["conditions"] = condition("MinAvailableBreached", "True", since)
    assert ("GM-116", GROUP[1], "/status/conditions") in refusals(world.findings())


def test_the_downtime_counts_the_writes_of_all_sets() -> None:
    """A thousand pods are more than ten seconds of writing: what ends meanwhile refuses."""
    world = World().grow().grow("many", cliques=[clique("one")], groups={}, pods=1100)
    since = NOW - timedelta(hours=4, seconds=-310)
    world.put(*CLIQUE, "/status/conditions", condition("MinAvailableBreached", "True", since))
    plan = world.plan()
    assert [code for one in plan.set_plans for code, *_ in refusals(one.findings)] == ["GM-116"]
    world.remove(*(pod["metadata"]["name"] for pod in world.all("Pod") if "many" in pod["metadata"]["name"]))
    assert [code for one in world.plan().set_plans for code, *_ in refusals(one.findings)] == []


@table(
    "of since ended target refuses",
    ("a PodClique that never had its pods", (CLIQUE, EARLIER, False, "main-fcc3b3bb", False)),
    ("it counts as new for five seconds", (CLIQUE, "2026-01-02T03:04:10Z", False, "main-fcc3b3bb", False)),
    ("and for no longer", (CLIQUE, "2026-01-02T03:04:11Z", False, "main-fcc3b3bb", True)),
    ("an older operator ends its gang too", (CLIQUE, EARLIER, False, "v0.1.0-alpha.11", True)),
    ("a PodClique that had them", (CLIQUE, LATER, False, "main-fcc3b3bb", True)),
    ("a scaling group that never was healthy", (GROUP, EARLIER, False, "main-fcc3b3bb", False)),
    ("a scaling group that was", (GROUP, LATER, False, "main-fcc3b3bb", True)),
    ("a scaling group whose gang was ended already", (GROUP, LATER, True, "main-fcc3b3bb", False)),
    ("an older operator ends it again", (GROUP, LATER, True, "legacy-1.34", True)),
    ("a scheme may mean an older operator", (GROUP, LATER, True, "legacy-1.35", True)),
    ("one that is newer than every known build does not", (GROUP, LATER, True, "legacy-1.37", False)),
    ("a canonical build of that API may be an older operator", (GROUP, LATER, True, "canonical-1.37", True)),
)
def test_a_breach_that_the_target_leaves_alone_does_not_refuse(
    of: tuple[str, str], since: str, target: str, *, ended: bool, refuses: bool
) -> None:
    """From alpha.12-rc1 on (Grove PR 614): what waits for GPUs, or was scaled to zero, is no reason to wait."""
    world = World().grow(scheme="legacy-1.33")
    item = world.of(*of)
    item["metadata"]["creationTimestamp"] = EARLIER
    item["status"]["conditions"] = condition("PodCliqueScheduled", "False", since)
    item["status"]["conditions"] += condition("MinAvailableBreached", "True", since)
    item["status"]["conditions"] += condition("GangTerminationInProgress", "True", LATER) if ended else []
    found = world.findings(target=target, now=NOW + timedelta(hours=5))
    assert ("GM-116" in {f.code for f in found}) is refuses
