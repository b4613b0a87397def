"""Why the hashes of many sets change: the fields and lists that differ, each with the number of its sets. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.planning.explain import Explanation, FieldChange


@dataclass(frozen=True, slots=True)
class Reason:
    """The differences between two schemes' dumps of some sets.

    ``fields`` are fields that only one dump prints; their places are left out. ``lists`` are lists that the canonical
    order moves. Each comes with the number of sets that have it.
    """

    source: Scheme
    target: Scheme
    sets: int
    fields: tuple[tuple[FieldChange, int], ...]
    lists: tuple[tuple[str, int], ...]


def reasons(explanations: Iterable[Explanation]) -> list[Reason]:
    """One reason for each pair of schemes, in table order."""
    pairs: dict[tuple[Scheme, Scheme], list[Explanation]] = {}
    for explanation in explanations:
        pairs.setdefault((explanation.source, explanation.target), []).append(explanation)
    order = schemes.all_schemes()
    return [
        _reason(source, target, members)
        for (source, target), members in sorted(pairs.items(), key=lambda item: tuple(map(order.index, item[0])))
    ]


def _reason(source: Scheme, target: Scheme, members: list[Explanation]) -> Reason:
    fields: Counter[tuple[str, str]] = Counter()
    examples: dict[tuple[str, str], FieldChange] = {}
    lists: Counter[str] = Counter()
    for explanation in members:
        found = {(change.struct, change.field): change for c in explanation.cliques for change in c.fields}
        fields.update(found.keys())
        examples = {**found, **examples}
        lists.update({re.sub(r"\[\d+\]", "[]", move.path) for c in explanation.cliques for move in c.moves})
        lists.update(["cliques"] if explanation.clique_order else [])
    return Reason(
        source=source,
        target=target,
        sets=len(members),
        fields=tuple((examples[key], number) for key, number in sorted(fields.items())),
        lists=tuple(sorted(lists.items())),
    )
