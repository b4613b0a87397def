"""Stored values of neither scheme: which refuse, which are left alone, and which are absent for a good reason."""

from __future__ import annotations

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.grove.places import HASH_FIELDS
from migrator.planning.model import SetPlan, SetState, Severity
from migrator.run.context import RunOptions
from migrator.run.preview import preview
from migrator.run.session import look_ahead
from tests.support.builders import (
    DELETION,
    LABEL,
    LATER,
    NOW,
    OLD,
    World,
    clique,
    hashes_of,
    options_of,
    refusals,
    warnings,
)
from tests.support.clock import context_of
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table

CLIQUE, GROUP = ("PodClique", "web-0-front"), ("PodCliqueScalingGroup", "web-0-sg")
REPLICAS = "/spec/replicas"
GENERATION = "/status/currentPodCliqueSetGenerationHash"
MAP_ENTRY = "/spec/entries/{}/podCliqueSetGenerationHash"
GANG = ("PodGang", "web-0-1767323045000000000", "/metadata/labels/grove.io~1podcliqueset-generation-hash")

#: Places that pods depend on.
DECISIVE = [
    ("PodCliqueSet", "web", "/status/currentGenerationHash"),
    (*CLIQUE, LABEL),
    ("Pod", "web-0-sg-1-work-1", LABEL),
    ("PodGangMap", "web-0", MAP_ENTRY.format(1)),
    GANG,
]
#: Places that only show how far the operator has come.
LAGGING = [
    (*CLIQUE, "/status/currentPodTemplateHash"),
    ("PodClique", "web-0-sg-0-work", GENERATION),
    (*CLIQUE, "/status/updateProgress/podTemplateHash"),
    (*CLIQUE, "/status/updateProgress/podCliqueSetGenerationHash"),
    (*GROUP, GENERATION),
    (*GROUP, "/status/updateProgress/podCliqueSetGenerationHash"),
]


def names(world: World) -> list[str]:
    """The names of everything."""
    return [item["metadata"]["name"] for item in world.objects]


def changed_but(decided: SetPlan, kind: str, name: str, field: str) -> bool:
    """Whether everything of the tree is changed but this."""
    others = World().grow(maps=True).decide().changes
    return [(c.ref.name, c.field) for c in decided.changes] == [
        (c.ref.name, c.field) for c in others if (c.ref.kind, c.ref.name, c.field) != (kind, name, field)
    ]


def test_every_kind_that_holds_a_hash_is_tried_here() -> None:
    """A new one needs its case, and the remedy that the case asks for."""
    assert {kind for kind, *_ in (*DECISIVE, *LAGGING)} == {place.kind for place in HASH_FIELDS}


@pytest.mark.parametrize(("kind", "name", "field"), DECISIVE)
def test_a_value_of_neither_scheme_refuses(kind: str, name: str, field: str) -> None:
    """Each place that pods depend on refuses with object and pointer; the rest would still change.

    A pod's is Grove issue 400: updateEndedAt is set on everything and pods with an older hash run on.
    """
    decided = World().grow(maps=True).put(kind, name, field).decide()
    (finding,) = decided.findings
    assert refusals([finding]) == [("GM-101", name, field)]
    assert (decided.state, decided.source) == (SetState.REFUSED, None)
    assert changed_but(decided, kind, name, field)
    assert f"holds {OLD} in {field}, which is neither legacy-1.34's " in finding.message


@pytest.mark.parametrize("on_delete", [False, True])
@pytest.mark.parametrize(("kind", "name", "field"), LAGGING)
def test_a_status_that_lags_behind_current_pods_warns(kind: str, name: str, field: str, *, on_delete: bool) -> None:
    """Where labels and pods are current, an older hash in status is left to the operator and all else is migrated."""
    decided = World().grow(maps=True, on_delete=on_delete).put(kind, name, field).decide()
    assert (decided.state, str(decided.source)) == (SetState.MIGRATE, "legacy-1.34")
    assert decided.findings[0].code in {"GM-107", "GM-112"}
    assert (refusals(decided.findings), [f.ref.name for f in decided.findings if f.ref]) == ([], [name])
    assert changed_but(decided, kind, name, field)


