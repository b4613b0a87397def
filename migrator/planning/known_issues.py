"""Known issues of upgrades that have nothing to do with hashes; they never refuse. Pure.

Hashes show the scheme of the running operator, not its release. So an issue names the releases that it concerns.
A new one is a function with its entry, in ``_OF_SETS``; docs/guards.md has the codes that are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, TypeAlias

from migrator.exact_json import integer
from migrator.grove import objects
from migrator.hashing.schemes import Scheme
from migrator.planning import crds, model
from migrator.planning.detect import hashes_of
from migrator.planning.options import PlanOptions
from migrator.releases import table
from migrator.releases.quirks import ANNOTATION_AUTO_MNNVL, below_minimum_with_pods

_KAI: Final = "kai-scheduler"
_SCHEDULER_NAME: Final = "grove.io/scheduler-name"
_KAI_QUEUE: Final = "kai.scheduler/queue"

Concerned: TypeAlias = Callable[[objects.Tree], Iterator[objects.Tree | objects.GroveObject | objects.Pod]]


@dataclass(frozen=True)
class SetIssue(model.KnownIssue):
    """A known issue of sets; ``concerned`` yields the objects of a tree that it concerns.

    It concerns upgrades from a build older than ``before`` (``None``: from any build) to a build from ``since`` up to
    ``until`` (``None``: up to the newest).
    """

    concerned: Concerned
    since: str = field(kw_only=True)
    before: str | None = field(default=None, kw_only=True)
    until: str | None = field(default=None, kw_only=True)

    def effect_on(self, sources: Sequence[str], targets: Sequence[str]) -> str | None:
        """The effect on an upgrade between such builds, with its conditions; ``None`` if it concerns none of them."""
        older = [name for name in sources if self.before is None or table.is_before(name, self.before)]
        newer = [name for name in targets if not table.is_before(name, self.since)]
        hit = [name for name in newer if self.until is None or not table.is_before(self.until, name)]
        if not hit or not older:
            return None
        span = self.since
        if self.until != self.since:
            span += " or later" if self.until is None else f" to {self.until}"
        conditions = [f"you come from {older[-1]} or older"] if len(older) < len(sources) else []
        conditions += [f"you go to {span}"] if len(hit) < len(targets) else []
        return f"{self.effect} (if {' and '.join(conditions)})" if conditions else self.effect


below_minimum = SetIssue(
    below_minimum_with_pods,
    code="GM-301",
    title="A member below its minimum ends its gang",
    before="v0.1.0-alpha.12-rc1",
    since="v0.1.0-alpha.12-rc1",
    effect=(
        "it has fewer replicas or scheduled pods than minAvailable, beside pods; the next operator counts that as a"
        " breach of minAvailable and deletes all pods of this replica of the set after "
        "spec.template.terminationDelay; a PodClique comes back with the template's replicas, so this happens "
        "whenever it is scaled down again"
    ),
    source="Grove PR 614; podclique/reconcilestatus.go, podcliquescalinggroup/reconcilestatus.go",
    remedy="bring it to minAvailable before the upgrade, or raise spec.template.terminationDelay",
    confidence="source read",
)


@partial(
    SetIssue,
    code="GM-311",
    title="A member is scheduled below its minimum",
    before="v0.1.0-alpha.9",
    since="v0.1.0-alpha.9",
    effect=(
        "some of its pods or replicas are scheduled, but fewer than minAvailable; operators from alpha.9 on count "
        "that as a breach and end the gang after spec.template.terminationDelay"
    ),
    source="Grove PR 561",
    remedy="make room for the pods, or scale to minAvailable",
    confidence="source read",
)
def partly_scheduled(tree: objects.Tree) -> Iterator[objects.GroveObject]:
    """Members of which some pods or replicas are scheduled, but fewer than ``minAvailable``, without a breach.

    Operators before alpha.9 report none (Grove PR 561); one that they report is judged by GM-116.
    """
    for item in tree.children:
        least, scheduled = integer(item.spec.get("minAvailable"), 1), integer(item.status.get("scheduledReplicas"))
        breached = objects.condition(item, "MinAvailableBreached").get("status") in ("True", "Unknown")
        if item.spec.get("replicas") and 0 < scheduled < least and not breached:
            yield item


@partial(
    SetIssue,
    code="GM-302",
    title="All cliques of a replica are at zero",
    before="v0.1.0-alpha.12",
    since="v0.1.0-alpha.12",
    until="v0.1.0-alpha.12",
    effect=(
        "all cliques of one of its replicas are at zero; the next operator reports ERR_PODGANGMAP_NO_ENTRIES and "
        "makes no pod when they are scaled up"
    ),
    source="Grove issue 808, fixed by PR 811",
    remedy="scale one clique up before the upgrade, or go to v0.1.0-alpha.13",
    confidence="public thread",
)
def cliques_at_zero(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set without scaling groups that has a replica whose PodCliques are all at zero (Grove issue 808)."""
    if not tree.pcs.group_configs and _has_replica_at_zero(tree):
        yield tree


