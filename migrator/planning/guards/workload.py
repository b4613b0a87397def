"""Guards on the workload's own state, by which the next operator acts whatever the hashes are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from migrator import durations
from migrator.grove.model import (
    LABEL_PART_OF,
    LABEL_SCALING_GROUP,
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    LABEL_SET_REPLICA_INDEX,
    Finding,
    PodClique,
    PodCliqueSet,
    Ref,
    Tree,
)
from migrator.planning.guards.base import Case, children, condition, refuse, warn, with_status
from migrator.planning.hazards import NEW, moment

#: Grove's default from alpha.2 on (``operator/internal/webhook/admission/pcs/defaulting``). Its webhook stores it
#: in every set, as alpha.1's stores 30 seconds, so it is hardly ever absent.
DEFAULT_TERMINATION_DELAY: Final = "4h0m0s"

#: A code that is not an error: operators up to alpha.8 record it for a PodClique while they replace its pods one by
#: one (``operator/internal/errors/errors.go``, ``podclique/reconcilespec.go:syncPCLQResources``).
_COME_BACK: Final = "ERR_CONTINUE_RECONCILE_AND_REQUEUE"


def gated(case: Case) -> Iterator[Finding]:
    """Pods behind Grove's scheduling gate wait for the operator; they are migrated all the same.

    It removes the gate once a PodGang has room for the pod, and alpha.12 makes none from a PodGangMap without entries.
    """
    empty = {
        item.labels.get(LABEL_SET_REPLICA_INDEX) for item in case.tree.pod_gang_maps if not item.spec.get("entries")
    }
    for pod_clique in case.tree.pod_cliques:
        number = pod_clique.status.get("scheduleGatedReplicas")
        if isinstance(number, int) and number > 0:
            until = "until the operator is back"
            if pod_clique.labels.get(LABEL_SET_REPLICA_INDEX) in empty:
                until = (
                    "that alpha.12 never removes, because their PodGangMap has no entries (Grove issue 809); see GM-133"
                )
            waiting = f"{number} pod{'s wait' if number > 1 else ' waits'} behind a scheduling gate {until}"
            yield warn("GM-114", pod_clique.ref, "/status/scheduleGatedReplicas", f"{pod_clique.ref}: {waiting}")


def scaling(case: Case) -> Iterator[Finding]:
    """Children that are missing or surplus; the operator acts on them at its start."""
    tree = case.tree
    for pod_clique in tree.pod_cliques:
        live, wanted = sum(1 for pod in pod_clique.pods if not pod.terminating), pod_clique.spec.get("replicas")
        if isinstance(wanted, int) and wanted != live:
            message = f"{pod_clique.ref}: replicas {wanted}, pods {live}; the operator acts on that when it is back"
            yield warn("GM-115", pod_clique.ref, "/spec/replicas", message)
    members: dict[str | None, set[tuple[str, str]]] = defaultdict(set)
    for child in tree.pod_cliques:
        index = child.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX, "")
        members[child.owner_uid].add((index, child.clique or ""))
    for group in tree.scaling_groups:
        yield from _pending(group.ref, group.spec, group.spec.get("cliqueNames") or (), members[group.ref.uid])
    yield from _pending(tree.ref, tree.pcs.spec, _children_of_a_replica(tree.pcs), _children_found(tree))


def gang_termination(case: Case) -> Iterator[Finding]:
    """The next operator judges by the stored condition, and the downtime counts.

    Grove: ``operator/internal/controller/podcliqueset/components/podcliquesetreplica/gangterminate.go`` ends a
    gang once ``terminationDelay - (now - lastTransitionTime)`` is not above zero.
    """
    text = case.tree.pcs.template.get("terminationDelay") or DEFAULT_TERMINATION_DELAY
    for item in children(case.tree):
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") != "True":
            continue
        since = breached.get("lastTransitionTime")
        what = f"{item.ref}: MinAvailableBreached is True since {since}"
        if case.now is None:
            message = f"{what}; not checked: whether the termination delay of {text} ends during the downtime"
            yield warn("GM-116", item.ref, "/status/conditions", message)
            continue
        left = _seconds_left(text, since, case.now)
        if left is None or left <= case.downtime:
            message = (
                f"{what}, and its termination delay of {text} ends within the expected downtime of "
                f"{case.downtime:.0f} s: the next operator would delete the gang; bring its pods back first, or "
                "raise spec.template.terminationDelay"
            )
            yield refuse("GM-116", item.ref, "/status/conditions", message)
        else:
            message = f"{what}; gang termination ends it in {left:.0f} s unless it recovers"
            yield warn("GM-116", item.ref, "/status/conditions", message)


def unscheduled(case: Case) -> Iterator[Finding]:
    """Grove PR 614: from alpha.12-rc1 on, a gang that ran once and has no pod scheduled counts as breached.

    It ran once if ``PodCliqueScheduled`` became False later than when the PodClique was new.
    """
    for pod_clique in case.tree.pod_cliques:
        if not pod_clique.spec.get("replicas") or pod_clique.status.get("scheduledReplicas"):
            continue
        scheduled = condition(pod_clique, "PodCliqueScheduled")
        since, created = moment(scheduled.get("lastTransitionTime")), moment(pod_clique.created)
        if scheduled.get("status") != "False" or since is None or created is None:
            continue
        if (since - created).total_seconds() > NEW:
            message = (
                f"{pod_clique.ref} once ran and has no pod scheduled now: operators from alpha.12-rc1 on count that as "
                "a breach from their start, and end the gang after the termination delay, with or without this "
                "migration"
            )
            yield warn("GM-127", pod_clique.ref, "/status/scheduledReplicas", message)


def operator_errors(case: Case) -> Iterator[Finding]:
    """Errors that the operator wrote into status."""
    for item in with_status(case.tree):
        errors = item.status.get("lastErrors") or ()
        codes = [code for error in errors if (code := str(error.get("code"))) != _COME_BACK]
        if codes:
            message = f"{item.ref}: the operator reported {', '.join(codes)}"
            yield warn("GM-121", item.ref, "/status/lastErrors", message)


def ownership(case: Case) -> Iterator[Finding]:
    """Objects whose labels name another owner than their controller; the controller decides their tree.

    Operators before alpha.12 find the pods of a PodClique by label *and* controller, so they miss such a pod.
    """
    tree = case.tree
    groups = {group.ref.uid: group for group in tree.scaling_groups}
    for pod_clique in tree.pod_cliques:
        group = groups.get(pod_clique.owner_uid or "")
        expected = {LABEL_PART_OF: tree.ref.name, LABEL_SCALING_GROUP: group.ref.name if group else None}
        for label, owner in expected.items():
            if pod_clique.labels.get(label) != owner:
                yield _disagrees(pod_clique, label, pod_clique.labels.get(label), owner)
        for pod in pod_clique.pods:
            if pod.pod_clique_label not in {None, pod_clique.ref.name}:
                message = (
                    f"{pod.ref} is labelled as of PodClique {pod.pod_clique_label}, but its controller is "
                    f"{pod_clique.ref.name}; it is migrated with its controller"
                )
                yield warn("GM-132", pod.ref, "/metadata/labels/grove.io~1podclique", message)


def _disagrees(pod_clique: PodClique, label: str, found: str | None, owner: str | None) -> Finding:
    return warn(
        "GM-132",
        pod_clique.ref,
        f"/metadata/labels/{label.replace('/', '~1')}",
        f"{pod_clique.ref} has {label}={found or '(none)'}, but its controller is {owner or 'the PodCliqueSet'}; it is "
        "migrated with its controller",
    )


def _children_of_a_replica(pcs: PodCliqueSet) -> Sequence[str]:
    """The standalone cliques and the scaling groups that one replica of a set has."""
    configs = pcs.template.get("podCliqueScalingGroups") or ()
    grouped = {name for config in configs for name in config.get("cliqueNames") or ()}
    cliques = [str(clique.get("name")) for clique in pcs.cliques if clique.get("name") not in grouped]
    return [*cliques, *(str(config.get("name")) for config in configs)]


def _children_found(tree: Tree) -> set[tuple[str, str]]:
    found = {
        (child.labels.get(LABEL_SET_REPLICA_INDEX, ""), child.clique or "")
        for child in tree.pod_cliques
        if child.standalone
    }
    for group in tree.scaling_groups:
        index = group.labels.get(LABEL_SET_REPLICA_INDEX, "")
        found.add((index, group.ref.name.removeprefix(f"{tree.ref.name}-{index}-")))
    return found


def _pending(
    ref: Ref, spec: Mapping[str, Any], names: Sequence[str], found: Collection[tuple[str, str]]
) -> Iterator[Finding]:
    """Compare children, by replica index and name, with what ``spec.replicas`` asks for."""
    replicas = spec.get("replicas")
    if not isinstance(replicas, int):
        return
    extra = sorted(
        child for child in found if child[1] not in names or not child[0].isdecimal() or int(child[0]) >= replicas
    )
    lacking = max(replicas, 0) * len(names) - (len(found) - len(extra))
    parts = []
    if lacking:  # found, however many are wanted, after no more steps than there are children
        wanted = ((str(index), name) for index in range(replicas) for name in names)
        parts.append(f"lacks {_some(next(child for child in wanted if child not in found), lacking)}")
    if extra:
        parts.append(f"still has {_some(extra[0], len(extra))}")
    if parts:
        message = f"{ref} {' and '.join(parts)}; the operator acts on that when it is back"
        yield warn("GM-115", ref, "/spec/replicas", message)


def _some(child: tuple[str, str], number: int) -> str:
    others = f" and {number - 1} more {'child' if number == 2 else 'children'}" if number > 1 else ""  # noqa: PLR2004
    return f"{child[1]} of replica {child[0]}{others}"


def _seconds_left(delay: object, since: object, now: datetime) -> float | None:
    """The seconds until gang termination; ``None`` if the operator cannot know them either and acts at once."""
    began = moment(since)
    try:
        seconds = durations.parse(str(delay))
    except ValueError:
        return None
    return None if began is None else seconds - (now - began).total_seconds()


CHECKS: Final = (gated, scaling, gang_termination, unscheduled, operator_errors, ownership)
