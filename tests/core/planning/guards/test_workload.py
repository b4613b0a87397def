"""The workload's own state, by which the next operator acts whatever the hashes are."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from migrator.planning.model import Severity, TreeState
from migrator.resources import pointer
from tests.support.builders import DELETION, EARLIER, LATER, NOW, World, warnings
from tests.support.tables import table

SET, CLIQUE, GROUP = ("PodCliqueSet", "web"), ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")

Edit = Callable[[World], Any]


def condition(kind: str, status: str, since: datetime | str | None) -> list[dict[str, Any]]:
    """A condition as the operator stores it."""
    text = since.isoformat().replace("+00:00", "Z") if isinstance(since, datetime) else since
    return [{"type": kind, "status": status, "reason": "Because", "lastTransitionTime": text}]


def test_gated_pods_warn() -> None:
    """Pods behind Grove's gate wait for the operator and are migrated all the same."""
    decided = World().grow().put(*CLIQUE, "/status/scheduleGatedReplicas", 1).decide()
    assert warnings(decided.findings) == [("GM-114", "web-0-front", "/status/scheduleGatedReplicas")]
    assert decided.findings[0].message.endswith("1 pod waits behind a scheduling gate until the operator is back")
    assert decided.state is TreeState.MIGRATE


def test_gated_pods_whose_map_is_empty_wait_for_ever() -> None:
    """Grove issue 809: no operator that is back opens their gate; the other replica's pods have a map with entries."""
    world = World().grow(replicas=2, maps=True).put("PodGangMap", "web-1", "/spec/entries", [])
    for name in ("web-0-front", "web-1-front"):
        world.put("PodClique", name, "/status/scheduleGatedReplicas", 2)
    told = {f.ref.name: f.message for f in world.findings() if f.ref is not None and f.code == "GM-114"}
    assert told["web-0-front"].endswith("2 pods wait behind a scheduling gate until the operator is back")
    assert "a scheduling gate that alpha.12 never removes" in told["web-1-front"]
    assert ("GM-133", "web-1", "/spec/entries") in warnings(world.findings())


def spec(kind: str, name: str, **fields: object) -> Edit:
    """Other values in the spec of one object."""
    return lambda world: world.of(kind, name)["spec"].update(fields)


@pytest.mark.parametrize(
    ("edit", "name", "message"),
    [
        (lambda w: w.remove("web-0-front-0"), "web-0-front", "replicas 2, pods 1"),
        (lambda w: w.put("Pod", "web-0-front-0", DELETION, LATER), "web-0-front", "replicas 2, pods 1"),
        (spec(*CLIQUE, replicas=1), "web-0-front", "replicas 1, pods 2"),
        (spec(*GROUP, replicas=4), "web-0-sg", "lacks work of replica 2 and 1 more child;"),
        (spec(*GROUP, replicas=1), "web-0-sg", "still has work of replica 1;"),
        (spec(*GROUP, replicas=2_000_000_000), "web-0-sg", "lacks work of replica 2 and 1999999997 more children;"),
        (lambda w: w.remove("web-0-sg-0-work"), "web-0-sg", "lacks work of replica 0;"),
        (spec(*SET, replicas=2), "web", "lacks front of replica 1 and 1 more child;"),
        (spec(*SET, replicas=0), "web", "still has front of replica 0 and 1 more child;"),
        (spec(*SET, replicas=-1), "web", "still has front of replica 0 and 1 more child;"),
        (lambda w: w.remove("web-0-front"), "web", "lacks front of replica 0;"),
        (
            spec(*GROUP, cliqueNames=["other"]),
            "web-0-sg",
            "lacks other of replica 0 and 1 more child and still has work of replica 0 and 1 more child;",
        ),
    ],
)
def test_pending_scaling_warns(edit: Edit, name: str, message: str) -> None:
    """Children that are missing, on their way out, or too many warn: the operator acts on them at its start."""
    world = World().grow()
    edit(world)
    found = [f for f in world.findings() if f.code == "GM-115"]
    assert warnings(found) == [("GM-115", name, "/spec/replicas")]
    assert message in found[0].message


def test_a_scaling_group_may_have_the_name_of_a_clique() -> None:
    """Grove's webhook compares names of cliques and of groups among themselves only: each child counts for itself."""
    world = World().grow(groups={"front": ["work"]})
    assert [f for f in world.findings() if f.code == "GM-115"] == []
    world.objects.remove(world.of("PodCliqueScalingGroup", "web-0-front"))
    assert ["lacks front of replica 0;" in f.message for f in world.findings() if f.code == "GM-115"] == [True]


