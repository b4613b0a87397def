"""What forbids a migration, condition by condition, on normalised values."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from migrator.errors import UsageError
from migrator.grove.model import Place, Severity, TreePlan, TreeState
from migrator.planning import guards
from migrator.planning.advisories import HAZARDS
from migrator.planning.options import check_allowed
from tests.support.builders import EARLIER, ENDED, HASH_LABEL, LATER, NOW, World, clique, refusals, warnings
from tests.support.paths import ROOT

POINTER = "/metadata/labels/grove.io~1pod-template-hash"
OLD = "4445566677788899"  # a hash of no template here
STARTED = {"updateStartedAt": EARLIER}

Edit = Callable[[World], Any]


def condition(kind: str, status: str, reason: str = "Because", since: str | None = EARLIER) -> dict[str, Any]:
    """A condition as the operator stores it."""
    return {"type": kind, "status": status, "reason": reason, "lastTransitionTime": since}


def breach(since: datetime | str | None) -> dict[str, Any]:
    """A gang below its minimum since then."""
    text = since.isoformat().replace("+00:00", "Z") if isinstance(since, datetime) else since
    return condition("MinAvailableBreached", "True", "InsufficientReadyPods", text)


UPDATING = condition("MinAvailableBreached", "Unknown", "UpdateInProgress")


def test_a_tree_at_rest_has_no_findings() -> None:
    """A settled family, with everything that Grove stores, is neither refused nor warned about."""
    world = World().grow(replicas=2, maps=True, progress=("updateProgress", "rollingUpdateProgress"))
    decided = world.decide()
    assert (decided.state, decided.source, decided.findings) == (TreeState.MIGRATE, "legacy-1.34", ())


# --- updates in flight, in every form of every release line ----------------------------------------------------------


def stray(world: World) -> World:
    """Give one pod a hash of no template here: something old is left to be replaced."""
    world.of("Pod", "web-0-sg-1-work-1")["metadata"]["labels"][HASH_LABEL] = OLD
    return world


STRAY = ("GM-111", "web-0-sg-1-work-1", POINTER)


@pytest.mark.parametrize("name", ["updateProgress", "rollingUpdateProgress"])
@pytest.mark.parametrize("ended", [{}, {"updateEndedAt": None}])
def test_a_set_update_without_an_end_refuses(name: str, ended: dict[str, Any]) -> None:
    """A rolling update without updateEndedAt refuses while something old is left, and else warns."""
    world = World().grow(progress=())
    world.pcs["status"][name] = {**STARTED, **ended}
    found = world.findings()
    assert (refusals(found), warnings(found)) == ([], [("GM-102", "web", f"/status/{name}")])
    assert "nothing old is left to replace" in found[0].message
    assert set(refusals(stray(world).findings())) == {STRAY, ("GM-102", "web", f"/status/{name}")}


@pytest.mark.parametrize(
    ("name", "updating", "replicas"),
    [
        ("rollingUpdateProgress", {"replicaIndex": 3, "updateStartedAt": EARLIER}, "3"),
        ("rollingUpdateProgress", {}, "0"),
        ("updateProgress", [{"replicaIndex": 1, "updateStartedAt": EARLIER}], "1"),
        ("updateProgress", [{"replicaIndex": 1, **ENDED}], "1"),
        ("updateProgress", [{"replicaIndex": 1}, {"replicaIndex": 2}], "1, 2"),
    ],
)
def test_a_replica_being_updated_refuses(name: str, updating: object, replicas: str) -> None:
    """What is being updated counts as object and as list, its ended entries included."""
    world = World().grow(progress=())
    world.pcs["status"][name] = {**ENDED, "currentlyUpdating": updating}
    (finding,) = world.findings()
    assert warnings([finding]) == [("GM-103", "web", f"/status/{name}/currentlyUpdating")]
    assert f"names replica {replicas};" in finding.message
    assert set(refusals(stray(world).findings())) == {STRAY, ("GM-103", "web", f"/status/{name}/currentlyUpdating")}


@pytest.mark.parametrize("updating", [None, []])
def test_nothing_currently_updating_is_at_rest(updating: object) -> None:
    """An empty list and null say that no replica is being updated."""
    world = World().grow()
    world.pcs["status"]["updateProgress"]["currentlyUpdating"] = updating
    assert world.findings() == []


def test_a_mirrored_progress_is_reported_once() -> None:
    """alpha.7 and alpha.8 store one progress under two names: each condition is said once, by the newer name."""
    world = World().grow(progress=())
    world.pcs["status"] |= {
        "updateProgress": {**STARTED, "currentlyUpdating": [{"replicaIndex": 0}]},
        "rollingUpdateProgress": {**STARTED, "currentlyUpdating": {"replicaIndex": 0}},
    }
    world.of("PodClique", "web-0-front")["status"] |= {"updateProgress": STARTED, "rollingUpdateProgress": STARTED}
    expected = [
        ("GM-102", "web", "/status/updateProgress"),
        ("GM-103", "web", "/status/updateProgress/currentlyUpdating"),
        ("GM-107", "web-0-front", "/status/updateProgress"),
    ]
    assert warnings(world.findings()) == expected
    assert set(refusals(stray(world).findings())) == {STRAY, *expected}


def test_a_mirror_that_lags_behind_still_counts() -> None:
    """A progress that is in flight under one of its two names is in flight."""
    world = World().grow(progress=("updateProgress", "rollingUpdateProgress"))
    del world.pcs["status"]["rollingUpdateProgress"]["updateEndedAt"]
    assert set(refusals(stray(world).findings())) == {STRAY, ("GM-102", "web", "/status/rollingUpdateProgress")}


@pytest.mark.parametrize("name", ["updateProgress", "rollingUpdateProgress"])
@pytest.mark.parametrize(
    ("kind", "object_name", "code", "selected"),
    [
        ("PodClique", "web-0-front", "GM-107", "readyPodsSelectedToUpdate"),
        ("PodCliqueScalingGroup", "web-0-sg", "GM-108", "readyReplicaIndicesSelectedToUpdate"),
    ],
)
def test_a_child_in_an_update_refuses(name: str, kind: str, object_name: str, code: str, selected: str) -> None:
    """A PodClique or scaling group is being updated until updateEndedAt is set and nothing is selected."""
    world = World().grow(progress=(name,))
    progress = world.of(kind, object_name)["status"][name]
    progress[selected] = {"current": 0}
    assert warnings(world.findings()) == [(code, object_name, f"/status/{name}/{selected}")]
    del progress["updateEndedAt"]
    assert warnings(world.findings()) == [(code, object_name, f"/status/{name}")]
    assert set(refusals(stray(world).findings())) == {STRAY, (code, object_name, f"/status/{name}")}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("PodClique", "web-0-sg-1-work"),
        ("PodCliqueScalingGroup", "web-0-sg"),
        ("PodGangMap", "web-0"),
    ],
)
def test_a_child_being_deleted_refuses(kind: str, name: str) -> None:
    """A terminating child refuses as part of an update; where nothing old is left, a warning names the way out."""
    world = World().grow(maps=True)
    world.of(kind, name)["metadata"]["deletionTimestamp"] = LATER
    found = world.findings()
    assert (refusals(found), warnings(found)) == ([], [("GM-106", name, "/metadata/deletionTimestamp")])
    assert "if its node is lost, delete its pods with --force" in found[0].message
    assert ("GM-106", name, "/metadata/deletionTimestamp") in refusals(stray(world).findings())


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
@pytest.mark.parametrize(
    ("kind", "name"), [("PodCliqueSet", "web"), ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")]
)
def test_an_unseen_generation_warns(kind: str, name: str, observed: int | None) -> None:
    """A generation that the operator has not seen warns where nothing that is hashed has changed."""
    world = World().grow()
    found = world.of(kind, name)
    found["metadata"]["generation"] = 2
    found["status"]["observedGeneration"] = observed
    (finding,) = world.findings()
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


def test_a_stray_child_is_no_unseen_edit() -> None:
    """Old values under a set whose own hash is current are an edit that is being rolled out, not one unseen."""
    world = World().grow()
    world.pcs["metadata"]["generation"] = 2
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    (lag,) = (f for f in world.findings() if f.code == "GM-105")
    assert lag.message.endswith("an edit is being rolled out")


def test_an_unseen_edit_refuses_by_its_hash() -> None:
    """A spec newer than the stored generation hash is refused, and the lag is said to matter."""
    world = World().grow()
    world.pcs["metadata"]["generation"] = 2
    world.edit("front", "app:2")
    findings = world.findings()
    assert ("GM-101", "web", "/status/currentGenerationHash") in refusals(findings)
    (lag,) = (f for f in findings if f.code == "GM-105")
    assert lag.message.endswith("see GM-101")


@pytest.mark.parametrize(
    ("kind", "name", "entry", "code"),
    [
        ("PodClique", "web-0-front", UPDATING, "GM-117"),
        ("PodCliqueScalingGroup", "web-0-sg", UPDATING, "GM-117"),
        ("PodCliqueScalingGroup", "web-0-sg", condition("GangTerminationInProgress", "True"), "GM-118"),
        ("PodCliqueSet", "web", condition("PodGangMigrationInProgress", "True"), "GM-119"),
    ],
)
def test_what_the_operator_reports_as_under_way_refuses(kind: str, name: str, entry: dict[str, Any], code: str) -> None:
    """The operator's own conditions for work in progress refuse while something old is left, and else warn."""
    world = World().grow()
    world.of(kind, name)["status"]["conditions"] = [condition("Other", "True"), entry]
    found = world.findings()
    assert (refusals(found), warnings(found)) == ([], [(code, name, "/status/conditions")])
    assert set(refusals(stray(world).findings())) == {STRAY, (code, name, "/status/conditions")}


