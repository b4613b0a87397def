"""From trees to a plan: what changes, what refuses, what is brought back, and that all of it can be undone."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.errors import InputError, UnknownScheme, UsageError
from migrator.grove.model import BlastRadius, Severity, TreeState
from migrator.hashing import schemes
from migrator.planning.options import PlanOptions, Selection, direction
from migrator.planning.planner import make_plan, template_digest
from migrator.planning.revert import make_revert
from migrator.planning.tables import Table
from tests.support.builders import HASH_LABEL, LATER, World, clique, refusals, warnings

POINTER = "/metadata/labels/grove.io~1pod-template-hash"
OLD = "4445566677788899"


# --- what the options mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "candidates", "targets"),
    [
        ("auto", "legacy-1.35", [s.name for s in schemes.spoken_schemes()], ["legacy-1.35"] * 5),
        ("v0.1.0-alpha.9", "0.1.0-alpha.11", ["legacy-1.34"], ["legacy-1.35"]),
        ("legacy-1.33", "canonical", ["legacy-1.33"], ["canonical-1.33"]),
        (
            "auto",
            "canonical",
            [s.name for s in schemes.spoken_schemes()],
            [f"canonical-{s.minor}" for s in schemes.spoken_schemes()],
        ),
    ],
)
def test_names_become_schemes(source: str, target: str, candidates: list[str], targets: list[str]) -> None:
    """Releases and schemes by name, ``auto`` for what some build has spoken, ``canonical`` over the source's layout."""
    way = direction(PlanOptions(source=source, target=target))
    assert [scheme.name for scheme in way.candidates] == candidates
    assert [way.target_of(scheme).name for scheme in way.candidates] == targets


@pytest.mark.parametrize(
    ("source", "target", "error", "message"),
    [
        ("legacy-1.99", "legacy-1.35", UnknownScheme, "neither a scheme nor a release"),
        ("auto", "v9.9.9", UnknownScheme, "neither a scheme nor a release"),
        ("canonical", "legacy-1.35", UsageError, "for example canonical-1.34"),
        ("v0.1.0-alpha.10-rc1", "legacy-1.35", UsageError, "puts the hash into object names"),
        ("auto", "v0.1.0-alpha.10-rc1", UsageError, "puts the hash into object names"),
    ],
)
def test_names_that_stand_for_nothing_are_refused(
    source: str, target: str, error: type[UsageError], message: str
) -> None:
    """What is not in the table is never guessed, and alpha.10-rc1 cannot be migrated."""
    with pytest.raises(error, match=message):
        direction(PlanOptions(source=source, target=target))


def test_a_bad_override_is_refused_before_anything_is_looked_at() -> None:
    """--allow is checked even where there is nothing to migrate."""
    with pytest.raises(UsageError, match="GM-102"):
        World().plan(allow=["GM-102"])


def test_no_sets_make_an_empty_plan() -> None:
    """Without PodCliqueSets nothing is planned, found or at stake, on a dump neither."""
    for is_cluster in (True, False):
        plan = World().plan(is_cluster=is_cluster)
        assert (plan.trees, plan.findings, plan.cluster_blast) == ((), (), BlastRadius())


# --- one tree ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("legacy-1.33", "legacy-1.34"),
        ("legacy-1.34", "legacy-1.35"),
        ("legacy-1.35", "legacy-1.34"),
        ("legacy-1.34", "canonical"),
        ("canonical-1.35", "legacy-1.35"),
    ],
)
def test_every_stored_hash_is_translated(source: str, target: str) -> None:
    """After its changes a tree is what the target's operator would have stored, in every place."""
    shape: dict[str, Any] = {"replicas": 2, "maps": True, "progress": ("updateProgress", "rollingUpdateProgress")}
    world = World().grow(scheme=source, **shape)
    decided = world.decide("auto", target)
    concrete = target.replace("canonical", f"canonical-{source[-4:]}") if target == "canonical" else target
    assert (decided.state, decided.source, decided.target) == (TreeState.MIGRATE, source, concrete)
    world.apply(decided.changes)
    assert world.values() == World().grow(scheme=concrete, **shape).values()
    again = world.decide("auto", target)
    assert (again.state, again.source, again.changes, again.blast) == (TreeState.DONE, concrete, (), BlastRadius())


