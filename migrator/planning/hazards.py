"""The objects that a hazard of an upgrade concerns, by the names of functions in ``advisories.toml``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from migrator.exact_json import integer
from migrator.grove.objects import Pod, PodClique, PodCliqueScalingGroup, PodCliqueSet, Tree, pod_spec_of

_ANNOTATION_AUTO_MNNVL: Final = "grove.io/auto-mnnvl"
_KAI: Final = "kai-scheduler"
_SCHEDULER_NAME: Final = "grove.io/scheduler-name"
_KAI_QUEUE: Final = "kai.scheduler/queue"
#: A condition that was set at most this many seconds after its object was made counts as its first
#: (Grove: ``common/component/utils/podclique.go:InitialScheduleGrace``).
INITIAL_SCHEDULE_GRACE: Final = 5.0


def below_minimum_beside_live(tree: Tree) -> Iterator[PodClique | PodCliqueScalingGroup]:
    """PodCliques and scaling groups scaled to zero, or below ``minAvailable``, beside live pods of their replica.

    From alpha.12-rc1 on each is a breach of its ``minAvailable`` (``podclique/reconcilestatus.go`` and
    ``podcliquescalinggroup/reconcilestatus.go:computeMinAvailableBreachedCondition``), which ends the whole replica
    after ``terminationDelay``, unless it is :func:`left_alone`.
    """
    with_live_pods = (clique for clique in tree.pod_cliques if any(pod.live for pod in clique.pods))
    live = {clique.set_index for clique in with_live_pods}
    members: tuple[PodClique | PodCliqueScalingGroup, ...] = (*tree.scaling_groups, *tree.pod_cliques)
    for item in members:
        least = integer(item.spec.get("minAvailable"), 1)
        if integer(item.spec.get("replicas"), least) < least and item.set_index in live and not left_alone(item):
            yield item


def doomed_pods(tree: Tree) -> Iterator[tuple[PodClique, Pod]]:
    """The live pods of every replica that :func:`below_minimum_beside_live` names."""
    indices = {item.set_index for item in below_minimum_beside_live(tree)}
    for clique in tree.pod_cliques:
        if clique.set_index in indices:
            yield from ((clique, pod) for pod in clique.pods if pod.live)


def left_alone(item: PodClique | PodCliqueScalingGroup) -> bool:
    """Whether operators from alpha.12-rc1 on ignore this member's breach.

    It never was healthy (``WasPCLQEverScheduled``, ``WasPCSGEverHealthy``), or its gang was ended already, and it has
    not recovered (``podcliquesetreplica/gangterminate.go:getMinAvailableBreachedPCSGInfo``).
    """
    age = unscheduled_at(item) if isinstance(item, PodClique) else _age(item, "MinAvailableBreached", "True")
    ended = condition(item, "GangTerminationInProgress").get("status") == "True"
    return ended or (age is not None and age <= INITIAL_SCHEDULE_GRACE)


def partly_scheduled(tree: Tree) -> Iterator[PodClique | PodCliqueScalingGroup]:
    """Members of which some pods or replicas are scheduled, but fewer than ``minAvailable``, without a breach.

    Operators before alpha.9 report none (Grove PR 561); one that they report is judged by GM-116.
    """
    for item in tree.children:
        least, scheduled = integer(item.spec.get("minAvailable"), 1), integer(item.status.get("scheduledReplicas"))
        breached = condition(item, "MinAvailableBreached").get("status") in {"True", "Unknown"}
        if item.spec.get("replicas") and 0 < scheduled < least and not breached:
            yield item


def cliques_at_zero(tree: Tree) -> Iterator[Tree]:
    """A set without scaling groups that has a replica whose PodCliques are all at zero (Grove issue 808)."""
    if not tree.pcs.group_configs and _has_replica_at_zero(tree):
        yield tree


def groups_at_zero(tree: Tree) -> Iterator[Tree]:
    """A set with scaling groups that has a replica whose members are all at zero (Grove issue 809).

    The PodGangMap of that replica loses its anchor (Grove PR 778: ``podgangmap/steadystate.go:removeEmptyEntries``).
    """
    if tree.pcs.group_configs and _has_replica_at_zero(tree):
        yield tree


def foreign_gang(tree: Tree) -> Iterator[PodClique]:
    """PodCliques with pods that another scheduler's pod group names (Grove issue 837)."""
    for clique in tree.pod_cliques:
        if any(pod.live and pod.gang_annotation for pod in clique.pods):
            yield clique


