"""Updates in flight: what refuses, what ``--allow`` accepts, and what only warns; the table of the seventeen states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from migrator.hashing import schemes
from migrator.planning.model import SetState, Severity
from tests.support.builders import DELETION, EARLIER, LABEL, LATER, OLD, World, clique, refusals, warnings
from tests.support.tables import table

#: The names of a progress: from alpha.7 on, and up to alpha.8.
BOTH = ("updateProgress", "rollingUpdateProgress")
STARTED = {"updateStartedAt": EARLIER}
SET, CLIQUE, GROUP = ("PodCliqueSet", "web"), ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")
MEMBER, POD, MAP = ("PodClique", "web-0-sg-1-work"), ("Pod", "web-0-front-0"), ("PodGangMap", "web-0")
PODS_OF_GROUP = tuple(f"web-0-sg-{replica}-work-{number}" for replica in range(2) for number in range(2))
CONDITIONS = "/status/conditions"
PROGRESS, READY = "/status/updateProgress", "/status/readyReplicas"
Edit = Callable[[World], object]


def condition(kind: str, status: str, reason: str = "Because") -> list[dict[str, Any]]:
    """A condition behind another one, as the operator stores them."""
    return [{"type": "Other", "status": "True"}, {"type": kind, "status": status, "reason": reason}]


def put(of: tuple[str, str], field: str, value: object) -> Edit:
    return lambda world: world.put(*of, field, value)


def gone(*names: str) -> Edit:
    return lambda world: world.remove(*names)


def opened(*of: tuple[str, str]) -> Edit:
    return lambda world: [world.put(*one, PROGRESS, dict(STARTED)) for one in of]


def selected(*completed: str, ready: int, of: tuple[str, str] = CLIQUE, name: str = "updateProgress") -> Edit:
    """Open a PodClique's progress that has selected one pod more than ``completed``; ``ready`` pods are ready."""
    pods = {"current": "x"} | ({"completed": list(completed)} if completed else {})  # Go leaves an empty list out
    return both(
        put(of, f"/status/{name}", {**STARTED, "readyPodsSelectedToUpdate": pods}),
        put(of, READY, ready),
    )


def both(*edits: Edit) -> Edit:
    return lambda world: [edit(world) for edit in edits]


def at_zero(world: World) -> None:
    world.at_zero(CLIQUE[1])


A, B, C = "A", "B", "C"