def test_the_set_is_written_last() -> None:
    """The set's own hash is the commit record of the tree: it is the last change."""
    assert World().grow(maps=True).decide().changes[-1].field == "/status/currentGenerationHash"


def test_entries_of_a_map_carry_what_identifies_them() -> None:
    """A change of a PodGangMap entry tells the epoch that must stand at its position."""
    entries = [c.identity for c in World().grow(maps=True).decide().changes if c.ref.kind == "PodGangMap"]
    assert entries == [
        ("/spec/entries/0/epoch", "1767323045000000000"),
        ("/spec/entries/1/epoch", "1767323045000000001"),
    ]


def test_equal_hashes_leave_nothing_to_do() -> None:
    """Towards canonical, a tree whose lists are in order already is done."""
    world = World().grow(cliques=[clique("front", containers=("a", "b"))], groups={})
    decided = world.decide("auto", "canonical")
    assert (decided.state, decided.source, decided.target) == (TreeState.DONE, "canonical-1.34", "canonical-1.34")


def test_a_set_being_deleted_is_skipped() -> None:
    """A terminating set is left alone with its children, said so, and nothing of it is at stake."""
    world = World().grow()
    world.pcs["metadata"]["deletionTimestamp"] = LATER
    decided = world.decide()
    assert (decided.state, decided.source, decided.target) == (TreeState.SKIPPED, None, "legacy-1.35")
    assert warnings(decided.findings) == [("GM-106", "web", "/metadata/deletionTimestamp")]
    assert (decided.changes, decided.blast) == ((), BlastRadius())


def test_a_set_that_was_never_reconciled_is_skipped() -> None:
    """A set without hashes and children gets the next operator's own; its target is concrete all the same."""
    world = World().grow()
    world.objects = [world.pcs]
    world.pcs["status"] = {}
    decided = world.decide("auto", "canonical")
    assert (decided.state, decided.source, decided.target) == (TreeState.SKIPPED, None, "canonical-1.35")
    assert warnings(decided.findings) == [("GM-104", "web", "/status/currentGenerationHash")]


def test_a_template_that_go_cannot_decode_is_named() -> None:
    """A value that the operator could not decode ends the plan with the set and the path of the value."""
    world = World().grow()
    world.pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = 5
    with pytest.raises(InputError, match=r"PodCliqueSet default/web: .*cliques\[0\]\.spec\.podSpec\.containers\[0\]"):
        world.plan()


def test_a_refused_tree_has_a_source_only_if_something_explains_it() -> None:
    """A refused tree whose values are all explained keeps its source and changes."""
    world = World().grow()
    world.pcs["status"]["currentRevision"] = "web-1"
    decided = world.decide()
    assert (decided.state, decided.source, len(decided.changes) > 0) == (TreeState.REFUSED, "legacy-1.34", True)


def test_an_allowed_stray_in_a_finished_tree_leaves_nothing_to_do() -> None:
    """Where the set's hash is the target's, nothing is written, so an update in flight or a stray pod only warns."""
    world = World().grow(scheme="legacy-1.35")
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    decided = world.decide()
    assert (decided.state, decided.changes, refusals(decided.findings)) == (TreeState.DONE, (), [])
    assert {code for code, _, _ in warnings(decided.findings)} == {"GM-102", "GM-111"}


def test_equal_values_are_not_taken_for_written_ones() -> None:
    """Values that source and target share tell of no earlier write; a value of the target alone does."""
    world = World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")])
    assert world.findings("auto", "canonical") == []
    new = world.hashes("canonical-1.34").pod_template_hashes["work"]
    world.of("Pod", "web-0-sg-0-work-0")["metadata"]["labels"][HASH_LABEL] = new
    (finding,) = world.findings("auto", "canonical")
    assert finding.code == "GM-129"
    assert finding.message.startswith("PodCliqueSet default/web: 1 field already holds a hash of canonical-1.34, and")
    cliques = world.pcs["spec"]["template"]["cliques"]
    assert world.findings("auto", "canonical", tables=World().grow(cliques=cliques).tables("auto", "canonical")) == []


