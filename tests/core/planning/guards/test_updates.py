"""Updates in flight, in every form of every release line: they refuse while something old is left to replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from migrator.planning.model import TreeState
from tests.support.builders import DELETION, EARLIER, ENDED, HASH_LABEL, LABEL, LATER, OLD, World, refusals, warnings
from tests.support.tables import table

#: The one old pod of a stray world, as it is refused.
STRAY = ("GM-111", "web-0-sg-1-work-1", LABEL)
#: The names of a progress: from alpha.7 on, and up to alpha.8.
BOTH = ("updateProgress", "rollingUpdateProgress")
STARTED = {"updateStartedAt": EARLIER}
SET, CLIQUE, GROUP = ("PodCliqueSet", "web"), ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")
CONDITIONS = "/status/conditions"
Edit = Callable[[World], object]
NOTHING_OLD = "nothing old is left to replace"


def condition(kind: str, status: str, reason: str = "Because") -> list[dict[str, Any]]:
    """A condition behind another one, as the operator stores them."""
    return [{"type": "Other", "status": "True"}, {"type": kind, "status": status, "reason": reason}]


def stray(world: World) -> World:
    """Give one pod a hash of no template here: something old is left to be replaced."""
    return world.put("Pod", "web-0-sg-1-work-1", LABEL)


IN_FLIGHT: dict[str, list[Any]] = {
    "A rolling update has no updateEndedAt.": [
        (SET, f"/status/{name}", {**STARTED, **end}, "GM-102", NOTHING_OLD)
        for name in BOTH
        for end in ({}, {"updateEndedAt": None})
    ],
    "What is being updated counts as object and as list, its ended entries included.": [
        (SET, f"/status/{name}/currentlyUpdating", updating, "GM-103", f"names replica {replicas};")
        for name, updating, replicas in (
            ("rollingUpdateProgress", {"replicaIndex": 3, "updateStartedAt": EARLIER}, "3"),
            ("rollingUpdateProgress", {}, "0"),
            ("updateProgress", [{"replicaIndex": 1, "updateStartedAt": EARLIER}], "1"),
            ("updateProgress", [{"replicaIndex": 1, **ENDED}], "1"),
            ("updateProgress", [{"replicaIndex": 1}, {"replicaIndex": 2}], "1, 2"),
        )
    ],
    "A PodClique or scaling group is being updated until updateEndedAt is set and nothing is selected.": [
        (of, f"/status/{name}{field}", value, code, words)
        for name in BOTH
        for of, code, selected in (
            (CLIQUE, "GM-107", "readyPodsSelectedToUpdate"),
            (GROUP, "GM-108", "readyReplicaIndicesSelectedToUpdate"),
        )
        for field, value, words in (
            (f"/{selected}", {"current": 0}, "is set"),
            ("", {**STARTED, selected: {"current": 0}}, "has no updateEndedAt"),
        )
    ],
    "A terminating child is part of an update; a warning names the way out.": [
        (of, DELETION, LATER, "GM-106", "if its node is lost, delete its pods with --force")
        for of in (("PodClique", "web-0-sg-1-work"), GROUP, ("PodGangMap", "web-0"))
    ],
    "The operator itself reports work in progress.": [
        (CLIQUE, CONDITIONS, condition("MinAvailableBreached", "Unknown", "UpdateInProgress"), "GM-117", NOTHING_OLD),
        (GROUP, CONDITIONS, condition("MinAvailableBreached", "Unknown", "UpdateInProgress"), "GM-117", NOTHING_OLD),
        (GROUP, CONDITIONS, condition("GangTerminationInProgress", "True"), "GM-118", NOTHING_OLD),
        (SET, CONDITIONS, condition("PodGangMigrationInProgress", "True"), "GM-119", NOTHING_OLD),
    ],
}


@table("of field value code words", *((sentence, row) for sentence, rows in IN_FLIGHT.items() for row in rows))
def test_what_is_in_flight_refuses_while_something_old_is_left(
    of: tuple[str, str], field: str, value: object, code: str, words: str
) -> None:
    """It only warns where nothing old is left to replace, and refuses beside one old pod, which is named too."""
    stored = [name for name in BOTH if name in field] or ["updateProgress"]
    world = World().grow(progress=stored, maps=of[0] == "PodGangMap").put(*of, field, value)
    (finding,) = world.findings()
    assert warnings([finding]) == [(code, of[1], field)]
    assert words in f"{finding.message}; {finding.remedy}"
    assert set(refusals(stray(world).findings())) == {STRAY, (code, of[1], field)}


@table(
    "of field value",
    ("An empty list: no replica is being updated.", (SET, "/status/updateProgress/currentlyUpdating", [])),
    ("Null: no replica is being updated.", (SET, "/status/updateProgress/currentlyUpdating", None)),
    ("Another reason.", (CLIQUE, CONDITIONS, condition("MinAvailableBreached", "Unknown", "Other"))),
    ("No breach.", (CLIQUE, CONDITIONS, condition("MinAvailableBreached", "False", "SufficientReadyPods"))),
    ("The termination is over.", (GROUP, CONDITIONS, condition("GangTerminationInProgress", "False"))),
    ("The migration is over.", (SET, CONDITIONS, condition("PodGangMigrationInProgress", "False"))),
    ("A condition that starts nothing.", (SET, CONDITIONS, condition("TopologyLevelsUnavailable", "True"))),
)
def test_what_is_over_neither_refuses_nor_warns(of: tuple[str, str], field: str, value: object) -> None:
    """Nothing is under way."""
    assert World().grow().put(*of, field, value).findings() == []


def test_a_mirrored_progress_is_reported_once() -> None:
    """alpha.7 and alpha.8 store one progress under two names: each condition is reported once, by the newer name."""
    world = World().grow(progress=())
    world.pcs["status"] |= {
        "updateProgress": {**STARTED, "currentlyUpdating": [{"replicaIndex": 0}]},
        "rollingUpdateProgress": {**STARTED, "currentlyUpdating": {"replicaIndex": 0}},
    }
    world.of(*CLIQUE)["status"] |= {"updateProgress": STARTED, "rollingUpdateProgress": STARTED}
    expected = [
        ("GM-102", "web", "/status/updateProgress"),
        ("GM-103", "web", "/status/updateProgress/currentlyUpdating"),
        ("GM-107", "web-0-front", "/status/updateProgress"),
    ]
    assert warnings(world.findings()) == expected
    assert set(refusals(stray(world).findings())) == {STRAY, *expected}


def test_a_mirror_that_lags_behind_still_counts() -> None:
    """A progress that is in flight under one of its two names is in flight."""
    world = World().grow(progress=BOTH).take(*SET, "/status/rollingUpdateProgress/updateEndedAt")
    assert set(refusals(stray(world).findings())) == {STRAY, ("GM-102", "web", "/status/rollingUpdateProgress")}


def test_pods_being_deleted_are_left_alone() -> None:
    """A terminating pod warns, is not relabelled and proves nothing, whatever its hash."""
    world = World().grow()
    pod = world.of("Pod", "web-0-front-1")["metadata"]
    pod["deletionTimestamp"], pod["labels"][HASH_LABEL] = LATER, OLD
    decided = world.decide()
    assert refusals(decided.findings) == []
    assert ("GM-113", "web-0-front-1", "/metadata/deletionTimestamp") in warnings(decided.findings)
    assert all(change.ref.name != "web-0-front-1" for change in decided.changes)


@pytest.mark.parametrize("observed", [None, 1])
@pytest.mark.parametrize(("kind", "name"), [SET, CLIQUE, GROUP])
def test_an_unseen_generation_warns(kind: str, name: str, observed: int | None) -> None:
    """A generation that the operator has not seen warns where nothing that is hashed has changed."""
    world = World().grow().put(kind, name, "/metadata/generation", 2)
    (finding,) = world.put(kind, name, "/status/observedGeneration", observed).findings()
    assert warnings([finding]) == [("GM-105", name, "/status/observedGeneration")]
    assert "no hash is affected" in finding.message
    assert f"seen {'generation 1' if observed else 'no generation'}," in finding.message


def test_an_unseen_reordering_does_not_pass_for_a_canonical_source() -> None:
    """What a canonical hash explains is refused while the operator has not seen the newest generation.

    A legacy operator rolled out lists in canonical order, and has not seen that they were reordered since.
    """
    world = World().grow(scheme="canonical-1.34")
    assert refusals(world.findings("canonical-1.34", "legacy-1.35")) == []
    world.pcs["metadata"]["generation"] = 2
    findings = world.findings("canonical-1.34", "legacy-1.35")
    assert refusals(findings) == [("GM-105", "web", "/status/observedGeneration")]
    assert "has not seen a reordered list yet" in next(f.message for f in findings if f.code == "GM-105")


@table(
    "change refused ending",
    (
        "Old values under a set whose own hash is current are an edit that is being rolled out, not one unseen.",
        (lambda world: world.put("Pod", "web-0-front-0", LABEL), "GM-111", "an edit is being rolled out"),
    ),
    (
        "A spec newer than the stored generation hash is refused, and the lag is said to matter.",
        (lambda world: world.edit("front", "app:2"), "GM-101", "see GM-101"),
    ),
)
def test_an_unseen_generation_says_what_it_means(change: Edit, refused: str, ending: str) -> None:
    """An unseen edit refuses by its hash."""
    world = World().grow().put(*SET, "/metadata/generation", 2)
    change(world)
    findings = world.findings()
    assert refused in {code for code, *_ in refusals(findings)}
    (lag,) = (f for f in findings if f.code == "GM-105")
    assert lag.message.endswith(ending)


def test_a_set_kept_by_controller_revisions_refuses() -> None:
    """An operator with ControllerRevisions adopts old hashes by itself; what explains the set is named all the same."""
    decided = World().grow().put(*SET, "/status/currentRevision", "web-0123456789abcdef").decide()
    assert refusals(decided.findings) == [("GM-120", "web", "/status/currentRevision")]
    assert (decided.state, decided.source, len(decided.changes) > 0) == (TreeState.REFUSED, "legacy-1.34", True)


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup"])
def test_on_delete_in_mid_update_is_not_an_update(kind: str) -> None:
    """A set that was switched to OnDelete to freeze it keeps its progress open for ever, and its older pods."""
    world = World().grow(on_delete=True)
    for item in world.all(kind):
        del item["status"]["updateProgress"]["updateEndedAt"]
    world.put("Pod", "web-0-front-0", LABEL)
    decided = world.decide()
    assert (decided.state, refusals(decided.findings)) == (TreeState.MIGRATE, [])
    told = [finding.message for finding in decided.findings if finding.code != "GM-112"]
    assert told
    assert all("updateStrategy is OnDelete, so it replaces no pod" in message for message in told)


@pytest.mark.parametrize(("on_delete", "expected"), [(False, ["GM-107"]), (True, [])])
def test_a_missing_label_may_hide_an_older_template(expected: list[str], *, on_delete: bool) -> None:
    """To the operator no label is another one: the update goes on with that pod, even if GM-111 is allowed."""
    world = World().grow(on_delete=on_delete).take("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-front", "/status/updateProgress/updateEndedAt", None)
    assert [code for code, *_ in refusals(world.findings(allow=["GM-111"]))] == expected


def test_on_delete_progress_is_never_in_flight() -> None:
    """Under OnDelete updateEndedAt is set at once, so half-replaced pods are not an update in flight."""
    world = World().grow(on_delete=True)
    world.edit("front", "app:2")
    after = world.hashes("legacy-1.34")
    world.pcs["status"]["currentGenerationHash"] = after.generation_hash
    front = world.of("PodClique", "web-0-front")
    front["metadata"]["labels"][HASH_LABEL] = after.pod_template_hashes["front"]
    front["status"]["updateProgress"]["podTemplateHash"] = after.pod_template_hashes["front"]
    for kind in ("PodClique", "PodCliqueScalingGroup"):
        for child in world.all(kind):
            child["status"]["updateProgress"]["podCliqueSetGenerationHash"] = after.generation_hash
    decided = world.decide()
    assert (decided.state, refusals(decided.findings)) == (TreeState.MIGRATE, [])
    assert {finding.code for finding in decided.findings} == {"GM-112"}