@pytest.mark.parametrize("index", ["00", "\u0660"])
def test_another_spelling_of_an_index_is_not_a_replica(index: str) -> None:
    """The operator writes indices without leading zeros: another PodClique of the same clique is one too many."""
    world = World().grow()
    other = copy.deepcopy(world.of("PodClique", "web-0-front"))
    other["metadata"].update(name=f"web-{index}-front", uid="another")
    other["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] = index
    world.objects.append(other)
    [message] = [f.message for f in world.findings() if f.code == "GM-115" and f.ref and f.ref.name == "web"]
    assert f"still has front of replica {index};" in message


def test_a_pod_clique_without_the_label_of_its_scaling_group_is_surplus_there() -> None:
    """A child counts for the scaling group that controls it, even if its labels do not name the group."""
    world = World().grow()
    del world.of("PodClique", "web-0-sg-0-work")["metadata"]["labels"]["grove.io/podcliquescalinggroup"]
    found = {f.ref.name: f.message for f in world.findings() if f.code == "GM-115" and f.ref}
    assert "lacks work of replica 0 and still has sg-0-work of replica 0;" in found["web-0-sg"]
    assert "still has sg-0-work of replica 0;" in found["web"]


def test_replicas_that_are_not_said_are_not_compared() -> None:
    """Where spec.replicas is absent nothing can be pending."""
    world = World().grow()
    for kind, name in (SET, CLIQUE, GROUP):
        del world.of(kind, name)["spec"]["replicas"]
    assert world.findings() == []


@pytest.mark.parametrize(("kind", "name"), [CLIQUE, GROUP])
@pytest.mark.parametrize(
    ("delay", "since", "refused"),
    [
        ("4h0m0s", NOW - timedelta(hours=4, seconds=-601), False),
        ("4h0m0s", NOW - timedelta(hours=4, seconds=-600), True),
        ("4h0m0s", NOW - timedelta(hours=5), True),
        ("4h0m0s", NOW, False),
        ("30s", NOW, True),
        ("10m0.5s", NOW, False),
        ("10m", NOW, True),
        (None, NOW - timedelta(hours=3, minutes=49), False),
        (None, NOW - timedelta(hours=3, minutes=50), True),
        ("for ever", NOW, True),
        ("4h0m0s", None, True),
        ("4h0m0s", "2026-01-02T04:04:05", False),
        ("4h0m0s", "long ago", True),
    ],
)
def test_gang_termination_during_the_downtime_refuses(
    kind: str, name: str, delay: str | None, since: datetime | str | None, *, refused: bool
) -> None:
    """A breach whose delay ends within the downtime refuses, one that lasts longer warns, to the second."""
    world = World().grow().put("PodCliqueSet", "web", "/spec/template/terminationDelay", delay)
    world.put(kind, name, "/status/conditions", condition("MinAvailableBreached", "True", since))
    (finding,) = world.findings(downtime=600.0)
    assert (finding.code, finding.ref and finding.ref.name, finding.field) == ("GM-116", name, "/status/conditions")
    assert (finding.severity is Severity.REFUSAL) is refused


def test_gang_termination_is_not_judged_without_a_clock() -> None:
    """On a dump nobody knows the time, so a breach warns as not checked."""
    breached = condition("MinAvailableBreached", "True", NOW - timedelta(hours=9))
    (finding,) = World().grow().put(*CLIQUE, "/status/conditions", breached).findings(now=NOW, is_cluster=False)
    assert finding.severity is Severity.WARNING
    assert finding.message.endswith("and its termination delay is 4h0m0s")


@pytest.mark.parametrize(
    ("status", "since", "replicas", "created", "warned"),
    [
        ("False", "2026-01-02T03:04:11Z", 2, EARLIER, True),
        ("False", "2026-01-02T03:04:10Z", 2, EARLIER, False),
        ("True", LATER, 2, EARLIER, False),
        ("False", LATER, 0, EARLIER, False),
        ("False", None, 2, EARLIER, False),
        ("False", LATER, 2, None, False),
    ],
)
def test_a_clique_that_ran_and_is_unscheduled_is_called_out(
    status: str, since: str | None, replicas: int, created: str | None, *, warned: bool
) -> None:
    """No pod scheduled after having run is a breach to alpha.12-rc1 and later, migration or not (Grove PR 614)."""
    world = World().grow()
    front = world.of("PodClique", "web-0-front")
    front["metadata"]["creationTimestamp"] = created
    front["spec"]["replicas"] = replicas
    front["status"]["scheduledReplicas"] = 0
    front["status"]["conditions"] = condition("PodCliqueScheduled", status, since)
    found = [f for f in world.findings() if f.code == "GM-127"]
    assert warnings(found) == ([("GM-127", "web-0-front", "/status/scheduledReplicas")] if warned else [])


@table(
    "of since ended target refuses",
    ("a PodClique that never had its pods", (CLIQUE, EARLIER, False, "main-fcc3b3bb", False)),
    ("an older operator ends its gang too", (CLIQUE, EARLIER, False, "v0.1.0-alpha.11", True)),
    ("a PodClique that had them", (CLIQUE, LATER, False, "main-fcc3b3bb", True)),
    ("a scaling group that never was healthy", (GROUP, EARLIER, False, "main-fcc3b3bb", False)),
    ("a scaling group that was", (GROUP, LATER, False, "main-fcc3b3bb", True)),
    ("a scaling group whose gang was ended already", (GROUP, LATER, True, "main-fcc3b3bb", False)),
    ("an older operator ends it again", (GROUP, LATER, True, "legacy-1.34", True)),
    ("a build that is not known may be an older one", (GROUP, LATER, True, "legacy-1.36", True)),
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


@table(
    "of counts breached since builds",
    ("some pods, and once all", (CLIQUE, (1, 2), "False", LATER, "from alpha.9 on")),
    ("some pods, and never all", (CLIQUE, (1, 2), "False", EARLIER, "of alpha.9 to alpha.11")),
    ("some pods are enough", (CLIQUE, (1, 1), "False", LATER, None)),
    ("the running operator counts it already", (CLIQUE, (1, 2), "True", LATER, None)),
    ("an update is under way", (CLIQUE, (1, 2), "Unknown", LATER, None)),
    ("some replicas of a group", (GROUP, (1, 2), "False", LATER, "from alpha.9 on")),
    ("no replica of a group beside live pods", (GROUP, (0, None), "False", EARLIER, "from alpha.12-rc1 on")),
)
def test_what_only_later_operators_count_as_a_breach_is_called_out(
    of: tuple[str, str], counts: tuple[int, int | None], breached: str, since: str, builds: str | None
) -> None:
    """The upgrade itself arms gang termination (Grove PR 561 and PR 614)."""
    world = World().grow()
    item = world.of(*of)
    item["metadata"]["creationTimestamp"] = EARLIER
    item["spec"]["minAvailable"] = counts[1]
    item["status"] |= {
        "scheduledReplicas": counts[0],
        "conditions": condition("PodCliqueScheduled", "False", since)
        + condition("MinAvailableBreached", breached, since),
    }
    found = [f for f in world.findings() if f.code == "GM-127"]
    assert warnings(found) == ([("GM-127", of[1], "/status/scheduledReplicas")] if builds else [])
    assert all(f"operators {builds} count that" in f.message for f in found)


def test_a_group_without_a_scheduled_pod_beside_it_has_nothing_to_lose() -> None:
    """A gang that waits for GPUs as a whole is made anew, and waits on."""
    world = World().grow()
    for item in (*world.all("PodClique"), *world.all("PodCliqueScalingGroup")):
        item["status"]["scheduledReplicas"] = 0
    assert "GM-127" not in {f.code for f in world.findings()}


def test_operator_errors_warn() -> None:
    """Errors that the operator wrote into status are passed on; a request to come back later is not an error."""
    world = World().grow().put("PodCliqueSet", "web", "/status/lastErrors", [{"code": "ERR_A"}, {"code": "ERR_B"}])
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["lastErrors"] = []
    world.of("PodClique", "web-0-front")["status"]["lastErrors"] = [{"code": "ERR_CONTINUE_RECONCILE_AND_REQUEUE"}]
    (finding,) = world.findings()
    assert warnings([finding]) == [("GM-121", "web", "/status/lastErrors")]
    assert "ERR_A, ERR_B" in finding.message


@table(
    "of label value message",
    ("Another set.", (CLIQUE, "app.kubernetes.io/part-of", "other", "has app.kubernetes.io/part-of=other, but")),
    (
        "No scaling group.",
        (
            ("PodClique", "web-0-sg-0-work"),
            "grove.io/podcliquescalinggroup",
            None,
            "has grove.io/podcliquescalinggroup=(none), but its controller is web-0-sg;",
        ),
    ),
    (
        "A scaling group, though the set itself is the controller.",
        (
            CLIQUE,
            "grove.io/podcliquescalinggroup",
            "web-0-sg",
            "has grove.io/podcliquescalinggroup=web-0-sg, but its controller is the PodCliqueSet;",
        ),
    ),
    (
        "Another PodClique.",
        (
            ("Pod", "web-0-front-0"),
            "grove.io/podclique",
            "web-0-sg-0-work",
            "has the label of PodClique web-0-sg-0-work, but its controller is web-0-front;",
        ),
    ),
)
def test_labels_that_contradict_the_controller_warn(
    of: tuple[str, str], label: str, value: str | None, message: str
) -> None:
    """An object is joined by its controller, and labels that name another owner are reported."""
    field = pointer("metadata", "labels", label)
    world = World().grow().put(*of, field, value)
    if value is None:
        world.take(*of, field)
    (finding,) = (f for f in world.findings() if f.code == "GM-132")
    assert warnings([finding]) == [("GM-132", of[1], field)]
    assert message in finding.message