# --- the whole cluster ------------------------------------------------------------------------------------------------


def two() -> World:
    """One set that can be migrated, in namespace ``a``, and one that must not, in namespace ``b``."""
    world = World().grow("good", namespace="a").grow("bad", namespace="b")
    world.of("PodCliqueSet", "bad")["status"]["currentRevision"] = "bad-1"
    return world


def test_the_blast_radius_counts_the_whole_cluster() -> None:
    """What is at stake does not depend on the selection."""
    plan = two().plan(selection=Selection(namespace="a"))
    assert [p.tree.ref.name for p in plan.trees] == ["good"]
    assert (plan.trees[0].blast.pods, plan.cluster_blast.pods) == (6, 12)


def test_a_narrowed_run_is_refused_while_others_need_it() -> None:
    """The operator serves the whole cluster, so sets left out by -n or -l refuse; that can be overridden."""
    plan = two().plan(selection=Selection(namespace="a"))
    (finding,) = plan.findings
    assert refusals([finding]) == [("GM-201", "bad", None)]
    assert finding.message.startswith("1 PodCliqueSet outside the selection also needs this migration")
    allowed = two().plan(selection=Selection(namespace="a"), allow=["GM-201"])
    assert warnings(allowed.findings) == [("GM-201", "bad", None)]


def test_a_narrowed_run_goes_ahead_when_the_others_are_done() -> None:
    """Sets that are done, or skipped, need nothing."""
    world = World().grow("good", namespace="a").grow("done", namespace="b", scheme="legacy-1.35").grow("gone")
    world.of("PodCliqueSet", "gone")["metadata"]["deletionTimestamp"] = LATER
    assert world.plan(selection=Selection(namespace="a")).findings == ()


def test_refused_sets_can_be_skipped() -> None:
    """--skip-refused leaves refused sets wholly alone, keeps what is at stake, and migrates the others."""
    plan = two().plan(skip_refused=True)
    by_name = {p.tree.ref.name: p for p in plan.trees}
    assert {name: p.state for name, p in by_name.items()} == {"good": TreeState.MIGRATE, "bad": TreeState.SKIPPED}
    bad = by_name["bad"]
    assert (bad.changes, refusals(bad.findings), bad.blast.pods) == ((), [], 6)
    assert warnings(bad.findings) == [("GM-120", "bad", "/status/currentRevision")]


def test_orphans_are_said() -> None:
    """What is labelled as Grove's and belongs to nobody warns, without touching any tree."""
    world = World().grow()
    world.of("Pod", "web-0-front-0")["metadata"]["ownerReferences"] = []
    plan = world.plan()
    assert warnings(plan.findings) == [("GM-124", "web-0-front-0", None)]
    assert "web-0-front-0" not in {change.ref.name for change in plan.trees[0].changes}


def test_on_a_dump_what_needs_a_cluster_is_not_checked() -> None:
    """A dump says which guards could not be asked."""
    plan = World().grow().plan(is_cluster=False)
    assert [(f.code, f.severity, "not checked" in f.message) for f in plan.findings] == [
        ("GM-122", Severity.WARNING, True),
        ("GM-202", Severity.WARNING, True),
    ]


def test_trees_may_have_different_sources() -> None:
    """Each set is explained by itself."""
    world = World().grow("new", scheme="legacy-1.35").grow("old", scheme="legacy-1.33")
    assert [(p.tree.ref.name, p.source, p.state) for p in world.plan().trees] == [
        ("new", "legacy-1.35", TreeState.DONE),
        ("old", "legacy-1.33", TreeState.MIGRATE),
    ]


# --- a tree that was edited between two runs --------------------------------------------------------------------------