def auto_mnnvl(tree: Tree) -> Iterator[Tree]:
    """A set whose GPU pods get their IMEX claim by annotation."""
    if tree.pcs.annotations.get(_ANNOTATION_AUTO_MNNVL) == "enabled":
        yield tree


def unnamed_topology(tree: Tree) -> Iterator[Tree]:
    """A set with a ``topologyConstraint`` that neither names a topology nor inherits its name from group or set.

    Grove: ``common/component/utils/topologyconstraint.go:ResolveEffectiveTopologyNameForPodCliqueSet``.
    """
    template, configs = tree.pcs.template, tree.pcs.group_configs
    heirs = {n for config in configs if _topology(config).get("topologyName") for n in config.get("cliqueNames") or ()}
    cliques = (clique for clique in tree.pcs.cliques if clique.get("name") not in heirs)
    constraints = [found for holder in (template, *configs, *cliques) if (found := _topology(holder))]
    if not _topology(template).get("topologyName") and any(not found.get("topologyName") for found in constraints):
        yield tree


def kai(tree: Tree) -> Iterator[Tree]:
    """A set whose pods the KAI scheduler places: its template names it, or it is the operator's default.

    From alpha.8 on PodGangs have it as a label (``podgang/podgang.go:getSchedulerNameForPCS``).
    """
    named = {pod_spec_of(clique).get("schedulerName") for clique in tree.pcs.cliques}
    if _KAI in named.union(gang.labels.get(_SCHEDULER_NAME) for gang in tree.pod_gangs):
        yield tree


def kai_without_queue(tree: Tree) -> Iterator[Tree]:
    """A set for KAI without exactly one queue (``scheduler/kai/backend.go:resolveQueueNameForPodCliqueSet``)."""
    own = _queue(tree.pcs.labels, tree.pcs.annotations)
    of_cliques = {_queue(clique.get("labels") or {}, clique.get("annotations") or {}) for clique in tree.pcs.cliques}
    queues = (of_cliques | {own}) - {""}
    if len(queues) != 1:
        yield from kai(tree)


def stray_without_progress(tree: Tree) -> Iterator[Pod]:
    """Pods of another hash under a standalone PodClique that stores no progress of an update (Grove issue 400)."""
    for clique in tree.pod_cliques:
        if clique.standalone and not clique.status.get("updateProgress"):
            current = {None, clique.template_hash}
            yield from (pod for pod in clique.pods if pod.live and pod.template_hash not in current)


def condition(item: PodCliqueSet | PodClique | PodCliqueScalingGroup, kind: str) -> Mapping[str, Any]:
    """The condition of that type, or an empty mapping."""
    return next((entry for entry in item.status.get("conditions") or () if entry.get("type") == kind), {})


def unscheduled_at(clique: PodClique) -> float | None:
    """The age of a PodClique, in seconds, when its pods became unscheduled; ``None`` if that is not known."""
    return _age(clique, "PodCliqueScheduled", "False")


def _age(item: PodClique | PodCliqueScalingGroup, kind: str, status: str) -> float | None:
    found = condition(item, kind)
    since, created = kubernetes_time(found.get("lastTransitionTime")), kubernetes_time(item.created)
    return None if found.get("status") != status or not since or not created else (since - created).total_seconds()


def _has_replica_at_zero(tree: Tree) -> bool:
    standalone = (clique for clique in tree.pod_cliques if clique.standalone)
    members: tuple[PodClique | PodCliqueScalingGroup, ...] = (*tree.scaling_groups, *standalone)
    up = {member.set_index for member in members if member.spec.get("replicas") != 0}
    return bool(tree.pcs.spec.get("replicas")) and not up.issuperset(member.set_index for member in members)


def _topology(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("topologyConstraint") or {}


def _queue(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    return str(labels.get(_KAI_QUEUE) or annotations.get(_KAI_QUEUE) or "")


def kubernetes_time(text: object) -> datetime | None:
    """A time as Kubernetes writes it, with its zone; ``None`` for anything else."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
