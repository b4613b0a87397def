"""Stored values of neither scheme: which refuse, which are left alone, and which are absent for a good reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH, PossibleHash
from migrator.grove.places import HASH_FIELDS
from migrator.planning.model import SetPlan, SetState, Severity
from migrator.planning.planner import make_plan
from migrator.run.context import RunOptions
from migrator.run.migration import look_ahead
from migrator.run.preview import preview
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
MEMBER, POD = ("PodClique", "web-0-sg-0-work"), ("Pod", "web-0-front-0")
GENERATION = "/status/currentPodCliqueSetGenerationHash"
OF_CLIQUE, OF_GANG = "/metadata/labels/grove.io~1podclique", "/metadata/labels/grove.io~1podgang"
FRONT = ("GM-101", "web-0-front", LABEL)
SET, BEGUN = ("PodCliqueSet", "web"), {"updateStartedAt": LATER}
#: The fields of a PodClique that an edit of its template makes foreign.
LABELLED = (LABEL, "/status/currentPodTemplateHash", GENERATION)
GANG_MAP, GANG = ("PodGangMap", "web-0"), ("PodGang", "web-0-1767323045000000000")

#: Every place, the code of an older hash in it, and its code under OnDelete.
PLACES = [
    ("PodCliqueSet", "web", "/status/currentGenerationHash", "GM-101", "GM-101"),
    (*CLIQUE, LABEL, "GM-101", "GM-101"),
    (*CLIQUE, "/status/currentPodTemplateHash", "GM-107", "GM-112"),
    (*MEMBER, GENERATION, "GM-107", "GM-112"),
    (*CLIQUE, "/status/updateProgress/podTemplateHash", "GM-107", "GM-107"),
    (*CLIQUE, "/status/updateProgress/podCliqueSetGenerationHash", "GM-107", "GM-107"),
    (*GROUP, GENERATION, "GM-107", "GM-112"),
    (*GROUP, "/status/updateProgress/podCliqueSetGenerationHash", "GM-107", "GM-107"),
    (*POD, LABEL, "GM-101", "GM-112"),
    (*GANG_MAP, "/spec/entries/1/podCliqueSetGenerationHash", "GM-107", "GM-112"),
    (*GANG, "/metadata/labels/grove.io~1podcliqueset-generation-hash", "GM-101", "GM-112"),
]


def changed_but(decided: SetPlan, kind: str, name: str, field: str) -> bool:
    """Whether everything of the tree is changed but this."""
    others = World().grow(maps=True).decide().changes
    return [(c.ref.name, c.field) for c in decided.changes] == [
        (c.ref.name, c.field) for c in others if (c.ref.kind, c.ref.name, c.field) != (kind, name, field)
    ]


def test_every_kind_that_holds_a_hash_is_tried_here() -> None:
    """A new one needs its case, and the remedy that the case asks for."""
    assert {kind for kind, *_ in PLACES} == {place.kind for place in HASH_FIELDS}


@pytest.mark.parametrize("on_delete", [False, True])
@pytest.mark.parametrize(("kind", "name", "field", "rolling", "left"), PLACES)
def test_a_value_of_neither_scheme_is_named(
    kind: str, name: str, field: str, rolling: str, left: str, *, on_delete: bool
) -> None:
    """It refuses where pods depend on it, and else is left to the operator with a warning; the rest is migrated.

    A pod's is Grove issue 400: updateEndedAt is set on everything and pods with an older hash run on.
    """
    decided = World().grow(maps=True, on_delete=on_delete).put(kind, name, field).decide()
    (finding,) = decided.findings
    expected = left if on_delete else rolling
    assert finding.code == expected
    assert (finding.ref and finding.ref.name) == name
    assert finding.field == field
    assert (decided.state, decided.source is None) == (
        (SetState.REFUSED, True) if expected == "GM-101" else (SetState.MIGRATE, False)
    )
    assert changed_but(decided, kind, name, field)
    assert f"holds {OLD} in {field}, " in finding.message


@pytest.mark.parametrize(("kind", "name", "field"), [place[:3] for place in PLACES if place[3] == "GM-101"])
def test_an_override_leaves_the_value_of_a_pod_or_pod_clique(kind: str, name: str, field: str) -> None:
    """With a warning; no other value is ever left alone, and another code does not help."""
    world = World().grow(maps=True).put(kind, name, field)
    assert refusals(world.findings(allow=["GM-102"])) == [("GM-101", name, field)]
    decided = world.decide(allow=["foreign-value"])
    (finding,) = decided.findings
    is_allowed = kind in {"Pod", "PodClique"}
    assert decided.state is (SetState.MIGRATE if is_allowed else SetState.REFUSED)
    assert finding.message.endswith("(allowed by --allow GM-101)") is is_allowed
    assert changed_but(decided, kind, name, field)


@table(
    "kind name field value",
    ("An update of the set is under way, which moves it on.", (*SET, "/status/updateProgress", BEGUN)),
    ("The pods that it stands for are to be replaced.", (*POD, LABEL, OLD)),
)
def test_an_entry_of_a_pod_gang_map_may_only_be_old_at_rest(kind: str, name: str, field: str, value: object) -> None:
    """Else it shows how far the operator has come, which a migration would hide."""
    entry = "/spec/entries/1/podCliqueSetGenerationHash"
    world = World().grow(maps=True).put(*GANG_MAP, entry).put(kind, name, field, value)
    assert ("GM-101", GANG_MAP[1], entry) in refusals(world.findings(allow=["GM-101"]))


def test_a_warning_stays_as_it_is_where_nothing_is_written() -> None:
    """It would not have refused."""
    (finding,) = World().grow(scheme="legacy-1.35", on_delete=True).put(*POD, LABEL).findings()
    assert "nothing is to be written" not in finding.message


def at_zero(replicas: int, pods: int) -> World:
    """A scaling group's replica with an older label that is to have so many pods."""
    return World().grow(pods=pods).put(*MEMBER, LABEL).put(*MEMBER, REPLICAS, replicas)