def edit_and_roll(world: World, scheme: str, *, seen: bool = True) -> None:
    """Edit clique ``work`` and let an operator of a scheme begin to roll it out: the set's hash, then progress."""
    world.edit("work", "app:2")
    world.pcs["metadata"]["generation"] = 2
    if seen:
        found = world.hashes(scheme)
        world.pcs["status"]["currentGenerationHash"] = found.generation_hash
        world.pcs["status"]["updateProgress"] = {"updateStartedAt": LATER}
        pclq = world.of("PodClique", "web-0-front")
        pclq["metadata"]["labels"][HASH_LABEL] = found.pod_template_hashes["front"]


def is_restored(world: World, table: Table) -> bool:
    """Whether no value is the recorded target's any more, and cliques that were not edited are the source's."""
    target = {table.target_hashes.generation, *table.target_hashes.templates.values()}
    front = {value for (_, name, field), value in world.values().items() if "front" in name and "emplate" in field}
    return not target & set(world.values().values()) and front == {table.source_hashes.templates["front"]}


@pytest.mark.parametrize("seen", [True, False], ids=["rolling", "unseen"])
@pytest.mark.parametrize("written", range(1, 24))
def test_a_tree_edited_in_mid_migration_is_brought_back(written: int, *, seen: bool) -> None:
    """A run dies after any write, a clique is edited under the old operator: the next plan undoes the first run."""
    world = World().grow()
    tables = world.tables()
    (table,) = tables.values()
    changes = world.decide().changes
    assert len(changes) == 24
    world.apply(changes[:written])
    edit_and_roll(world, "legacy-1.34", seen=seen)
    decided = world.decide(tables=tables)
    assert (decided.state, decided.source, decided.target) == (TreeState.REFUSED, "legacy-1.35", "legacy-1.34")
    assert refusals(decided.findings) == [("GM-130", "web", "/spec/template")]
    assert decided.blast.pods >= 4  # those of the edited clique at least
    world.apply(decided.changes)
    assert is_restored(world, table)
    assert refusals(world.findings(tables=tables))[0][0] != "GM-130"


def test_an_edit_before_the_first_write_is_no_undoing() -> None:
    """Where nothing was written nothing is brought back, and the true refusals are told."""
    world = World().grow()
    tables = world.tables()
    edit_and_roll(world, "legacy-1.34")
    decided = world.decide(tables=tables)
    assert (decided.state, decided.target) == (TreeState.REFUSED, "legacy-1.35")
    assert "GM-102" in {code for code, _, _ in refusals(decided.findings)}
    assert "GM-130" not in {finding.code for finding in decided.findings}


def test_an_override_does_not_hold_back_the_undoing() -> None:
    """Values that only the record can translate are brought back whatever is allowed."""
    world = World().grow()
    tables = world.tables()
    world.apply(world.decide().changes[:20])
    edit_and_roll(world, "legacy-1.34")
    del world.pcs["status"]["updateProgress"]
    decided = world.decide(tables=tables, allow=["GM-109", "GM-110", "GM-111"])
    assert refusals(decided.findings) == [("GM-130", "web", "/spec/template")]


@pytest.mark.parametrize("seen", [True, False], ids=["rolling", "unseen"])
def test_a_finished_tree_edited_later_is_not_turned_back(*, seen: bool) -> None:
    """An edit under the new operator, after the migration, is the new operator's: nothing is undone."""
    world = World().grow()
    tables = world.tables()
    world.apply(world.decide().changes)
    edit_and_roll(world, "legacy-1.35", seen=seen)
    decided = world.decide(tables=tables)
    assert (decided.state, decided.changes) == (TreeState.DONE if seen else TreeState.REFUSED, ())
    assert "GM-130" not in {finding.code for finding in decided.findings}
    assert ("GM-102" if seen else "GM-101") in {finding.code for finding in decided.findings}