@table(
    "edit case of field",
    ("1. The spec is newer than the set's hash.", (World.edit, A, SET, None)),
    ("2. An old template on a pod.", (both(opened(SET), put(POD, LABEL, OLD)), A, SET, PROGRESS)),
    ("3. A selected pod is gone.", (both(opened(SET, CLIQUE), gone("web-0-front-1")), B, CLIQUE, READY)),
    ("3. Or it is going.", (both(opened(SET), put(("Pod", "web-0-front-1"), DELETION, LATER)), B, CLIQUE, READY)),
    ("3. The last replacement is Pending.", (both(opened(SET), selected("a", "b", ready=2)), B, CLIQUE, READY)),
    (
        "3. Under the older name of the progress.",
        (selected("a", "b", ready=2, name="rollingUpdateProgress"), B, CLIQUE, READY),
    ),
    ("3. The second one is, and the third is gone.", (selected("a", ready=1), B, CLIQUE, READY)),
    ("3. As many are ready as were selected.", (selected("a", ready=2), C, CLIQUE, PROGRESS)),
    ("3. The first one is selected.", (selected(ready=1), C, CLIQUE, PROGRESS)),
    ("3. More were selected than there are replicas now.", (selected(*"abcde", ready=3), C, CLIQUE, PROGRESS)),
    ("3. And they are not ready.", (selected(*"abcde", ready=2), B, CLIQUE, READY)),
    ("3. No pod is selected.", (both(opened(CLIQUE), put(CLIQUE, READY, 2)), C, CLIQUE, PROGRESS)),
    ("3. A scaling group's replica waits for minAvailable.", (selected("a", ready=1, of=MEMBER), C, MEMBER, PROGRESS)),
    (
        "4. PodCliques of a group's replica are not made yet.",
        (both(opened(SET, GROUP), gone(MEMBER[1], *(f"{MEMBER[1]}-{n}" for n in range(3)))), B, GROUP, None),
    ),
    ("5. Pods load, are Pending or crash-loop.", (both(opened(SET), put(CLIQUE, READY, 0)), B, CLIQUE, READY)),
    ("5. Enough of them are ready.", (both(opened(SET), put(CLIQUE, READY, 1)), C, SET, PROGRESS)),
    ("5. Those of a group, whose own update has ended.", (both(opened(SET), put(MEMBER, READY, 0)), C, SET, PROGRESS)),
    ("6. A clique is below its minimum for good.", (both(opened(SET), at_zero), C, SET, PROGRESS)),
    ("8. Everything is ready and current.", (opened(SET), C, SET, PROGRESS)),
    ("9. Only a PodClique's progress is open.", (both(opened(CLIQUE), put(CLIQUE, READY, 0)), B, CLIQUE, READY)),
    ("9. And nothing is missing.", (opened(GROUP), C, GROUP, PROGRESS)),
    (
        "10. A status lags, labels and pods are current.",
        (put(CLIQUE, "/status/currentPodTemplateHash", OLD), C, CLIQUE, "/status/currentPodTemplateHash"),
    ),
    (
        "11. A terminating PodClique with an old value.",
        (both(put(MEMBER, DELETION, LATER), put(MEMBER, LABEL, OLD)), A, MEMBER, DELETION),
    ),
    ("12. Terminating, values current.", (put(MEMBER, DELETION, LATER), B, MEMBER, DELETION)),
    (
        "12. One for which an update waits.",
        (both(opened(CLIQUE), put(CLIQUE, READY, 0), put(CLIQUE, DELETION, LATER)), B, CLIQUE, DELETION),
    ),
    ("12. A scaling group.", (put(GROUP, DELETION, LATER), B, GROUP, DELETION)),
    ("12. A PodGangMap, whose entries hold hashes.", (put(MAP, DELETION, LATER), B, MAP, DELETION)),
    (
        "13. Gang termination is in progress.",
        (put(GROUP, CONDITIONS, condition("GangTerminationInProgress", "True")), C, GROUP, CONDITIONS),
    ),
    (
        "15. PodGangs are being moved.",
        (put(SET, CONDITIONS, condition("PodGangMigrationInProgress", "True")), C, SET, CONDITIONS),
    ),
    (
        "17. A selected replica is still old.",
        (
            both(
                put(GROUP, PROGRESS, {**STARTED, "readyReplicaIndicesSelectedToUpdate": {"current": 1}}),
                put(MEMBER, LABEL, OLD),
            ),
            A,
            GROUP,
            PROGRESS,
        ),
    ),
)
def test_the_states_of_an_update(edit: Edit, case: str, of: tuple[str, str], field: str | None) -> None:
    """Something old refuses (A), something that can still come refuses unless allowed (B), all else warns (C)."""
    world = World().grow(pods=3, maps=True)  # more pods than minAvailable
    edit(world)
    found = world.findings()
    allowed = refusals(world.findings(allow=["update-in-flight"]))
    assert all(finding.settles for finding in found if finding.code == "GM-102"), "--wait waits for it"
    if case == C:
        assert refusals(found) == []
        assert warnings(found) == [("GM-107", of[1], field)]
    elif case == B:
        assert refusals(found) == [("GM-102", of[1], field)]
        assert warnings(found) == []
        assert allowed == []
        assert "--allow GM-102" in found[0].remedy
    elif field is None:
        assert ("GM-101", of[1], "/status/currentGenerationHash") in refusals(found)
    else:
        assert refusals(found)[0] == allowed[0] == ("GM-102", of[1], field)
        assert {code for code, *_ in refusals(found)[1:]} == {"GM-101"}
        assert "--allow" not in found[0].remedy


