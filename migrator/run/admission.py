"""What stands between patches and objects: Grove's authorizer webhook, other webhooks, policies, validation.

With ``config.authorizer.enabled`` the operator serves a webhook with ``failurePolicy: Fail``
(``operator/charts/templates/authorizer-webhook-config.yaml``). While the operator is at zero, that denies every label
patch of a PodClique, PodGang or pod; status patches pass, because its rules name no subresource. All requests here are
dry runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from migrator.errors import Conflict, NotFound, Refused, Rejected, TestFailed
from migrator.exact_json import JSONObject
from migrator.grove.objects import LABEL_MANAGED_BY, MANAGED_BY_GROVE, Ref
from migrator.planning.guards.base import report
from migrator.planning.model import Finding
from migrator.planning.patches import RESOURCES, Patch
from migrator.resources import Resource
from migrator.store import DryRun, Store

WEBHOOK: Final = "authorizer.webhooks.grove.io"
#: The name of the matchCondition that leaves our account out.
EXEMPTION: Final = "grove-migrator"
_GROVE: Final = ".webhooks.grove.io"

REMEDY: Final = (
    "exempt grove-migrator's account from it during the migration, with the kubectl patch of docs/upgrade.md, "
    "section Webhooks of the operator"
)


def authorizers(configurations: Iterable[JSONObject]) -> Iterator[Finding]:
    """GM-202 for the first webhook that fails closed and is Grove's authorizer, by name or by what it selects.

    One that exempts our account, as docs/upgrade.md does it, is left to the dry run of each patch.
    """
    for configuration in configurations:
        for webhook in configuration.get("webhooks") or ():
            closed = webhook.get("failurePolicy", "Fail") == "Fail"
            exempt = any(one.get("name") == EXEMPTION for one in webhook.get("matchConditions") or ())
            if closed and not exempt and (webhook.get("name") == WEBHOOK or _authorizes(webhook)):
                what = f"ValidatingWebhookConfiguration {configuration['metadata']['name']} ({webhook.get('name')})"
                message = f"{what} rejects every label change while the operator is stopped"
                yield report("GM-202", None, None, message, REMEDY)
                return


def ask(store: Store, review: Resource, **content: JSONObject) -> JSONObject:
    """The ``status`` of a review; in a dry run the answer is the same, and a retry is harmless."""
    body = {"apiVersion": review.api_version, "kind": review.kind, "metadata": {}, **content}
    return store.in_dry_run(DryRun.SERVER).create(review, "", body).get("status") or {}


def probe(store: Store, patches: Iterable[Patch]) -> None:
    """Dry-run one patch for each kind, subresource and namespace, so that a certain rejection is found early.

    A patch whose ``test`` fails never reaches a webhook, so the next one is tried. Raises
    :class:`~migrator.errors.Refused` for a patch that is denied or invalid.
    """
    asked, accepted = store.in_dry_run(DryRun.SERVER), set[tuple[str, str, str]]()
    for patch in patches:
        kind = (patch.ref.kind, patch.subresource, patch.ref.namespace)
        if kind in accepted:
            continue
        try:
            where = (RESOURCES[patch.ref.kind], patch.ref.namespace, patch.ref.name, patch.ops(None))
            asked.patch(*where, subresource=patch.subresource)
        except (TestFailed, NotFound, Conflict):
            continue
        except Rejected as error:
            raise refusal(patch.ref, error) from error
        accepted.add(kind)


def refusal(ref: Ref, error: Rejected) -> Refused:
    """The refusal for a patch of ``ref`` that a dry run showed to be rejected, with the remedy of what rejected it."""
    if not error.denied_by:
        return Refused(f"a dry run was rejected: {error}", ref=ref)
    others = f"let {error.denied_by} accept or answer it, or disable that meanwhile"
    remedy = REMEDY if error.denied_by.endswith(_GROVE) else others
    return Refused(f"a dry run was denied: {error}; {remedy}", guard="GM-202", ref=ref)


def _authorizes(webhook: Mapping[str, Any]) -> bool:
    """Whether a webhook guards updates of Grove's pods or PodCliques; subresources are separate resources."""
    selector = ((webhook.get("objectSelector") or {}).get("matchLabels") or {}).get(LABEL_MANAGED_BY)
    return selector == MANAGED_BY_GROVE and any(
        {"UPDATE", "*"} & set(rule.get("operations") or ())
        and {"pods", "podcliques", "*", "*/*"} & set(rule.get("resources") or ())
        for rule in webhook.get("rules") or ()
    )