@pytest.mark.parametrize(
    ("kind", "name", "entry"),
    [
        ("PodClique", "web-0-front", condition("MinAvailableBreached", "Unknown", "Other")),
        ("PodClique", "web-0-front", condition("MinAvailableBreached", "False", "SufficientReadyPods")),
        ("PodCliqueScalingGroup", "web-0-sg", condition("GangTerminationInProgress", "False")),
        ("PodCliqueSet", "web", condition("PodGangMigrationInProgress", "False")),
        ("PodCliqueSet", "web", condition("TopologyLevelsUnavailable", "True")),
    ],
)
def test_conditions_that_are_over_say_nothing(kind: str, name: str, entry: dict[str, Any]) -> None:
    """The same conditions, false or for another reason, neither refuse nor warn."""
    world = World().grow()
    world.of(kind, name)["status"]["conditions"] = [entry]
    assert world.findings() == []


def test_a_set_kept_by_controller_revisions_refuses() -> None:
    """An operator with ControllerRevisions adopts old hashes by itself, so the migrator must not run."""
    world = World().grow()
    world.pcs["status"]["currentRevision"] = "web-0123456789abcdef"
    assert refusals(world.findings()) == [("GM-120", "web", "/status/currentRevision")]


def test_everything_that_refuses_is_reported_at_once() -> None:
    """A tree with several troubles names them all in one run, each once."""
    world = World().grow()
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    world.of("PodClique", "web-0-sg-0-work")["metadata"]["deletionTimestamp"] = LATER
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"] = OLD
    found = refusals(world.findings())
    assert sorted(found) == sorted(set(found))
    assert {code for code, _, _ in found} == {"GM-102", "GM-106", "GM-111"}
    assert {f.follows for f in world.findings() if f.code in {"GM-106", "GM-111"}} == {"GM-102"}
    assert all(f.follows is None for f in world.findings() if f.code == "GM-102")


