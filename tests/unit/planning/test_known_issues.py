"""Known issues that are not a matter of hashes: whom each concerns, in which objects, and that none refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator.planning.known_issues import ISSUE_TITLES, KNOWN_ISSUES
from migrator.planning.model import Plan
from migrator.planning.options import PlanOptions
from migrator.planning.planner import make_plan
from migrator.planning.releases import builds
from migrator.render.summary import recreated_with_migration
from tests.support.builders import EARLIER, LABEL, LATER, NOW, World, clique, refusals
from tests.support.tables import table

A8, A9, A11, RC1 = "v0.1.0-alpha.8", "v0.1.0-alpha.9", "v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1"
A12, A13, A14, MAIN = "v0.1.0-alpha.12", "v0.1.0-alpha.13", "v0.1.0-alpha.14", "main-fcc3b3bb"

FRONT = "web-0-front"
SET, GROUP, POD = ("PodCliqueSet", "web"), ("PodCliqueScalingGroup", "web-0-sg"), ("Pod", "web-0-front-0")


def planned(world: World, target: str, *, running: str | None = None, source: str = "auto") -> Plan:
    """What ``plan`` makes of it."""
    options = PlanOptions(source=source, target=target, describes=True)
    return make_plan(world.snapshot(), options, now=NOW, running=running)


def advised(world: World, target: str, **options: Any) -> list[tuple[str, str]]:
    """Id and object of every known issue."""
    return [(a.id, a.ref.name if a.ref else "") for a in planned(world, target, **options).advisories]


def standalone_only() -> World:
    """A set without scaling groups, at zero."""
    return World().grow(cliques=[clique("front")], groups={}).at_zero(FRONT)


def groups_only() -> World:
    """A set of one scaling group at zero."""
    return World().grow(cliques=[clique("work")], groups={"sg": ["work"]}, pods=0).put(*GROUP, "/spec/replicas", 0)


def group_at_zero() -> World:
    """A scaling group at zero, without PodCliques, beside a live one."""
    world = World().grow().put(*GROUP, "/spec/replicas", 0)
    world.objects = [o for o in world.objects if "-sg-" not in o["metadata"]["name"]]
    return world


def of_set(change: Callable[[Any], object]) -> World:
    """A world whose set is changed."""
    world = World().grow()
    change(world.pcs)
    return world


def for_kai(pcs: Any, queues: tuple[str | None, ...] = (None, None)) -> None:
    """KAI schedules both cliques, into these queues."""
    for entry, queue in zip(pcs["spec"]["template"]["cliques"], queues, strict=True):
        entry["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
        entry["labels"] = {"kai.scheduler/queue": queue} if queue else {}


def scheduled(pods: int = 1, status: str = "False", replicas: int = 2) -> World:
    """A PodClique that wants two pods at least, and has so many of them scheduled."""
    world = World().grow().put("PodClique", FRONT, "/status/scheduledReplicas", pods)
    world.of("PodClique", FRONT)["spec"] |= {"minAvailable": 2, "replicas": replicas}
    return world.put("PodClique", FRONT, "/status/conditions", [{"type": "MinAvailableBreached", "status": status}])


def topology(name: str | None = None, clique: int = 0) -> World:
    """A topology constraint of one clique."""
    constraint = {"packDomain": "rack"} | ({"topologyName": name} if name else {})
    return World().grow().put(*SET, f"/spec/template/cliques/{clique}/topologyConstraint", constraint)


def auto_mnnvl() -> World:
    """A set whose pods get their claims by annotation."""
    return World().grow().put(*SET, "/metadata/annotations", {"grove.io/auto-mnnvl": "enabled"})


def pod_of_a_group() -> World:
    """A pod that another scheduler's pod group names."""
    return World().grow().put(*POD, "/metadata/annotations", {"scheduling.k8s.io/group-name": "x"})


