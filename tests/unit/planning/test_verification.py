"""What ``verify`` makes of one snapshot, without a cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from migrator.grove.places import PROGRESS_FIELDS
from migrator.hashing import schemes
from migrator.planning.verification import Problem, problems_of
from tests.support.builders import DELETION, LABEL, LATER, OLD, World, clique
from tests.support.tables import table

#: Before every update of these objects.
BEFORE = datetime(2020, 1, 1, tzinfo=UTC)


def problems(world: World, target: str = "legacy-1.35", **more: Any) -> list[Problem]:
    return list(problems_of(world.snapshot(), schemes.by_name(target), **more))


@pytest.mark.parametrize("value", ["legacy-1.33", "older"])
def test_a_value_that_the_run_left_alone_may_stay(value: str) -> None:
    """It lags behind and no pod depends on it, whether it is a template's older hash or that of an older operator."""
    world = World().grow(progress=())
    old = world.hashes(value).templates["front"] if value != "older" else OLD
    world.put("PodClique", "web-0-front", "/status/currentPodTemplateHash", old)
    world.apply(world.decide().changes)
    found = problems(world, source=schemes.by_name("legacy-1.34"))
    assert [(one.ref.name, one.late) for one in found] == [("web-0-front", True)]


def test_a_set_that_goes_or_has_not_begun_is_not_judged() -> None:
    """A set that is being deleted ends with its hashes; one that no operator has seen yet stores none."""
    assert problems(World().grow())
    assert problems(World().grow().put("PodCliqueSet", "web", DELETION, LATER)) == []
    assert problems(World([World().grow().pcs]).put("PodCliqueSet", "web", "/status", {})) == []


def test_a_set_that_cannot_be_hashed_is_a_problem_of_its_own() -> None:
    """The other sets are judged all the same, and nobody waits for it."""
    world = World().grow("bad", scheme="legacy-1.35").grow("web", scheme="legacy-1.35")
    world.put("PodCliqueSet", "bad", "/spec/template/cliques/0/spec/podSpec/containers", [{"image": 1}])
    (problem,) = problems(world)
    assert (problem.ref.name, problem.settles) == ("bad", False)
    assert "its template cannot be hashed: spec.template.cliques[0]" in problem.message


@pytest.mark.parametrize("name", PROGRESS_FIELDS)
def test_an_update_in_flight_is_reported_under_the_field_that_holds_it(name: str) -> None:
    """Operators up to alpha.8 write ``rollingUpdateProgress``: that field is named, and its end is read there."""
    world = World().grow(scheme="legacy-1.35", progress=(name,))
    world.pcs["status"][name] |= {"updateStartedAt": LATER, "updateEndedAt": LATER}
    assert problems(world, since=BEFORE) == []
    del world.pcs["status"][name]["updateEndedAt"]
    (open_,) = problems(world, since=BEFORE)
    assert open_.ref.kind == "PodCliqueSet"
    assert open_.field == f"/status/{name}"
    assert not open_.settles


def test_under_on_delete_progress_touches_no_pod() -> None:
    """The operator writes it, and waits for somebody who deletes pods."""
    world = World().grow(scheme="legacy-1.35", on_delete=True)
    world.put("PodClique", "web-0-front", "/status/updateProgress", {"updateStartedAt": LATER})
    assert problems(world, since=BEFORE) == []


@pytest.mark.parametrize("kind", ["Pod", "PodClique"])
def test_a_label_that_is_missing_is_no_hash_of_the_target(kind: str) -> None:
    """The operator takes a pod or PodClique without it for outdated; under OnDelete it is left alone."""
    said = []
    for on_delete in (False, True):
        world = World().grow(scheme="legacy-1.35", on_delete=on_delete)
        world.take(kind, world.all(kind)[0]["metadata"]["name"], LABEL)
        said.append([problem.message for problem in problems(world)])
    assert said == [["PodCliqueSet default/web: a pod or PodClique has no label grove.io/pod-template-hash"], []]


@pytest.mark.parametrize("scheme", ["legacy-1.33", "legacy-1.34"])
def test_a_value_is_looked_for_in_the_order_of_the_table(scheme: str) -> None:
    """A field that only a later operator cannot decode does not hide a hash of the old one, in any process."""
    odd = clique("front")
    odd["spec"]["podSpec"]["workloadRef"] = {"name": "load", "podGroup": True}
    world = World().grow(cliques=[odd], groups={}, pods=0, scheme=scheme)
    found = problems(world, "canonical-1.34")
    assert found
    assert not any(problem.late for problem in found)


SET, GROUP = ("PodCliqueSet", "web"), ("PodCliqueScalingGroup", "web-0-sg")
MEMBER = ("PodClique", "web-0-sg-0-a")
EDITED = [True, False]  # and every set was