# --- values of neither scheme -----------------------------------------------------------------------------------------

PLACES = [
    ("PodCliqueSet", "web", "/status/currentGenerationHash", "GM-101"),
    ("PodClique", "web-0-front", POINTER, "GM-109"),
    ("PodClique", "web-0-front", "/status/currentPodTemplateHash", "GM-109"),
    ("PodClique", "web-0-sg-0-work", "/status/currentPodCliqueSetGenerationHash", "GM-109"),
    ("PodClique", "web-0-front", "/status/updateProgress/podTemplateHash", "GM-109"),
    ("PodClique", "web-0-front", "/status/updateProgress/podCliqueSetGenerationHash", "GM-109"),
    ("PodCliqueScalingGroup", "web-0-sg", "/status/currentPodCliqueSetGenerationHash", "GM-110"),
    ("PodCliqueScalingGroup", "web-0-sg", "/status/updateProgress/podCliqueSetGenerationHash", "GM-110"),
    ("Pod", "web-0-sg-1-work-1", POINTER, "GM-111"),
    ("PodGangMap", "web-0", "/spec/entries/1/podCliqueSetGenerationHash", "GM-128"),
    ("PodGang", "web-0-1767323045000000000", "/metadata/labels/grove.io~1podcliqueset-generation-hash", "GM-128"),
]


def put(world: World, kind: str, name: str, pointer: str, value: str) -> None:
    """Write a value where a JSON Pointer leads."""
    found: Any = world.of(kind, name)
    *steps, last = (step.replace("~1", "/") for step in pointer[1:].split("/"))
    for step in steps:
        found = found[int(step)] if isinstance(found, list) else found[step]
    found[last] = value


#: Places that pods depend on, and those that only say how far the operator has come.
DECISIVE = [place for place in PLACES if place[3] in {"GM-101", "GM-111", "GM-128"} or place[2] == POINTER]
LAGGING = [place for place in PLACES if place not in DECISIVE]


@pytest.mark.parametrize(("kind", "name", "field", "code"), DECISIVE)
def test_a_value_of_neither_scheme_refuses(kind: str, name: str, field: str, code: str) -> None:
    """Each place that pods depend on refuses with object and pointer; the rest would still change.

    A pod's is Grove issue 400: updateEndedAt is set on everything and pods with an older hash run on.
    """
    world = World().grow(maps=True)
    put(world, kind, name, field, OLD)
    decided = world.decide()
    assert refusals(decided.findings) == [(code, name, field)]
    assert (decided.state, decided.source) == (TreeState.REFUSED, None)
    (finding,) = decided.findings
    assert changed_but(decided, kind, name, field)
    assert f"holds {OLD}, which is neither legacy-1.34's " in finding.message


@pytest.mark.parametrize("on_delete", [False, True])
@pytest.mark.parametrize(("kind", "name", "field", "code"), LAGGING)
def test_a_status_that_lags_behind_current_pods_warns(
    kind: str, name: str, field: str, code: str, *, on_delete: bool
) -> None:
    """Where labels and pods are current, an older hash in status is left to the operator and all else is migrated."""
    world = World().grow(maps=True, on_delete=on_delete)
    put(world, kind, name, field, OLD)
    decided = world.decide()
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")
    assert decided.findings[0].code in {code, "GM-112"}
    assert (refusals(decided.findings), [f.ref.name for f in decided.findings if f.ref]) == ([], [name])
    assert changed_but(decided, kind, name, field)


@pytest.mark.parametrize("broken", ["pod", "label"])
def test_a_status_that_lags_behind_with_its_pods_refuses(broken: str) -> None:
    """An older hash in status beside an older pod, or an older label, is part of an update that has not ended."""
    world = World().grow()
    put(world, "PodClique", "web-0-front", "/status/currentPodTemplateHash", OLD)
    if broken == "pod":
        put(world, "Pod", "web-0-front-0", POINTER, OLD)
    else:
        put(world, "PodClique", "web-0-front", POINTER, OLD)
    assert ("GM-109", "web-0-front", "/status/currentPodTemplateHash") in refusals(world.findings())