#: The known issue, a state that has it, the object, a source and a target that are concerned, and targets that are not.
Case = tuple[str, Callable[[], World], str, str, str, tuple[str, ...]]
CASES: list[Case] = [
    ("GM-301", lambda: World().grow().at_zero(FRONT), "web-0-front", A11, RC1, (A9, A11)),
    ("GM-302", standalone_only, "web", A11, A12, (RC1, MAIN, A13)),
    ("GM-303", groups_only, "web", A11, A12, (RC1, MAIN, A13)),
    ("GM-304", pod_of_a_group, "web-0-front", A11, A13, (RC1, A14)),
    ("GM-305", auto_mnnvl, "web", A8, A9, (A8,)),
    ("GM-306", topology, "web", A8, A11, (A8,)),
    ("GM-307", lambda: of_set(for_kai), "web", RC1, MAIN, (RC1, A11)),
    ("GM-308", lambda: of_set(for_kai), "web", RC1, A14, (RC1, A11)),
    ("GM-309", lambda: World().grow(progress=()).put(*POD, LABEL), "web-0-front-0", A11, RC1, (A11, MAIN)),
    ("GM-311", scheduled, FRONT, A8, A9, (A8,)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_a_known_issue_is_reported_where_it_concerns_the_upgrade(case: Case) -> None:
    """With its object for the releases concerned, for no other target, and never as a refusal."""
    code, state, name, source, target, others = case
    plan = planned(state(), target, running=source)
    assert (code, name) in [(a.id, a.ref.name) for a in plan.advisories if a.ref]
    assert code not in {finding.code for finding in plan.findings}
    for other in others:
        assert code not in {found for found, _ in advised(state(), other, running=source)}
    assert code not in {found for found, _ in advised(World().grow(), target, running=source)}


def test_whoever_is_past_it_is_not_warned() -> None:
    """An operator that is not older than the change has it already."""
    assert advised(World().grow(scheme="legacy-1.35").at_zero(FRONT), MAIN, running=RC1) == []
    assert advised(auto_mnnvl(), A11, running=A9) == []
    assert advised(World().grow(progress=()), RC1, running=A11) == []  # no pod of another hash


@pytest.mark.parametrize("quiet", [True, False])
def test_a_known_issue_says_whom_it_concerns_where_the_releases_are_not_known(*, quiet: bool) -> None:
    """A hash tells the scheme only: the advice names the releases that it holds for, on either side."""
    world = auto_mnnvl()
    (advice,) = planned(world, "legacy-1.34" if quiet else A11).advisories
    assert "(if you come from v0.1.0-alpha.8 or older" in advice.message
    assert ("and you go to v0.1.0-alpha.9 or later)" in advice.message) is quiet
    assert planned(world, A11, source=A8).advisories[0].message.endswith("cannot be added to an existing set")


@table(
    "state",
    ("Nothing is scheduled: the gang never began.", ({"pods": 0},)),
    ("Enough is.", ({"pods": 2},)),
    ("A breach is reported, which GM-116 judges.", ({"status": "True"},)),
    ("It may be one.", ({"status": "Unknown"},)),
    ("It is at zero.", ({"replicas": 0},)),
)
def test_who_is_not_scheduled_below_his_minimum(state: dict[str, Any]) -> None:
    """Only a member that is partly scheduled, and of which no operator has reported a breach, has this known issue."""
    assert "GM-311" not in {code for code, _ in advised(scheduled(**state), A9, running=A8)}


def test_a_clique_that_never_ran_ends_no_gang() -> None:
    """A PodClique that was at zero from the beginning is left alone (Grove: WasPCLQEverScheduled)."""
    world = World().grow().at_zero(FRONT)
    front = world.of("PodClique", "web-0-front")
    front["status"]["conditions"] = [{"type": "PodCliqueScheduled", "status": "False", "lastTransitionTime": EARLIER}]
    assert advised(world, RC1) == []
    front["status"]["conditions"][0]["lastTransitionTime"] = LATER
    assert advised(world, RC1) == [("GM-301", "web-0-front")]


@pytest.mark.parametrize("replicas", [1, None])
def test_a_group_below_its_minimum_ends_its_gang_as_at_zero(replicas: int | None) -> None:
    """As at zero, there are too few replicas for good; a number that is not stored is not too small."""
    world = World().grow()
    world.of("PodCliqueScalingGroup", "web-0-sg")["spec"] |= {"replicas": replicas, "minAvailable": 2}
    expected = (["GM-301"], 6) if replicas else ([], 0)
    assert ([code for code, _ in advised(world, RC1)], recreated_with_migration(planned(world, RC1)).pods) == expected


@pytest.mark.parametrize(("scaled", "expected"), [((), set()), (("web-0-front",), {"GM-302"})])
def test_one_replica_at_zero_loses_its_gang(scaled: tuple[str, ...], expected: set[str]) -> None:
    """Each replica of a set has a PodGangMap of its own."""
    world = World().grow(cliques=[clique("front")], groups={}, replicas=2)
    for name in scaled:
        world.at_zero(name)
    assert {code for code, _ in advised(world, A12, running=A11)} == expected


@pytest.mark.parametrize(("kind", "name"), [SET, ("PodClique", "web-0-front")])
def test_replicas_that_are_not_stored_are_not_at_zero(kind: str, name: str) -> None:
    """A number that is not there is no known issue, neither of a member nor of the set."""
    world = standalone_only().take(kind, name, "/spec/replicas")
    assert "GM-302" not in {code for code, _ in advised(world, A12, running=A11)}


def test_a_group_at_zero_beside_a_clique_at_zero_loses_its_gang() -> None:
    """What matters is that no member is left; beside a live clique the PodGangMap keeps its anchor."""
    assert "GM-303" not in {code for code, _ in advised(group_at_zero(), A12, running=A11)}
    assert ("GM-303", "web") in advised(group_at_zero().at_zero(FRONT), A12, running=A11)


def test_a_group_at_zero_beside_live_pods_ends_its_gang() -> None:
    """A scaling group counts as a PodClique does, unless it was ended once; without live pods there is nothing to end.

    The pods that are lost are counted.
    """
    ended = [{"type": "GangTerminationInProgress", "status": "True"}]
    states = group_at_zero(), group_at_zero().put(*GROUP, "/status/conditions", ended), group_at_zero().at_zero(FRONT)
    for world, expected in zip(states, ([("GM-301", "web-0-sg")], [], []), strict=True):
        assert advised(world, RC1) == expected
        assert recreated_with_migration(planned(world, RC1)).pods == 2 * len(expected)


def test_the_default_scheduler_may_be_kai() -> None:
    """Then no template names it, and the PodGangs do."""
    world = World().grow(maps=True)
    assert advised(world, MAIN) == []
    world.all("PodGang")[0]["metadata"]["labels"]["grove.io/scheduler-name"] = "kai-scheduler"
    assert advised(world, MAIN) == [("GM-307", "web"), ("GM-308", "web")]


@pytest.mark.parametrize(
    ("queues", "expected"), [((None, None), True), (("a", "b"), True), (("a", "a"), False), (("a", None), False)]
)
def test_one_queue_is_enough(queues: tuple[str | None, ...], *, expected: bool) -> None:
    """All cliques that name a queue must name the same, and one must."""
    found = {code for code, _ in advised(of_set(lambda pcs: for_kai(pcs, queues)), MAIN)}
    assert ("GM-307" in found, "GM-308" in found) == (expected, True)


@table(
    "clique own holder expected",
    ("The known issue is the missing name.", (0, "rack-topology", None, [])),
    ("From the set all inherit it.", (0, None, "/spec/template", [])),
    ("From a scaling group its cliques inherit it.", (1, None, "/spec/template/podCliqueScalingGroups/0", [])),
    ("No other clique does.", (0, None, "/spec/template/podCliqueScalingGroups/0", ["GM-306"])),
)
def test_a_topology_is_named_or_inherited(
    clique: int, own: str | None, holder: str | None, expected: list[str]
) -> None:
    """A constraint that has or inherits a name lacks nothing."""
    world = topology(own, clique)
    if holder is not None:
        world.put(*SET, f"{holder}/topologyConstraint", {"packDomain": "rack", "topologyName": "rack-topology"})
    assert [code for code, _ in advised(world, A11)] == expected


def test_an_unread_release_has_known_issues_and_nothing_else() -> None:
    """alpha.12 exists: its known issues are reported, its hashes are not guessed."""
    plan = planned(standalone_only(), A12)
    assert (plan.trees, plan.known) == ((), False)
    assert refusals(plan.findings) == []
    assert [finding.code for finding in plan.findings] == ["GM-310"]
    assert {advice.id for advice in plan.advisories} == {"GM-302"}


def test_the_table_is_whole() -> None:
    """Every known issue has all of its texts, and the releases that it names are known."""
    assert [issue.id for issue in KNOWN_ISSUES] == sorted(ISSUE_TITLES)
    for issue in KNOWN_ISSUES:
        assert {issue.since, issue.before or issue.since, issue.until or issue.since} <= set(builds())
        assert all((issue.effect, issue.source, issue.remedy, issue.confidence))
