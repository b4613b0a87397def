"""Hazards of upgrades that have nothing to do with hashes: the table, and its evaluation. Pure.

An advisory never refuses. None is given if the releases are known and not concerned. Hashes show the scheme of the
running operator, not its release. If the release is not known, the advisory names the releases concerned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from migrator.grove.model import Advice, Plan, Snapshot, Tree, TreePlan
from migrator.hashing import schemes
from migrator.planning.guards.base import warn
from migrator.planning.hashes import HashesOf
from migrator.planning.hazards import PREDICATES
from migrator.planning.lineage import builds, builds_of, is_before, speakers
from migrator.planning.options import AUTO, PlanOptions

READ: Final = "source read"
THREAD: Final = "public thread"


@dataclass(frozen=True, slots=True)
class Advisory:
    """One hazard of the trees that ``predicate`` names.

    It concerns upgrades from a build older than ``before`` (``None``: from any build) to a build from ``since`` up to
    ``until`` (``None``: up to the newest).
    """

    id: str
    since: str
    predicate: str
    effect: str
    source: str
    remedy: str
    confidence: str
    before: str | None = None
    until: str | None = None

    def concerns(self, target: str) -> bool:
        """Whether the build is one of the targets."""
        return not is_before(target, self.since) and (self.until is None or not is_before(self.until, target))


ADVISORIES: Final = (
    Advisory(
        "GM-301",
        before="v0.1.0-alpha.12-rc1",
        since="v0.1.0-alpha.12-rc1",
        predicate="at_zero_beside_live",
        effect="it is at zero beside live pods; the next operator counts that as a breach of minAvailable and deletes "
        "all pods of this replica of the set after spec.template.terminationDelay, again and again",
        source="Grove PR 614; podclique/reconcilestatus.go, podcliquescalinggroup/reconcilestatus.go",
        remedy="scale it to minAvailable before the upgrade, or raise spec.template.terminationDelay",
        confidence=READ,
    ),
    Advisory(
        "GM-302",
        before="v0.1.0-alpha.12",
        since="v0.1.0-alpha.12",
        until="v0.1.0-alpha.12",
        predicate="cliques_at_zero",
        effect="all its cliques are at zero; the next operator reports ERR_PODGANGMAP_NO_ENTRIES and makes no pod when "
        "they are scaled up",
        source="Grove issue 808, fixed by PR 811",
        remedy="scale one clique up before the upgrade, or go to v0.1.0-alpha.13",
        confidence=THREAD,
    ),
    Advisory(
        "GM-303",
        before="v0.1.0-alpha.12",
        since="v0.1.0-alpha.12",
        until="v0.1.0-alpha.12",
        predicate="groups_at_zero",
        effect="it has scaling groups only, all at zero; under the next operator pods of a later scale-up stay behind "
        "the scheduling gate for ever",
        source="Grove issue 809, fixed by PR 811",
        remedy="scale one group up before the upgrade, or go to v0.1.0-alpha.13",
        confidence=THREAD,
    ),
    Advisory(
        "GM-304",
        before="v0.1.0-alpha.12",
        since="v0.1.0-alpha.12",
        until="v0.1.0-alpha.13",
        predicate="foreign_gang",
        effect="its pods carry another scheduler's pod group annotation; pods that replace them after a later scale or "
        "roll stay Pending",
        source="Grove issue 837, fixed by PR 839",
        remedy="go to a release with Grove PR 839",
        confidence=THREAD,
    ),
    Advisory(
        "GM-305",
        before="v0.1.0-alpha.9",
        since="v0.1.0-alpha.9",
        predicate="auto_mnnvl",
        effect="it has the annotation grove.io/auto-mnnvl: enabled, which operators from alpha.9 on ignore; pods that "
        "are made after the upgrade come without the IMEX claim, and mnnvl-group cannot be added to an existing set",
        source="Grove PR 574; mnnvl/helpers.go, mnnvl/webhook.go",
        remedy="recreate the set with mnnvl-group after the upgrade, or stay on alpha.8",
        confidence=READ,
    ),
    Advisory(
        "GM-306",
        before="v0.1.0-alpha.9",
        since="v0.1.0-alpha.9",
        predicate="unnamed_topology",
        effect="it has a topologyConstraint without topologyName; its topology condition becomes Unknown, and Dynamo "
        "before 1.4 fails on the CRD that was renamed to ClusterTopologyBinding",
        source="Grove issue 616",
        remedy="set topologyName once the new operator runs (its API is the first that has the field, and its webhook "
        "allows this repair), and upgrade to Dynamo 1.4 in the same step",
        confidence=THREAD,
    ),
    Advisory(
        "GM-307",
        before="main-fcc3b3bb",
        since="main-fcc3b3bb",
        predicate="kai_without_queue",
        effect="KAI schedules its pods, and it does not name exactly one kai.scheduler/queue; the next operator "
        "creates no PodGroup for it, so new pods are not scheduled",
        source="Grove PR 725; scheduler/kai/backend.go:resolveQueueNameForPodCliqueSet",
        remedy="set one kai.scheduler/queue, as label or annotation of the set or of all its cliques",
        confidence=READ,
    ),
    Advisory(
        "GM-308",
        before="main-fcc3b3bb",
        since="main-fcc3b3bb",
        predicate="kai",
        effect="KAI schedules its pods; KAI before 0.15 races with the PodGroups that the next operator makes, and its "
        "eviction of stale gangs may end running pods",
        source="KAI issue 2117, Dynamo issue 14741",
        remedy="upgrade KAI to 0.17 first, with a staleness grace period of -1s",
        confidence=THREAD,
    ),
    Advisory(
        "GM-309",
        since="v0.1.0-alpha.12-rc1",
        until="v0.1.0-alpha.12-rc1",
        predicate="stray_without_progress",
        effect="it has another hash than its PodClique, which was never updated; the next operator deletes it when it "
        "starts",
        source="podclique/reconcilespec.go:shouldResetOrTriggerUpdate, fixed by Grove PR 757",
        remedy="delete it beforehand, at a time of your own choosing, or go to a later release",
        confidence=READ,
    ),
)


def advise(tree: Tree, *, sources: Iterable[str], targets: Iterable[str]) -> Iterator[Advice]:
    """Every advisory that concerns an upgrade of this tree.

    ``sources`` are the builds that may be running, ``targets`` those that may come next. Where no release is known
    they are all builds that speak the scheme.
    """
    sources, targets = tuple(sources), tuple(targets)
    for advisory in ADVISORIES:
        hit = [target for target in targets if advisory.concerns(target)]
        older = [name for name in sources if advisory.before is None or is_before(name, advisory.before)]
        if not hit or not older:
            continue
        limits = []
        if len(older) < len(sources):
            limits.append(f"you come from {older[-1]} or older")
        if len(hit) < len(targets):
            limits.append(f"you go to {_range(advisory)}")
        where = f" (if {' and '.join(limits)})" if limits else ""
        for ref in PREDICATES[advisory.predicate](tree):
            message = f"{ref}: {advisory.effect}{where}"
            yield Advice(advisory.id, ref, message, advisory.source, advisory.remedy, advisory.confidence)


def _range(advisory: Advisory) -> str:
    if advisory.until == advisory.since:
        return advisory.since
    return f"{advisory.since} or later" if advisory.until is None else f"{advisory.since} to {advisory.until}"


def unknown_target(snapshot: Snapshot, options: PlanOptions, release: str, running: str | None) -> Plan:
    """The plan for a release whose hashes are not known: its hazards."""
    selected = [tree for tree in snapshot.trees if options.selection.matches(tree.pcs) and not tree.pcs.terminating]
    finding = warn(
        "GM-310",
        None,
        None,
        f"the hashes of {release} are not known, because its source could not be read; {schemes.WAY_OUT}",
    )
    advisories = (
        advice
        for tree in selected
        for advice in advise(tree, sources=_sources(tree, options, running), targets=(release,))
    )
    return Plan(options.source, options.target, (), findings=(finding,), advisories=tuple(advisories), known=False)


def advise_plan(plan: TreePlan, options: PlanOptions, running: str | None) -> Iterator[Advice]:
    """Every advisory that concerns the upgrade of a planned tree; ``running`` is the running release."""
    if plan.tree.pcs.terminating:
        return iter(())
    target = schemes.by_name(plan.target)
    sources = _sources(plan.tree, options, running, plan.source)
    return advise(plan.tree, sources=sources, targets=builds_of(options.target, target))


def _sources(tree: Tree, options: PlanOptions, running: str | None, source: str | None = None) -> tuple[str, ...]:
    """The builds that may be running: the one that was seen or named, else all that compute the set's stored hash."""
    if running is not None:
        return (running,)
    if options.source != AUTO:
        return builds_of(options.source, schemes.by_name(source) if source else None) or builds()
    if source is not None:
        return speakers(schemes.by_name(source)) or builds()
    hashes = HashesOf(tree.pcs)
    found = (s for s in schemes.spoken_schemes() if hashes(s).generation == tree.pcs.generation_hash)
    return tuple(name for scheme in found for name in speakers(scheme)) or builds()