def test_what_is_at_zero_has_no_pod_to_lose() -> None:
    """A scaling group's replica at zero may keep an older label: it is made anew before it has a pod."""
    world = World().grow(pods=0)
    put(world, "PodClique", "web-0-sg-0-work", POINTER, OLD)
    put(world, "PodCliqueScalingGroup", "web-0-sg", "/status/updateProgress/podCliqueSetGenerationHash", OLD)
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    assert refusals(world.findings()) == []
    world.of("PodClique", "web-0-sg-0-work")["spec"]["replicas"] = 1
    assert ("GM-109", "web-0-sg-0-work", POINTER) in refusals(world.findings())


def changed_but(decided: TreePlan, kind: str, name: str, field: str) -> bool:
    """Whether everything of the tree is changed but this."""
    others = World().grow(maps=True).decide().changes
    return [(c.ref.name, c.field) for c in decided.changes] == [
        (c.ref.name, c.field) for c in others if (c.ref.kind, c.ref.name, c.field) != (kind, name, field)
    ]


@pytest.mark.parametrize(("kind", "name", "field", "code"), PLACES)
def test_a_value_of_the_target_agrees_with_the_sources(kind: str, name: str, field: str, code: str) -> None:
    """In a half-migrated tree source's and target's values of one field agree, so nothing of it refuses."""
    world = World().grow(maps=True)
    later = World().grow(maps=True, scheme="legacy-1.35").values()
    put(world, kind, name, field, later[kind, name, field])
    decided = world.decide()
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")
    assert warnings(decided.findings) == [("GM-129", "web", None)]
    assert code not in {finding.code for finding in decided.findings}


def test_an_update_whose_progress_was_pruned_refuses() -> None:
    """Under CRDs of alpha.9 rollingUpdateProgress is gone: an unfinished update still shows in labels and status."""
    world = World().grow(progress=())
    before = world.hashes("legacy-1.34")
    world.edit("work", "app:2")
    after = world.hashes("legacy-1.34")
    world.pcs["status"]["currentGenerationHash"] = after.generation_hash
    front = world.of("PodClique", "web-0-front")["status"]
    front["currentPodCliqueSetGenerationHash"] = after.generation_hash
    generation = "/status/currentPodCliqueSetGenerationHash"
    assert set(refusals(world.findings())) == {
        ("GM-110", "web-0-sg", generation),
        *(("GM-109", f"web-0-sg-{i}-work", field) for i in (0, 1) for field in (POINTER, generation)),
        *(("GM-109", f"web-0-sg-{i}-work", "/status/currentPodTemplateHash") for i in (0, 1)),
        *(("GM-111", f"web-0-sg-{i}-work-{n}", POINTER) for i in (0, 1) for n in (0, 1)),
    }
    assert before.pod_template_hashes["front"] == after.pod_template_hashes["front"]


def test_a_tree_that_nothing_explains_says_so() -> None:
    """Where no value is any scheme's, no scheme is named as if it were close."""
    world = World().grow(cliques=[clique("front")], groups={})
    world.edit("front", "app:2")
    messages = [finding.message for finding in world.findings() if finding.severity is Severity.REFUSAL]
    assert messages
    assert all("which no scheme that was tried gives for the current spec" in message for message in messages)


def test_a_stray_value_in_a_finished_tree_is_compared_with_the_target_alone() -> None:
    """One stuck pod in a tree that is otherwise the target's is not blamed on some source."""
    world = World().grow(scheme="legacy-1.35")
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    (finding,) = world.findings()
    expected = world.hashes("legacy-1.35").pod_template_hashes["front"]
    assert f"holds {OLD}, which is not legacy-1.35's {expected};" in finding.message
    assert finding.severity is Severity.WARNING


def test_absent_status_hashes_are_normal() -> None:
    """A PodClique whose pods were never all up has no current hashes yet; they are left absent."""
    world = World().grow(progress=())
    for pclq in world.all("PodClique"):
        del pclq["status"]["currentPodTemplateHash"]
        pclq["status"]["currentPodCliqueSetGenerationHash"] = None
    del world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"]
    decided = world.decide()
    assert decided.findings == ()
    assert {change.place for change in decided.changes} == {Place.POD_LABEL, Place.CLIQUE_LABEL, Place.SET_GENERATION}


def test_a_missing_label_refuses() -> None:
    """A PodClique or pod without the hash label cannot be proven; terminating ones need not be."""
    world = World().grow()
    for kind, name in (("PodClique", "web-0-front"), ("Pod", "web-0-front-0"), ("Pod", "web-0-sg-0-work-0")):
        del world.of(kind, name)["metadata"]["labels"][HASH_LABEL]
    world.of("Pod", "web-0-sg-0-work-0")["metadata"]["deletionTimestamp"] = LATER
    assert refusals(world.findings()) == [
        ("GM-109", "web-0-front", POINTER),
        ("GM-111", "web-0-front-0", POINTER),
    ]
    going = world.of("PodClique", "web-0-front")["metadata"]
    going["deletionTimestamp"] = LATER
    assert refusals(world.findings()) == []


def test_children_without_a_generation_hash() -> None:
    """A set whose status was lost is migrated where its children prove the source, and refused where they do not."""
    world = World().grow()
    del world.pcs["status"]["currentGenerationHash"]
    decided = world.decide()
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")
    assert warnings(decided.findings) == [("GM-104", "web", "/status/currentGenerationHash")]
    assert ("GM-104", "web", "/status/currentGenerationHash") in refusals(stray(world).findings())
    world.pcs["status"] = {"observedGeneration": 1}
    for child in world.all("PodClique") + world.all("PodCliqueScalingGroup"):
        child["status"] = {"observedGeneration": 1}
    for item in world.all("PodClique") + world.all("Pod"):
        del item["metadata"]["labels"][HASH_LABEL]
    assert ("GM-104", "web", "/status/currentGenerationHash") in refusals(world.findings())


