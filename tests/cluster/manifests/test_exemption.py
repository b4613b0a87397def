"""What the Job's account may change in webhook configurations with ``--allow GM-202``: one condition of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from migrator.kinds import Op
from migrator.planning.webhooks import CONDITION, Webhook, adding, expression, removing, webhooks_of
from testbed.controlplane.client import APPLY_PATCH, JSON_PATCH, Answer, Client, Object
from tests.cluster.site import ACCOUNT, NAMESPACE, USER, ServedSite
from tests.cluster.webhooks import AUTHORIZER, GUARD, KIND, configuration, permitted
from tests.support.tables import table

pytestmark = pytest.mark.controlplane

HIS: Final = {"name": "his", "expression": "true"}
OURS: Final = {"name": CONDITION, "expression": expression(USER)}
#: Left by a run of another account.
STALE: Final = {**OURS, "expression": expression("somebody")}
NOBODY: Final = {**OURS, "expression": f"{OURS['expression']} && false"}
OTHER: Final = "other-webhook"
HOOK: Final = "/webhooks/0"
FRESH: Final = "/webhooks/1/matchConditions"


def op(path: str, value: Any = None, *, verb: str = "replace") -> list[Object]:
    """A JSON Patch of one operation."""
    return [{"op": verb, "path": path, "value": value}]


@dataclass(frozen=True, slots=True)
class Both:
    """Our account with its real rights, an administrator, and the webhooks of the guard's configuration.

    One of these has somebody else's condition and a stale one of ours, the other has none.
    """

    ours: Client
    administrator: Client
    webhooks: Sequence[Webhook]

    def ask(self, client: Client, body: object, name: str, method: str, content_type: str) -> Answer:
        """Send a request that changes nothing."""
        path = client.kind(*KIND).path(None, None if method == "POST" else name)
        query = {"dryRun": "All", **({"fieldManager": ACCOUNT} if method == "PATCH" else {})}
        return client.request(method, path, body, query=query, content_type=content_type)


@pytest.fixture(scope="module")
def both(site: ServedSite) -> Iterator[Both]:
    """Both accounts, and the configurations; that of the authorizer is not there."""
    site.fill()
    guard = configuration(*GUARD, matchConditions=[HIS, STALE])
    guard["webhooks"] += configuration(GUARD[0], "second.example.test")["webhooks"]
    objects = [guard, configuration(OTHER, "other.example.test")]
    with permitted(site):
        for item in objects:
            site.client.apply(item)
        ours = site.server.client(token=site.client.service_account_token(NAMESPACE, ACCOUNT))
        yield Both(ours, site.client, webhooks_of(site.client.get(*KIND, GUARD[0])))
        ours.close()
        for item in objects:
            site.client.delete(item)


Patch = Callable[[Sequence[Webhook]], Sequence[Op]]


@table(
    "patch",
    ("A test that it may.", (lambda _: [Op("test", "/metadata/name", GUARD[0])],)),
    ("Our condition, added.", (lambda hooks: list(adding(hooks[1], USER)),)),
    ("Our condition, in place of one of another account.", (lambda hooks: list(adding(hooks[0], USER)),)),
    ("Our condition, removed from beside another's.", (lambda hooks: list(removing(hooks[0])),)),
    ("Our condition in both at once.", (lambda hooks: [one for hook in hooks for one in adding(hook, USER)],)),
)
def test_what_a_run_sends_is_permitted(both: Both, patch: Patch) -> None:
    """To the letter."""
    body = [{"op": one.op, "path": one.path, "value": one.value} for one in patch(both.webhooks)]
    assert body
    answer = both.ask(both.ours, body, GUARD[0], "PATCH", JSON_PATCH)
    assert answer.status == 200, answer.body["message"]


_POLICY: Final = f"ValidatingAdmissionPolicy 'grove-migrator-webhooks.{NAMESPACE}'"
_SERVICE: Final = f"{HOOK}/clientConfig/service"
_OWNER: Final = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}


@table(
    "body",
    ("It fails open.", (op(f"{HOOK}/failurePolicy", "Ignore"),)),
    ("It is elsewhere.", (op(f"{HOOK}/clientConfig", {"url": "https://evil.example/x"}),)),
    ("Another Service.", (op(f"{_SERVICE}/name", "x"),)),
    ("Another path.", (op(f"{_SERVICE}/path", "/allows-all"),)),
    ("Another authority.", (op(f"{HOOK}/clientConfig/caBundle", "Q0E="),)),
    ("No authority.", (op(f"{HOOK}/clientConfig/caBundle", verb="remove"),)),
    ("No rules.", (op(f"{HOOK}/rules", []),)),
    ("Another operation.", (op(f"{HOOK}/rules/0/operations", ["DELETE"]),)),
    ("Another kind.", (op(f"{HOOK}/rules/0/resources", ["podgangs"]),)),
    ("Another selection of objects.", (op(f"{HOOK}/objectSelector", {"matchLabels": {"x": "y"}}),)),
    ("Another selection of namespaces.", (op(f"{HOOK}/namespaceSelector", {"matchLabels": {"x": "y"}}),)),
    ("Another time to answer.", (op(f"{HOOK}/timeoutSeconds", 1),)),
    ("Another match policy.", (op(f"{HOOK}/matchPolicy", "Equivalent"),)),
    ("Our name for a condition that nobody meets.", (op(FRESH, [{**OURS, "expression": "false"}], verb="add"),)),
    ("Our name, another account left out.", (op(FRESH, [STALE], verb="add"),)),
    (
        "Everybody left out besides.",
        (op(FRESH, [NOBODY], verb="add"),),
    ),
    ("Another name for our condition.", (op(FRESH, [{**OURS, "name": "x"}], verb="add"),)),
    ("A second one of another name.", (op(FRESH, [OURS, HIS], verb="add"),)),
    ("Somebody else's removed.", (op(f"{HOOK}/matchConditions/0", verb="remove"),)),
    ("Somebody else's changed.", (op(f"{HOOK}/matchConditions/0/expression", "false"),)),
    ("Somebody else's replaced by ours.", (op(f"{HOOK}/matchConditions", [OURS]),)),
    ("All conditions removed.", (op(f"{HOOK}/matchConditions", verb="remove"),)),
    ("A webhook more.", (op("/webhooks/-", configuration(GUARD[0], "x.example.test")["webhooks"][0], verb="add"),)),
    ("A webhook less.", (op(HOOK, verb="remove"),)),
    ("No webhooks.", (op("/webhooks", []),)),
    ("No field for them.", (op("/webhooks", verb="remove"),)),
    ("Another name for one.", (op(f"{HOOK}/name", "x.example.test"),)),
    ("A label.", (op("/metadata/labels", {"x": "y"}, verb="add"),)),
    ("An annotation.", (op("/metadata/annotations", {"x": "y"}, verb="add"),)),
    ("An owner.", (op("/metadata/ownerReferences", [_OWNER], verb="add"),)),
    ("A finalizer.", (op("/metadata/finalizers", ["x.example/y"], verb="add"),)),
)
def test_any_other_change_is_denied_by_the_policy(both: Both, body: list[Object]) -> None:
    """With 403, to the account that RBAC lets patch this object; an administrator may."""
    answer = both.ask(both.ours, body, GUARD[0], "PATCH", JSON_PATCH)
    assert (answer.status, _POLICY in answer.body["message"]) == (403, True), answer.body["message"]
    assert both.ask(both.administrator, body, GUARD[0], "PATCH", JSON_PATCH).status == 200


@table(
    "verb method name body",
    ("Another one, patched.", ("patch", "PATCH", OTHER, op(f"{HOOK}/matchConditions", [OURS], verb="add"))),
    ("One that is not there, made by a patch.", ("create", "PATCH", AUTHORIZER[0], configuration(*AUTHORIZER))),
    ("Created.", ("create", "POST", AUTHORIZER[0], configuration(*AUTHORIZER))),
    ("Replaced.", ("update", "PUT", GUARD[0], configuration(*GUARD))),
    ("Deleted.", ("delete", "DELETE", GUARD[0], None)),
)
def test_no_other_verb_or_object_is_permitted(both: Both, verb: str, method: str, name: str, body: object) -> None:
    """With 403 by RBAC, which an administrator does not get."""
    how = {"list": JSON_PATCH, "dict": APPLY_PATCH}[type(body).__name__] if method == "PATCH" else "application/json"
    answer = both.ask(both.ours, body, name, method, how)
    assert (answer.status, f"cannot {verb} resource" in answer.body["message"]) == (403, True), answer.body["message"]
    assert both.ask(both.administrator, body, name, method, how).status != 403