def test_an_edit_to_a_spec_that_both_schemes_hash_alike_is_not_turned_back() -> None:
    """Where the set's hash is source's and target's at once it does not tell who wrote it, so nothing is undone."""
    world = World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")])
    tables = world.tables("auto", "canonical-1.34")
    world.apply(world.decide("auto", "canonical-1.34").changes)
    world.pcs["spec"]["template"]["cliques"][1] = clique("work", containers=("a", "b"), image="app:2")
    found = world.hashes("canonical-1.34")
    assert found == world.hashes("legacy-1.34")
    world.pcs["status"]["currentGenerationHash"] = found.generation_hash
    world.pcs["status"]["updateProgress"] = {"updateStartedAt": LATER}
    decided = world.decide("auto", "canonical-1.34", tables=tables)
    assert (decided.state, decided.changes) == (TreeState.DONE, ())


def test_an_edit_that_was_rolled_out_is_migrated() -> None:
    """A tree that the old operator has brought to rest after the edit is migrated like any other."""
    world = World().grow()
    tables = world.tables()
    cliques = copy.deepcopy(world.pcs["spec"]["template"]["cliques"])
    cliques[1]["spec"]["podSpec"]["containers"][0]["image"] = "app:2"
    later = World().grow(cliques=cliques)
    decided = later.decide(tables=tables)
    assert (decided.state, decided.source) == (TreeState.MIGRATE, "legacy-1.34")


def test_an_edit_that_was_taken_back_changes_nothing() -> None:
    """With the template as it was recorded, a rerun finishes what was begun."""
    world = World().grow()
    tables = world.tables()
    changes = world.decide().changes
    world.apply(changes[:9])
    world.pcs["metadata"]["generation"] = world.pcs["status"]["observedGeneration"] = 3
    decided = world.decide(tables=tables)
    assert (decided.state, decided.changes, decided.findings) == (TreeState.MIGRATE, changes[9:], ())


def test_what_was_the_targets_before_is_not_brought_back() -> None:
    """Values that the first run found already written are left alone by the undoing."""
    world = World().grow()
    new = world.hashes("legacy-1.35").pod_template_hashes["front"]
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = new
    tables = world.tables()
    world.apply(world.decide().changes[:3])
    edit_and_roll(world, "legacy-1.34")
    changed = {change.ref.name for change in world.decide(tables=tables).changes}
    assert "web-0-front-0" not in changed
    assert "web-0-front-1" in changed


def test_a_record_of_another_direction_does_not_decide() -> None:
    """A table of a migration to somewhere else is not this run's."""
    world = World().grow()
    (uid,) = tables = world.tables("auto", "canonical-1.35")
    world.apply(world.decide().changes[:3])
    (finding,) = world.findings(tables=tables)
    assert (uid, finding.code) == (world.pcs["metadata"]["uid"], "GM-129")


def test_a_recorded_source_is_tried_first() -> None:
    """Where two schemes explain a tree, the one of the record is named."""
    world = World().grow(cliques=[clique("front", containers=("a", "b"))], groups={}, scheme="canonical-1.34")
    assert world.decide().source == "legacy-1.34"
    tables = world.tables("canonical-1.34")
    assert world.decide(tables=tables).source == "canonical-1.34"


@pytest.mark.parametrize(
    ("edit", "moves"),
    [
        (lambda t: t["cliques"][0]["spec"]["podSpec"]["containers"][0].update(image="x"), True),
        (lambda t: t["cliques"][0].update(labels={"a": "b"}), True),
        (lambda t: t["cliques"][0].update(annotations={"a": "b"}), True),
        (lambda t: t["cliques"][0].update(name="x"), True),
        (lambda t: t["cliques"].reverse(), True),
        (lambda t: t.update(priorityClassName="x"), True),
        (lambda t: t.update(cliqueStartupType="CliqueStartupTypeInOrder"), True),
        (lambda t: t.update(terminationDelay="1h0m0s"), False),
        (lambda t: t["cliques"][0]["spec"].update(replicas=9), False),
    ],
)
def test_the_digest_covers_what_is_hashed(edit: Any, *, moves: bool) -> None:
    """A rerun sees every edit of what is hashed, under any scheme, and no other."""
    world = World().grow()
    before = template_digest(world.snapshot().trees[0].pcs)
    edit(world.pcs["spec"]["template"])
    assert (template_digest(world.snapshot().trees[0].pcs) != before) is moves


