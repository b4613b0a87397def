"""What a record decides: the way back, and a set that was edited between two runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from migrator.errors import UsageError
from migrator.planning.model import SetState, Table
from tests.support.builders import DELETION, LABEL, LATER, World, clique, refusals, warnings
from tests.support.tables import table


@pytest.mark.parametrize("written", [1, 9, 24])
def test_a_revert_without_record_gives_back_every_value(written: int) -> None:
    """After any number of writes a revert restores the original with the source spelled out."""
    world = World().grow()
    before = world.values()
    world.apply(world.decide().changes[:written])
    (back,) = world.revert("legacy-1.34").set_plans
    assert (back.state, back.source, back.target) == (SetState.MIGRATE, "legacy-1.35", "legacy-1.34")
    assert (len(back.changes), back.findings) == (written, ())  # what was not written needs no warning
    world.apply(back.changes)
    assert world.values() == before
    assert world.revert("legacy-1.34").set_plans[0].state is SetState.DONE


def test_a_revert_without_record_and_source_is_refused() -> None:
    """Where to is never guessed; without sets there is nothing to guess."""
    with pytest.raises(UsageError, match="name the release to return to with --from"):
        World().grow().revert()
    assert World().revert().set_plans == ()


def test_a_revert_leaves_what_was_the_targets_before() -> None:
    """A value that the run had found already written stays, if the record tells."""
    world = World().grow()
    world.put("Pod", "web-0-front-0", LABEL, world.hashes("legacy-1.35").templates["front"])
    before, tables = world.values(), world.tables()
    world.apply(world.decide().changes)
    unrecorded = world.revert("legacy-1.34").set_plans[0].changes
    world.apply(world.revert(tables=tables).set_plans[0].changes)
    assert world.values() == before
    assert "web-0-front-0" in {change.ref.name for change in unrecorded}


def test_a_revert_leaves_values_of_neither_scheme_and_says_so() -> None:
    """Stray values and leftovers stay, each with a warning; nothing refuses a revert."""
    world = World().grow(on_delete=True, scheme="legacy-1.35").put("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-front", LABEL)
    (back,) = world.revert("legacy-1.34").set_plans
    assert warnings(back.findings) == [("GM-112", "web-0-front-0", LABEL), ("GM-112", "web-0-front", LABEL)]
    assert not {("web-0-front-0", LABEL), ("web-0-front", LABEL)} & {(c.ref.name, c.field) for c in back.changes}


def test_a_revert_names_a_set_that_its_record_does_not_have() -> None:
    """It was made since the run: left alone without --from, and the old operator would replace its pods."""
    (own,) = World().grow().tables().values()
    tables = {"another": replace(own, uid="another")}
    for scheme, told in (("legacy-1.35", ["to revert it too, run with --from legacy-1.34"]), ("legacy-1.33", [])):
        plan = World().grow(scheme=scheme).revert(tables=tables)
        assert (plan.set_plans, [finding.remedy for finding in plan.findings]) == ((), told)


def test_a_revert_does_not_name_a_set_that_both_schemes_hash_alike() -> None:
    """It was made since the run too, and the old operator finds its own hashes."""
    (own,) = World().grow().tables("auto", "canonical-1.34").values()
    alike = World().grow(cliques=[clique("front", containers=("a", "b"))], groups={})
    assert alike.hashes("legacy-1.34") == alike.hashes("canonical-1.34")
    assert alike.revert(target="canonical-1.34", tables={"another": replace(own, uid="another")}).findings == ()


def test_a_revert_leaves_a_set_that_is_being_deleted_alone() -> None:
    """Its pods go whatever its hashes are."""
    world = World().grow(scheme="legacy-1.35").put("PodCliqueSet", "web", DELETION, LATER)
    assert world.revert("legacy-1.34").set_plans == ()


def test_a_revert_translates_an_older_template_by_the_record() -> None:
    """After an edit the record still knows what the hashes of the template before it were."""
    world = World().grow()
    tables = world.tables()
    (table,) = tables.values()
    world.apply(world.decide().changes)
    world.edit_and_roll("legacy-1.35")
    old = world.hashes("legacy-1.34")
    world.apply(world.revert(tables=tables).set_plans[0].changes)
    values = world.values()
    assert values["PodCliqueSet", "web", "/status/currentGenerationHash"] == old.generation
    assert values["Pod", "web-0-sg-0-work-0", LABEL] == table.source_hashes.templates["work"]
    assert values["Pod", "web-0-front-0", LABEL] == old.templates["front"]
    # They are the record's, so none is of neither scheme.
    assert world.revert(tables=tables).set_plans[0].findings == ()


@pytest.mark.parametrize("containers", [("c", "a", "b"), ("b", "a")], ids=["in no order", "sorted by the edit"])
def test_a_revert_follows_an_edit_that_the_target_does_not_see(containers: tuple[str, ...]) -> None:
    """Containers in another order have the same canonical hashes, and other ones for the operator that comes back.

    If the edit sorts them, the canonical hash is that operator's too, and stays.
    """
    world = World().grow(cliques=[clique("front", containers=containers), clique("work")])
    tables = world.tables("auto", "canonical-1.34")
    world.apply(world.decide("auto", "canonical-1.34").changes)
    new = world.hashes("canonical-1.34")
    world.pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"].reverse()
    assert world.hashes("canonical-1.34") == new
    world.apply(world.revert(target="canonical-1.34", tables=tables).set_plans[0].changes)
    old, values = world.hashes("legacy-1.34"), world.values()
    assert values["PodCliqueSet", "web", "/status/currentGenerationHash"] == old.generation
    assert values["Pod", "web-0-front-0", LABEL] == old.templates["front"]


def test_a_revert_goes_by_what_is_recorded() -> None:
    """With ``auto`` only recorded sets are turned back; a named source turns back all."""
    world = World().grow("one", namespace="a").grow("two", namespace="b")
    tables = {uid: table for uid, table in world.tables().items() if table.name == "one"}
    world.apply(change for one in world.plan().set_plans for change in one.changes)

    def names(source: str) -> list[str]:
        return [p.tree.ref.name for p in world.revert(source, tables=tables).set_plans if p.changes]

    assert names("auto") == ["one"]
    assert names("legacy-1.34") == ["one", "two"]


# --- a set that was edited between two runs ---------------------------------------------------------------------------


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
    world.edit_and_roll("legacy-1.34", seen=seen)
    decided = world.decide(tables=tables)
    assert (decided.state, decided.source, decided.target) == (SetState.REFUSED, "legacy-1.35", "legacy-1.34")
    assert refusals(decided.findings) == [("GM-130", "web", "/spec/template")]
    assert decided.disruption.pods >= 4  # those of the edited clique at least
    world.apply(decided.changes)
    assert is_restored(world, table)
    assert refusals(world.findings(tables=tables))[0][0] != "GM-130"


def test_an_override_does_not_hold_back_the_undoing() -> None:
    """Values that only the record can translate are brought back whatever is allowed."""
    world = World().grow()
    tables = world.begin(20)
    world.edit_and_roll("legacy-1.34")
    del world.pcs["status"]["updateProgress"]
    decided = world.decide(tables=tables, allow=["GM-101", "GM-102"])
    assert refusals(decided.findings) == [("GM-130", "web", "/spec/template")]


@table(
    "written then state code",
    (
        "Edited before the first write: the true refusals are told.",
        (0, lambda world: world.edit_and_roll("legacy-1.34"), SetState.REFUSED, "GM-102"),
    ),
    (
        "An edit after the migration is the new operator's.",
        (None, lambda world: world.edit_and_roll("legacy-1.35"), SetState.DONE, "GM-102"),
    ),
    (
        "Seen by it or not.",
        (None, lambda world: world.edit_and_roll("legacy-1.35", seen=False), SetState.REFUSED, "GM-101"),
    ),
    (
        "Refused for a reason of its own, with the template as recorded.",
        (9, lambda world: world.put("Pod", "web-0-sg-1-work-1", LABEL), SetState.REFUSED, "GM-101"),
    ),
)
def test_what_is_not_ours_to_undo_is_not_turned_back(
    written: int | None, then: Callable[[World], object], state: SetState, code: str
) -> None:
    """Nothing goes back to the source where nothing was written, all was, or nobody has edited the set."""
    world = World().grow()
    tables = world.begin(written)
    then(world)
    decided = world.decide(tables=tables)
    codes = {finding.code for finding in decided.findings}
    assert (decided.state, decided.target, code in codes, "GM-130" in codes) == (state, "legacy-1.35", True, False)


def test_an_edit_to_a_spec_that_both_schemes_hash_alike_is_not_turned_back() -> None:
    """Where the set's hash is source's and target's at once it does not tell who wrote it, so nothing is undone."""
    world = World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")])
    tables = world.tables("auto", "canonical-1.34")
    world.apply(world.decide("auto", "canonical-1.34").changes)
    world.pcs["spec"]["template"]["cliques"][1] = clique("work", containers=("a", "b"), image="app:2")
    found = world.hashes("canonical-1.34")
    assert found == world.hashes("legacy-1.34")
    world.pcs["status"]["currentGenerationHash"] = found.generation
    world.pcs["status"]["updateProgress"] = {"updateStartedAt": LATER}
    decided = world.decide("auto", "canonical-1.34", tables=tables)
    assert (decided.state, decided.changes) == (SetState.DONE, ())


