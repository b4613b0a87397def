"""Guards on the workload's own state: what the next operator would do whatever the hashes say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from migrator.guards.base import Context, refuse, warn
from migrator.guards.progress import condition
from migrator.model import (
    LABEL_SCALING_GROUP_REPLICA_INDEX,
    LABEL_SET_REPLICA_INDEX,
    Finding,
    PodClique,
    PodCliqueScalingGroup,
)

#: Grove's default from alpha.2 on (``operator/internal/webhook/admission/pcs/defaulting``).
_DEFAULT_TERMINATION_DELAY: Final = timedelta(hours=4)
_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(h|ms|us|µs|μs|ns|m|s)")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


def gated(context: Context) -> Iterator[Finding]:
    """F14: pods behind Grove's scheduling gate wait for the operator; they are migrated all the same."""
    for pod_clique in context.tree.pod_cliques:
        number = pod_clique.status.get("scheduleGatedReplicas")
        if isinstance(number, int) and number > 0:
            yield warn(
                "GM-114",
                pod_clique.ref,
                "/status/scheduleGatedReplicas",
                f"{pod_clique.ref}: {number} pods wait behind a scheduling gate until the operator is back",
            )


def scaling(context: Context) -> Iterator[Finding]:
    """F10, F15: replicas that do not exist yet, or exist still; the operator acts on them at its start."""
    tree = context.tree
    for pod_clique in tree.pod_cliques:
        live = sum(1 for pod in pod_clique.pods if not pod.terminating)
        yield from _pending(pod_clique, live, pod_clique.spec.get("replicas"), "pods")
    for group in tree.scaling_groups:
        indices = {
            child.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX)
            for child in tree.pod_cliques
            if child.owner_uid == group.ref.uid
        }
        yield from _pending(group, len(indices), group.spec.get("replicas"), "replicas with PodCliques")
    indices = {child.labels.get(LABEL_SET_REPLICA_INDEX) for child in tree.pod_cliques}
    wanted = tree.pcs.spec.get("replicas")
    if isinstance(wanted, int) and wanted != len(indices):
        yield warn(
            "GM-115",
            tree.ref,
            "/spec/replicas",
            f"{tree.ref} has PodCliques in {len(indices)} replicas and wants {wanted}; the operator acts on that "
            "when it is back",
        )


def gang_termination(context: Context) -> Iterator[Finding]:
    """F16: the next operator judges by the stored condition, and the downtime counts.

    Grove: ``operator/internal/controller/podcliqueset/components/podcliquesetreplica/gangterminate.go``.
    """
    delay = termination_delay(context.tree.pcs.template.get("terminationDelay"))
    for item in (*context.tree.pod_cliques, *context.tree.scaling_groups):
        breached = condition(item, "MinAvailableBreached")
        if breached.get("status") != "True":
            continue
        field = "/status/conditions"
        since = _time(breached.get("lastTransitionTime"))
        what = f"{item.ref}: MinAvailableBreached is True since {breached.get('lastTransitionTime')}"
        if context.now is None or since is None:
            yield warn(
                "GM-116",
                item.ref,
                field,
                f"{what}; not checked: whether the termination delay of {delay} ends during the downtime",
            )
        elif context.now - since + timedelta(seconds=context.downtime) >= delay:
            yield refuse(
                "GM-116",
                item.ref,
                field,
                f"{what}, and its termination delay of {delay} ends within the expected downtime of "
                f"{context.downtime:.0f} s: the next operator would delete the gang; bring its pods back first, or "
                "raise spec.template.terminationDelay",
            )
        else:
            left = delay - (context.now - since)
            yield warn("GM-116", item.ref, field, f"{what}; gang termination strikes in {left} unless it recovers")


def unscheduled(context: Context) -> Iterator[Finding]:
    """Grove PR 614: from alpha.12-rc1 on, a gang that ran once and has no pod scheduled counts as breached."""
    for pod_clique in context.tree.pod_cliques:
        if not pod_clique.spec.get("replicas") or pod_clique.status.get("scheduledReplicas") != 0:
            continue
        if condition(pod_clique, "PodCliqueScheduled").get("status") == "False" and pod_clique.pods:
            yield warn(
                "GM-127",
                pod_clique.ref,
                "/status/scheduledReplicas",
                f"{pod_clique.ref} has no pod scheduled: operators from alpha.12-rc1 on count that as a breach once "
                "it has run, and end the gang after the termination delay, with or without this migration",
            )


def operator_errors(context: Context) -> Iterator[Finding]:
    """F21: errors that the operator wrote into status."""
    tree = context.tree
    for item in (tree.pcs, *tree.pod_cliques, *tree.scaling_groups):
        errors = item.status.get("lastErrors")
        if errors:
            codes = ", ".join(str(e.get("code")) for e in errors if isinstance(e, Mapping))
            yield warn("GM-121", item.ref, "/status/lastErrors", f"{item.ref}: the operator reported {codes}")


def termination_delay(text: object) -> timedelta:
    """Parse Go's duration text (``4h0m0s``); Grove's default where it is absent or unreadable."""
    if not isinstance(text, str):
        return _DEFAULT_TERMINATION_DELAY
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return _DEFAULT_TERMINATION_DELAY
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def _pending(item: PodClique | PodCliqueScalingGroup, found: int, wanted: object, what: str) -> Iterator[Finding]:
    if isinstance(wanted, int) and wanted != found:
        yield warn(
            "GM-115",
            item.ref,
            "/spec/replicas",
            f"{item.ref} has {found} {what} and wants {wanted}; the operator acts on that when it is back",
        )


def _time(text: object) -> datetime | None:
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


CHECKS: Final = (gated, scaling, gang_termination, unscheduled, operator_errors)