# --- going back -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("written", [1, 9, 24])
def test_a_revert_gives_back_every_value(written: int, *, recorded: bool) -> None:
    """After any number of writes a revert restores the original, by the record or with the source spelled out."""
    world = World().grow()
    before, tables = world.values(), world.tables()
    world.apply(world.decide().changes[:written])
    plan = world.revert(tables=tables) if recorded else world.revert("legacy-1.34")
    (back,) = plan.trees
    assert (back.state, back.source, back.target) == (TreeState.MIGRATE, "legacy-1.35", "legacy-1.34")
    assert len(back.changes) == written
    world.apply(back.changes)
    assert world.values() == before
    assert world.revert("legacy-1.34").trees[0].state is TreeState.DONE


def test_a_revert_without_record_and_source_is_refused() -> None:
    """Where to is never guessed; without sets there is nothing to guess."""
    with pytest.raises(UsageError, match="name the scheme or release to return to with --from"):
        World().grow().revert()
    assert World().revert().trees == ()


def test_a_revert_leaves_what_was_the_targets_before() -> None:
    """A value that the run had found already written stays, if the record tells."""
    world = World().grow()
    new = world.hashes("legacy-1.35").pod_template_hashes["front"]
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = new
    before, tables = world.values(), world.tables()
    world.apply(world.decide().changes)
    unrecorded = world.revert("legacy-1.34").trees[0].changes
    world.apply(world.revert(tables=tables).trees[0].changes)
    assert world.values() == before
    assert "web-0-front-0" in {change.ref.name for change in unrecorded}


def test_a_revert_leaves_values_of_neither_scheme_and_says_so() -> None:
    """Stray values and leftovers stay, each with a warning of its own code; nothing refuses a revert."""
    world = World().grow(on_delete=True, scheme="legacy-1.35")
    world.of("Pod", "web-0-front-0")["metadata"]["labels"][HASH_LABEL] = OLD
    world.of("PodClique", "web-0-front")["metadata"]["labels"][HASH_LABEL] = OLD
    (back,) = world.revert("legacy-1.34").trees
    assert warnings(back.findings) == [("GM-112", "web-0-front-0", POINTER), ("GM-109", "web-0-front", POINTER)]
    assert not {("web-0-front-0", POINTER), ("web-0-front", POINTER)} & {(c.ref.name, c.field) for c in back.changes}


def test_a_revert_translates_an_older_template_by_the_record() -> None:
    """After an edit the record still knows what the hashes of the template before it were."""
    world = World().grow()
    tables = world.tables()
    (table,) = tables.values()
    world.apply(world.decide().changes)
    edit_and_roll(world, "legacy-1.35")
    old = world.hashes("legacy-1.34")
    world.apply(world.revert(tables=tables).trees[0].changes)
    values = world.values()
    assert values["PodCliqueSet", "web", "/status/currentGenerationHash"] == old.generation_hash
    assert values["Pod", "web-0-sg-0-work-0", POINTER] == table.source_hashes.templates["work"]
    assert values["Pod", "web-0-front-0", POINTER] == old.pod_template_hashes["front"]


def test_a_revert_goes_by_what_is_recorded_and_selected() -> None:
    """With ``auto`` only recorded sets are turned back; a named source turns back all; -n narrows either."""
    world = World().grow("one", namespace="a").grow("two", namespace="b")
    tables = {uid: table for uid, table in world.tables().items() if table.name == "one"}
    world.apply(change for tree in world.plan().trees for change in tree.changes)

    def names(source: str, **options: Any) -> list[str]:
        return [p.tree.ref.name for p in world.revert(source, **options).trees if p.changes]

    assert names("auto", tables=tables) == ["one"]
    assert names("legacy-1.34", tables=tables) == ["one", "two"]
    assert names("legacy-1.34", selection=Selection(namespace="b")) == ["two"]