@table(
    "of started created ended edited late",
    ("An open update counts from a minute before the migration on: clocks differ.", (SET, -59, -99, False, 0, [False])),
    ("It began before.", (SET, -60, -99, False, 0, [])),
    ("Of a scaling group.", (GROUP, 0, -99, False, 0, [False])),
    ("Of a PodClique.", (MEMBER, 0, -99, False, 0, [False])),
    ("A pod that is younger than the migration and its update was replaced.", (SET, -59, 1, True, 0, [False])),
    ("By the update of its scaling group.", (GROUP, -59, 1, True, 0, [False])),
    ("By its PodClique's, though clocks differ.", (MEMBER, 59, 1, True, 0, [False])),
    ("One that is older was not, whenever the update began.", (SET, -59, 0, True, 0, [])),
    ("An edit began an update that began up to a minute before it.", (SET, 40, -99, False, 100, EDITED)),
    ("No earlier one.", (SET, 39, -99, False, 100, [False])),
    ("None began: who owns the template may have written the replicas.", (SET, -60, -99, True, 100, [])),
    ("A PodClique's alone follows no edit: its pods are judged.", (MEMBER, 200, 200, True, 100, [False])),
    ("It replaced none.", (MEMBER, 200, -99, True, 100, [])),
)
def test_clocks_may_differ_by_a_minute(
    of: tuple[str, str], started: int, created: int, edited: int, late: list[bool], *, ended: bool
) -> None:
    """The operator writes when an update began, and the API server the other times; here in seconds."""
    since = datetime(2026, 1, 2, tzinfo=UTC)
    began, made, moment = ((since + timedelta(seconds=n)).isoformat() for n in (started, created, edited))
    shape: dict[str, Any] = {"groups": {"sg": ["a"]}, "group_replicas": 1, "pods": 1, "progress": ()}
    world = World().grow(scheme="legacy-1.35", cliques=[clique("a")], **shape)
    world.put("Pod", "web-0-sg-0-a-0", "/metadata/creationTimestamp", made)
    progress = {"updateStartedAt": began} | ({"updateEndedAt": began} if ended else {})
    world.put(*of, "/status/updateProgress", progress)
    entry = {"manager": "me", "time": moment, "fieldsV1": {"f:spec": {"f:template": {}}}}
    world.pcs["metadata"]["managedFields"] = [entry]
    assert [problem.late for problem in problems(world, since=since)] == late


@pytest.mark.parametrize("of", [None, SET])
def test_an_update_of_a_standalone_pod_clique_alone_has_replaced_no_pod(of: tuple[str, str] | None) -> None:
    """alpha.12-rc1 updates each that stores no progress, and younger pods are those that were lost or scaled."""
    since = datetime(2026, 1, 2, tzinfo=UTC)
    began = (since + timedelta(seconds=1)).isoformat()
    world = World().grow(scheme="legacy-1.35", cliques=[clique("a")], groups={}, pods=1, progress=())
    world.put("Pod", "web-0-a-0", "/metadata/creationTimestamp", began)
    for kind, name in filter(None, [("PodClique", "web-0-a"), of]):
        world.put(kind, name, "/status/updateProgress", {"updateStartedAt": began, "updateEndedAt": began})
    world.put("PodClique", "web-0-a", "/metadata/creationTimestamp", "2025-01-02T00:00:00Z")
    assert len(problems(world, since=since)) == bool(of)


def test_an_earlier_update_of_a_standalone_pod_clique_alone_hides_no_edit() -> None:
    """alpha.12-rc1 begins one at its start, and a set's update reaches the PodCliques of one replica after another."""
    since = datetime(2026, 1, 2, tzinfo=UTC)
    started, edited = ((since + timedelta(seconds=n)).isoformat() for n in (10, 200))
    world = World().grow(scheme="legacy-1.35", cliques=[clique("a")], groups={}, replicas=2, pods=1, progress=())
    first, second = ("PodClique", "web-0-a"), ("PodClique", "web-1-a")
    for (kind, name), began in (SET, edited), (first, edited), (second, started):
        world.put(kind, name, "/status/updateProgress", {"updateStartedAt": began})
    world.put("Pod", "web-0-a-0", "/metadata/creationTimestamp", edited)
    entry = {"manager": "me", "time": edited, "fieldsV1": {"f:spec": {"f:template": {}}}}
    world.pcs["metadata"]["managedFields"] = [entry]
    assert [problem.late for problem in problems(world, since=since)] == EDITED


def test_a_pod_that_is_being_deleted_is_none_of_those_that_were_replaced() -> None:
    """While an update replaces a pod, the PodClique has one pod more than it wants."""
    since = datetime(2026, 2, 1, tzinfo=UTC)
    began = (since + timedelta(seconds=1)).isoformat()
    world = World().grow(scheme="legacy-1.35", cliques=[clique("a")], groups={}, pods=3, progress=())
    world.put("Pod", "web-0-a-0", DELETION, LATER).put("Pod", "web-0-a-1", "/metadata/creationTimestamp", began)
    world.put(*SET, "/status/updateProgress", {"updateStartedAt": began, "updateEndedAt": began})
    (problem,) = problems(world, since=since)
    assert problem.message.startswith("PodClique default/web-0-a: 1 pod of 2 replaced by an update")
