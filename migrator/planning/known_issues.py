"""Known issues of upgrades that have nothing to do with hashes; they never refuse. Pure.

Hashes show the scheme of the running operator, not its release. So an issue names the releases that it concerns.
A new one is an entry of ``_OF_SETS``, with the function that finds its objects; docs/guards.md has the codes that are
gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from migrator.errors import DecodeError
from migrator.exact_json import integer
from migrator.grove import objects
from migrator.hashing.schemes import Scheme
from migrator.planning import crds, model
from migrator.planning.options import PlanOptions
from migrator.releases import table
from migrator.releases.quirks import ANNOTATION_AUTO_MNNVL, gangs_below_minimum

_KAI: Final = "kai-scheduler"
#: What Grove's chart enables from alpha.8 on (``operator/charts/values.yaml``), and the default, which has no name.
_ENABLED: Final = frozenset({"default-scheduler", _KAI, "", None})
_SCHEDULER_NAME: Final = "grove.io/scheduler-name"
_KAI_QUEUE: Final = "kai.scheduler/queue"

Concerned: TypeAlias = Callable[[objects.Tree], Iterator[objects.Tree | objects.GroveObject | objects.Pod]]


@dataclass(frozen=True, kw_only=True)
class SetIssue(model.KnownIssue):
    """A known issue of sets; ``concerned`` yields the objects of a set that it concerns.

    It concerns upgrades to a build from ``since`` up to ``until`` (``None``: up to the newest), from a build that is
    older than ``since``, or ``from_any``.
    """

    concerned: Concerned
    since: str
    until: str | None = None
    from_any: bool = False

    def conditions(self, sources: Sequence[str], targets: Sequence[str]) -> Sequence[str] | None:
        """The conditions under which it concerns an upgrade between such builds; ``None`` if it concerns none."""
        left = [name for name in sources if self.from_any or table.is_before(name, self.since)]
        newer = [name for name in targets if not table.is_before(name, self.since)]
        reached = [name for name in newer if self.until is None or not table.is_before(self.until, name)]
        if not left or not reached:
            return None
        of_old = [f"the old release is {left[-1]} or older"] if len(left) < len(sources) else []
        of_new = [f"the new release is {table.span(self.since, self.until)}"] if len(reached) < len(targets) else []
        return of_old + of_new


def _below_minimum(tree: objects.Tree) -> Iterator[objects.GroveObject]:
    return (item for item, _ in gangs_below_minimum(tree))


def _partly_scheduled(tree: objects.Tree) -> Iterator[objects.GroveObject]:
    """Operators before alpha.9 report no breach of these (Grove PR 561); one that they report is judged by GM-116."""
    for item in tree.children:
        least, scheduled = integer(item.spec.get("minAvailable"), 1), integer(item.status.get("scheduledReplicas"))
        breached = objects.condition(item, "MinAvailableBreached").get("status") in ("True", "Unknown")
        if item.spec.get("replicas") and 0 < scheduled < least and not breached:
            yield item


def _replica_at_zero(tree: objects.Tree) -> Iterator[objects.Tree]:
    """The PodGangMap loses that replica's entries (Grove PR 778: ``podgangmap/steadystate.go:removeEmptyEntries``)."""
    up = {member.set_index for member in tree.children if member.spec.get("replicas") != 0}
    if tree.pcs.spec.get("replicas") and not up.issuperset(member.set_index for member in tree.children):
        yield tree


def _in_another_gang(tree: objects.Tree) -> Iterator[objects.PodClique]:
    for clique in tree.pod_cliques:
        if any(pod.in_other_gang for pod in clique.live):
            yield clique


def _auto_mnnvl(tree: objects.Tree) -> Iterator[objects.Tree]:
    if tree.pcs.annotations.get(ANNOTATION_AUTO_MNNVL) == "enabled":
        yield tree