def pruned() -> World:
    """An unfinished update whose progress is gone: under CRDs of alpha.9 the API server leaves it out."""
    world = World().grow(progress=()).edit("work")
    after = world.hashes("legacy-1.34").generation
    return world.put("PodCliqueSet", "web", "/status/currentGenerationHash", after).put(*CLIQUE, GENERATION, after)


def unreconciled() -> World:
    return World().grow().take("PodCliqueSet", "web", "/status/currentGenerationHash")


def restored() -> World:
    """A set from a backup: neither status nor labels."""
    world = World().grow()
    for item in (*world.all("PodCliqueSet"), *world.all("PodClique"), *world.all("PodCliqueScalingGroup")):
        item["status"] = {"observedGeneration": 1}
    for item in world.all("PodClique") + world.all("Pod"):
        del item["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH]
    return world


STATUS = ("GM-101", "web-0-front", "/status/currentPodTemplateHash")
WITH_PODS = "An older hash in status beside a label that is older or empty is part of an update that has not ended."
NEVER = ("GM-104", "web", "/status/currentGenerationHash")


@table(
    "world allow refused",
    *(
        (WITH_PODS, (behind.copy().put(*of, LABEL, label), (), [STATUS, ("GM-101", of[1], LABEL)]))
        for behind in [World().grow().put(*CLIQUE, "/status/currentPodTemplateHash")]
        for of in (CLIQUE, POD)
        for label in (OLD, "")
    ),
    ("A replica at zero is made anew before it has a pod.", (at_zero(0, pods=0), (), [])),
    ("It is to have one.", (at_zero(1, pods=0), (), [("GM-101", MEMBER[1], LABEL)])),
    ("It has pods still.", (at_zero(0, pods=2), (), [("GM-101", MEMBER[1], LABEL)])),
    (
        "An update whose progress was pruned still shows in labels and status.",
        (
            pruned(),
            (),
            [
                ("GM-101", "web-0-sg", GENERATION),
                *(("GM-101", f"web-0-sg-{n}-work", field) for n in (0, 1) for field in LABELLED),
                *(("GM-101", f"web-0-sg-{n}-work-{pod}", LABEL) for n in (0, 1) for pod in (0, 1)),
            ],
        ),
    ),
    ("A PodClique without its label cannot be proven.", (World().grow().take(*CLIQUE, LABEL), (), [FRONT])),
    (
        "One that is going need not be.",
        (World().grow().take(*CLIQUE, LABEL).put(*CLIQUE, DELETION, LATER), ("GM-102",), []),
    ),
    ("A pod without its label.", (World().grow().take(*POD, LABEL), (), [("GM-101", POD[1], LABEL)])),
    ("It is going.", (World().grow().take(*POD, LABEL).put(*POD, DELETION, LATER), (), [])),
    (
        "A pod without the label of its PodClique, which Grove finds by its controller: no override leaves it there.",
        (World().grow().take(*POD, OF_CLIQUE), ("GM-101",), [("GM-101", POD[1], OF_CLIQUE)]),
    ),
    ("No generation hash, and children that prove the source.", (unreconciled(), (), [])),
    (
        "And one that does not.",
        (unreconciled().put(*POD, LABEL), (), [NEVER, ("GM-101", POD[1], LABEL)]),
    ),
    (
        "A generation hash that is no text is none.",
        (World().grow().put(*POD, LABEL).put("PodCliqueSet", *NEVER[1:], 5), (), [NEVER, ("GM-101", POD[1], LABEL)]),
    ),
    ("And none that proves anything.", (restored(), ("GM-101",), [NEVER])),
    (
        "Values of the target beside a set's hash of neither: another operator may have written it.",
        (
            World().grow(scheme="legacy-1.35").put("PodCliqueSet", "web", "/status/currentGenerationHash"),
            (),
            [("GM-101", "web", "/status/currentGenerationHash")],
        ),
    ),
)
def test_what_cannot_be_proven_refuses(
    world: World, allow: tuple[str, ...], refused: list[tuple[str, str, str]]
) -> None:
    """Unless no pod depends on it."""
    assert sorted(refusals(world.findings(allow=allow)), key=str) == sorted(refused, key=str)


def test_on_delete_leaves_a_pod_without_its_label() -> None:
    """Like an older pod, and says so."""
    left = World().grow(on_delete=True).take(*POD, LABEL).findings()
    assert refusals(left) == []
    assert warnings(left) == [("GM-112", POD[1], LABEL)]


def test_a_tree_that_nothing_explains_says_so() -> None:
    """Where no value is any scheme's, no scheme is named as if it were close."""
    found = World().grow(cliques=[clique("front")], groups={}).edit().findings()
    messages = [finding.message for finding in found if finding.severity is Severity.REFUSAL]
    assert messages
    assert all("not the current spec's hash under any scheme" in message for message in messages)


def test_a_stray_value_in_a_finished_tree_is_compared_with_the_target_alone() -> None:
    """One stuck pod in a tree that is otherwise the target's is not blamed on some source."""
    world = World().grow(scheme="legacy-1.35").put(*POD, LABEL)
    (finding,) = world.findings()
    expected = world.hashes("legacy-1.35").templates["front"]
    assert f"holds {OLD} in {LABEL}, which is not legacy-1.35's {expected} (" in finding.message
    assert finding.severity is Severity.WARNING


def two() -> World:
    return World().grow().grow("other", cliques=[clique("front", image="other:1"), clique("work", image="other:1")])


def template(world: World) -> str:
    return hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34").templates["front"]


def annotated(world: World) -> World:
    """A pod keeps the hash where no known operator does."""
    return world.put(*POD, "/metadata/annotations", {"grove.io/template": template(world)})


def with_history(of: str) -> World:
    """A set keeps the generation hash of set ``web`` where no known operator does."""
    world = two()
    generation = hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34").generation
    return world.put("PodCliqueSet", of, "/status/history", [{"hash": generation}])


def revision(part_of: str | None, namespace: str = "default") -> World:
    """An object of an unknown kind keeps the hash, labelled as a set's, or as nobody's."""
    world, labels = two(), {"app.kubernetes.io/part-of": part_of} if part_of else {}
    meta = {"name": "r", "namespace": namespace, "uid": "u-r", "labels": labels}
    world.objects.append({"kind": "PodCliqueRevision", "metadata": meta, "data": {"hash": template(world)}})
    return world


def named() -> World:
    """alpha.10-rc1 names PodGangs SET-REPLICA-HASH-NUMBER, and its pods have that name as a label."""
    world = World().grow(maps=True).grow("other", cliques=[clique("front", image="other:1")], groups={})
    generation = hashes_of(world.of("PodCliqueSet", "web"), "legacy-1.34").generation
    name = f"web-0-{generation}-0"
    return world.put(*GANG, "/metadata/name", name).put(*POD, OF_GANG, name)


@table(
    "world fields",
    ("A name, and a label with it.", (named(), [OF_GANG, "/metadata/name"])),
    ("A pod's annotation.", (annotated(two()), ["/metadata/annotations/grove.io~1template"])),
    ("The set's status.", (with_history("web"), ["/status/history/0/hash"])),
    ("The status of another set, whose objects are its own.", (with_history("other"), [])),
    ("An object of the set.", (revision("web"), ["/data/hash"])),
    ("Nobody's object.", (revision(None), ["/data/hash"])),
    ("An object of another set.", (revision("other"), [])),
    ("An object of a set of that name elsewhere.", (revision("web", "elsewhere"), [])),
)
def test_a_hash_in_an_unknown_place_refuses_its_set(world: World, fields: list[str]) -> None:
    """An operator that nobody has read cannot be migrated half: JSON Pointers are named, and no other set refuses."""
    by_name = {one.tree.ref.name: refusals(one.findings) for one in world.plan().set_plans}
    assert [(code, found) for code, _, found in by_name["web"]] == [("GM-136", field) for field in fields]
    assert by_name["other"] == []


def test_a_set_looks_for_its_own_hashes_alone() -> None:
    """Anybody can write 100,000 strings that look like hashes into one object, which every set would go through."""

    class Unwalked(dict[str, Sequence[PossibleHash]]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("a set went through the strings of all objects")

        items = values = __iter__  # type: ignore[assignment]

    snapshot = annotated(two()).snapshot()
    plan = make_plan(replace(snapshot, possible_hashes=Unwalked(snapshot.possible_hashes)), options_of())
    assert [(one.tree.ref.name, len(one.refusals)) for one in plan.set_plans] == [("other", 0), ("web", 1)]


def test_a_hash_in_an_unknown_place_leaves_the_other_sets_a_way() -> None:
    """The flag that leaves the set out is named, and what this costs."""
    (finding,) = annotated(World().grow()).plan().set_plans[0].findings
    assert "with --skip-refused: the upgrade recreates its pods" in finding.remedy


def test_a_hash_that_does_not_change_may_be_anywhere() -> None:
    """What is also the target's needs no rewriting, wherever it is: it refuses nothing."""
    world = annotated(World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")]))
    old, new = (world.hashes(scheme).templates for scheme in ("legacy-1.34", "canonical-1.34"))
    assert old["front"] == new["front"]
    assert old["work"] != new["work"]
    assert refusals(world.findings("auto", "canonical-1.34")) == []


def test_a_plan_and_the_first_reading_of_a_run_search_for_hashes() -> None:
    """What stands in an unknown place is found in the store, not only in a snapshot that has it."""
    world = annotated(World().grow())
    store = MemoryCluster(*world.objects)
    store.is_cluster = False
    options = options_of(target="legacy-1.35")
    ahead = look_ahead(store, RunOptions(options), context_of(lambda: 0.0, lambda: NOW))
    for plan in (preview(store, options, now=lambda: NOW), ahead.plan):
        assert [code for code, _, _ in refusals(plan.set_plans[0].findings)] == ["GM-136"]


@pytest.mark.parametrize("old", ["head", "work"])
def test_one_old_member_has_its_whole_replica_replaced(old: str) -> None:
    """The others are current, and the old one is at zero: what the group's status says is not late, but to be done."""
    world = World().grow(cliques=[clique("head"), clique("work")], groups={"sg": ["head", "work"]})
    world.put("PodClique", f"web-0-sg-1-{old}", LABEL).at_zero(f"web-0-sg-1-{old}").put(*GROUP, GENERATION)
    assert ("GM-101", GROUP[1], GENERATION) in refusals(world.findings())


@table(
    "field source target alone said",
    ("It exists in one minor alone.", ("workloadRef", "legacy-1.35", "legacy-1.37", False, "workloadRef")),
    ("Nothing of the set is explained.", ("workloadRef", "legacy-1.35", "legacy-1.36", True, "workloadRef")),
    (
        "All are named, on the way back.",
        ("schedulingGroup", "legacy-1.37", "legacy-1.35", False, "protocol, schedulingGroup, user"),
    ),
)
def test_a_field_that_other_crds_may_have_removed_is_named(
    field: str, source: str, target: str, said: str, *, alone: bool
) -> None:
    """With the CRDs of the target, the API server leaves out what their release does not know, and the hash moves."""
    front = clique("front")
    front["spec"]["podSpec"][field] = {}
    cliques, groups = ([front], {}) if alone else ([front, clique("work")], None)
    world = World().grow(cliques=cliques, groups=groups, scheme=source)
    del world.pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"][field]
    found = world.findings("auto", target)
    (remedy,) = (one.remedy for one in found if one.ref and one.ref.kind == "PodCliqueSet" and one.code == "GM-101")
    assert "if the next release's CRDs are installed already" in remedy
    assert said in remedy


def test_crds_that_keep_every_field_are_not_blamed() -> None:
    """From 0.34 to 0.35 no field goes."""
    assert not any("CRDs" in one.remedy for one in World().grow().edit().findings())
