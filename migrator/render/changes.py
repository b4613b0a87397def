"""The changes of one set in the groups that people read: a value and the value that replaces it. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from migrator.grove.model import Change, Ref, TreePlan


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one tree that replace the same value by the same value; ``kinds`` counts objects by kind."""

    what: str
    old: str
    new: str
    kinds: Counter[str]


def change_groups(tree: TreePlan) -> list[ChangeGroup]:
    """The changes of a tree, grouped by old and new value: generation hash first, then clique by clique."""
    groups: dict[tuple[bool, str, str], set[Ref]] = {}
    for change in tree.changes:
        groups.setdefault((_holds_template_hash(change), change.old, change.new), set()).add(change.ref)
    return [
        ChangeGroup(
            what=_cliques(tree, new) if template else "generation hash",
            old=old,
            new=new,
            kinds=Counter(ref.kind for ref in refs),
        )
        for (template, old, new), refs in sorted(groups.items(), key=lambda item: item[0])
    ]


def _holds_template_hash(change: Change) -> bool:
    # The last step of every pointer to a generation hash contains the word (currentGenerationHash,
    # podCliqueSetGenerationHash, podcliqueset-generation-hash); all others are template hashes.
    return "generation" not in change.field.rsplit("/", 1)[-1].lower()


def _cliques(tree: TreePlan, new: str) -> str:
    known = tree.target_hashes.templates if tree.target_hashes else {}
    names = [name for name, value in known.items() if value == new]
    return f"pod template of {', '.join(names)}" if names else "pod template"