@table(
    "edit of",
    ("A pod is gone.", (both(opened(CLIQUE), gone("web-0-front-1")), CLIQUE)),
    (
        "PodCliques are not made yet.",
        (both(opened(GROUP), gone(MEMBER[1], *(f"{MEMBER[1]}-{n}" for n in range(3)))), GROUP),
    ),
    ("A PodClique is being deleted.", (put(MEMBER, DELETION, LATER), MEMBER)),
    ("Nothing is missing.", (opened(CLIQUE), None)),
)
def test_nobody_waits_for_an_update_that_the_next_operator_has_begun(edit: Edit, of: tuple[str, str] | None) -> None:
    """It would recreate the rest, which the migration spares."""
    world = World().grow(pods=3).put_generation_of("legacy-1.35")
    opened(SET)(world)
    edit(world)
    found = world.findings()
    assert refusals(found) == ([("GM-102", of[1], found[0].field)] if of else [])
    assert all("the next operator has begun" in finding.message for finding in found if finding.code == "GM-102")
    assert {(finding.remedy, finding.settles) for finding in found} == {
        ("run with --allow GM-102" if of else "", False)
    }
    assert world.decide(allow=["GM-102"]).state is SetState.MIGRATE


@table(
    "edit settles",
    ("Pods of the present template are left to it.", (opened(SET), False)),
    ("So they are while a PodClique is being deleted.", (both(opened(SET), put(MEMBER, DELETION, LATER)), False)),
    ("It has reached every other pod.", (both(opened(SET), gone("web-0-front-1", *PODS_OF_GROUP)), True)),
)
def test_an_edit_in_the_update_of_the_next_operator_is_left_to_the_old_one(edit: Edit, *, settles: bool) -> None:
    """To let the running operator finish, or to wait for it, would recreate all that the upgrade has not reached."""
    world = World().grow().put_generation_of("legacy-1.35").put(*POD, LABEL)
    edit(world)
    found = [finding for finding in world.findings() if finding.severity is Severity.REFUSAL]
    assert all(finding.settles == settles for finding in found if finding.code == "GM-102")
    assert any("let the running operator finish" in finding.remedy for finding in found) == settles
    assert ("go back to the old release" in found[0].remedy) != settles


def test_beside_a_record_nobody_is_sent_back_to_the_old_release() -> None:
    """Its operator would recreate the pods of what a run has written."""
    world = World().grow().put_generation_of("legacy-1.35").put(*POD, LABEL)
    opened(SET)(world)
    found = world.findings(recorded=schemes.by_name("legacy-1.34"))
    assert [finding.code for finding in found if not finding.settles] == ["GM-102"]
    assert not any("GM-102 says" in finding.remedy or "old release" in finding.remedy for finding in found)


@table(
    "edit target",
    (
        "The next operator accepts the old generation hash, and has replaced it in place.",
        (both(), "canonical-1.34"),
    ),
    (
        "Somebody has chosen OnDelete to stop the next operator.",
        (put(SET, "/spec/updateStrategy", {"type": "OnDelete"}), "legacy-1.35"),
    ),
)
def test_an_update_that_recreates_nothing_more_is_waited_for(edit: Edit, target: str) -> None:
    """It is of an edit, or it replaces no pod: then nothing is lost if the operator goes on."""
    world = World().grow(pods=3).put_generation_of(target)
    both(opened(SET), put(MEMBER, DELETION, LATER), edit)(world)
    (refusal,) = [found for found in world.findings(target=target) if found.code == "GM-102"]
    assert "the next operator" not in refusal.message
    assert refusal.settles


@table(
    "edit",
    ("7. Under OnDelete no release orchestrates an update.", (both(opened(SET, CLIQUE), gone("web-0-front-1")),)),
    ("7. Whatever is selected.", (selected("a", "b", ready=2),)),
    ("7. Whatever is old.", (both(opened(SET), put(POD, LABEL, OLD)),)),
)
def test_on_delete_in_mid_update_only_warns(edit: Edit) -> None:
    """A set that was switched to OnDelete to freeze it keeps its progress open for ever, and its older pods."""
    world = World().grow(on_delete=True)
    edit(world)
    decided = world.decide()
    assert decided.state == SetState.MIGRATE
    assert refusals(decided.findings) == []
    told = [finding.message for finding in decided.findings if finding.code == "GM-107"]
    assert told
    assert all("it replaces no pod" in message for message in told)


