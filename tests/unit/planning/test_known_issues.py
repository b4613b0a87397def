"""Known issues that are not a matter of hashes: whom each concerns, in which objects, and that none refuses."""

from __future__ import annotations

import re

import pytest

from migrator.planning.known_issues import KNOWN_ISSUES, SetIssue
from migrator.planning.model import Plan
from migrator.planning.planner import Known, make_plan
from migrator.releases.table import builds
from tests.support.builders import DELETION, EARLIER, LABEL, LATER, NOW, World, clique, options_of
from tests.support.tables import table

A7, A8, A9 = "v0.1.0-alpha.7", "v0.1.0-alpha.8", "v0.1.0-alpha.9"
A11, RC1 = "v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1"
MAIN, NEWEST = "main-fcc3b3bb", "legacy-1.35"

FRONT = "web-0-front"
MEMBER = ("PodClique", "web-0-sg-1-work")
SET, GROUP, POD = ("PodCliqueSet", "web"), ("PodCliqueScalingGroup", "web-0-sg"), ("Pod", "web-0-front-0")


def test_builds_are_in_the_order_of_their_versions() -> None:
    """Those that are not in the table are last: one of them is not read before those that are older than it."""
    found = (re.match(r"v0\.1\.0-alpha\.(\d+)", name) for name in builds())
    numbers = [int(match[1]) for match in found if match]
    assert numbers == sorted(numbers)


def planned(world: World, target: str, *, running: str | None = None, source: str = "auto") -> Plan:
    options = options_of(source=source, target=target)
    return make_plan(world.snapshot(), options, Known(now=NOW, running=running))


def standalone_only(*, replicas: int = 1, zero: bool = True) -> World:
    """A set without scaling groups, whose first replica is at zero."""
    world = World().grow(cliques=[clique("front")], groups={}, replicas=replicas)
    return world.at_zero(FRONT) if zero else world


def groups_only() -> World:
    return World().grow(cliques=[clique("work")], groups={"sg": ["work"]}, pods=0).put(*GROUP, "/spec/replicas", 0)


def group_at_zero() -> World:
    """A scaling group at zero, without PodCliques, beside a live one."""
    world = World().grow().put(*GROUP, "/spec/replicas", 0)
    world.objects = [o for o in world.objects if "-sg-" not in o["metadata"]["name"]]
    return world