# --- OnDelete ---------------------------------------------------------------------------------------------------------

LEFTOVER_FIELDS = [
    ("Pod", "web-0-front-0", POINTER),
    ("PodClique", "web-0-front", "/status/currentPodTemplateHash"),
    ("PodClique", "web-0-front", "/status/currentPodCliqueSetGenerationHash"),
    ("PodCliqueScalingGroup", "web-0-sg", "/status/currentPodCliqueSetGenerationHash"),
    ("PodGangMap", "web-0", "/spec/entries/0/podCliqueSetGenerationHash"),
    ("PodGang", "web-0-1767323045000000000", "/metadata/labels/grove.io~1podcliqueset-generation-hash"),
]


@pytest.mark.parametrize(("kind", "name", "field"), LEFTOVER_FIELDS)
def test_on_delete_leftovers_are_left_alone_and_said(kind: str, name: str, field: str) -> None:
    """Under OnDelete older hashes stay where Grove keeps them on purpose, with a warning for each."""
    world = World().grow(on_delete=True, maps=True)
    put(world, kind, name, field, OLD)
    decided = world.decide()
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")
    assert warnings(decided.findings) == [("GM-112", name, field)]
    assert refusals(decided.findings) == []
    assert all((change.ref.name, change.field) != (name, field) for change in decided.changes)


@pytest.mark.parametrize(("kind", "name", "field", "code"), [PLACES[0], PLACES[1]])
def test_on_delete_excuses_no_other_place(kind: str, name: str, field: str, code: str) -> None:
    """Under OnDelete the set's hash and a PodClique's label are of the newest template: another value refuses."""
    world = World().grow(on_delete=True)
    put(world, kind, name, field, OLD)
    assert refusals(world.findings()) == [(code, name, field)]


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup"])
def test_on_delete_in_mid_update_is_not_an_update(kind: str) -> None:
    """A set that was switched to OnDelete to freeze it keeps its progress open for ever, and its older pods."""
    world = World().grow(on_delete=True)
    for item in world.all(kind):
        del item["status"]["updateProgress"]["updateEndedAt"]
    put(world, "Pod", "web-0-front-0", POINTER, OLD)
    decided = world.decide()
    assert (decided.state, refusals(decided.findings)) == (TreeState.MIGRATE, [])
    told = [finding.message for finding in decided.findings if finding.code != "GM-112"]
    assert told
    assert all("updateStrategy is OnDelete, so it replaces no pod" in message for message in told)


def test_on_delete_excuses_a_pod_without_label() -> None:
    """Under OnDelete a pod without the label is left alone, with a warning."""
    world = World().grow(on_delete=True)
    del world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL]
    assert [(f.code, f.severity) for f in world.findings()] == [("GM-112", Severity.WARNING)]


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


# --- the template -----------------------------------------------------------------------------------------------------


def trapped(*, first: str = "worker", then: str = "prefill-worker") -> World:
    """Two cliques, the name of one a suffix of the other's, as the operator would have hashed them."""
    world = World().grow(cliques=[clique(first), clique(then)], groups={})
    found = world.hashes("legacy-1.34").pod_template_hashes
    match = first if then.endswith(first) else then
    pclq = world.of("PodClique", f"web-0-{then}")
    pclq["metadata"]["labels"][HASH_LABEL] = found[match]
    pclq["status"]["currentPodTemplateHash"] = found[match]
    pclq["status"]["updateProgress"]["podTemplateHash"] = found[match]
    for number in (0, 1):
        world.of("Pod", f"web-0-{then}-{number}")["metadata"]["labels"][HASH_LABEL] = found[match]
    return world


def test_the_suffix_trap_is_named_once() -> None:
    """A clique hashed from another's template by its name's ending refuses, once for all values that follow."""
    assert refusals(trapped().findings()) == [("GM-123", "web-0-prefill-worker", POINTER)]


def test_the_way_out_of_the_suffix_trap_is_one_that_the_webhook_allows() -> None:
    """Cliques change places under AnyOrder only; elsewhere the set is made anew."""
    world = trapped()
    assert "put prefill-worker before worker" in world.findings()[0].message
    world.pcs["spec"]["template"]["cliqueStartupType"] = "CliqueStartupTypeInOrder"
    assert "recreate the set with other names" in world.findings()[0].message


def test_the_suffix_trap_needs_the_shorter_name_first() -> None:
    """In the other order the operator finds the right template."""
    assert trapped(first="prefill-worker", then="worker").findings() == []


def test_the_suffix_trap_does_not_cover_other_strays() -> None:
    """A pod with a hash of neither clique is reported beside the trap."""
    world = trapped()
    world.of("Pod", "web-0-prefill-worker-0")["metadata"]["labels"][HASH_LABEL] = OLD
    assert refusals(world.findings()) == [
        ("GM-111", "web-0-prefill-worker-0", POINTER),
        ("GM-123", "web-0-prefill-worker", POINTER),
    ]