@table(
    "edit",
    ("16. Replicas are pending.", (gone("web-0-front-1"),)),
    ("16. PodCliques are missing.", (gone(MEMBER[1]),)),
    ("16. Pods wait behind a gate.", (put(CLIQUE, "/status/scheduleGatedReplicas", 1),)),
    ("A pod is being deleted.", (put(POD, DELETION, LATER),)),
    ("The update has ended.", (put(SET, f"{PROGRESS}/currentlyUpdating", [{"replicaIndex": 0}]),)),
    ("Its pods are selected no more.", (put(CLIQUE, f"{PROGRESS}/readyPodsSelectedToUpdate", {"current": "x"}),)),
    ("A breach.", (put(CLIQUE, CONDITIONS, condition("MinAvailableBreached", "Unknown", "UpdateInProgress")),)),
    ("The termination is over.", (put(GROUP, CONDITIONS, condition("GangTerminationInProgress", "False")),)),
    ("The migration is over.", (put(SET, CONDITIONS, condition("PodGangMigrationInProgress", "False")),)),
    ("An unseen scale.", (put(SET, "/metadata/generation", 2),)),
)
def test_what_is_no_update_is_no_finding(edit: Edit) -> None:
    """Neither scaling nor what has ended is said."""
    world = World().grow()
    edit(world)
    assert world.findings() == []


@table(
    "updating refused",
    ("Replica 0 is being updated, and replica 1 waits.", ([{"replicaIndex": 0}], False)),
    ("Replica 1 is.", ([{"replicaIndex": 1}], True)),
    ("An entry that has ended stays until the next one.", ([{"replicaIndex": 0, "updateEndedAt": LATER}], True)),
    ("Up to alpha.6 it is an object.", ({"replicaIndex": 1}, True)),
    ("Its index 0 is left out.", ({"updateStartedAt": EARLIER}, False)),
    ("None is named.", ([], True)),
    ("Nothing is said.", (None, True)),
    ("A replica that the set does not have any more.", ([{"replicaIndex": 2}], False)),
)
def test_an_update_waits_for_the_replicas_that_it_names(updating: object, *, refused: bool) -> None:
    """A PodClique of another replica is not awaited; a missing one of the replica is."""
    for late in (put(("PodClique", "web-1-front"), READY, 0), gone("web-1-front", "web-1-front-0", "web-1-front-1")):
        world = World().grow(replicas=2, progress=("rollingUpdateProgress",))
        world.put(*SET, "/status/rollingUpdateProgress", {**STARTED, "currentlyUpdating": updating})
        late(world)
        assert [code for code, *_ in refusals(world.findings())] == ["GM-102"] * refused


def test_a_progress_that_is_mirrored_is_reported_once_and_counts_if_one_form_is_open() -> None:
    """alpha.7 and alpha.8 store one progress under two names, of which one may lag behind."""
    world = World().grow(progress=BOTH)
    for name in BOTH:
        world.put(*SET, f"/status/{name}/updateEndedAt", None)
    assert warnings(world.findings()) == [("GM-107", "web", PROGRESS)]
    world.put(*SET, f"{PROGRESS}/updateEndedAt", LATER)
    assert warnings(world.findings()) == [("GM-107", "web", "/status/rollingUpdateProgress")]


@pytest.mark.parametrize("observed", [None, 1])
def test_an_unseen_reordering_does_not_pass_for_a_canonical_source(observed: int | None) -> None:
    """What a canonical hash explains is refused while the operator has not seen the newest generation.

    A legacy operator rolled out lists in canonical order, and has not seen that they were reordered since.
    """
    world = World().grow(scheme="canonical-1.34")
    assert refusals(world.findings("canonical-1.34", "legacy-1.35")) == []
    world.pcs["metadata"]["generation"] = 2
    world.put(*SET, "/status/observedGeneration", observed)
    found = world.findings("canonical-1.34", "legacy-1.35")
    assert refusals(found) == [("GM-105", "web", "/status/observedGeneration")]
    assert "has not seen a reordered list yet" in found[0].message
    assert found[0].settles
    other = world.findings("canonical-1.34", "legacy-1.35", recorded=schemes.by_name("legacy-1.34"))
    assert refusals(other) == refusals(found), "the record is of another source than --from"
    recorded = world.findings("auto", "legacy-1.35", recorded=schemes.by_name("canonical-1.34"))
    assert refusals(recorded) == [], "a run that began before the edit had proven the source"