@pytest.mark.parametrize("label", [OLD, ""])
@pytest.mark.parametrize(("kind", "name"), [("Pod", "web-0-front-0"), CLIQUE])
def test_a_status_that_lags_behind_with_its_pods_refuses(kind: str, name: str, label: str) -> None:
    """An older hash in status beside a label that is older or empty is part of an update that has not ended."""
    world = World().grow().put(*CLIQUE, "/status/currentPodTemplateHash").put(kind, name, LABEL, label)
    assert ("GM-101", "web-0-front", "/status/currentPodTemplateHash") in refusals(world.findings())


def test_what_is_at_zero_has_no_pod_to_lose() -> None:
    """A scaling group's replica at zero may keep an older label: it is made anew before it has a pod."""
    world = (
        World()
        .grow(pods=0)
        .put("PodClique", "web-0-sg-0-work", LABEL)
        .put(*GROUP, "/status/updateProgress/podCliqueSetGenerationHash")
    )
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    assert refusals(world.findings()) == []
    world.of("PodClique", "web-0-sg-0-work")["spec"]["replicas"] = 1
    assert ("GM-101", "web-0-sg-0-work", LABEL) in refusals(world.findings())
    live = World().grow().put("PodClique", "web-0-sg-0-work", LABEL).put("PodClique", "web-0-sg-0-work", REPLICAS, 0)
    assert ("GM-101", "web-0-sg-0-work", LABEL) in refusals(live.findings())


@pytest.mark.parametrize("old", ["head", "work"])
def test_one_old_member_has_its_whole_replica_replaced(old: str) -> None:
    """The others are current, and the old one is at zero: what the group's status says is not late, but to be done."""
    world = World().grow(cliques=[clique("head"), clique("work")], groups={"sg": ["head", "work"]})
    world.put("PodClique", f"web-0-sg-1-{old}", LABEL).at_zero(f"web-0-sg-1-{old}").put(*GROUP, GENERATION)
    assert ("GM-101", GROUP[1], GENERATION) in refusals(world.findings())


def test_an_update_whose_progress_was_pruned_refuses() -> None:
    """Under CRDs of alpha.9 rollingUpdateProgress is gone: an unfinished update still shows in labels and status."""
    world = World().grow(progress=())
    world.edit("work", "app:2")
    after = world.hashes("legacy-1.34").generation
    world.pcs["status"]["currentGenerationHash"] = after
    world.put(*CLIQUE, GENERATION, after)
    found = refusals(world.findings())
    assert {name for _, name, _ in found} == {"web-0-sg", *(one for one in names(world) if "-work" in one)}
    assert ("GM-101", "web-0-sg", GENERATION) in found


def test_a_tree_that_nothing_explains_says_so() -> None:
    """Where no value is any scheme's, no scheme is named as if it were close."""
    world = World().grow(cliques=[clique("front")], groups={})
    world.edit("front", "app:2")
    messages = [finding.message for finding in world.findings() if finding.severity is Severity.REFUSAL]
    assert messages
    assert all("not the current spec's hash under any scheme" in message for message in messages)


def test_a_stray_value_in_a_finished_tree_is_compared_with_the_target_alone() -> None:
    """One stuck pod in a tree that is otherwise the target's is not blamed on some source."""
    world = World().grow(scheme="legacy-1.35").put("Pod", "web-0-front-0", LABEL)
    (finding,) = world.findings()
    expected = world.hashes("legacy-1.35").templates["front"]
    assert f"holds {OLD} in {LABEL}, which is not legacy-1.35's {expected} (" in finding.message
    assert finding.severity is Severity.WARNING