def test_equal_templates_make_no_trap() -> None:
    """Two cliques with one and the same template have one hash, whichever the operator takes."""
    twin = clique("worker")
    world = World().grow(cliques=[twin, {**twin, "name": "prefill-worker"}], groups={})
    assert world.findings() == []


def test_templates_that_only_the_target_tells_apart_make_a_trap() -> None:
    """Cliques that differ in order alone are equal to a canonical source and different to a legacy target."""
    worker = clique("worker")
    containers = worker["spec"]["podSpec"]["containers"]
    other = {**worker, "name": "prefill-worker", "spec": {"podSpec": {"containers": containers[::-1]}}}
    world = World().grow(cliques=[worker, other], groups={}, scheme="canonical-1.34")
    assert ("GM-123", "web-0-prefill-worker", POINTER) in refusals(world.findings("canonical-1.34", "legacy-1.35"))


def test_a_clique_that_the_template_lacks_refuses_once() -> None:
    """A PodClique of no clique proves nothing: one refusal stands for its template hashes and its pods'."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][0]["name"] = "renamed"
    found = world.decide()
    assert refusals(found.findings) == [("GM-109", "web-0-front", POINTER)]
    assert (
        "is of clique front, which the template of PodCliqueSet default/web does not have" in found.findings[0].message
    )


def test_a_clique_whose_labels_do_not_tell_refuses() -> None:
    """Names are never split: without its labels a PodClique has no clique."""
    world = World().grow()
    del world.of("PodClique", "web-0-front")["metadata"]["labels"]["grove.io/podcliqueset-replica-index"]
    assert ("GM-109", "web-0-front", POINTER) in refusals(world.findings())


def polluted(
    *, enabled: str = "enabled", gpus: object = "8", group: bool = False, scheme: str = "legacy-1.34"
) -> World:
    """A set whose PodClique was hashed with an injected claim."""
    world = World().grow(
        cliques=[clique("front", gpus=gpus), clique("work")], groups={"sg": ["front"]} if group else {}, scheme=scheme
    )
    world.pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": enabled}
    name = "web-0-sg-0-front" if group else "web-0-front"
    world.of("PodClique", name)["metadata"]["labels"][HASH_LABEL] = OLD
    for number in (0, 1):
        world.of("Pod", f"{name}-{number}")["metadata"]["labels"][HASH_LABEL] = OLD
    return world


def test_mnnvl_pollution_is_named_once() -> None:
    """alpha.6 and alpha.7 hash the claims that they inject: the cause is named in place of label and pods."""
    assert refusals(polluted().findings()) == [("GM-126", "web-0-front", POINTER)]


@pytest.mark.parametrize(
    "world",
    [
        polluted(enabled="disabled"),
        polluted(gpus="0"),
        polluted(gpus=None),
        polluted(group=True),
        polluted(scheme="legacy-1.33"),
    ],
    ids=["disabled", "no-gpu", "no-limit", "scaling-group", "other-release"],
)
def test_mnnvl_is_blamed_where_it_can_be(world: World) -> None:
    """Without the annotation, GPUs, a standalone clique or a release with the fault, the plain codes are given."""
    codes = {code for code, _, _ in refusals(world.findings())}
    assert codes == {"GM-109", "GM-111"}


def test_mnnvl_is_not_blamed_for_a_label_that_is_right() -> None:
    """Where the label is the template's own, a stray status hash has another cause."""
    world = polluted()
    label = world.hashes("legacy-1.34").pod_template_hashes["front"]
    for item in (world.of("PodClique", "web-0-front"), *world.all("Pod")[:2]):
        item["metadata"]["labels"][HASH_LABEL] = label
    assert world.findings() == []
    world.of("PodClique", "web-0-front")["status"]["currentPodTemplateHash"] = OLD
    assert [code for code, _, _ in warnings(world.findings())] == ["GM-109"]


def test_a_field_that_only_the_target_knows_refuses() -> None:
    """A set field that the running operator ignores would change the pods for real: rewriting would hide it."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["workloadRef"] = {"name": "x", "podGroup": "y"}
    field = "/spec/template/cliques/1/spec/podSpec/workloadRef"
    assert refusals(world.findings()) == [("GM-125", "web", field)]


def test_a_field_that_only_the_source_knows_warns() -> None:
    """A set field that the next operator ignores changes no hash of its own, but new pods will lack it."""
    cliques = [clique("front")]
    cliques[0]["spec"]["podSpec"]["workloadRef"] = {"name": "x", "podGroup": "y"}
    world = World().grow(cliques=cliques, groups={}, scheme="legacy-1.35")
    decided = world.decide("auto", "legacy-1.36")
    field = "/spec/template/cliques/0/spec/podSpec/workloadRef"
    assert (decided.state, warnings(decided.findings)) == (TreeState.MIGRATE, [("GM-134", "web", field)])


def test_a_field_that_neither_side_knows_is_ignored() -> None:
    """What both operators ignore changes nothing."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["schedulingGroup"] = {"podGroupName": "x"}
    assert world.findings() == []


# --- PodGangMaps ------------------------------------------------------------------------------------------------------


def test_hashes_in_names_refuse() -> None:
    """alpha.10-rc1 keys entries by names that hold the hash, and marks its PodGangs."""
    world = World().grow(maps=True)
    for entry in world.of("PodGangMap", "web-0")["spec"]["entries"]:
        del entry["epoch"]
    gang = "web-0-1767323045000000000"
    world.of("PodGang", gang)["metadata"]["labels"]["grove.io/minimum-viable-unit"] = "x"
    assert refusals(world.findings()) == [
        ("GM-131", "web-0", "/spec/entries"),
        ("GM-131", gang, "/metadata/labels/grove.io~1minimum-viable-unit"),
    ]