@partial(
    SetIssue,
    code="GM-303",
    title="All members of a replica with scaling groups are at zero",
    before="v0.1.0-alpha.12",
    since="v0.1.0-alpha.12",
    until="v0.1.0-alpha.12",
    effect=(
        "all members of one of its replicas are at zero, scaling groups among them; under the next operator pods of"
        " a later scale-up stay behind the scheduling gate for ever"
    ),
    source="Grove issue 809, fixed by PR 811",
    remedy="scale one member up before the upgrade, or go to v0.1.0-alpha.13",
    confidence="public thread",
)
def groups_at_zero(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set with scaling groups that has a replica whose members are all at zero (Grove issue 809).

    The PodGangMap of that replica loses its anchor (Grove PR 778: ``podgangmap/steadystate.go:removeEmptyEntries``).
    """
    if tree.pcs.group_configs and _has_replica_at_zero(tree):
        yield tree


@partial(
    SetIssue,
    code="GM-304",
    title="Pods carry another scheduler's pod group annotation",
    before="v0.1.0-alpha.12",
    since="v0.1.0-alpha.12",
    until="v0.1.0-alpha.13",
    effect=("its pods carry another scheduler's pod group annotation; pods that replace them later stay Pending"),
    source="Grove issue 837, fixed by PR 839",
    remedy="go to a release with Grove PR 839",
    confidence="public thread",
)
def foreign_gang(tree: objects.Tree) -> Iterator[objects.PodClique]:
    """PodCliques with pods that another scheduler's pod group names (Grove issue 837)."""
    for clique in tree.pod_cliques:
        if any(pod.in_other_gang and not pod.terminating for pod in clique.pods):
            yield clique


@partial(
    SetIssue,
    code="GM-305",
    title="Automatic MNNVL ends",
    before="v0.1.0-alpha.9",
    since="v0.1.0-alpha.9",
    effect=(
        "it has the annotation grove.io/auto-mnnvl: enabled, which operators from alpha.9 on ignore; pods that are "
        "made after the upgrade come without the IMEX claim, and mnnvl-group cannot be added to an existing set"
    ),
    source="Grove PR 574; mnnvl/helpers.go, mnnvl/webhook.go",
    remedy="recreate the set with mnnvl-group after the upgrade, or stay on alpha.8",
    confidence="source read",
)
def auto_mnnvl(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set whose GPU pods get their IMEX claim by annotation."""
    if tree.pcs.annotations.get(ANNOTATION_AUTO_MNNVL) == "enabled":
        yield tree


@partial(
    SetIssue,
    code="GM-306",
    title="A topology constraint names no topology",
    before="v0.1.0-alpha.9",
    since="v0.1.0-alpha.9",
    effect=(
        "it has a topologyConstraint without topologyName; its topology condition becomes Unknown, and an operator "
        "of Dynamo that looks for ClusterTopology (1.2 does, 1.4 does not) fails, because the CRD is now "
        "ClusterTopologyBinding"
    ),
    source="Grove issue 616, NVCF issue 1269",
    remedy=(
        "set topologyName once the new operator runs (its API is the first that has the field, and its webhook "
        "allows this repair), and upgrade to Dynamo 1.4 in the same step"
    ),
    confidence="public thread",
)
def unnamed_topology(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set with a ``topologyConstraint`` that neither names a topology nor inherits its name from group or set.

    Grove: ``common/component/utils/topologyconstraint.go:ResolveEffectiveTopologyNameForPodCliqueSet``.
    """
    template, configs = tree.pcs.template, tree.pcs.group_configs
    heirs = {n for config in configs if _topology(config).get("topologyName") for n in config.get("cliqueNames") or ()}
    cliques = (clique for clique in tree.pcs.cliques if clique.get("name") not in heirs)
    constraints = [found for holder in (template, *configs, *cliques) if (found := _topology(holder))]
    if not _topology(template).get("topologyName") and any(not found.get("topologyName") for found in constraints):
        yield tree


@partial(
    SetIssue,
    code="GM-308",
    title="KAI may be too old for the operator's PodGroups",
    before="main-fcc3b3bb",
    since="main-fcc3b3bb",
    effect=(
        "KAI schedules its pods; KAI before 0.15 races with the PodGroups that the next operator makes, and its "
        "eviction of stale gangs may end running pods"
    ),
    source="KAI issue 2117, Dynamo issue 14741",
    remedy="upgrade KAI to 0.17 first, with a staleness grace period of -1s",
    confidence="public thread",
)
def kai(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set whose pods the KAI scheduler places."""
    yield from _placed_by_kai(tree)


@partial(
    SetIssue,
    code="GM-307",
    title="A set for KAI does not name exactly one queue",
    before="main-fcc3b3bb",
    since="main-fcc3b3bb",
    effect=(
        "KAI schedules its pods, and it does not name exactly one kai.scheduler/queue; the next operator creates no"
        " PodGroup for it, so new pods are not scheduled"
    ),
    source="Grove PR 725; scheduler/kai/backend.go:resolveQueueNameForPodCliqueSet",
    remedy=("set one kai.scheduler/queue, as label or annotation of the set, and no other queue on a clique"),
    confidence="source read",
)
def kai_without_queue(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A set for KAI without exactly one queue (``scheduler/kai/backend.go:resolveQueueNameForPodCliqueSet``)."""
    own = _queue(tree.pcs.labels, tree.pcs.annotations)
    of_cliques = {_queue(clique.get("labels") or {}, clique.get("annotations") or {}) for clique in tree.pcs.cliques}
    queues = (of_cliques | {own}) - {""}
    if len(queues) != 1:
        yield from _placed_by_kai(tree)


@partial(
    SetIssue,
    code="GM-309",
    title="A stray pod is deleted at the start",
    since="v0.1.0-alpha.12-rc1",
    until="v0.1.0-alpha.12-rc1",
    effect=(
        "it has another hash than its PodClique, which was never updated; the next operator deletes it when it starts"
    ),
    source="podclique/reconcilespec.go:shouldResetOrTriggerUpdate, fixed by Grove PR 757",
    remedy="delete it beforehand, at a time of your own choosing, or go to a later release",
    confidence="source read",
)
def stray_without_progress(tree: objects.Tree) -> Iterator[objects.Pod]:
    """Pods of another hash under a standalone PodClique that stores no progress of an update (Grove issue 400)."""
    for clique in tree.pod_cliques:
        if clique.standalone and not clique.status.get("updateProgress"):
            current = {None, clique.template_hash}
            yield from (pod for pod in clique.pods if not pod.terminating and pod.template_hash not in current)


def _has_replica_at_zero(tree: objects.Tree) -> bool:
    standalone = (clique for clique in tree.pod_cliques if clique.standalone)
    members: tuple[objects.GroveObject, ...] = (*tree.scaling_groups, *standalone)
    up = {member.set_index for member in members if member.spec.get("replicas") != 0}
    return bool(tree.pcs.spec.get("replicas")) and not up.issuperset(member.set_index for member in members)


def _placed_by_kai(tree: objects.Tree) -> Iterator[objects.Tree]:
    """The set, if its template names KAI, or it is the operator's default.

    From alpha.8 on PodGangs have it as a label (``podgang/podgang.go:getSchedulerNameForPCS``).
    """
    named = {objects.pod_spec_of(clique).get("schedulerName") for clique in tree.pcs.cliques}
    if _KAI in named.union(gang.labels.get(_SCHEDULER_NAME) for gang in tree.pod_gangs):
        yield tree


def _topology(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("topologyConstraint") or {}


def _queue(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    return str(labels.get(_KAI_QUEUE) or annotations.get(_KAI_QUEUE) or "")


_OF_SETS: Final = (
    below_minimum,
    cliques_at_zero,
    groups_at_zero,
    foreign_gang,
    auto_mnnvl,
    unnamed_topology,
    kai_without_queue,
    kai,
    stray_without_progress,
    partly_scheduled,
)
#: Every known issue by its code.
KNOWN_ISSUES: Final[Mapping[str, model.KnownIssue]] = {issue.code: issue for issue in (*_OF_SETS, crds.CLASHING)}


def advise(
    tree: objects.Tree, options: PlanOptions, running: str | None, source: Scheme | None
) -> Iterator[model.Advice]:
    """Every known issue that concerns the upgrade of this tree.

    ``running`` is the running release, ``source`` the scheme that explains the tree; ``None`` is not known.
    """
    if tree.pcs.terminating:
        return
    for issue, effect in _effects(_sources(tree, options, running, source), table.targets_of(options.target)):
        for item in issue.concerned(tree):
            yield issue.advice(item.ref, effect)


def advise_on_crds(
    plans: Sequence[model.SetPlan],
    options: PlanOptions,
    running: str | None,
    served: Mapping[str, str] | None,
) -> Iterator[model.Advice]:
    """The known issue of the upgrade's CRDs, for each pair of them that clashes.

    ``served`` are the plurals of a cluster by short name. Without it, for a dump, the releases that may be running
    show what is there.
    """
    live = [plan for plan in plans if not plan.tree.pcs.terminating]
    targets = options.target.builds if live or options.target.release is not None else ()
    sources = dict[str, None]()
    for plan in live if served is None else ():
        sources |= dict.fromkeys(_sources(plan.tree, options, running, plan.source))
    return crds.advise(served, sources, targets)


@cache
def _effects(sources: tuple[str, ...], targets: tuple[str, ...]) -> Sequence[tuple[SetIssue, str]]:
    """The known issues that concern such an upgrade, and the effect of each."""
    found = ((issue, issue.effect_on(sources, targets)) for issue in _OF_SETS)
    return [(issue, effect) for issue, effect in found if effect is not None]


def _sources(tree: objects.Tree, options: PlanOptions, running: str | None, source: Scheme | None) -> tuple[str, ...]:
    """The builds that may be running: the one that was seen or named, else all that compute the set's stored hash."""
    if running is not None:
        return (running,)
    if options.source is not None:
        return options.source.builds or table.builds()
    if source is not None:
        return table.builds_with(source) or table.builds()
    hashes = hashes_of(tree.pcs)
    found = (s for s in table.released_schemes() if hashes(s).generation == tree.pcs.generation_hash)
    return tuple(name for scheme in found for name in table.builds_with(scheme)) or table.builds()
