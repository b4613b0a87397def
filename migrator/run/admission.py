"""What stands between our patches and the objects: Grove's authorizer webhook, and our own policies.

With ``config.authorizer.enabled`` the chart registers ``authorizer-webhook``, served by the operator with
``failurePolicy: Fail`` (``operator/charts/templates/authorizer-webhook-config.yaml``). While the operator is at
zero every label patch of a PodClique or pod then fails closed; status patches do not, because no rule names a
subresource. Everything here is asked with ``dryRun=All``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator import resources
from migrator.errors import (
    ApiError,
    LeaseLost,
    LostReply,
    NotAuthorised,
    NotFound,
    Refused,
    Rejected,
    TestFailed,
)
from migrator.exact_json import JSONObject
from migrator.grove.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE
from migrator.planning.patches import Patch
from migrator.resources import PODS, Op, Resource
from migrator.store import DryRun, Store

WEBHOOK: Final = "authorizer.webhooks.grove.io"

_SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

#: Where a token says which pod it was made for (kubernetes.io/docs/reference/access-authn-authz/authentication).
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_OUR_POLICIES: Final = "grove-migrator"
_GUARDED: Final[Mapping[str, Resource]] = {
    resource.kind: resource
    for resource in (resources.PODS, resources.POD_CLIQUES, resources.POD_GANG_MAPS, resources.POD_GANGS)
}
#: How long what was just created may not be enforced yet, in seconds, and how often that is looked at.
_LATE: Final = 10.0
_PAUSE: Final = 0.5

REMEDY: Final = (
    "disable the authorizer with the old chart first (helm upgrade ... --set config.authorizer.enabled=false "
    "--set replicaCount=0), migrate, then upgrade to the new chart"
)


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook that authorizes writes to Grove's objects."""

    configuration: str
    name: str
    fails_closed: bool

    @property
    def remedy(self) -> str:
        """What stands in the way, and what to do: one sentence for a person."""
        return (
            f"ValidatingWebhookConfiguration {self.configuration} ({self.name}) rejects every label change while the "
            f"operator is stopped: {REMEDY}"
        )


def webhooks(configuration: JSONObject) -> Iterator[Webhook]:
    """The authorizers in one ValidatingWebhookConfiguration: Grove's by name, or any by what it selects."""
    for webhook in configuration.get("webhooks") or ():
        if webhook.get("name") == WEBHOOK or _authorizes(webhook):
            closed = webhook.get("failurePolicy", "Fail") == "Fail"
            yield Webhook(str(configuration["metadata"]["name"]), str(webhook.get("name")), closed)


def own_pod(store: Store) -> str | None:
    """The name of the pod that our token was made for; ``None`` outside a pod, or where the server does not say."""
    body = {"apiVersion": _SELF_SUBJECT_REVIEWS.api_version, "kind": _SELF_SUBJECT_REVIEWS.kind, "metadata": {}}
    try:
        answer = store.in_dry_run(DryRun.SERVER).create(_SELF_SUBJECT_REVIEWS, "", body)
    except (ApiError, NotAuthorised, LostReply):
        return None
    user = (answer.get("status") or {}).get("userInfo") or {}
    names = (user.get("extra") or {}).get(_POD_NAME) or ()
    return str(names[0]) if names else None


def probe(
    store: Store,
    patches: Sequence[Patch],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    policies: bool = False,
) -> tuple[int, float]:
    """Send one planned label patch for each kind and namespace; returns how many were accepted, and how long that took.

    A patch whose ``test`` fails never reaches a webhook and proves nothing, so the next one is tried. With ``policies``
    a patch that our own policies must deny is sent too. API servers learn a little later of policies, and that the
    Lease of the fence is ours, so what is wrong is tried again for some seconds. Raises
    :class:`~migrator.errors.Refused` where a webhook denies or cannot be called, and GM-206 without policies.
    """
    asked = store.in_dry_run(DryRun.SERVER)
    candidates: dict[tuple[str, str], list[Patch]] = {}
    for patch in patches:
        if not patch.subresource and patch.ref.kind in _GUARDED:
            candidates.setdefault((patch.ref.kind, patch.ref.namespace), []).append(patch)
    accepted, spent = 0, 0.0
    until = clock() + _LATE
    for found in candidates.values():
        for patch in found:
            began = clock()
            while (answer := _answer(asked, patch, last=clock() >= until)) is None:
                sleep(_PAUSE)
            if answer:
                accepted, spent = accepted + 1, spent + clock() - began
                break
    pods = [patch for patch in patches if patch.ref.kind == resources.PODS.kind]
    while policies and (wrong := _unchecked(asked, pods)) is not None:
        if clock() >= until:
            raise Refused(f"GM-206: {wrong}; install them, or go on with --allow GM-206")
        sleep(_PAUSE)
    return accepted, spent


def _unchecked(asked: Store, pods: Iterable[Patch]) -> str | None:
    """Try to annotate a pod: our own policy must deny that. Returns what is wrong, if anything is.

    What the API server enforces counts, not its version.
    """
    for patch in pods:
        ops = (
            Op("test", "/metadata/uid", patch.ref.uid),
            Op("add", "/metadata/annotations", {"grove-migrator/probe": "must be denied"}),
        )
        try:
            asked.patch(PODS, patch.ref.namespace, patch.ref.name, ops)
        except (TestFailed, NotFound):
            continue
        except (NotAuthorised, Rejected) as error:
            if isinstance(error, Rejected) and error.denied_by.startswith(_OUR_POLICIES):
                return None
            return f"a dry run that annotates {patch.ref} was denied, and not by a policy of ours ({error})"
        except LeaseLost:  # the policy of the fence denies it, so policies are enforced
            return None
        return (
            f"a dry run that annotates {patch.ref} was accepted: the policies of manifests/base are not enforced, so "
            "this ServiceAccount may change more than hashes"
        )
    return None


def _answer(asked: Store, patch: Patch, *, last: bool) -> bool | None:
    """Whether a patch is accepted; ``None`` if that is not known yet, and this is not the ``last`` time to ask."""
    try:
        asked.patch(_GUARDED[patch.ref.kind], patch.ref.namespace, patch.ref.name, patch.ops(None))
    except (TestFailed, NotFound):
        return False
    except LeaseLost:
        if last:
            raise
        return None
    except Rejected as error:
        if error.denied_by:
            said = f"a dry run of the label patch of {patch.ref} was denied: {error}; {REMEDY}"
            raise Refused(f"GM-202: {said}") from error
        raise
    return True


def _authorizes(webhook: Mapping[str, Any]) -> bool:
    selector = ((webhook.get("objectSelector") or {}).get("matchLabels") or {}).get(LABEL_MANAGED_BY)
    return selector == MANAGED_BY_GROVE and any(_guards_labels(rule) for rule in webhook.get("rules") or ())


def _guards_labels(rule: Mapping[str, Any]) -> bool:
    """Whether a rule covers updates of pods or PodCliques themselves; subresources are separate resources."""
    updates = {"UPDATE", "*"} & set(rule.get("operations") or ())
    return bool(updates and {"pods", "podcliques", "*", "*/*"} & set(rule.get("resources") or ()))
