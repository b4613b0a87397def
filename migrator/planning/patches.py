"""From changes to requests: compare-and-swap on the hash itself, in the order of writing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from migrator import resources
from migrator.exact_json import JSONObject
from migrator.grove.model import Change, Place, PodCliqueSet, Ref, TreePlan
from migrator.resources import Op, Resource

RANKS: Final = {
    Place.POD_LABEL: 0,
    Place.CLIQUE_LABEL: 1,
    Place.CLIQUE_TEMPLATE: 2,
    Place.CLIQUE_GENERATION: 2,
    Place.CLIQUE_PROGRESS: 2,
    Place.GROUP_GENERATION: 3,
    Place.GROUP_PROGRESS: 3,
    Place.GANG_MAP_ENTRY: 4,
    Place.GANG_LABEL: 5,
    Place.SET_GENERATION: 6,
}

#: The kinds that hold hashes, by their names.
RESOURCES: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (
        resources.PODS,
        resources.POD_CLIQUES,
        resources.POD_CLIQUE_SCALING_GROUPS,
        resources.POD_GANG_MAPS,
        resources.POD_GANGS,
        resources.POD_CLIQUE_SETS,
    )
}


@dataclass(frozen=True, slots=True)
class Patch:
    """One request: all changes of one object in one subresource. ``rank`` orders it within its tree."""

    ref: Ref
    subresource: str
    changes: tuple[Change, ...]
    rank: int

    def ops(self, pcs: PodCliqueSet | None) -> tuple[Op, ...]:
        """Tests first, then the replacements.

        With ``pcs`` the set's generation and template are tested too, so that the patch fails if the spec changed
        after it was read.
        """
        ops = [Op("test", "/metadata/uid", self.ref.uid)]
        if pcs is not None:
            ops += [
                Op("test", "/metadata/generation", pcs.generation),
                Op("test", "/spec/template", pcs.spec.get("template")),
            ]
        for change in self.changes:
            if change.identity is not None:
                ops.append(Op("test", *change.identity))
            ops.append(Op("test", change.field, change.old))
        ops += [Op("replace", change.field, change.new) for change in self.changes]
        return tuple(ops)


@dataclass(frozen=True, slots=True)
class Batch:
    """One tree's patches. ``pcs`` is given if its spec must not have changed (when migrating, not when reverting)."""

    ref: Ref
    patches: tuple[Patch, ...]
    pcs: PodCliqueSet | None = None


def forward(plan: TreePlan) -> Batch:
    """The patches that carry out a tree's plan, the commit record last."""
    return Batch(plan.tree.ref, patches_of(plan.changes), plan.tree.pcs)


def backward(plan: TreePlan) -> Batch:
    """The patches of a plan that goes back: top-down, so that the commit record is reverted first."""
    ordered = (replace(patch, rank=-patch.rank) for patch in reversed(patches_of(plan.changes)))
    return Batch(plan.tree.ref, tuple(ordered))


def patches_of(changes: Iterable[Change]) -> tuple[Patch, ...]:
    """Group changes into one patch per object and subresource, in the order of their ranks."""
    grouped: dict[tuple[Ref, str], list[Change]] = {}
    for change in changes:
        grouped.setdefault((change.ref, change.subresource), []).append(change)
    patches = [
        Patch(ref, subresource, tuple(group), RANKS[group[0].place]) for (ref, subresource), group in grouped.items()
    ]
    return tuple(sorted(patches, key=lambda patch: patch.rank))


def value_at(document: JSONObject, pointer: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value at a JSON Pointer; ``None`` if it is absent."""
    value: Any = document
    for raw in pointer.split("/")[1:]:
        token = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(token)
        elif isinstance(value, Sequence) and not isinstance(value, str) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return None
    return value