def test_a_missing_label_refuses() -> None:
    """A PodClique or pod without the hash label cannot be proven; terminating ones and OnDelete's need not be."""
    world = World().grow()
    for kind, name in (("PodClique", "web-0-front"), ("Pod", "web-0-front-0"), ("Pod", "web-0-sg-0-work-0")):
        del world.of(kind, name)["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]
    world.put("Pod", "web-0-sg-0-work-0", DELETION, LATER)
    assert refusals(world.findings()) == [("GM-101", "web-0-front", LABEL), ("GM-101", "web-0-front-0", LABEL)]
    assert {code for code, *_ in refusals(world.put(*CLIQUE, DELETION, LATER).findings())} == {"GM-102"}
    assert refusals(world.findings(allow=["GM-102"])) == []
    left = World().grow(on_delete=True).take("Pod", "web-0-front-0", LABEL).findings()
    assert (refusals(left), warnings(left)) == ([], [("GM-112", "web-0-front-0", LABEL)])


def test_children_without_a_generation_hash() -> None:
    """A set whose status was lost is migrated where its children prove the source, and refused where they do not."""
    expected = ("GM-104", "web", "/status/currentGenerationHash")
    world = World().grow().take("PodCliqueSet", "web", "/status/currentGenerationHash")
    decided = world.decide()
    assert (decided.state, str(decided.source)) == (SetState.MIGRATE, "legacy-1.34")
    assert decided.findings == ()
    assert expected in refusals(world.put("Pod", "web-0-sg-1-work-1", LABEL).findings())
    world.pcs["status"] = {"observedGeneration": 1}
    for child in world.all("PodClique") + world.all("PodCliqueScalingGroup"):
        child["status"] = {"observedGeneration": 1}
    for item in world.all("PodClique") + world.all("Pod"):
        del item["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]
    assert expected in refusals(world.findings())


def test_a_pod_without_the_label_of_its_pod_clique_refuses() -> None:
    """Grove finds it by its controller from alpha.12-rc1 on; the label is named, and no override leaves it there."""
    field = "/metadata/labels/grove.io~1podclique"
    world = World().grow().take("Pod", "web-0-front-0", field)
    assert refusals(world.findings(allow=["GM-101"])) == [("GM-101", "web-0-front-0", field)]


@pytest.mark.parametrize(
    ("kind", "name", "field"),
    [
        ("Pod", "web-0-front-0", LABEL),
        (*CLIQUE, "/status/currentPodTemplateHash"),
        (*CLIQUE, GENERATION),
        (*GROUP, GENERATION),
        ("PodGangMap", "web-0", MAP_ENTRY.format(0)),
        GANG,
    ],
)
def test_on_delete_leftovers_are_left_alone_and_said(kind: str, name: str, field: str) -> None:
    """Under OnDelete older hashes stay where Grove keeps them on purpose, with a warning for each."""
    decided = World().grow(on_delete=True, maps=True).put(kind, name, field).decide()
    assert (decided.state, str(decided.source)) == (SetState.MIGRATE, "legacy-1.34")
    assert warnings(decided.findings) == [("GM-112", name, field)]
    assert refusals(decided.findings) == []
    assert all((change.ref.name, change.field) != (name, field) for change in decided.changes)


def hidden(world: World, place: str) -> None:
    """Keep the source's hash of clique ``front`` where no known operator does."""
    hashes = hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34")
    value = hashes.templates["front"]
    if place == "pod":
        world.put("Pod", "web-0-front-0", "/metadata/annotations", {"grove.io/template": value})
    elif place == "set":
        world.put("PodCliqueSet", "web", "/status/history", [{"hash": hashes.generation}])
    else:
        labels = {"app.kubernetes.io/part-of": "web"} if place == "owned" else {}
        meta = {"name": "r", "namespace": "default", "uid": "u-r", "labels": labels}
        world.objects.append({"kind": "PodCliqueRevision", "metadata": meta, "data": {"hash": value}})


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("pod", "/metadata/annotations/grove.io~1template"),
        ("set", "/status/history/0/hash"),
        ("owned", "/data/hash"),
        ("nobody's", "/data/hash"),
    ],
)
def test_a_hash_in_an_unknown_place_refuses_its_set(place: str, field: str) -> None:
    """An operator that nobody has read cannot be migrated half: object and JSON Pointer are named."""
    world = World().grow().grow("other", cliques=[clique("front", image="other:1"), clique("work", image="other:1")])
    hidden(world, place)
    plan = world.plan()
    by_name = {one.tree.ref.name: one for one in plan.set_plans}
    assert [(code, found) for code, _, found in refusals(by_name["web"].findings)] == [("GM-136", field)]
    assert by_name["other"].state is SetState.MIGRATE
    assert world.plan(target="legacy-1.34").set_plans[1].state is SetState.DONE, (
        "nothing is written, so nothing refuses"
    )


