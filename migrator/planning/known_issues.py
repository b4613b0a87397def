"""Known issues of upgrades that have nothing to do with hashes, see ``known_issues.toml``; they never refuse. Pure.

Hashes show the scheme of the running operator, not its release. So an issue names the releases that it concerns.
"""

from __future__ import annotations

import pkgutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from migrator.exact_json import integer
from migrator.grove.objects import GroveObject, Pod, PodClique, Tree, condition, pod_spec_of
from migrator.hashing import schemes
from migrator.planning import crds
from migrator.planning.detect import hashes_of
from migrator.planning.model import Advice
from migrator.planning.options import AUTO, PlanOptions
from migrator.releases.quirks import ANNOTATION_AUTO_MNNVL, below_minimum_with_pods
from migrator.releases.table import builds, builds_of, builds_with, is_before, targets_of

_KAI: Final = "kai-scheduler"
_SCHEDULER_NAME: Final = "grove.io/scheduler-name"
_KAI_QUEUE: Final = "kai.scheduler/queue"

Concerned: TypeAlias = Callable[[Tree], Iterator[Tree | GroveObject | Pod]]


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """One known issue; ``concerned`` yields the objects of a tree that it concerns.

    It concerns upgrades from a build older than ``before`` (``None``: from any build) to a build from ``since`` up to
    ``until`` (``None``: up to the newest).
    """

    id: str
    title: str
    since: str
    concerned: Concerned
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
        span = self.since
        if self.until != self.since:
            span += " or later" if self.until is None else f" to {self.until}"
        conditions = [f"you come from {older[-1]} or older"] if len(older) < len(sources) else []
        conditions += [f"you go to {span}"] if len(hit) < len(targets) else []
        return f"{self.effect} (if {' and '.join(conditions)})" if conditions else self.effect


def partly_scheduled(tree: Tree) -> Iterator[GroveObject]:
    """Members of which some pods or replicas are scheduled, but fewer than ``minAvailable``, without a breach.

    Operators before alpha.9 report none (Grove PR 561); one that they report is judged by GM-116.
    """
    for item in tree.children:
        least, scheduled = integer(item.spec.get("minAvailable"), 1), integer(item.status.get("scheduledReplicas"))
        breached = condition(item, "MinAvailableBreached").get("status") in ("True", "Unknown")
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
        if any(pod.in_other_gang and not pod.terminating for pod in clique.pods):
            yield clique


def auto_mnnvl(tree: Tree) -> Iterator[Tree]:
    """A set whose GPU pods get their IMEX claim by annotation."""
    if tree.pcs.annotations.get(ANNOTATION_AUTO_MNNVL) == "enabled":
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
            yield from (pod for pod in clique.pods if not pod.terminating and pod.template_hash not in current)


def _has_replica_at_zero(tree: Tree) -> bool:
    standalone = (clique for clique in tree.pod_cliques if clique.standalone)
    members: tuple[GroveObject, ...] = (*tree.scaling_groups, *standalone)
    up = {member.set_index for member in members if member.spec.get("replicas") != 0}
    return bool(tree.pcs.spec.get("replicas")) and not up.issuperset(member.set_index for member in members)


def _topology(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    return holder.get("topologyConstraint") or {}


def _queue(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    return str(labels.get(_KAI_QUEUE) or annotations.get(_KAI_QUEUE) or "")


#: What yields the objects that a known issue concerns.
_CONCERNED: Final[Mapping[str, Concerned]] = {
    "GM-301": below_minimum_with_pods,
    "GM-302": cliques_at_zero,
    "GM-303": groups_at_zero,
    "GM-304": foreign_gang,
    "GM-305": auto_mnnvl,
    "GM-306": unnamed_topology,
    "GM-307": kai_without_queue,
    "GM-308": kai,
    "GM-309": stray_without_progress,
    "GM-311": partly_scheduled,
}
KNOWN_ISSUES: Final = tuple(
    KnownIssue(**entry, concerned=_CONCERNED[entry["id"]])
    for entry in tomllib.loads((pkgutil.get_data(__package__, "known_issues.toml") or b"").decode())["issue"]
)
#: The title of each known issue by its id.
ISSUE_TITLES: Final = {issue.id: issue.title for issue in KNOWN_ISSUES} | {crds.CODE: crds.TITLE}


def advise(
    tree: Tree, options: PlanOptions, running: str | None, source: str | None = None, target: str | None = None
) -> Iterator[Advice]:
    """Every known issue that concerns the upgrade of this tree.

    ``running`` is the running release, ``source`` and ``target`` are the schemes of its plan; ``None`` is not known.
    """
    if tree.pcs.terminating:
        return
    targets = targets_of(options.target, schemes.by_name(target) if target else None)
    for issue, effect in _effects(_sources(tree, options, running, source), targets):
        for item in issue.concerned(tree):
            yield Advice(issue.id, item.ref, effect, issue.source, issue.remedy, issue.confidence)


def advise_on_crds(
    ends: Sequence[tuple[Tree, str | None, str | None]],
    options: PlanOptions,
    running: str | None,
    served: Mapping[str, str] | None,
) -> Iterator[Advice]:
    """The known issue of the upgrade's CRDs; ``ends`` are the trees with the schemes of their plans.

    ``served`` are the kinds of a cluster by short name, see :func:`migrator.planning.crds.advise`.
    """
    live = [end for end in ends if not end[0].pcs.terminating]
    targets = dict.fromkeys(builds_of(options.target, None))
    for target in {target for *_, target in live if target}:
        targets |= dict.fromkeys(builds_of(options.target, schemes.by_name(target)))
    sources = dict[str, None]()
    for tree, source, _ in live if served is None else ():
        sources |= dict.fromkeys(_sources(tree, options, running, source))
    return crds.advise(served, sources, targets)


@cache
def _effects(sources: tuple[str, ...], targets: tuple[str, ...]) -> Sequence[tuple[KnownIssue, str]]:
    """The known issues that concern such an upgrade, and the effect of each."""
    found = ((issue, issue.effect_on(sources, targets)) for issue in KNOWN_ISSUES)
    return [(issue, effect) for issue, effect in found if effect is not None]


def _sources(tree: Tree, options: PlanOptions, running: str | None, source: str | None) -> tuple[str, ...]:
    """The builds that may be running: the one that was seen or named, else all that compute the set's stored hash."""
    if running is not None:
        return (running,)
    if options.source != AUTO:
        return builds_of(options.source, schemes.by_name(source) if source else None) or builds()
    if source is not None:
        return builds_with(schemes.by_name(source)) or builds()
    hashes = hashes_of(tree.pcs)
    found = (s for s in schemes.released_schemes() if hashes(s).generation == tree.pcs.generation_hash)
    return tuple(name for scheme in found for name in builds_with(scheme)) or builds()
