"""What stands between our patches and the objects: Grove's authorizer webhook, and our own policies.

With ``config.authorizer.enabled`` the operator serves a webhook with ``failurePolicy: Fail``
(``operator/charts/templates/authorizer-webhook-config.yaml``). While the operator is at zero, that denies every label
patch of a PodClique or pod; status patches pass, because its rules name no subresource. All requests here are dry runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from migrator import resources
from migrator.errors import ApiError, LeaseLost, LostReply, NotAuthorised, NotFound, Refused, Rejected, TestFailed
from migrator.exact_json import JSONObject
from migrator.grove.objects import LABEL_MANAGED_BY, MANAGED_BY_GROVE
from migrator.planning.guards.base import refuse
from migrator.planning.model import Finding
from migrator.planning.patches import RESOURCES, Patch
from migrator.resources import PODS, Op, Resource
from migrator.store import DryRun, Store

WEBHOOK: Final = "authorizer.webhooks.grove.io"

_SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)

#: The name of the pod that a token was made for (kubernetes.io/docs/reference/access-authn-authz/authentication).
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_OUR_POLICIES: Final = "grove-migrator"

#: How long a policy may exist before it is enforced, and the pause between two probes, in seconds.
_LATE: Final = 10.0
_PAUSE: Final = 0.5

REMEDY: Final = (
    "disable the authorizer with the old chart first (helm upgrade ... --set config.authorizer.enabled=false "
    "--set replicaCount=0), migrate, then upgrade to the new chart"
)


def authorizers(configurations: Iterable[JSONObject]) -> Iterator[Finding]:
    """GM-202 for the first webhook that fails closed and is Grove's authorizer, by name or by what it selects."""
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            closed = webhook.get("failurePolicy", "Fail") == "Fail"
            if closed and (webhook.get("name") == WEBHOOK or _authorizes(webhook)):
                what = f"ValidatingWebhookConfiguration {configuration['metadata']['name']} ({webhook.get('name')})"
                message = f"{what} rejects every label change while the operator is stopped"
                yield refuse("GM-202", None, None, message, REMEDY)
                return


def own_pod(store: Store) -> str | None:
    """The name of the pod that our token was made for; ``None`` outside a pod, or if the server does not know."""
    try:
        user = ask(store, _SELF_SUBJECT_REVIEWS).get("userInfo") or {}
    except (ApiError, NotAuthorised, LostReply):
        return None
    names = (user.get("extra") or {}).get(_POD_NAME) or ()
    return str(names[0]) if names else None


def ask(store: Store, review: Resource, **content: JSONObject) -> JSONObject:
    """The ``status`` of a review; in a dry run the answer is the same, and a retry is harmless."""
    body = {"apiVersion": review.api_version, "kind": review.kind, "metadata": {}, **content}
    return store.in_dry_run(DryRun.SERVER).create(review, "", body).get("status") or {}


def probe(
    store: Store,
    patches: Iterable[Patch],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    policies: bool = False,
) -> tuple[int, float]:
    """Dry-run one label patch for each kind and namespace; returns how many were accepted, and how long that took.

    A patch whose ``test`` fails never reaches a webhook, so the next one is tried. With ``policies`` a patch that our
    own policies must deny is sent too. API servers learn of policies and of the Lease's holder with a delay, so after a
    wrong answer the patch is repeated for some seconds. After that a webhook that denies or cannot be called raises
    :class:`~migrator.errors.Refused`; so do policies that do not deny, as GM-206.
    """
    asked = store.in_dry_run(DryRun.SERVER)
    until = clock() + _LATE
    accepted, spent, pods = set[tuple[str, str]](), 0.0, list[Patch]()
    for patch in patches:
        if policies and patch.ref.kind == resources.PODS.kind:
            pods.append(patch)
        kind = (patch.ref.kind, patch.ref.namespace)
        if patch.subresource or kind in accepted:
            continue
        began = clock()
        while (answer := _accepted(asked, patch, last=clock() >= until)) is None:
            sleep(_PAUSE)
        if answer:
            accepted.add(kind)
            spent += clock() - began
    while policies and (wrong := _unchecked(asked, pods)) is not None:
        if clock() >= until:
            raise Refused(f"{wrong}; install them, or go on with --allow GM-206", guard="GM-206")
        sleep(_PAUSE)
    return len(accepted), spent


def _accepted(asked: Store, patch: Patch, *, last: bool) -> bool | None:
    """Whether a patch is accepted; ``None`` if that is not known yet, and this is not the ``last`` time to ask."""
    try:
        asked.patch(RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name, patch.ops(None))
    except (TestFailed, NotFound):
        return False
    except LeaseLost:
        if last:
            raise
        return None
    except Rejected as error:
        if not error.denied_by:
            raise
        message = f"a dry run of the label patch of {patch.ref} was denied: {error}; {REMEDY}"
        raise Refused(message, guard="GM-202", ref=patch.ref) from error
    return True


def _unchecked(asked: Store, pods: Iterable[Patch]) -> str | None:
    """Try to annotate a pod: our own policy must deny that. Returns what is wrong, if anything is."""
    for patch in pods:
        ops = (
            Op("test", "/metadata/uid", patch.ref.uid),
            Op("add", "/metadata/annotations", {"grove-migrator/probe": "must be denied"}),
        )
        probe = f"a dry run that annotates {patch.ref}"
        try:
            asked.patch(PODS, patch.ref.namespace, patch.ref.name, ops)
        except (TestFailed, NotFound):
            continue
        except LeaseLost:  # the policy of the fence denies it, so policies are enforced
            return None
        except (NotAuthorised, Rejected) as error:
            if isinstance(error, Rejected) and error.denied_by.startswith(_OUR_POLICIES):
                return None
            return f"{probe} was denied, and not by a policy of ours ({error})"
        return (
            f"{probe} was accepted: the policies of manifests/job.yaml are not enforced, so this account may change "
            "more than hashes"
        )
    return None


def _authorizes(webhook: Mapping[str, Any]) -> bool:
    """Whether a webhook guards updates of Grove's pods or PodCliques; subresources are separate resources."""
    selector = ((webhook.get("objectSelector") or {}).get("matchLabels") or {}).get(LABEL_MANAGED_BY)
    return selector == MANAGED_BY_GROVE and any(
        {"UPDATE", "*"} & set(rule.get("operations") or ())
        and {"pods", "podcliques", "*", "*/*"} & set(rule.get("resources") or ())
        for rule in webhook.get("rules") or ()
    )