def test_another_set_may_hold_a_hash_of_this_one() -> None:
    """Its objects are its own: what stands there is not left behind by this migration."""
    world = World().grow().grow("other", cliques=[clique("front", image="other:1"), clique("work", image="other:1")])
    value = hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34").generation
    plan = world.put("PodCliqueSet", "other", "/status/history", [{"hash": value}]).plan()
    assert [one.state for one in plan.set_plans] == [SetState.MIGRATE] * 2


def test_a_hash_that_does_not_change_may_be_anywhere() -> None:
    """What is also the target's needs no rewriting, wherever it is: it refuses nothing."""
    world = World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")])
    hidden(world, "pod")
    old, new = (world.hashes(scheme).templates for scheme in ("legacy-1.34", "canonical-1.34"))
    assert (old["front"] == new["front"], old["work"] == new["work"]) == (True, False)
    decided = world.decide("auto", "canonical-1.34")
    assert (decided.state, refusals(decided.findings)) == (SetState.MIGRATE, [])


def test_a_hash_of_another_sets_object_refuses_that_set_only() -> None:
    """Two sets of one template have the same hashes: what is labelled as one's does not refuse the other."""
    world = World().grow("one").grow("two")
    value = hashes_of(world.of("PodCliqueSet", "one"), "legacy-1.34").templates["front"]
    world.of("Pod", "one-0-front-0")["metadata"]["annotations"] = {"grove.io/template": value}
    states = {one.tree.ref.name: one.state for one in world.plan().set_plans}
    assert states == {"one": SetState.REFUSED, "two": SetState.MIGRATE}


def test_a_plan_and_the_first_reading_of_a_run_search_for_hashes() -> None:
    """What stands in an unknown place is found in the store, not only in a snapshot that has it."""
    world = World().grow()
    hidden(world, "pod")
    store = MemoryCluster(*world.objects)
    store.is_cluster = False
    options = options_of(target="legacy-1.35")
    ahead = look_ahead(store, RunOptions(options), context_of(lambda: 0.0, lambda: NOW))
    for plan in (preview(store, options, now=lambda: NOW), ahead.plan):
        assert [code for code, _, _ in refusals(plan.set_plans[0].findings)] == ["GM-136"]


def pruned(field: str, scheme: str, *, alone: bool = False) -> World:
    """A set that was hashed with a field in clique ``front``, which the API server does not return any more."""
    front = clique("front")
    front["spec"]["podSpec"][field] = {} if field != "hostnameOverride" else "h"
    cliques, groups = ([front], {}) if alone else ([front, clique("work")], None)
    world = World().grow(cliques=cliques, groups=groups, scheme=scheme)
    del world.pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"][field]
    return world


@table(
    "field source target alone said",
    ("It exists in one minor alone.", ("workloadRef", "legacy-1.35", "legacy-1.37", False, "workloadRef")),
    ("Nothing of the set is explained.", ("workloadRef", "legacy-1.35", "legacy-1.36", True, "workloadRef")),
    (
        "The way back.",
        ("hostnameOverride", "legacy-1.34", "legacy-1.33", False, "fileKeyRef, hostnameOverride, "),
    ),
    ("All are named.", ("schedulingGroup", "legacy-1.37", "legacy-1.35", False, "protocol, schedulingGroup, user")),
)
def test_a_field_that_other_crds_may_have_removed_is_named(
    field: str, source: str, target: str, said: str, *, alone: bool
) -> None:
    """With the CRDs of the target, the API server leaves out what their release does not know, and the hash moves."""
    found = pruned(field, source, alone=alone).findings("auto", target)
    (remedy,) = (one.remedy for one in found if one.ref and one.ref.kind == "PodCliqueSet" and one.code == "GM-101")
    assert "if the next release's CRDs are installed already" in remedy
    assert said in remedy


def test_crds_that_keep_every_field_are_not_blamed() -> None:
    """From 0.34 to 0.35 no field goes."""
    world = World().grow()
    world.edit("front", "app:2")
    assert not any("CRDs" in one.remedy for one in world.findings("auto", "legacy-1.35"))
