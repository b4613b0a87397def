"""What stands between patches and objects: rights, webhooks, policies, validation; shown by dry runs.

With ``config.authorizer.enabled`` the operator serves a webhook with ``failurePolicy: Fail``
(``operator/charts/templates/authorizer-webhook-config.yaml``), which rejects patches of labels by any account but its
own, and all of them while the operator is at zero. So a dry run before the stop finds it, and one after the stop too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from migrator import errors, kinds
from migrator.cluster import Cluster
from migrator.grove.objects import Ref
from migrator.planning.model import pending
from migrator.planning.patches import RESOURCES, Patch
from migrator.planning.webhooks import OPENED
from migrator.run import leases, operator, webhooks
from migrator.run.seen import Observation
from migrator.words import first_of

WEBHOOK: Final = "authorizer.webhooks.grove.io"

REMEDY: Final = (
    "disable the authorizer with the old chart first (helm upgrade ... --set config.authorizer.enabled=false "
    "--set replicaCount=0), migrate, then upgrade to the new chart with both values set back"
)
_SHOWN: Final = 12


@dataclass
class _Asked:
    """The rights that are missing, and the rejections, of all dry runs."""

    missing: list[str] = field(default_factory=list)
    rejections: list[errors.Refused] = field(default_factory=list)

    def ask(self, right: str, request: Callable[[], object]) -> None:
        """Note what prevents a request."""
        try:
            request()
        except errors.Forbidden:
            self.missing.append(right)


def prove(cluster: Cluster, seen: Observation) -> None:
    """Dry-run every write of the run that an observation leads to, before anything is touched.

    Raises everything that was found in one error: :class:`~migrator.errors.Refused` if something rejects a patch, and
    :class:`~migrator.errors.Forbidden` if only rights are missing.
    """
    if not pending(seen.plan):
        return
    asked, dry = _Asked(), cluster.in_dry_run()
    for patch, error in _rejected(dry, seen.patches):
        if isinstance(error, errors.Forbidden):
            kind = RESOURCES[patch.ref.kind].qualified_name + (f"/{patch.subresource}" if patch.subresource else "")
            asked.missing.append(f"patch {kind} in namespace {patch.ref.namespace}")
        elif error.denied_by not in seen.opened:
            asked.rejections.append(refusal(patch.ref, error))
    installed, home = seen.operator, seen.found.home
    if seen.options.stop_operator and installed is not None and installed.replicas:
        right = f"patch {kinds.DEPLOYMENTS.qualified_name}/scale {installed.namespace}/{installed.deployment}"
        asked.ask(right, lambda: operator.scale(dry, installed, 0))
    for name in (leases.OWN_LEASE, leases.OPERATOR_LEASE) if home is not None else ():
        right = f"get, create and patch {kinds.LEASES.qualified_name} {home}/{name}"
        asked.ask(right, partial(leases.try_to_write, cluster, home or "", name))
    for name in sorted({one.configuration for one in seen.blocking} & set(OPENED)) if seen.opened else ():
        right = f"get and patch {kinds.VALIDATING_WEBHOOK_CONFIGURATIONS.qualified_name} {name}"
        asked.ask(right, partial(webhooks.try_to_open, dry, name))
    _tell(cluster, asked)


def _tell(cluster: Cluster, asked: _Asked) -> None:
    """Raise what was found."""
    texts = [str(one) for one in asked.rejections]
    if asked.missing:
        rights = first_of(list(dict.fromkeys(asked.missing)), _SHOWN)
        texts.append(f"account {_account(cluster)} lacks the right to {rights}: manifests/job.yaml has the role")
    if asked.rejections:
        first = asked.rejections[0]
        error = errors.Refused("; ".join(texts))
        error.details = first.details
        raise error
    if texts:
        raise errors.Forbidden(texts[0])


def _account(cluster: Cluster) -> str:
    try:
        return webhooks.account_of(cluster) or "unknown"
    except errors.MigratorError:
        return "unknown"


def probe(
    cluster: Cluster, patches: Iterable[Patch], *, spreading: Callable[[errors.Rejected], bool] = lambda _: False
) -> None:
    """Dry-run one patch for each kind, subresource and namespace, behind the fence.

    Raises :class:`~migrator.errors.Refused` for a patch that is denied or invalid, and
    :class:`~migrator.errors.NotAuthorised` for a missing right. A rejection that is ``spreading`` is raised as it is.
    """
    for patch, error in _rejected(cluster.in_dry_run(), patches):
        if isinstance(error, errors.Forbidden) or spreading(error):
            raise error
        raise refusal(patch.ref, error) from error


def _rejected(dry: Cluster, patches: Iterable[Patch]) -> Iterator[tuple[Patch, errors.Forbidden | errors.Rejected]]:
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
    """The refusal for a patch of ``ref`` that a dry run showed to be rejected, with the remedy of what rejected it."""
    if not error.denied_by:
        return errors.Refused(f"a dry run was rejected: {error}", ref=ref)
    others = f"let {error.denied_by} accept or answer it, or disable that meanwhile"
    remedy = REMEDY if error.denied_by == WEBHOOK else others
    return errors.Refused(f"a dry run was denied: {error}; {remedy}", guard="GM-202", ref=ref)
