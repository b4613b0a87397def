"""Hazards of upgrades that have nothing to do with hashes, see ``advisories.toml``; they never refuse. Pure.

Hashes show the scheme of the running operator, not its release. So an advisory names the releases that it concerns.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from migrator.grove.objects import Pod, PodClique, PodCliqueScalingGroup, Snapshot, Tree
from migrator.hashing import schemes
from migrator.planning import hazards
from migrator.planning.detect import hashes_of
from migrator.planning.guards.base import report
from migrator.planning.lineage import builds, builds_of, is_before, speakers
from migrator.planning.model import Advice, Plan
from migrator.planning.options import AUTO, PlanOptions


@dataclass(frozen=True, slots=True)
class Advisory:
    """One hazard; ``predicate`` yields the objects of a tree that it concerns.

    It concerns upgrades from a build older than ``before`` (``None``: from any build) to a build from ``since`` up to
    ``until`` (``None``: up to the newest).
    """

    id: str
    title: str
    since: str
    predicate: Callable[[Tree], Iterator[Tree | PodClique | PodCliqueScalingGroup | Pod]]
    effect: str
    source: str
    remedy: str
    confidence: str
    before: str | None = None
    until: str | None = None

    def effect_on(self, sources: Sequence[str], targets: Sequence[str]) -> str | None:
        """The effect on an upgrade between such builds, with its conditions; ``None`` if it concerns none of them."""
        older = [name for name in sources if self.before is None or is_before(name, self.before)]
        newer = [name for name in targets if not is_before(name, self.since)]
        hit = [name for name in newer if self.until is None or not is_before(self.until, name)]
        if not hit or not older:
            return None
        builds = self.since
        if self.until != self.since:
            builds += " or later" if self.until is None else f" to {self.until}"
        conditions = [f"you come from {older[-1]} or older"] if len(older) < len(sources) else []
        conditions += [f"you go to {builds}"] if len(hit) < len(targets) else []
        return f"{self.effect} (if {' and '.join(conditions)})" if conditions else self.effect


ADVISORIES: Final = tuple(
    Advisory(**{**entry, "predicate": getattr(hazards, entry["predicate"])})
    for entry in tomllib.loads((pkgutil.get_data(__package__, "advisories.toml") or b"").decode())["advisory"]
)
HAZARDS: Final = {advisory.id: advisory.title for advisory in ADVISORIES}


def advise(
    tree: Tree, options: PlanOptions, running: str | None, source: str | None = None, target: str | None = None
) -> Iterator[Advice]:
    """Every advisory that concerns the upgrade of this tree.

    ``running`` is the running release, ``source`` and ``target`` are the schemes of its plan; ``None`` is not known.
    """
    if tree.pcs.terminating:
        return
    targets = builds_of(options.target, schemes.by_name(target) if target else None)
    for advisory, effect in _effects(_sources(tree, options, running, source), targets):
        for item in advisory.predicate(tree):
            message = f"{item.ref}: {effect}"
            yield Advice(advisory.id, item.ref, message, advisory.source, advisory.remedy, advisory.confidence)


@cache
def _effects(sources: tuple[str, ...], targets: tuple[str, ...]) -> Sequence[tuple[Advisory, str]]:
    """The advisories that concern such an upgrade, and the effect of each."""
    found = ((advisory, advisory.effect_on(sources, targets)) for advisory in ADVISORIES)
    return [(advisory, effect) for advisory, effect in found if effect is not None]


def unknown_target(snapshot: Snapshot, options: PlanOptions, release: str, running: str | None) -> Plan:
    """The plan for a release whose hashes are not known: its hazards."""
    selected = (tree for tree in snapshot.trees if options.selection.matches(tree.pcs))
    message = f"the hashes of {release} are not known, because its source could not be read"
    finding = report("GM-310", None, None, message, schemes.WAY_OUT)
    advisories = (advice for tree in selected for advice in advise(tree, options, running))
    return Plan(options.source, options.target, (), findings=(finding,), advisories=tuple(advisories), known=False)


def _sources(tree: Tree, options: PlanOptions, running: str | None, source: str | None) -> tuple[str, ...]:
    """The builds that may be running: the one that was seen or named, else all that compute the set's stored hash."""
    if running is not None:
        return (running,)
    if options.source != AUTO:
        return builds_of(options.source, schemes.by_name(source) if source else None) or builds()
    if source is not None:
        return speakers(schemes.by_name(source)) or builds()
    hashes = hashes_of(tree.pcs)
    found = (s for s in schemes.spoken_schemes() if hashes(s).generation == tree.pcs.generation_hash)
    return tuple(name for scheme in found for name in speakers(scheme)) or builds()