def _unnamed_topology(tree: objects.Tree) -> Iterator[objects.Tree]:
    """A constraint that has no name of its own inherits it from its scaling group or the set.

    Grove: ``common/component/utils/topologyconstraint.go:ResolveEffectiveTopologyNameForPodCliqueSet``.
    """
    template, configs = tree.pcs.template, tree.pcs.group_configs
    heirs = {n for config in configs if _topology(config).get("topologyName") for n in config.get("cliqueNames") or ()}
    cliques = (clique for clique in tree.pcs.cliques if clique.get("name") not in heirs)
    constraints = [found for holder in (template, *configs, *cliques) if (found := _topology(holder))]
    if not _topology(template).get("topologyName") and any(not found.get("topologyName") for found in constraints):
        yield tree


def _topology(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("topologyConstraint") or {}


def _placed_by_kai(tree: objects.Tree) -> Iterator[objects.Tree]:
    """The set, if its template names KAI, or it is the operator's default.

    From alpha.8 on PodGangs have it as a label (``podgang/podgang.go:getSchedulerNameForPCS``).
    """
    named = {objects.pod_spec_of(clique).get("schedulerName") for clique in tree.pcs.cliques}
    if _KAI in named.union(gang.labels.get(_SCHEDULER_NAME) for gang in tree.pod_gangs):
        yield tree


def _kai_without_queue(tree: objects.Tree) -> Iterator[objects.Tree]:
    own = _queue(tree.pcs.labels, tree.pcs.annotations)
    of_cliques = {_queue(clique.get("labels") or {}, clique.get("annotations") or {}) for clique in tree.pcs.cliques}
    queues = (of_cliques | {own}) - {""}
    if len(queues) != 1:
        yield from _placed_by_kai(tree)


def _other_scheduler(tree: objects.Tree) -> Iterator[objects.Tree]:
    """Operators before alpha.8 pass on any scheduler's name.

    Newer ones look it up in their configuration (alpha.8: ``scheduler/manager/manager.go:Get``): for each pod that they
    make (``podclique/components/pod/pod.go:buildResource``), and in the webhook for every change of a set, of its
    finalizers too (``webhook/admission/pcs/validation/podcliqueset.go:validateSchedulerNames``).
    """
    named = {objects.pod_spec_of(clique).get("schedulerName") for clique in tree.pcs.cliques}
    if not named <= _ENABLED:
        yield tree


def _queue(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    return str(labels.get(_KAI_QUEUE) or annotations.get(_KAI_QUEUE) or "")


def _stray_without_progress(tree: objects.Tree) -> Iterator[objects.Pod]:
    """Pods of another hash under a standalone PodClique that stores no progress of an update (Grove issue 400)."""
    for clique in tree.pod_cliques:
        if clique.standalone and not clique.status.get("updateProgress"):
            current = {None, clique.template_hash}
            yield from (pod for pod in clique.live if pod.template_hash not in current)


def _replaced_before_gone(tree: objects.Tree) -> Iterator[objects.PodClique]:
    """PodCliques that have more pods than they want until those are gone that are being deleted.

    An operator that has just started does not know that these were replaced: ``internal/expect/expectations.go:
    SyncExpectations`` fills nothing in for a PodClique of which it has made or deleted no pod yet. So it deletes as
    many pods (``podclique/components/pod/syncflow.go:deleteExcessPods``): those that are not ready, then those of
    another hash, then the newest (``deletionsort.go:Less``). A migration leaves the hash of a pod that is being deleted
    as it is, so that pod goes first if the others are ready.
    """
    return (clique for clique in tree.staying if clique.is_over_full)


_OF_SETS: Final = (
    SetIssue(
        code="GM-301",
        concerned=_below_minimum,
        title="A member below its minimum ends its gang",
        since="v0.1.0-alpha.12-rc1",
        effect=(
            "it has pods, but fewer replicas or scheduled pods than minAvailable; after spec.template.terminationDelay "
            "the next operator deletes all pods of its replica of the set (or of the scaling group, if that can spare "
            "one), and again whenever it is scaled down"
        ),
        source="Grove PR 614; podclique/reconcilestatus.go, podcliquescalinggroup/reconcilestatus.go",
        remedy="bring it to minAvailable before the upgrade, or raise spec.template.terminationDelay",
        confidence="source read",
    ),
    SetIssue(
        code="GM-302",
        concerned=_replica_at_zero,
        title="All members of a replica are at zero",
        since="v0.1.0-alpha.12",
        until="v0.1.0-alpha.12",
        effect=(
            "all cliques and scaling groups of one of its replicas are at zero; scaled up, they get no pod "
            "(ERR_PODGANGMAP_NO_ENTRIES) or, in a set with scaling groups, pods that stay behind the scheduling gate"
        ),
        source="Grove issues 808 and 809, fixed by PR 811",
        remedy="scale one of them up before the upgrade, or go to v0.1.0-alpha.13",
        confidence="public thread",
    ),
    SetIssue(
        code="GM-304",
        concerned=_in_another_gang,
        title="Pods carry another scheduler's pod group annotation",
        since="v0.1.0-alpha.12",
        until="v0.1.0-alpha.13",
        effect="its pods carry another scheduler's pod group annotation; pods that replace them later stay Pending",
        source="Grove issue 837, fixed by PR 839",
        remedy="go to a release with Grove PR 839",
        confidence="public thread",
    ),
    SetIssue(
        code="GM-305",
        concerned=_auto_mnnvl,
        title="Automatic MNNVL ends",
        since="v0.1.0-alpha.9",
        effect=(
            "it has the annotation grove.io/auto-mnnvl: enabled, which operators from alpha.9 on ignore; pods that are "
            "made after the upgrade come without the IMEX claim, and mnnvl-group cannot be added to an existing set"
        ),
        source="Grove PR 574; mnnvl/helpers.go, mnnvl/webhook.go",
        remedy="recreate the set with mnnvl-group after the upgrade, or stay on alpha.8",
        confidence="source read",
    ),
    SetIssue(
        code="GM-306",
        concerned=_unnamed_topology,
        title="A topology constraint names no topology",
        since="v0.1.0-alpha.9",
        effect=(
            "it has a topologyConstraint without topologyName; until it has one, the next operator places new pods "
            "without the constraint, and its webhook rejects every other change of the set, so that it cannot be "
            "deleted either. An operator of Dynamo that looks for ClusterTopology (1.2, not 1.4) fails: it is "
            "ClusterTopologyBinding now"
        ),
        source=(
            "Grove issue 616, NVCF issue 1269, podgang/syncflow.go:createTopologyPackConstraint, "
            "webhook/admission/pcs/validation/podcliqueset.go:validateTopologyConstraintsUpdate"
        ),
        remedy=(
            "once the new operator runs, create the ClusterTopologyBinding and set topologyName (its API is the first "
            "that has the field, and its webhook allows this repair), and upgrade to Dynamo 1.4 in the same step"
        ),
        confidence="public thread",
    ),
    SetIssue(
        code="GM-307",
        concerned=_kai_without_queue,
        title="A set for KAI does not name exactly one queue",
        since="main-fcc3b3bb",
        effect=(
            "KAI schedules its pods, and it does not name exactly one kai.scheduler/queue; the next operator creates no"
            " PodGroup for it, so new pods are not scheduled"
        ),
        source="Grove PR 725; scheduler/kai/backend.go:resolveQueueNameForPodCliqueSet",
        remedy="set one kai.scheduler/queue, as label or annotation of the set, and no other queue on a clique",
        confidence="source read",
    ),
    SetIssue(
        code="GM-308",
        concerned=_placed_by_kai,
        title="KAI may be too old for the operator's PodGroups",
        since="main-fcc3b3bb",
        effect=(
            "KAI schedules its pods; KAI before 0.15 races with the PodGroups that the next operator makes, and its "
            "eviction of stale gangs may end running pods"
        ),
        source="KAI issue 2117, Dynamo issue 14741",
        remedy="upgrade KAI to 0.17 first, with a staleness grace period of -1s",
        confidence="public thread",
    ),
    SetIssue(
        code="GM-309",
        concerned=_stray_without_progress,
        title="A stray pod is deleted at the start",
        since="v0.1.0-alpha.12-rc1",
        from_any=True,
        until="v0.1.0-alpha.12-rc1",
        effect="it has another hash than its PodClique, which was never updated; the next operator deletes it at once",
        source="podclique/reconcilespec.go:shouldResetOrTriggerUpdate, fixed by Grove PR 757",
        remedy="delete it beforehand, at a time of your own choosing, or go to a later release",
        confidence="source read",
    ),
    SetIssue(
        code="GM-311",
        concerned=_partly_scheduled,
        title="A member is scheduled below its minimum",
        since="v0.1.0-alpha.9",
        effect=(
            "some of its pods or replicas are scheduled, but fewer than minAvailable; operators from alpha.9 on count "
            "that as a breach and end the gang after spec.template.terminationDelay"
        ),
        source="Grove PR 561",
        remedy="make room for the pods, or scale to minAvailable",
        confidence="source read",
    ),
    SetIssue(
        code="GM-313",
        concerned=_other_scheduler,
        title="The next operator may not know the scheduler",
        since="v0.1.0-alpha.8",
        effect=(
            "its schedulerName is one that Grove's chart does not enable; unless config.scheduler.profiles has it, the "
            "next operator makes no new pod of the set, and its webhook rejects every change of it: it cannot be "
            "edited, and not be deleted either"
        ),
        source=(
            "webhook/admission/pcs/validation/podcliqueset.go:validateSchedulerNames, "
            "podclique/components/pod/pod.go:buildResource"
        ),
        remedy=(
            "enable it in config.scheduler.profiles of the new chart (from alpha.10 on volcano and lpx-scheduler can "
            "be), or name one that can be enabled before the upgrade, which replaces the set's pods"
        ),
        confidence="source read",
    ),
    SetIssue(
        code="GM-314",
        concerned=_replaced_before_gone,
        title="An operator that starts deletes live pods beside ending ones",
        since="v0.1.0-alpha.1",
        until="v0.1.0-alpha.12-rc1",
        from_any=True,
        effect=(
            "it has more pods than it wants, because some are still being deleted; an operator that starts before they "
            "are gone deletes as many of the others: first those that are not ready, and ready ones too if no hash has "
            "changed, as when the old operator is started again"
        ),
        source="Grove PR 759; podclique/components/pod/syncflow.go:selectExcessPodsToDelete",
        remedy="wait until they are gone before you run or upgrade; delete those of a lost node with --force",
        confidence="tried with alpha.9",
    ),
)
#: Every known issue by its code.
KNOWN_ISSUES: Final[Mapping[str, model.KnownIssue]] = {issue.code: issue for issue in (*_OF_SETS, crds.CLASHING)}


def advise(
    plans: Sequence[model.SetPlan], options: PlanOptions, running: str | None, served: Mapping[str, str] | None
) -> Iterator[model.Advice]:
    """Every known issue that concerns the upgrade of these sets, and that of the upgrade's CRDs.

    ``running`` is the running release, ``None`` if it is not known. ``served`` are the plurals of a cluster by short
    name, ``None`` for a dump.
    """
    live = [plan for plan in plans if not plan.tree.pcs.terminating]
    every = set[str]()
    for plan in live:
        sources = _sources(plan, options, running)
        every.update(sources)
        for issue, conditions in _concerning(sources, table.targets_of(options.target)):
            for item in issue.concerned(plan.tree):
                yield issue.advice(item.ref, conditions)
    yield from crds.advise(options.target, served, every)


@cache
def _concerning(sources: tuple[str, ...], targets: tuple[str, ...]) -> Sequence[tuple[SetIssue, Sequence[str]]]:
    """The known issues that concern such an upgrade, and the conditions of each."""
    found = ((issue, issue.conditions(sources, targets)) for issue in _OF_SETS)
    return [(issue, conditions) for issue, conditions in found if conditions is not None]


def _sources(plan: model.SetPlan, options: PlanOptions, running: str | None) -> tuple[str, ...]:
    """The builds that may be running: the one seen or named, otherwise all that compute the set's stored hash."""
    if running is not None:
        return (running,)
    if options.source is not None:
        return options.source.builds or table.builds()
    if plan.source is not None:
        return table.builds_with(plan.source) or table.builds()
    pcs, found = plan.tree.pcs, list[Scheme]()
    with suppress(DecodeError):  # a set that cannot be hashed is of no release that is known
        found = [one for one in table.released_schemes() if pcs.hashes(one).generation == pcs.generation_hash]
    return tuple(name for scheme in found for name in table.builds_with(scheme)) or table.builds()