def for_kai(*queues: str | None) -> World:
    """A set whose cliques KAI schedules into these queues."""
    world = World().grow()
    for entry, queue in zip(world.pcs["spec"]["template"]["cliques"], queues or (None, None), strict=True):
        entry["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
        entry["labels"] = {"kai.scheduler/queue": queue} if queue else {}
    return world


def for_scheduler(*names: str | None) -> World:
    world = World().grow()
    for entry, name in zip(world.pcs["spec"]["template"]["cliques"], names, strict=True):
        entry["spec"]["podSpec"]["schedulerName"] = name
    return world


def scheduled(pods: int = 1, status: str = "False", replicas: int = 2) -> World:
    """A PodClique that wants two pods at least, and has so many of them scheduled."""
    world = unscheduled(("PodClique", FRONT), status, pods).put("PodClique", FRONT, "/spec/minAvailable", 2)
    return world.put("PodClique", FRONT, "/spec/replicas", replicas)


def unscheduled(of: tuple[str, str], status: str = "False", pods: int = 0) -> World:
    """A member of which so many pods or replicas are scheduled, with that state of a breach."""
    world = World().grow().put(*of, "/status/scheduledReplicas", pods)
    return world.put(*of, "/status/conditions", [{"type": "MinAvailableBreached", "status": status}])


def small(replicas: int | None) -> World:
    return World().grow().put(*GROUP, "/spec/minAvailable", 2).put(*GROUP, "/spec/replicas", replicas)


def topology(name: str | None = None, clique: int = 0) -> World:
    constraint = {"packDomain": "rack"} | ({"topologyName": name} if name else {})
    return World().grow().put(*SET, f"/spec/template/cliques/{clique}/topologyConstraint", constraint)


def auto_mnnvl() -> World:
    return World().grow().put(*SET, "/metadata/annotations", {"grove.io/auto-mnnvl": "enabled"})


def pod_of_a_group() -> World:
    """A pod that another scheduler's pod group names."""
    return World().grow().put(*POD, "/metadata/annotations", {"scheduling.k8s.io/group-name": "x"})


def stray() -> World:
    return World().grow(progress=()).put(*POD, LABEL)


def ending(replicas: int | None = 1) -> World:
    """A PodClique with two pods, one of which is being deleted, that wants so many."""
    world = World().grow().put(*POD, DELETION, LATER)
    return world.put("PodClique", FRONT, "/spec/replicas", replicas)


@pytest.mark.parametrize("quiet", [True, False])
def test_a_known_issue_says_whom_it_concerns_where_the_releases_are_not_known(*, quiet: bool) -> None:
    """A hash tells the scheme only: the advice names the releases that it holds for, on either side."""
    world = auto_mnnvl()
    (advice,) = planned(world, "legacy-1.34" if quiet else A11).advisories
    assert "(if the old release is v0.1.0-alpha.8 or older" in advice.message
    assert ("and the new release is v0.1.0-alpha.9 or later)" in advice.message) is quiet
    assert planned(world, A11, source=A8).advisories[0].message.endswith("cannot be added to an existing set")


def at_zero(scheduled: str) -> World:
    """A PodClique at zero with that state of its scheduling from the beginning."""
    found = [{"type": "PodCliqueScheduled", "status": scheduled, "lastTransitionTime": EARLIER}]
    return World().grow().at_zero(FRONT).put("PodClique", FRONT, "/status/conditions", found)


def by_default(scheduler: str) -> World:
    """A set that no template gives a scheduler, and that PodGang's label."""
    world = World().grow(maps=True)
    world.all("PodGang")[0]["metadata"]["labels"]["grove.io/scheduler-name"] = scheduler
    return world


def inherited(clique: int, holder: str) -> World:
    """A topology constraint of one clique, and one with a name of its set or group."""
    constraint = {"packDomain": "rack", "topologyName": "rack-topology"}
    return topology(clique=clique).put(*SET, f"{holder}/topologyConstraint", constraint)


PAST = "An operator that is not older than the change has it already."
NOT_YET = "The target is older than the change, or has its repair."
ENDED = [{"type": "GangTerminationInProgress", "status": "True"}]
GROUPS, CONDITIONS = "/spec/template/podCliqueScalingGroups/0", "/status/conditions"


@table(
    "world running target codes",
    ("A member at zero.", (World().grow().at_zero(FRONT), A11, RC1, [("GM-301", FRONT)])),
    *((NOT_YET, (World().grow().at_zero(FRONT), A11, target, [])) for target in (A9, A11)),
    ("Cliques at zero.", (standalone_only(), A11, NEWEST, [("GM-302", "web")])),
    *((NOT_YET, (standalone_only(), A11, target, [])) for target in (A11, MAIN)),
    ("Groups at zero.", (groups_only(), A11, NEWEST, [("GM-302", "web")])),
    *((NOT_YET, (groups_only(), A11, target, [])) for target in (A11, MAIN)),
    ("A foreign gang.", (pod_of_a_group(), A11, NEWEST, [("GM-304", FRONT)])),
    (NOT_YET, (pod_of_a_group(), A11, RC1, [])),
    ("Claims by annotation.", (auto_mnnvl(), A8, A9, [("GM-305", "web")])),
    (NOT_YET, (auto_mnnvl(), A8, A8, [])),
    ("A topology without its name.", (topology(), A8, A11, [("GM-306", "web")])),
    (NOT_YET, (topology(), A8, A8, [])),
    ("No queue.", (for_kai(), RC1, MAIN, [("GM-307", "web"), ("GM-308", "web")])),
    *((NOT_YET, (for_kai(), RC1, target, [])) for target in (RC1, A11)),
    ("A stray pod.", (stray(), A11, RC1, [("GM-309", "web-0-front-0")])),
    ("Whichever operator ran.", (stray(), MAIN, RC1, [("GM-309", "web-0-front-0")])),
    *((NOT_YET, (stray(), A11, target, [])) for target in (A11, MAIN)),
    ("Too little is scheduled.", (scheduled(), A8, A9, [("GM-311", FRONT)])),
    (NOT_YET, (scheduled(), A8, A8, [])),
    ("A scheduler of its own.", (for_scheduler("volcano", "volcano"), A7, A8, [("GM-313", "web")])),
    ("It is one for each later release, too.", (for_scheduler("own", "own"), A7, A11, [("GM-313", "web")])),
    (NOT_YET, (for_scheduler("volcano", "volcano"), A7, A7, [])),
    (PAST, (for_scheduler("volcano", "volcano"), A8, A11, [])),
    ("The chart enables these.", (for_scheduler("default-scheduler", "default-scheduler"), A7, A11, [])),
    ("No name is the default.", (for_scheduler(None, ""), A7, A11, [])),
    ("And KAI.", (for_kai(), A7, A11, [])),
    ("A pod ends that was replaced.", (ending(), A9, A11, [("GM-314", FRONT)])),
    ("Every operator does so that has not its repair.", (ending(), RC1, RC1, [("GM-314", FRONT)])),
    (NOT_YET, (ending(), A9, MAIN, [])),
    ("A pod ends that was not replaced yet.", (ending(2), A9, A11, [])),
    ("All end.", (ending().put("Pod", "web-0-front-1", DELETION, LATER), A9, A11, [])),
    ("Without a number it wants one.", (ending(None), A9, A11, [("GM-314", FRONT)])),
    ("One is too many, and none ends.", (ending().take(*POD, DELETION), A9, A11, [])),
    ("A set at rest.", (World().grow(), A8, MAIN, [])),
    ("It is being deleted.", (World().grow().at_zero(FRONT).put(*SET, DELETION, LATER), A11, RC1, [])),
    (PAST, (World().grow(scheme="legacy-1.35").at_zero(FRONT), RC1, MAIN, [])),
    (PAST, (auto_mnnvl(), A9, A11, [])),
    ("No pod has another hash.", (World().grow(progress=()), A11, RC1, [])),
    ("Nothing is scheduled: the gang never began.", (scheduled(pods=0), A8, A9, [])),
    ("Enough is.", (scheduled(pods=2), A8, A9, [])),
    ("A breach is reported, which GM-116 judges.", (scheduled(status="True"), A8, A9, [])),
    ("It may be one.", (scheduled(status="Unknown"), A8, A9, [])),
    ("It is at zero.", (scheduled(replicas=0), A8, A9, [])),
    ("At zero from the beginning it ends no gang (Grove: WasPCLQEverScheduled).", (at_zero("False"), A11, RC1, [])),
    ("It once ran.", (at_zero("True"), A11, RC1, [("GM-301", FRONT)])),
    ("A replica that is up has its PodGangMap.", (standalone_only(replicas=2, zero=False), A11, NEWEST, [])),
    (
        "Each replica of a set has a PodGangMap of its own.",
        (standalone_only(replicas=2), A11, NEWEST, [("GM-302", "web")]),
    ),
    ("A number that is not stored is not zero.", (standalone_only().take(*SET, "/spec/replicas"), A11, NEWEST, [])),
    ("Neither of a member.", (standalone_only().take("PodClique", FRONT, "/spec/replicas"), A11, NEWEST, [])),
    ("Beside a live clique the PodGangMap keeps its anchor.", (group_at_zero(), A11, NEWEST, [("GM-301", GROUP[1])])),
    ("No member is left.", (group_at_zero().at_zero(FRONT), A11, NEWEST, [("GM-302", "web")])),
    ("A scaling group ends its gang as a PodClique does.", (group_at_zero(), A11, RC1, [("GM-301", GROUP[1])])),
    ("Unless it was ended once.", (group_at_zero().put(*GROUP, CONDITIONS, ENDED), A11, RC1, [])),
    ("Its finished pods run again.", (World().grow().at_zero(FRONT).finish(), A11, RC1, [("GM-301", FRONT)])),
    ("A finished pod of another hash runs again.", (stray().finish(), A11, RC1, [("GM-309", "web-0-front-0")])),
    (
        "A finished pod of a foreign gang is replaced later too.",
        (pod_of_a_group().finish(), A11, NEWEST, [("GM-304", FRONT)]),
    ),
    *(
        row
        for of in (("PodClique", FRONT), GROUP)
        for row in (
            (
                "Nothing is scheduled: newer operators report a breach.",
                (unscheduled(of), A11, RC1, [("GM-301", of[1])]),
            ),
            ("A reported breach is GM-116's.", (unscheduled(of, "True"), A11, RC1, [])),
            ("Enough is scheduled.", (unscheduled(of, pods=1), A11, RC1, [])),
        )
    ),
    (
        "A PodClique of a group that can spare its replica ends that replica.",
        (unscheduled(MEMBER), A11, RC1, [("GM-301", MEMBER[1])]),
    ),
    (
        "What else is below its minimum takes nothing from the group.",
        (unscheduled(MEMBER).at_zero(FRONT), A11, RC1, [("GM-301", FRONT), ("GM-301", MEMBER[1])]),
    ),
    (
        "A group that can spare none decides by its own state: this gang was ended already.",
        (unscheduled(MEMBER).put(*GROUP, "/spec/minAvailable", 2).put(*GROUP, CONDITIONS, ENDED), A11, RC1, []),
    ),
    ("A group has too few replicas for good.", (small(1), A11, RC1, [("GM-301", GROUP[1])])),
    ("A number that is not stored is not too small.", (small(None), A11, RC1, [])),
    ("Without pods there is nothing to end.", (group_at_zero().at_zero(FRONT), A11, RC1, [])),
    ("KAI is not the default scheduler.", (by_default("other"), RC1, MAIN, [])),
    (
        "It is: no template names it, and the PodGangs do.",
        (by_default("kai-scheduler"), RC1, MAIN, [("GM-307", "web"), ("GM-308", "web")]),
    ),
    (
        "All cliques that name a queue must name the same.",
        (for_kai("a", "b"), RC1, MAIN, [("GM-307", "web"), ("GM-308", "web")]),
    ),
    ("They do.", (for_kai("a", "a"), RC1, MAIN, [("GM-308", "web")])),
    ("One is enough.", (for_kai("a", None), RC1, MAIN, [("GM-308", "web")])),
    ("A pod that is being deleted is in no gang.", (pod_of_a_group().put(*POD, DELETION, LATER), A11, NEWEST, [])),
    ("A topology has its name.", (topology("rack-topology"), A8, A11, [])),
    ("From the set all inherit it.", (inherited(0, "/spec/template"), A8, A11, [])),
    ("From a scaling group its cliques inherit it.", (inherited(1, GROUPS), A8, A11, [])),
    ("No other clique does.", (inherited(0, GROUPS), A8, A11, [("GM-306", "web")])),
    ("Nor from a group that names none.", (topology(clique=1), A8, A11, [("GM-306", "web")])),
)
def test_whom_a_known_issue_concerns(world: World, running: str, target: str, codes: list[tuple[str, str]]) -> None:
    """Both sides of each condition, with the objects."""
    found = planned(world, target, running=running).advisories
    assert [(advice.issue.code, advice.ref.name if advice.ref else "") for advice in found] == codes


@pytest.mark.parametrize("code", KNOWN_ISSUES)
def test_an_entry_is_whole(code: str) -> None:
    """Every known issue has all of its texts, and the releases that it names are known."""
    issue = KNOWN_ISSUES[code]
    assert all((issue.title, issue.effect, issue.source, issue.remedy, issue.confidence))
    if isinstance(issue, SetIssue):
        assert {issue.since, issue.until or issue.since} <= set(builds())