def test_what_was_the_targets_before_is_not_brought_back() -> None:
    """Values that the first run found already written are left alone by the undoing."""
    world = World().grow()
    world.put("Pod", "web-0-front-0", LABEL, world.hashes("legacy-1.35").templates["front"])
    tables = world.begin(3)
    world.edit_and_roll("legacy-1.34")
    changed = {change.ref.name for change in world.decide(tables=tables).changes}
    assert "web-0-front-0" not in changed
    assert "web-0-front-1" in changed


def test_a_record_of_another_direction_does_not_decide() -> None:
    """A table of a migration to somewhere else is not this run's, but it is that one's."""
    world = World().grow()
    tables = world.tables("auto", "canonical-1.35")
    world.apply(world.decide("auto", "canonical-1.35").changes[:3])
    world.edit("front", "app:2")
    for target, is_its_own in (("legacy-1.35", False), ("canonical-1.35", True)):
        codes = {finding.code for finding in world.findings("auto", target, tables=tables)}
        assert ("GM-130" in codes) is is_its_own


def test_a_recorded_source_is_tried_first() -> None:
    """Where two schemes explain a tree, the one of the record is named."""
    world = World().grow(cliques=[clique("front", containers=("a", "b"))], groups={}, scheme="canonical-1.34")
    assert world.decide().source == "legacy-1.34"
    tables = world.tables("canonical-1.34")
    assert world.decide(tables=tables).source == "canonical-1.34"
