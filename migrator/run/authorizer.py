"""Grove's authorizer webhook: see it, prove it, and exempt ourselves from it.

With ``config.authorizer.enabled`` the chart registers ``authorizer-webhook``, served by the operator with
``failurePolicy: Fail`` (``operator/charts/templates/authorizer-webhook-config.yaml``). While the operator is at
zero every label patch of a PodClique or pod then fails closed, whoever sends it; status patches do not, because
no rule names a subresource.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from migrator import resources
from migrator.errors import (
    ApiError,
    ClusterError,
    LostReply,
    MigratorError,
    NotAuthorised,
    NotFound,
    Refused,
    TestFailed,
)
from migrator.exact_json import JSONObject
from migrator.grove.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE
from migrator.resources import VALIDATING_WEBHOOK_CONFIGURATIONS, Op, Resource
from migrator.run.context import Context
from migrator.run.execute import Patch
from migrator.store import DryRun, Store

WEBHOOK: Final = "authorizer.webhooks.grove.io"
EXEMPTION: Final = "exclude-grove-migrator"

_SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_GUARDED: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (resources.PODS, resources.POD_CLIQUES, resources.POD_GANG_MAPS, resources.POD_GANGS)
}
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"
_ATTEMPTS: Final = 5
_PROBES: Final = 20
_PROBE_SECONDS: Final = 0.5

_REMEDY: Final = (
    "disable the authorizer with the old chart first (helm upgrade ... --set config.authorizer.enabled=false "
    "--set replicaCount=0), migrate, then upgrade to the new chart; or run with --exempt-from-authorizer, which "
    "needs its own RBAC (docs/upgrade.md)"
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook that authorizes writes to Grove's objects, and its position in its configuration.

    ``conditions`` are its matchConditions as read.
    """

    configuration: str
    index: int
    name: str
    fails_closed: bool
    conditions: tuple[Mapping[str, Any], ...]

    @property
    def exemption(self) -> int | None:
        """The index of our matchCondition, ``None`` without one."""
        names = [condition.get("name") for condition in self.conditions]
        return names.index(EXEMPTION) if EXEMPTION in names else None

    @property
    def remedy(self) -> str:
        """What stands in the way, and what to do: one sentence for a person."""
        return (
            f"ValidatingWebhookConfiguration {self.configuration} ({self.name}) rejects every label change while the "
            f"operator is stopped: {_REMEDY}"
        )


def webhooks(configuration: JSONObject) -> Iterator[Webhook]:
    """The authorizers in one ValidatingWebhookConfiguration: Grove's by name, or any by what it selects."""
    for index, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook.get("name") == WEBHOOK or _authorizes(webhook):
            yield Webhook(
                configuration=str(configuration["metadata"]["name"]),
                index=index,
                name=str(webhook.get("name")),
                fails_closed=webhook.get("failurePolicy", "Fail") == "Fail",
                conditions=tuple(webhook.get("matchConditions") or ()),
            )


def read(store: Store) -> tuple[Webhook, ...]:
    """Read every authorizer of the cluster; raises what the store raises, so that none goes unseen."""
    listing = store.list(VALIDATING_WEBHOOK_CONFIGURATIONS, lambda raw: tuple(webhooks(raw)))
    return tuple(webhook for found in listing.items for webhook in found)


def blocking(store: Store) -> Webhook | None:
    """The authorizer that will fail our label patches closed, ``None`` if there is none or we are exempt."""
    if not store.is_cluster:
        return None
    return next((w for w in read(store) if w.fails_closed and w.exemption is None), None)


def probe(store: Store, patches: Sequence[Patch], *, sleep: Callable[[float], None] | None = None) -> int:
    """Send one planned label patch per kind and namespace as ``dryRun=All``; returns how many were accepted.

    ``store`` must be in server-side dry run, or this would write. A patch whose ``test`` fails never reaches a
    webhook and proves nothing, so the next one is tried. With ``sleep`` (an exemption was just added, and not
    every API server may know it yet) a denial is tried again for some seconds. Raises
    :class:`~migrator.errors.Refused` where a webhook denies or cannot be called.
    """
    if store.dry_run is not DryRun.SERVER:
        raise ValueError("a probe needs a store in server-side dry run")
    candidates: dict[tuple[str, str], list[Patch]] = {}
    for patch in patches:
        if not patch.subresource and patch.ref.kind in _GUARDED:
            candidates.setdefault((patch.ref.kind, patch.ref.namespace), []).append(patch)
    return sum(_accepted(store, found, sleep) for found in candidates.values())


def exempt(store: Store, context: Context) -> bool:
    """Exempt our own ServiceAccount from every authorizer; returns whether there is an exemption to withdraw.

    Idempotent. Read back before it returns, because API servers before 1.28 drop the field. Raises
    :class:`~migrator.errors.Refused` for a user that is no ServiceAccount, or if the exemption does not hold;
    then nothing is left behind.
    """
    found = [webhook for webhook in read(store) if webhook.fails_closed]
    if not found:
        return False
    user = _ourselves(store)
    entry = {"name": EXEMPTION, "expression": f"request.userInfo.username != {json.dumps(user)}"}
    try:
        for webhook in found:
            _add(store, webhook, entry)
            context.log.info("exemption_added", webhook=webhook.name, user=user)
    except MigratorError:
        withdraw(store, context.log)
        raise
    return True


def check_user(store: Store) -> None:
    """Raise :class:`~migrator.errors.Refused` if there is an authorizer from which we cannot be exempt."""
    if any(webhook.fails_closed for webhook in read(store)):
        _ourselves(store)


