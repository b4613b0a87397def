"""The way back: what a revert restores, what it leaves, and what it goes by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from migrator.errors import UsageError
from migrator.planning.model import SetState
from tests.support.builders import DELETION, LABEL, LATER, World, warnings


@pytest.mark.parametrize("written", [1, 9, 24])
def test_a_revert_without_record_gives_back_every_value(written: int) -> None:
    """After any number of writes a revert restores the original with the source spelled out."""
    world = World().grow()
    before = world.values()
    world.apply(world.decide().changes[:written])
    (back,) = world.revert("legacy-1.34").trees
    assert (back.state, back.source, back.target) == (SetState.MIGRATE, "legacy-1.35", "legacy-1.34")
    assert (len(back.changes), back.findings) == (written, ())  # what was not written needs no warning
    world.apply(back.changes)
    assert world.values() == before
    assert world.revert("legacy-1.34").trees[0].state is SetState.DONE


def test_a_revert_without_record_and_source_is_refused() -> None:
    """Where to is never guessed; without sets there is nothing to guess."""
    with pytest.raises(UsageError, match="name the scheme or release to return to with --from"):
        World().grow().revert()
    assert World().revert().trees == ()


def test_a_revert_leaves_what_was_the_targets_before() -> None:
    """A value that the run had found already written stays, if the record tells."""
    world = World().grow()
    world.put("Pod", "web-0-front-0", LABEL, world.hashes("legacy-1.35").pod_template_hashes["front"])
    before, tables = world.values(), world.tables()
    world.apply(world.decide().changes)
    unrecorded = world.revert("legacy-1.34").trees[0].changes
    world.apply(world.revert(tables=tables).trees[0].changes)
    assert world.values() == before
    assert "web-0-front-0" in {change.ref.name for change in unrecorded}


def test_a_revert_leaves_values_of_neither_scheme_and_says_so() -> None:
    """Stray values and leftovers stay, each with a warning; nothing refuses a revert."""
    world = World().grow(on_delete=True, scheme="legacy-1.35").put("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-front", LABEL)
    (back,) = world.revert("legacy-1.34").trees
    assert warnings(back.findings) == [("GM-112", "web-0-front-0", LABEL), ("GM-112", "web-0-front", LABEL)]
    assert not {("web-0-front-0", LABEL), ("web-0-front", LABEL)} & {(c.ref.name, c.field) for c in back.changes}


def test_a_revert_names_a_set_that_its_record_does_not_have() -> None:
    """It was made since the run: left alone without --from, and the old operator would replace its pods."""
    world = World().grow(scheme="legacy-1.35")
    (table,) = World().grow().tables().values()
    plan = world.revert(tables={"another": replace(table, uid="another")})
    assert (plan.trees, [finding.remedy for finding in plan.findings]) == (
        (),
        ["to revert it too, run with --from legacy-1.34"],
    )


def test_a_revert_leaves_a_set_that_is_being_deleted_alone() -> None:
    """Its pods go whatever its hashes are."""
    world = World().grow(scheme="legacy-1.35").put("PodCliqueSet", "web", DELETION, LATER)
    assert world.revert("legacy-1.34").trees == ()


def test_a_revert_translates_an_older_template_by_the_record() -> None:
    """After an edit the record still knows what the hashes of the template before it were."""
    world = World().grow()
    tables = world.tables()
    (table,) = tables.values()
    world.apply(world.decide().changes)
    world.edit_and_roll("legacy-1.35")
    old = world.hashes("legacy-1.34")
    world.apply(world.revert(tables=tables).trees[0].changes)
    values = world.values()
    assert values["PodCliqueSet", "web", "/status/currentGenerationHash"] == old.generation_hash
    assert values["Pod", "web-0-sg-0-work-0", LABEL] == table.source_hashes.templates["work"]
    assert values["Pod", "web-0-front-0", LABEL] == old.pod_template_hashes["front"]
    assert world.revert(tables=tables).trees[0].findings == ()  # they are the record's, so none is of neither scheme


def test_a_revert_goes_by_what_is_recorded() -> None:
    """With ``auto`` only recorded sets are turned back; a named source turns back all."""
    world = World().grow("one", namespace="a").grow("two", namespace="b")
    tables = {uid: table for uid, table in world.tables().items() if table.name == "one"}
    world.apply(change for tree in world.plan().trees for change in tree.changes)

    def names(source: str) -> list[str]:
        return [p.tree.ref.name for p in world.revert(source, tables=tables).trees if p.changes]

    assert names("auto") == ["one"]
    assert names("legacy-1.34") == ["one", "two"]