def test_a_set_kept_by_controller_revisions_refuses() -> None:
    """An operator with ControllerRevisions adopts old hashes by itself; what explains the set is named all the same."""
    decided = World().grow().put(*SET, "/status/currentRevision", "web-0123456789abcdef").decide()
    assert refusals(decided.findings) == [("GM-120", "web", "/status/currentRevision")]
    assert decided.state == SetState.REFUSED
    assert str(decided.source) == "legacy-1.34"
    assert len(decided.changes) > 0


@pytest.mark.parametrize(("on_delete", "expected"), [(False, ["GM-102"]), (True, [])])
def test_a_missing_label_may_hide_an_older_template(expected: Sequence[str], *, on_delete: bool) -> None:
    """To the operator no label is another one: the update goes on with that pod, even if the label is allowed."""
    world = World().grow(on_delete=on_delete).take(*POD, LABEL)
    world.put(*CLIQUE, f"{PROGRESS}/updateEndedAt", None)
    found = world.findings(allow=["GM-101", "GM-102"])
    assert [code for code, *_ in refusals(found)] == expected


def test_a_group_waits_for_every_pod_clique_of_every_replica() -> None:
    """A member that lost a pod, and one that is gone, are both named."""
    world = World().grow(cliques=[clique("a"), clique("b")], groups={"sg": ["a", "b"]}, group_replicas=2)
    opened(GROUP)(world)
    world.remove("web-0-sg-0-a-1", "web-0-sg-1-b", "web-0-sg-1-b-0", "web-0-sg-1-b-1")
    found = world.findings()
    assert refusals(found) == [("GM-102", "web-0-sg-0-a", READY), ("GM-102", "web-0-sg", None)]
    assert "lacks PodClique b of its replica 1" in found[1].message


@pytest.mark.parametrize(("what", "name"), [("PodCliqueSet", "web"), ("PodCliqueScalingGroup", "web-0-sg")])
def test_an_update_waits_for_two_billion_replicas(what: str, name: str) -> None:
    """Anybody can scale their own set so: what is missing is told, as far as somebody reads it, and planning ends."""
    world = World().grow().put(what, name, "/spec/replicas", 2**31 - 1)
    world.put(what, name, PROGRESS, STARTED)
    assert refusals(world.findings()) == [("GM-102", name, None)] * 20
    alone = World().grow(groups={"sg": ["front", "work"]}).put(*SET, "/spec/replicas", 2**31 - 1)
    assert refusals(alone.put(*SET, PROGRESS, STARTED).findings()) == []


@table(
    "selected deleted",
    ("It is named.", ({"current": 0}, "PodClique default/web-0-sg-0-a, which it has selected")),
    ("Go leaves it out, as it is 0.", ({"completed": []}, "PodClique default/web-0-sg-0-a, which it has selected")),
    ("None of it is old.", ({"current": 2}, "")),
)
def test_the_old_pod_cliques_of_the_replica_that_a_group_has_left_behind_are_named(
    selected: dict[str, Any], deleted: str
) -> None:
    """State 17: to delete a current one, or one of another replica or group, would cost pods for nothing."""
    groups = {"sg": ["a", "b"], "other": ["c"]}
    world = World().grow(cliques=[clique(name) for name in "abc"], groups=groups, group_replicas=3)
    world.put(*GROUP, PROGRESS, {**STARTED, "readyReplicaIndicesSelectedToUpdate": selected})
    for name in ("web-0-sg-0-a", "web-0-sg-1-a", "web-0-other-0-c"):
        world.put("PodClique", name, LABEL)
    world.put("PodClique", "web-0-sg-0-b", "/status/currentPodTemplateHash")
    (remedy,) = (finding.remedy for finding in world.findings() if finding.code == "GM-102")
    _, _, named = remedy.partition("delete ")
    assert named.startswith(deleted)
    assert bool(named) == bool(deleted)
