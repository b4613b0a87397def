"""From changes to compare-and-swap patches."""

from __future__ import annotations

from migrator.grove.objects import Ref
from migrator.kinds import Op
from migrator.planning.model import Change
from migrator.planning.patches import Batch, commit, patch_count, rest
from tests.support.builders import World

SET = World().grow().snapshot().trees[0].pcs
MAP = Ref("PodGangMap", "default", "web", "uid-2")


def test_an_entry_is_tested_by_its_identity_before_its_value() -> None:
    """A list entry may move: what names it is tested too, before the old value, and replacements come last."""
    change = Change(MAP, "/spec/entries/0/hash", "old", "new", identity=("/spec/entries/0/name", "web-0"))
    (patch,) = Batch(SET, (change,)).patches
    assert patch.ops(None) == (
        Op("test", "/metadata/uid", "uid-2"),
        Op("test", "/spec/entries/0/name", "web-0"),
        Op("test", "/spec/entries/0/hash", "old"),
        Op("replace", "/spec/entries/0/hash", "new"),
    )


def test_the_commit_record_can_be_written_apart() -> None:
    """A revert writes those of all sets first: both parts together are the whole plan, and the first has one patch."""
    plan = World().grow(scheme="legacy-1.35").revert().set_plans[0]
    assert [patch.ref.kind for patch in commit(plan).patches] == ["PodCliqueSet"]
    assert {*commit(plan).changes, *rest(plan).changes} == {*plan.changes}
    assert "PodCliqueSet" not in {patch.ref.kind for patch in rest(plan).patches}


def test_label_and_status_of_one_object_are_two_patches() -> None:
    """A subresource is written by a request of its own, and counts as one."""
    clique = Ref("PodClique", "default", "web-0", "uid-3")
    fields = ("/metadata/labels/grove.io~1pod-template-hash", "/status/currentPodTemplateHash")
    changes = tuple(Change(clique, field, "a", "b") for field in fields)
    assert patch_count(changes) == len([*Batch(SET, changes).patches]) == 2


def test_a_patch_fails_if_the_template_has_changed() -> None:
    """The proof was made with the template as it was read."""
    plan = World().grow().decide()
    (patch,) = commit(plan).patches
    assert Op("test", "/spec/template", plan.tree.pcs.template) in patch.ops(plan.tree.pcs)
