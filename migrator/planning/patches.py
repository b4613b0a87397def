"""From changes to requests: compare-and-swap on the hash itself, in the order of writing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from migrator import kinds
from migrator.grove.objects import PodCliqueSet, Ref
from migrator.grove.places import RANKS
from migrator.planning.model import Change, SetPlan

#: The patches that a run is assumed to write in a second.
PATCHES_PER_SECOND: Final = 100

#: The kinds that hold hashes, by their names.
RESOURCES: Final[Mapping[str, kinds.Resource]] = {resource.kind: resource for resource in kinds.HOLDERS}


class Patch(NamedTuple):
    """One request: all changes of one object in one subresource."""

    ref: Ref
    subresource: str
    changes: tuple[Change, ...]

    @property
    def rank(self) -> int:
        """Its place in the order of its set; patches of one rank may be sent at the same time."""
        return RANKS[self.ref.kind, self.subresource]

    def ops(self, pcs: PodCliqueSet | None) -> tuple[kinds.Op, ...]:
        """Tests first, then the replacements; with ``pcs`` the patch fails if that set's spec has changed."""
        ops = [kinds.Op("test", "/metadata/uid", self.ref.uid)]
        if pcs is not None:
            # Not the generation: a scale moves it too, and changes no hash.
            ops.append(kinds.Op("test", "/spec/template", pcs.spec.get("template")))
        for change in self.changes:
            if change.identity is not None:
                ops.append(kinds.Op("test", *change.identity))
            ops.append(kinds.Op("test", change.field, change.old))
        ops += [kinds.Op("replace", change.field, change.new) for change in self.changes]
        return tuple(ops)


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one set, object by object; ``pcs`` is its PodCliqueSet, whose spec must not have changed."""

    pcs: PodCliqueSet
    changes: tuple[Change, ...]

    @property
    def patches(self) -> Iterator[Patch]:
        """One for each object and subresource, in the order of writing, each made when it is asked for."""
        order = sorted(self.changes, key=lambda change: RANKS[change.ref.kind, change.subresource])
        for (ref, subresource), changes in groupby(order, key=lambda change: (change.ref, change.subresource)):
            yield Patch(ref, subresource, tuple(changes))


def forward(plan: SetPlan) -> Batch:
    """The patches that carry out a set's plan, the commit record last."""
    return Batch(plan.tree.pcs, plan.changes)


def commit(plan: SetPlan) -> Batch:
    """The patch of the commit record alone."""
    return Batch(plan.tree.pcs, tuple(filter(_commits, plan.changes)))


def rest(plan: SetPlan) -> Batch:
    """The patches of all but the commit record."""
    return Batch(plan.tree.pcs, tuple(one for one in plan.changes if not _commits(one)))


def _commits(change: Change) -> bool:
    return change.ref.kind == kinds.POD_CLIQUE_SETS.kind


def patch_count(changes: Iterable[Change]) -> int:
    """How many patches these changes need."""
    return len({(change.ref, change.subresource) for change in changes})
