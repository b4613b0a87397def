"""What stands between patches and objects: rights, webhooks, policies, validation; shown by dry runs.

With ``config.authorizer.enabled`` the operator serves a webhook with ``failurePolicy: Fail``
(``operator/charts/templates/authorizer-webhook-config.yaml``), which rejects patches of labels by any account but its
own, and all of them while the operator is at zero. So a dry run before the stop finds it, and one after the stop too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from migrator import errors, kinds
from migrator.cluster import Cluster
from migrator.grove.objects import Ref
from migrator.planning.guards.operators import WEBHOOK
from migrator.planning.model import pending
from migrator.planning.patches import RESOURCES, Patch
from migrator.run import leases, operator
from migrator.run.operator import is_same_operator
from migrator.run.seen import Observation
from migrator.words import first_of

_SHOWN: Final = 12


def prove(cluster: Cluster, seen: Observation) -> None:
    """Dry-run every write of the run that an observation leads to, before anything is touched.

    Raises everything that was found in one error: :class:`~migrator.errors.Refused` if something rejects a patch, and
    :class:`~migrator.errors.Forbidden` if only rights are missing.
    """
    if not pending(seen.plan):
        return
    missing, rejections = list[str](), list[errors.Refused]()
    for ref, right, error in _denials(cluster, seen):
        if isinstance(error, errors.Forbidden):
            missing.append(right)
        elif error.denied_by not in seen.openable:
            rejections.append(refusal(ref, error))
    texts = list(dict.fromkeys(map(str, rejections)))  # a webhook denies each kind alike
    if missing:
        rights = first_of(list(dict.fromkeys(missing)), _SHOWN)
        texts.append(f"this account lacks the permission to {rights}: manifests/job.yaml has the role")
    if rejections:
        found = errors.Refused("; ".join(texts))
        found.details = rejections[0].details
        raise found
    if missing:
        raise errors.Forbidden(texts[0])


def _denials(
    cluster: Cluster, seen: Observation
) -> Iterator[tuple[Ref | None, str, errors.Forbidden | errors.Rejected]]:
    """What is not accepted: a patched object, the right that its write needs, and why."""
    for patch, error in rejected(cluster.in_dry_run(), seen.patches):
        kind = RESOURCES[patch.ref.kind].qualified_name + (f"/{patch.subresource}" if patch.subresource else "")
        yield patch.ref, f"patch {kind} in namespace {patch.ref.namespace}", error
    for right, request in _other_writes(cluster, seen):
        try:
            request()
        except (errors.Forbidden, errors.Rejected) as error:
            yield None, right, error


def _other_writes(cluster: Cluster, seen: Observation) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a run writes besides patches of Grove's objects: the right that it needs, and the dry run that shows it."""
    dry, installed, home = cluster.in_dry_run(), seen.operator, seen.found.home
    if installed is not None and (replicas := _replicas_to_set(installed, seen)) is not None:
        right = f"patch {kinds.DEPLOYMENTS.qualified_name}/scale {installed.full_name}"
        yield right, partial(operator.scale, dry, installed, replicas)
    for name in (leases.OWN_LEASE, leases.OPERATOR_LEASE) if home is not None else ():
        right = f"get, create and patch {kinds.LEASES.qualified_name} {home}/{name}"
        yield right, partial(leases.try_to_write, cluster, home or "", name)
    webhooks = kinds.VALIDATING_WEBHOOK_CONFIGURATIONS
    for name in sorted({one.configuration for one in seen.to_open}):
        changes_nothing = (kinds.Op("test", "/metadata/name", name),)
        yield f"get and patch {webhooks.qualified_name} {name}", partial(dry.patch, webhooks, "", name, changes_nothing)


def _replicas_to_set(installed: operator.Operator, seen: Observation) -> int | None:
    """What the operator is scaled to: zero, or by a revert back to what it had; ``None`` if it stays as it is."""
    if installed.replicas:
        return 0 if seen.options.stop_operator else None
    was = seen.record.operator if seen.record is not None and seen.options.revert else None
    return was.replicas if was is not None and is_same_operator(installed, was) else None


def rejected(dry: Cluster, patches: Iterable[Patch]) -> Iterator[tuple[Patch, errors.Forbidden | errors.Rejected]]:
    """One patch for each kind, subresource and namespace that is not accepted, and why.

    A patch whose ``test`` fails never reaches a webhook, so the next one is tried.
    """
    known = set[tuple[str, str, str]]()
    for patch in patches:
        kind = (patch.ref.kind, patch.subresource, patch.ref.namespace)
        if kind in known:
            continue
        try:
            where = (RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name, patch.ops(None))
            dry.patch(*where, subresource=patch.subresource)
        except (errors.TestFailed, errors.NotFound, errors.Conflict):
            continue
        except (errors.Forbidden, errors.Rejected) as error:
            yield patch, error
        known.add(kind)


def refusal(ref: Ref | None, error: errors.Rejected) -> errors.Refused:
    """The refusal for a patch of ``ref`` that a dry run showed to be rejected, with what is next."""
    if not error.denied_by:
        return errors.Refused(f"a dry run was rejected: {error}", ref=ref)
    remedy = f"let {error.denied_by} accept or answer it, or disable that meanwhile"
    return errors.Refused(f"a dry run was denied: {error}; {remedy}", guard=WEBHOOK.code, ref=ref)