@pytest.mark.parametrize("entries", [[], None])
def test_a_map_without_entries_warns(entries: object) -> None:
    """alpha.12 can leave a PodGangMap without entries: there is nothing to migrate in it."""
    world = World().grow(maps=True)
    world.of("PodGangMap", "web-0")["spec"]["entries"] = entries
    decided = world.decide()
    assert (decided.state, warnings(decided.findings)) == (TreeState.MIGRATE, [("GM-133", "web-0", "/spec/entries")])


# --- the workload -----------------------------------------------------------------------------------------------------


def test_gated_pods_warn() -> None:
    """Pods behind Grove's gate wait for the operator and are migrated all the same."""
    world = World().grow()
    world.of("PodClique", "web-0-front")["status"]["scheduleGatedReplicas"] = 1
    decided = world.decide()
    assert warnings(decided.findings) == [("GM-114", "web-0-front", "/status/scheduleGatedReplicas")]
    assert decided.findings[0].message.endswith("1 pod waits behind a scheduling gate until the operator is back")
    assert decided.state is TreeState.MIGRATE


def test_gated_pods_whose_map_is_empty_wait_for_ever() -> None:
    """Grove issue 809: no operator that is back opens their gate; the other replica's pods have a map with entries."""
    world = World().grow(replicas=2, maps=True)
    world.of("PodGangMap", "web-1")["spec"]["entries"] = []
    for replica in (0, 1):
        world.of("PodClique", f"web-{replica}-front")["status"]["scheduleGatedReplicas"] = 2
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
        (spec("PodClique", "web-0-front", replicas=1), "web-0-front", "replicas 1, pods 2"),
        (
            spec("PodCliqueScalingGroup", "web-0-sg", replicas=4),
            "web-0-sg",
            "lacks work of replica 2 and 1 more child;",
        ),
        (spec("PodCliqueScalingGroup", "web-0-sg", replicas=1), "web-0-sg", "still has work of replica 1;"),
        (
            spec("PodCliqueScalingGroup", "web-0-sg", replicas=2_000_000_000),
            "web-0-sg",
            "lacks work of replica 2 and 1999999997 more children;",
        ),
        (lambda w: w.remove("web-0-sg-0-work"), "web-0-sg", "lacks work of replica 0;"),
        (spec("PodCliqueSet", "web", replicas=2), "web", "lacks front of replica 1 and 1 more child;"),
        (spec("PodCliqueSet", "web", replicas=0), "web", "still has front of replica 0 and 1 more child;"),
        (spec("PodCliqueSet", "web", replicas=-1), "web", "still has front of replica 0 and 1 more child;"),
        (lambda w: w.remove("web-0-front"), "web", "lacks front of replica 0;"),
        (
            spec("PodCliqueScalingGroup", "web-0-sg", cliqueNames=["other"]),
            "web-0-sg",
            "lacks other of replica 0 and 1 more child and still has work of replica 0 and 1 more child;",
        ),
    ],
)
def test_pending_scaling_warns(edit: Edit, name: str, message: str) -> None:
    """Children that are missing or too many warn: the operator acts on them at its start."""
    world = World().grow()
    edit(world)
    found = [f for f in world.findings() if f.code == "GM-115"]
    assert warnings(found) == [("GM-115", name, "/spec/replicas")]
    assert message in found[0].message