def withdraw(store: Store, log: structlog.typing.FilteringBoundLogger) -> int:
    """Remove our exemption wherever it is found, ours or a dead run's; returns how many there were.

    Only the holder of the Lease may call this: another run may be relying on it.
    """
    removed = 0
    for webhook in read(store):
        if webhook.exemption is not None:
            _remove(store, webhook)
            log.info("exemption_removed", webhook=webhook.name, configuration=webhook.configuration)
            removed += 1
    return removed


def withdraw_stale(store: Store, log: structlog.typing.FilteringBoundLogger) -> None:
    """Remove what a dead run left; without the right to do so it is only reported.

    Only the holder of the Lease may call this: until then the run that added it may be alive.
    """
    try:
        withdraw(store, log)
    except NotAuthorised as error:
        log.warning("exemption_not_removed", matchCondition=EXEMPTION, error=str(error))


def _authorizes(webhook: Mapping[str, Any]) -> bool:
    selector = ((webhook.get("objectSelector") or {}).get("matchLabels") or {}).get(LABEL_MANAGED_BY)
    return selector == MANAGED_BY_GROVE and any(_guards_labels(rule) for rule in webhook.get("rules") or ())


def _guards_labels(rule: Mapping[str, Any]) -> bool:
    """Whether a rule covers updates of pods or PodCliques themselves; subresources are separate resources."""
    updates = {"UPDATE", "*"} & set(rule.get("operations") or ())
    return bool(updates and {"pods", "podcliques", "*", "*/*"} & set(rule.get("resources") or ()))


def _accepted(store: Store, patches: Iterable[Patch], sleep: Callable[[float], None] | None) -> bool:
    for patch in patches:
        resource = _GUARDED[patch.ref.kind]
        for attempt in range(_PROBES):
            try:
                store.patch(resource, patch.ref.namespace, patch.ref.name, patch.ops(None))
            except (TestFailed, NotFound):
                break  # it never reached admission: ask with another object
            except ClusterError as error:
                if not _denied(error):
                    raise
                if sleep is None or attempt == _PROBES - 1:
                    raise Refused(
                        f"GM-202: a dry run of the label patch of {patch.ref} was denied: {error}; {_REMEDY}"
                    ) from error
                sleep(_PROBE_SECONDS)
            else:
                return True
    return False


def _denied(error: ClusterError) -> bool:
    """Whether admission said no, or could not be asked (the API server's words for both)."""
    text = str(error)
    return "failed calling webhook" in text or "admission webhook" in text


def _ourselves(store: Store) -> str:
    body = {"apiVersion": _SELF_SUBJECT_REVIEWS.api_version, "kind": _SELF_SUBJECT_REVIEWS.kind, "metadata": {}}
    answer = store.create(_SELF_SUBJECT_REVIEWS, "", body)
    user = ((answer.get("status") or {}).get("userInfo") or {}).get("username")
    if not isinstance(user, str) or not user.startswith(_SERVICE_ACCOUNT):
        raise Refused(
            f"GM-202: --exempt-from-authorizer exempts one ServiceAccount only, and we are {user!r}: run as the Job's "
            "ServiceAccount, or disable the authorizer with the old chart"
        )
    return user


def _add(store: Store, webhook: Webhook, entry: Mapping[str, str]) -> None:
    """Add or correct the entry, and read it back."""
    for _ in range(_ATTEMPTS):
        current = _again(store, webhook)
        if current is None:
            return  # gone, and so is the reason
        at, root = current.exemption, f"/webhooks/{current.index}"
        if at is not None and dict(current.conditions[at]) == dict(entry):
            return
        ops = [Op("test", f"{root}/name", current.name)]
        if at is not None:
            ops += [
                Op("test", f"{root}/matchConditions/{at}/name", EXEMPTION),
                Op("replace", f"{root}/matchConditions/{at}", dict(entry)),
            ]
        elif current.conditions:
            ops.append(Op("add", f"{root}/matchConditions/-", dict(entry)))
        else:
            ops += [
                Op("test", f"{root}/matchConditions", None),
                Op("add", f"{root}/matchConditions", [dict(entry)]),
            ]
        _patch(store, current, ops)
    raise Refused(
        f"GM-202: matchCondition {EXEMPTION} does not stay in {webhook.configuration}: the API server drops it (before "
        f"1.28) or something removes it; {_REMEDY}"
    )


def _remove(store: Store, webhook: Webhook) -> None:
    for _ in range(_ATTEMPTS):
        current = _again(store, webhook)
        if current is None or current.exemption is None:
            return
        at = f"/webhooks/{current.index}/matchConditions/{current.exemption}"
        ops = (
            Op("test", f"/webhooks/{current.index}/name", current.name),
            Op("test", f"{at}/name", EXEMPTION),
            Op("remove", at),
        )
        _patch(store, current, ops)
    raise ApiError(
        f"matchCondition {EXEMPTION} could not be removed from ValidatingWebhookConfiguration "
        f"{webhook.configuration}: remove it by hand"
    )


def _patch(store: Store, webhook: Webhook, ops: Sequence[Op]) -> None:
    """Patch; a lost reply, or a list that moved, is found out by reading again."""
    try:
        store.patch(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook.configuration, ops)
    except (TestFailed, LostReply):
        return


def _again(store: Store, webhook: Webhook) -> Webhook | None:
    try:
        raw = store.get(VALIDATING_WEBHOOK_CONFIGURATIONS, "", webhook.configuration)
    except NotFound:
        return None
    return next((found for found in webhooks(raw) if found.name == webhook.name), None)