def test_a_record_of_another_direction_does_not_turn_back() -> None:
    """A revert of one migration is not fooled by the record of another."""
    world = World().grow()
    tables = world.tables("auto", "canonical-1.35")
    with pytest.raises(UsageError, match="no record of that run"):
        world.revert(tables=tables)


# --- properties -------------------------------------------------------------------------------------------------------

SCHEMES = [scheme.name for scheme in schemes.all_schemes()]
ORDERS = st.permutations(["a", "b", "c"])


@st.composite
def families(draw: st.DrawFn) -> tuple[World, str, str]:
    """A family of any shape under any scheme, some of whose values are the target's already, and both schemes."""
    source = draw(st.sampled_from(SCHEMES))
    target = draw(st.sampled_from([name for name in SCHEMES if name != source]))
    names = draw(st.sampled_from([["a"], ["a", "b"], ["a-front", "work", "front"]]))
    grouped = [name for name in names if draw(st.booleans())]
    world = World().grow(
        cliques=[clique(name, containers=draw(ORDERS)) for name in names],
        groups={"sg": grouped} if grouped else {},
        scheme=source,
        replicas=draw(st.integers(0, 2)),
        group_replicas=draw(st.integers(0, 2)),
        pods=draw(st.integers(0, 2)),
        progress=draw(st.sampled_from([(), ("updateProgress",), ("rollingUpdateProgress", "updateProgress")])),
        on_delete=draw(st.booleans()),
        startup=draw(st.sampled_from([None, "CliqueStartupTypeInOrder"])),
        maps=draw(st.booleans()),
    )
    if world.pcs["spec"].get("updateStrategy"):
        for pod in world.all("Pod"):
            if draw(st.integers(0, 3)) == 0:
                pod["metadata"]["labels"][HASH_LABEL] = OLD
    changes = world.decide(source, target).changes[:-1]
    world.apply(change for change in changes if draw(st.integers(0, 4)) == 0)
    return world, source, target


BOUNDED = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@BOUNDED
@given(families(), st.data())
def test_a_migration_can_stop_anywhere_and_be_finished_or_undone(
    family: tuple[World, str, str], data: st.DataObject
) -> None:
    """After any part of the changes, in order, a rerun plans just the rest and a revert restores the original."""
    world, source, target = family
    before, tables = world.values(), world.tables(source, target)
    plan = world.decide(source, target)
    assert plan.state in {TreeState.MIGRATE, TreeState.DONE}
    for change in plan.changes:
        assert change.old == before[change.ref.kind, change.ref.name, change.field]
        assert change.new != change.old
    written = data.draw(st.integers(0, len(plan.changes)))
    world.apply(plan.changes[:written])

    undone = world.copy()
    if tables:
        undone.apply(undone.revert(source, target, tables=tables).trees[0].changes)
        assert undone.values() == before

    rerun = world.decide(source, target, tables=tables)
    assert rerun.changes == plan.changes[written:]
    world.apply(rerun.changes)
    finished = world.decide(source, target, tables=tables)
    assert (finished.state, finished.changes) == (TreeState.DONE, ())
    new = world.hashes(target)
    assert set(world.values().values()) <= {OLD, new.generation_hash, *new.pod_template_hashes.values()}
    touched = {(c.ref.kind, c.ref.name, c.field) for c in plan.changes}
    assert {key for key, value in world.values().items() if value != before[key]} == touched


@BOUNDED
@given(families())
def test_planning_changes_nothing(family: tuple[World, str, str]) -> None:
    """A plan is a function of what was read: the same twice, and the objects stay as they are."""
    world, source, target = family
    raw, snapshot = copy.deepcopy(world.objects), world.snapshot()
    options = PlanOptions(source=source, target=target)
    first = make_plan(snapshot, options)
    assert first == make_plan(replace(snapshot), options)
    make_revert(snapshot, options)
    assert world.objects == raw