def test_replicas_that_are_not_said_are_not_compared() -> None:
    """Where spec.replicas is absent nothing can be pending."""
    world = World().grow()
    for kind, name in (("PodCliqueSet", "web"), ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")):
        del world.of(kind, name)["spec"]["replicas"]
    assert world.findings() == []


def test_terminating_pods_do_not_count_as_replicas() -> None:
    """A pod on its way out no longer fills a replica."""
    world = World().grow()
    world.of("Pod", "web-0-front-0")["metadata"]["deletionTimestamp"] = LATER
    assert ("GM-115", "web-0-front", "/spec/replicas") in warnings(world.findings())


@pytest.mark.parametrize(("kind", "name"), [("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")])
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
    world = World().grow()
    world.pcs["spec"]["template"]["terminationDelay"] = delay
    world.of(kind, name)["status"]["conditions"] = [breach(since)]
    (finding,) = world.findings(downtime=600.0)
    assert (finding.code, finding.ref and finding.ref.name, finding.field) == ("GM-116", name, "/status/conditions")
    assert (finding.severity is Severity.REFUSAL) is refused


def test_gang_termination_is_not_judged_without_a_clock() -> None:
    """On a dump nobody knows the time, so a breach warns as not checked."""
    world = World().grow()
    world.of("PodClique", "web-0-front")["status"]["conditions"] = [breach(NOW - timedelta(hours=9))]
    (finding,) = world.findings(now=NOW, is_cluster=False)
    assert finding.severity is Severity.WARNING
    assert "not checked" in finding.message


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
    front["status"]["conditions"] = [condition("PodCliqueScheduled", status, since=since)]
    found = [f for f in world.findings() if f.code == "GM-127"]
    assert warnings(found) == ([("GM-127", "web-0-front", "/status/scheduledReplicas")] if warned else [])


def test_operator_errors_warn() -> None:
    """Errors that the operator wrote into status are passed on; a request to come back later is not an error."""
    world = World().grow()
    world.pcs["status"]["lastErrors"] = [{"code": "ERR_A"}, {"code": "ERR_B"}]
    world.of("PodCliqueScalingGroup", "web-0-sg")["status"]["lastErrors"] = []
    world.of("PodClique", "web-0-front")["status"]["lastErrors"] = [{"code": "ERR_CONTINUE_RECONCILE_AND_REQUEUE"}]
    (finding,) = world.findings()
    assert warnings([finding]) == [("GM-121", "web", "/status/lastErrors")]
    assert "ERR_A, ERR_B" in finding.message


@pytest.mark.parametrize(
    ("kind", "name", "label", "value", "message"),
    [
        ("PodClique", "web-0-front", "app.kubernetes.io/part-of", "other", "has app.kubernetes.io/part-of=other, but"),
        (
            "PodClique",
            "web-0-sg-0-work",
            "grove.io/podcliquescalinggroup",
            None,
            "has grove.io/podcliquescalinggroup=(none), but its controller is web-0-sg;",
        ),
        (
            "PodClique",
            "web-0-front",
            "grove.io/podcliquescalinggroup",
            "web-0-sg",
            "has grove.io/podcliquescalinggroup=web-0-sg, but its controller is the PodCliqueSet;",
        ),
        (
            "Pod",
            "web-0-front-0",
            "grove.io/podclique",
            "web-0-sg-0-work",
            "is labelled as of PodClique web-0-sg-0-work, but its controller is web-0-front;",
        ),
    ],
)
def test_labels_that_contradict_the_controller_warn(
    kind: str, name: str, label: str, value: str | None, *, message: str
) -> None:
    """An object is joined by its controller, and labels that name another owner are reported."""
    world = World().grow()
    labels = world.of(kind, name)["metadata"]["labels"]
    labels[label] = value
    if value is None:
        del labels[label]
    (finding,) = (f for f in world.findings() if f.code == "GM-132")
    assert warnings([finding]) == [("GM-132", name, f"/metadata/labels/{label.replace('/', '~1')}")]
    assert message in finding.message


# --- overrides --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name", "field", "code"), [p for p in DECISIVE if guards.overridable(p[3])])
def test_an_override_leaves_the_foreign_value(kind: str, name: str, field: str, code: str) -> None:
    """An allowed stray value stays as it is, is said, and everything else of the tree is migrated."""
    world = World().grow(maps=True)
    put(world, kind, name, field, OLD)
    decided = world.decide(allow=[code])
    assert (decided.state, decided.source, refusals(decided.findings)) == (TreeState.MIGRATE, "legacy-1.34", [])
    (finding,) = decided.findings
    assert (finding.code, finding.severity) == (code, Severity.WARNING)
    assert finding.message.endswith(f"(allowed by --allow {code})")
    before = len(World().grow(maps=True).decide().changes)
    assert len(decided.changes) == before - 1
    assert all((change.ref.name, change.field) != (name, field) for change in decided.changes)


def test_an_override_allows_its_own_code_only() -> None:
    """Allowing pods does not allow PodCliques."""
    world = World().grow()
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    put(world, "PodClique", "web-0-sg-0-work", POINTER, OLD)
    decided = world.decide(allow=["GM-111"])
    assert (decided.state, decided.source) == (TreeState.REFUSED, None)
    assert {code for code, _, _ in refusals(decided.findings)} == {"GM-109"}


def test_only_overridable_codes_are_accepted() -> None:
    """--allow takes a code that exists and may be overridden, and says which those are."""
    check_allowed(code for code in guards.CATALOGUE if guards.overridable(code))
    with pytest.raises(UsageError, match="cannot be overridden; --allow accepts GM-109, GM-110, GM-111, GM-116"):
        check_allowed(["GM-102"])
    with pytest.raises(UsageError, match="a guard with this code does not exist"):
        check_allowed(["GM-999"])


# --- the runbook ------------------------------------------------------------------------------------------------------


def sections() -> dict[str, str]:
    """The catalogue's text for each code."""
    text = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8")
    parts = re.split(r"^### (GM-\d{3})\b", text, flags=re.MULTILINE)
    assert len(parts[1::2]) == len(set(parts[1::2])), "a code has two anchors"
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_code_has_an_anchor_of_its_own() -> None:
    """Each guard and each hazard is explained once, and nothing else is."""
    assert set(sections()) == set(guards.CATALOGUE) | set(HAZARDS)


@pytest.mark.parametrize("code", guards.CATALOGUE)
def test_the_catalogue_says_why_and_what_may_be_overridden(code: str) -> None:
    """Each section says how to see it, what to do, why it refuses, and whether --allow accepts the code, truthfully."""
    text = sections()[code]
    assert "**Judged:**" in text
    assert "kubectl" in text
    assert ("**Override:** `--allow" in text) is guards.overridable(code)
    assert ("**Override:** no" in text) is not guards.overridable(code)
    assert guards.guard(code).title in text


def test_an_unknown_code_is_nobodys() -> None:
    """A code that does not exist is not overridable, and asking for it is an error."""
    assert not guards.overridable("GM-999")
    with pytest.raises(KeyError):
        guards.guard("GM-999")
