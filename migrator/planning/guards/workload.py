"""Guards on the workload's own state, by which the next operator acts whatever the hashes are."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

from migrator import durations
from migrator.exact_json import integer
from migrator.grove.model import LABEL_PART_OF, LABEL_POD_CLIQUE, LABEL_SCALING_GROUP, PodClique, Ref
from migrator.planning.guards.base import Case, judge, warn
from migrator.planning.hazards import INITIAL_SCHEDULE_GRACE, condition, kubernetes_time, left_alone, unscheduled_at
from migrator.planning.lineage import RC1, is_before
from migrator.planning.model import Finding
from migrator.resources import POD_CLIQUE_SCALING_GROUPS, POD_CLIQUES, pointer

#: Grove's default from alpha.2 on, which its webhook stores in every set (alpha.1's: 30 seconds);
#: ``operator/internal/webhook/admission/pcs/defaulting``.
DEFAULT_TERMINATION_DELAY: Final = "4h0m0s"

#: Not an error: operators up to alpha.8 record it while they replace a PodClique's pods one by one
#: (``operator/internal/errors/errors.go``, ``podclique/reconcilespec.go:syncPCLQResources``).
_REQUEUE: Final = "ERR_CONTINUE_RECONCILE_AND_REQUEUE"

#: The index of a replica, as the operator writes it.
_INDEX: Final = re.compile("0|[1-9][0-9]{0,9}")

#: A child by the index of its replica, its name in the spec, and its kind.
_Child: TypeAlias = tuple[str, str, str]


def gated(case: Case) -> Iterator[Finding]:
    """Pods behind Grove's scheduling gate wait for the operator; they are migrated all the same.

    It removes the gate once a PodGang has room for the pod; alpha.12 makes no PodGang from a map without entries.
    """
    maps = case.tree.pod_gang_maps
    empty = {item.set_index for item in maps if not item.spec.get("entries")}
    for pod_clique in case.tree.pod_cliques:
        number = pod_clique.status.get("scheduleGatedReplicas")
        if isinstance(number, int) and number > 0:
            until = "until the operator is back"
            if pod_clique.set_index in empty:
                until = (
                    "that alpha.12 never removes, because their PodGangMap has no entries (Grove issue 809); see GM-133"
                )
            waiting = f"{number} pod{'s wait' if number > 1 else ' waits'} behind a scheduling gate {until}"
            yield warn("GM-114", pod_clique.ref, "/status/scheduleGatedReplicas", f"{pod_clique.ref}: {waiting}")


def scaling(case: Case) -> Iterator[Finding]:
    """Children that are missing or surplus; the operator acts on them at its start."""
    tree = case.tree
    of_set: set[_Child] = set()
    of_groups: dict[str | None, set[_Child]] = defaultdict(set)
    for child in tree.pod_cliques:
        live, wanted = sum(1 for pod in child.pods if not pod.terminating), child.spec.get("replicas")
        if isinstance(wanted, int) and wanted != live:
            message = f"{child.ref}: replicas {wanted}, pods {live}; the operator acts on that when it is back"
            yield warn("GM-115", child.ref, "/spec/replicas", message)
        name, kind = child.clique or "", child.ref.kind
        of_groups[child.owner_uid].add((child.group_index or "", name, kind))
        if child.standalone:
            of_set.add((child.set_index or "", name, kind))
    for group in tree.scaling_groups:
        index = group.set_index or ""
        of_set.add((index, group.ref.name.removeprefix(f"{tree.ref.name}-{index}-"), group.ref.kind))
        members = [(name, POD_CLIQUES.kind) for name in group.spec.get("cliqueNames") or ()]
        yield from _pending(group.ref, group.spec, members, of_groups[group.ref.uid])
    names = [(str(one.get("name")), POD_CLIQUES.kind) for one in tree.pcs.standalone]
    names += [(str(one.get("name")), POD_CLIQUE_SCALING_GROUPS.kind) for one in tree.pcs.group_configs]
    yield from _pending(tree.ref, tree.pcs.spec, names, of_set)


def gang_termination(case: Case) -> Iterator[Finding]:
    """The next operator judges by the stored condition, and the downtime counts.

    Grove: ``operator/internal/controller/podcliqueset/components/podcliquesetreplica/gangterminate.go`` ends a
    gang once ``terminationDelay - (now - lastTransitionTime)`` is not above zero. From alpha.12-rc1 on it
    leaves some alone.
    """
    ends_all = not case.builds or any(is_before(build, RC1) for build in case.builds)
    text = case.tree.pcs.template.get("terminationDelay") or DEFAULT_TERMINATION_DELAY
    for item in case.tree.children:
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") != "True" or (left_alone(item) and not ends_all):
            continue
        since = breached.get("lastTransitionTime")
        left = math.inf if case.now is None else _seconds_left(text, since, case.now)
        message, remedy = f"{item.ref}: MinAvailableBreached is True since {since}", ""
        if left <= case.downtime:
            message += (
                f", and its termination delay of {text} ends within the expected downtime of {case.downtime:.0f} s: "
                "the next operator would delete the gang"
            )
            remedy = "bring its pods back first, or raise spec.template.terminationDelay"
        elif case.now is None:
            message += f", and its termination delay is {text}"
        else:
            message += f"; gang termination ends it in {left:.0f} s unless it recovers"
        yield judge("GM-116", item.ref, "/status/conditions", message, remedy, refuses=left <= case.downtime)


def below_minimum(case: Case) -> Iterator[Finding]:
    """Members below ``minAvailable`` that later operators count as a breach, though the running one does not.

    From alpha.9 on, a member counts if some of its pods or replicas are scheduled, but too few (Grove PR 561). From
    alpha.12-rc1 on, also if none is (PR 614), unless it is a PodClique that has never run: its
    ``PodCliqueScheduled`` was False from the start. A scaling group counts as one that has run, because an older
    operator reported no breach (``common/component/utils/podclique.go``: ``WasPCLQEverScheduled``,
    ``WasPCSGEverHealthy``); that matters where its replica of the set has pods to lose.
    """
    in_use = {clique.set_index for clique in case.tree.pod_cliques if clique.status.get("scheduledReplicas")}
    for item in case.tree.children:
        least, scheduled = integer(item.spec.get("minAvailable"), 1), integer(item.status.get("scheduledReplicas"))
        if not item.spec.get("replicas") or scheduled >= least:
            continue
        if condition(item, "MinAvailableBreached").get("status") in {"True", "Unknown"}:  # see GM-116 and GM-117
            continue
        ran = item.set_index in in_use
        if isinstance(item, PodClique):
            ran = (unscheduled_at(item) or 0) > INITIAL_SCHEDULE_GRACE
        if scheduled or ran:
            builds = "of alpha.9 to alpha.11" if not ran else "from alpha.9 on" if scheduled else "from alpha.12-rc1 on"
            message = (
                f"{item.ref}: scheduledReplicas is {scheduled}, and minAvailable is {least}: operators {builds} count "
                "that as a breach and end the gang after the termination delay, with or without this migration"
            )
            yield warn("GM-127", item.ref, "/status/scheduledReplicas", message)


def operator_errors(case: Case) -> Iterator[Finding]:
    """Errors that the operator wrote into status."""
    for item in (case.tree.pcs, *case.tree.children):
        errors = item.status.get("lastErrors") or ()
        codes = [code for error in errors if (code := str(error.get("code"))) != _REQUEUE]
        if codes:
            message = f"{item.ref}: the operator reported {', '.join(codes)}"
            yield warn("GM-121", item.ref, "/status/lastErrors", message)


def ownership(case: Case) -> Iterator[Finding]:
    """Objects whose labels name another owner than their controller; the controller decides their tree.

    Operators before alpha.12 find the pods of a PodClique by label *and* controller, so they miss such a pod.
    """
    tree = case.tree
    groups = {group.ref.uid: group.ref.name for group in tree.scaling_groups}
    for pod_clique in tree.pod_cliques:
        group = groups.get(pod_clique.owner_uid or "")
        labels = (LABEL_PART_OF, pod_clique.part_of, tree.ref.name), (LABEL_SCALING_GROUP, pod_clique.group, group)
        for label, found, owner in labels:
            if found != owner:
                has = f"has {label}={found or '(none)'}"
                yield _disagrees(pod_clique.ref, label, has, owner or "the PodCliqueSet")
        for pod in pod_clique.pods:
            if pod.pod_clique_label not in {None, pod_clique.ref.name}:
                has = f"has the label of PodClique {pod.pod_clique_label}"
                yield _disagrees(pod.ref, LABEL_POD_CLIQUE, has, pod_clique.ref.name)


def _disagrees(ref: Ref, label: str, has: str, owner: str) -> Finding:
    message = f"{ref} {has}, but its controller is {owner}; it is migrated with its controller"
    return warn("GM-132", ref, pointer("metadata", "labels", label), message)


def _pending(
    ref: Ref, spec: Mapping[str, Any], names: Iterable[tuple[str, str]], found: Collection[_Child]
) -> Iterator[Finding]:
    """Compare children with what ``spec.replicas`` asks for; a scaling group may have the name of a clique."""
    replicas = spec.get("replicas")
    if not isinstance(replicas, int):
        return
    each = dict.fromkeys(names)
    extra = sorted(
        child for child in found if child[1:] not in each or not _INDEX.fullmatch(child[0]) or int(child[0]) >= replicas
    )
    lacking = max(replicas, 0) * len(each) - (len(found) - len(extra))
    parts = []
    if lacking:  # found after at most as many steps as there are children
        wanted = ((str(index), *name) for index in range(replicas) for name in each)
        parts.append(f"lacks {_some(next(child for child in wanted if child not in found), lacking)}")
    if extra:
        parts.append(f"still has {_some(extra[0], len(extra))}")
    if parts:
        message = f"{ref} {' and '.join(parts)}; the operator acts on that when it is back"
        yield warn("GM-115", ref, "/spec/replicas", message)


def _some(child: _Child, number: int) -> str:
    others = f" and {number - 1} more {'child' if number == 2 else 'children'}" if number > 1 else ""  # noqa: PLR2004
    return f"{child[1]} of replica {child[0]}{others}"


def _seconds_left(delay: object, since: object, now: datetime) -> float:
    """The seconds until gang termination; ``-inf`` if the operator cannot know them: it acts at once."""
    began = kubernetes_time(since)
    try:
        seconds = durations.parse(str(delay))
    except ValueError:
        return -math.inf
    return -math.inf if began is None else seconds - (now - began).total_seconds()


CHECKS: Final = (gated, scaling, gang_termination, below_minimum, operator_errors, ownership)
