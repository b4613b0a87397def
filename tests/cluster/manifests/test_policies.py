"""What the policies let the Job's account change in the objects that RBAC lets it write.

The account is made an administrator here, and so is another one, whose equal requests all pass: whatever is denied to
the first is denied by the policies, not because the request is wrong. Every request is a dry run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pytest

from migrator.grove.places import HASH_FIELDS
from migrator.kinds import Op
from migrator.planning.webhooks import CONDITION, adding, expression, removing, webhooks_of
from testbed.controlplane.client import JSON_PATCH, MERGE_PATCH, Answer, Client, Object, eventually
from testbed.gangs import ANCHOR_EPOCH
from tests.cluster.site import ACCOUNT, NAMESPACE, USER, WORKLOADS, ServedSite, made
from tests.cluster.webhooks import GUARD, KIND, configuration, denied_by, permitted

pytestmark = pytest.mark.controlplane

#: What a hash looks like: SafeEncodeString (k8s.io/apimachinery/pkg/util/rand) of a number, so no vowel and no 0 to 3.
HASH: Final = "4b5c6d7f89"

#: Its name begins as ours does: that of the chart's other account.
OTHER: Final = f"{ACCOUNT}-image"
_TEMPLATE_LABEL: Final = "/metadata/labels/grove.io~1pod-template-hash"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: to what, and its body; a list is a JSON Patch, a mapping a merge patch or what is to be created.

    ``to`` is a kind, whose last planted object is meant, or ``kind/name``.
    """

    what: str
    to: str
    body: Any = None
    subresource: str = ""
    method: str = "PATCH"

    def __str__(self) -> str:
        return f"{self.to}: {self.what}"


def replace(path: str, value: object) -> list[Object]:
    return [{"op": "replace", "path": path, "value": value}]


def add(path: str, value: object) -> list[Object]:
    return [{"op": "add", "path": path, "value": value}]


def remove(path: str) -> list[Object]:
    return [{"op": "remove", "path": path}]


def created(item: Object) -> Request:
    return Request("create", f"{item['kind']}/{item['metadata']['name']}", item, method="POST")


RBAC: Final = "rbac.authorization.k8s.io"
_ADMINISTRATOR: Final = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
LEASE: Final = "coordination.k8s.io/v1"

#: Of another, and of ours what a run of another account has left: in the first webhook, and none in the second.
HIS: Final = {"name": "his", "expression": "true"}
STALE: Final = {"name": CONDITION, "expression": expression("somebody")}
OURS: Final = {"name": CONDITION, "expression": expression(USER)}
_NOWHERE: Final = {"matchLabels": {"is": "nobody"}}  # nobody serves them, so none is asked
WEBHOOKS: Final = configuration(*GUARD, namespaceSelector=_NOWHERE, matchConditions=[HIS, STALE])
WEBHOOKS["webhooks"] += configuration(GUARD[0], "second.example.test", namespaceSelector=_NOWHERE)["webhooks"]
FIRST, SECOND = webhooks_of(WEBHOOKS)
CONDITIONS: Final = "/webhooks/0/matchConditions"
#: Of a webhook without conditions: every change of one that keeps a stale condition is denied for that alone.
HOOK: Final = "/webhooks/1"
FRESH: Final = f"{HOOK}/matchConditions"


def of_webhooks(what: str, body: list[Object]) -> Request:
    """The request for a patch of the webhooks of PodCliques."""
    return Request(what, KIND[1], body)


def sent(what: str, ops: Iterable[Op]) -> Request:
    """The request for such a patch as a run sends it."""
    return of_webhooks(what, [{"op": op.op, "path": op.path, "value": op.value} for op in ops])


PERMITTED: Final = (
    # In every place of a hash. A new one must be in the workloads of testbed/trees.py; these CRDs hide the oldest.
    *(
        Request(place.pointer, place.kind, replace(place.pointer.replace("*", "0"), HASH), place.subresource)
        for place in HASH_FIELDS
        if "rollingUpdateProgress" not in place.path
    ),
    Request("nothing", "Pod", []),
    Request("to zero", "Deployment/grove-operator", replace("/spec/replicas", 0), "scale"),
    created(made(LEASE, "Lease", "grove-migrator", WORKLOADS, spec={})),
    Request("its own", "Lease/grove-migrator", {"spec": {"leaseTransitions": 1}}),
    Request("the operator's", "Lease/grove-operator-leader-election", {"spec": {"holderIdentity": "us"}}),
    sent("a test that it may", [Op("test", "/metadata/name", GUARD[0])]),
    sent("our condition, added", adding(SECOND, USER)),
    sent("our condition, in place of one of another account", adding(FIRST, USER)),
    sent("our condition, removed from beside another's", removing(FIRST)),
    sent("our condition, in both at once", [*adding(FIRST, USER), *adding(SECOND, USER)]),
)

_ENTRY: Final = {"epoch": "9", "role": "ScaleOut", "podCliqueSetGenerationHash": HASH, "dependsOn": [ANCHOR_EPOCH]}
_OWNER: Final = {"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}

DENIED: Final = (
    *(Request("an annotation", kind, {"metadata": {"annotations": {"x": "y"}}}) for kind in ("Pod", "PodClique")),
    *(Request("a label", kind, {"metadata": {"labels": {"x": "y"}}}) for kind in ("Pod", "PodGangMap", "PodGang")),
    *(Request("a finalizer", kind, {"metadata": {"finalizers": ["example.test/x"]}}) for kind in ("Pod", "PodClique")),
    *(Request("its owner", kind, remove("/metadata/ownerReferences")) for kind in ("Pod", "PodClique")),
    # Pods: everything but the value of one label.
    Request("a hash in another label", "Pod", {"metadata": {"labels": {"grove.io/podclique": HASH}}}),
    Request("an empty value", "Pod", replace(_TEMPLATE_LABEL, "")),
    Request("no hash", "Pod", remove(_TEMPLATE_LABEL)),
    Request("a value that begins as a hash does", "Pod", replace(_TEMPLATE_LABEL, f"{HASH}-1")),
    Request("an image", "Pod", replace("/spec/containers/0/image", "example.test/x:1")),
    # PodCliques.
    Request("replicas", "PodClique", {"spec": {"replicas": 7}}),
    Request("a value that ends as a hash does", "PodClique", replace(_TEMPLATE_LABEL, f"x-{HASH}")),
    Request("a condition", "PodClique", replace("/status/conditions/0/status", "True"), "status"),
    Request("a counter", "PodClique", replace("/status/updatedReplicas", 7), "status"),
    Request("an update without end", "PodClique", remove("/status/updateProgress/updateEndedAt"), "status"),
    Request("no hash in an update", "PodClique", {"status": {"updateProgress": {"podTemplateHash": "x-y"}}}, "status"),
    Request("no current hash", "PodClique", remove("/status/currentPodTemplateHash"), "status"),
    Request("a current hash that is none", "PodClique", replace("/status/currentPodTemplateHash", "x-y"), "status"),
    Request("a new field", "PodClique", {"status": {"hpaPodSelector": "x=y"}}, "status"),
    # Scaling groups and sets: the status.
    Request("a counter", "PodCliqueScalingGroup", replace("/status/replicas", 7), "status"),
    Request("the observed generation", "PodCliqueSet", replace("/status/observedGeneration", 7), "status"),
    Request("a counter", "PodCliqueSet", replace("/status/updatedReplicas", 7), "status"),
    Request(
        "an update's start",
        "PodCliqueSet",
        replace("/status/updateProgress/updateStartedAt", "2026-03-01T00:00:00Z"),
        "status",
    ),
    # PodGangs and PodGangMaps.
    Request("its pods", "PodGang", replace("/spec/podgroups", [])),
    Request("an epoch", "PodGangMap", replace("/spec/entries/1/epoch", "1")),
    Request("a role", "PodGangMap", replace("/spec/entries/1/role", "ScaleOut")),
    Request("cliques", "PodGangMap", {"spec": {"entries": []}}),
    Request("one entry less", "PodGangMap", remove("/spec/entries/1")),
    Request("what an entry waits for", "PodGangMap", replace("/spec/entries/1/dependsOn", [])),
    Request("one entry more", "PodGangMap", add("/spec/entries/-", _ENTRY)),
    Request("a value that is not a hash", "PodGangMap", replace("/spec/entries/0/podCliqueSetGenerationHash", "x-y")),
    Request("its replica", "PodGangMap", replace("/spec/podCliqueSetReplicaIndex", 7)),
    # The operator's namespace.
    Request("another size", "Deployment/grove-operator", replace("/spec/replicas", 3), "scale"),
    created(made(LEASE, "Lease", "grove-operator", spec={})),  # a part of a name that is permitted
    Request("of somebody else", "Lease/somebody-elses", {"spec": {"holderIdentity": "us"}}),
    # Webhooks of the operator: everything but one condition of a name of ours.
    of_webhooks("fails open", replace(f"{HOOK}/failurePolicy", "Ignore")),
    of_webhooks("elsewhere", replace(f"{HOOK}/clientConfig", {"url": "https://evil.example/x"})),
    of_webhooks("another Service", replace(f"{HOOK}/clientConfig/service/name", "x")),
    of_webhooks("another path", replace(f"{HOOK}/clientConfig/service/path", "/allows-all")),
    of_webhooks("another authority", replace(f"{HOOK}/clientConfig/caBundle", "Q0E=")),
    of_webhooks("no authority", remove(f"{HOOK}/clientConfig/caBundle")),
    of_webhooks("no rules", replace(f"{HOOK}/rules", [])),
    of_webhooks("another operation", replace(f"{HOOK}/rules/0/operations", ["DELETE"])),
    of_webhooks("another kind", replace(f"{HOOK}/rules/0/resources", ["podgangs"])),
    of_webhooks("another selection of objects", replace(f"{HOOK}/objectSelector", {"matchLabels": {"x": "y"}})),
    of_webhooks("another selection of namespaces", replace(f"{HOOK}/namespaceSelector", {"matchLabels": {"x": "y"}})),
    of_webhooks("another time to answer", replace(f"{HOOK}/timeoutSeconds", 1)),
    of_webhooks("another match policy", replace(f"{HOOK}/matchPolicy", "Equivalent")),
    of_webhooks("our name, for a condition that nobody meets", add(FRESH, [{**OURS, "expression": "false"}])),
    of_webhooks("our name, another account left out", add(FRESH, [STALE])),
    of_webhooks("our name, everybody left out", add(FRESH, [{**OURS, "expression": f"{OURS['expression']} && false"}])),
    of_webhooks("another name for our condition", add(FRESH, [{**OURS, "name": "x"}])),
    of_webhooks("a second condition of another name", add(FRESH, [OURS, HIS])),
    of_webhooks("somebody else's condition removed", replace(CONDITIONS, [OURS])),
    of_webhooks("somebody else's condition changed", replace(CONDITIONS, [{**HIS, "expression": "false"}, OURS])),
    of_webhooks("all conditions removed", remove(CONDITIONS)),
    of_webhooks("one more", add("/webhooks/-", configuration(GUARD[0], "x.example.test")["webhooks"][0])),
    of_webhooks("one less", remove(HOOK)),
    of_webhooks("none", replace("/webhooks", [])),
    of_webhooks("no field for them", remove("/webhooks")),
    of_webhooks("another name for one", replace(f"{HOOK}/name", "x.example.test")),
    of_webhooks("a label", add("/metadata/labels", {"x": "y"})),
    of_webhooks("an annotation", add("/metadata/annotations", {"x": "y"})),
    of_webhooks("an owner", add("/metadata/ownerReferences", [_OWNER])),
    of_webhooks("a finalizer", add("/metadata/finalizers", ["x.example/y"])),
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Our account and another one, both with every right, and the objects that requests are about."""

    ours: Client
    others: Client
    planted: Sequence[Object]

    def send(self, client: Client, request: Request) -> Answer:
        """Send a request that changes nothing."""
        kind, _, name = request.to.partition("/")
        there = (x for x in reversed(self.planted) if x["kind"] == kind and name in ("", x["metadata"]["name"]))
        item, content_type = request.body, "application/json"
        if request.method == "PATCH":
            item, content_type = next(there), JSON_PATCH if isinstance(request.body, list) else MERGE_PATCH
        own = item["metadata"]["name"] if request.method == "PATCH" else None
        path = client.kind_of(item).path(item["metadata"].get("namespace"), own, request.subresource)
        return client.request(request.method, path, request.body, query={"dryRun": "All"}, content_type=content_type)


@pytest.fixture(scope="module")
def accounts(site: ServedSite) -> Iterator[Accounts]:
    """Both accounts as administrators, and one object of each kind that requests are about."""
    site.fill()
    both = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in (ACCOUNT, OTHER)]
    with permitted(site):
        created = [
            site.client.create(item)
            for item in (
                made("v1", "ServiceAccount", OTHER),
                made(LEASE, "Lease", ACCOUNT, spec={"holderIdentity": "us"}),
                made(LEASE, "Lease", "grove-operator-leader-election", spec={"holderIdentity": ""}),
                made(LEASE, "Lease", "somebody-elses", spec={"holderIdentity": "x"}),
                WEBHOOKS,
                made(f"{RBAC}/v1", "ClusterRoleBinding", "policies-alone", None, roleRef=_ADMINISTRATOR, subjects=both),
            )
        ]
        tokens = (site.client.service_account_token(NAMESPACE, name) for name in (ACCOUNT, OTHER))
        ours, others = (site.server.client(token=token) for token in tokens)
        found = Accounts(ours, others, [*site.planted, *created, site.deployment()])
        probe = Request("may it?", "Pod", {"metadata": {"annotations": {"x": "y"}}})
        eventually(lambda: found.send(others, probe).status == 200, what="the other account is not an administrator")
        eventually(lambda: by_policy(found.send(ours, probe)), what="our account is not an administrator")
        yield found
        for item in reversed(created):
            site.client.delete(item)
        secrets = partial(ours.request, "GET", "/api/v1/secrets")
        eventually(lambda: secrets().status == 403, what="our account is still an administrator")
        ours.close()
        others.close()


def by_policy(answer: Answer) -> bool:
    """Whether one of our policies denied the request."""
    return answer.status == 403 and denied_by(answer).startswith("grove-migrator-")


@pytest.mark.parametrize("request_", PERMITTED, ids=str)
def test_what_a_run_does_is_permitted(accounts: Accounts, request_: Request) -> None:
    """No policy stands in the way of the one thing that the account is for.

    An object that is there already is a conflict, which the API server finds after the policies.
    """
    answer = accounts.send(accounts.ours, request_)
    assert answer.status in ({200, 201, 409} if request_.method == "POST" else {200}), answer.body


@pytest.mark.parametrize("request_", DENIED, ids=str)
def test_everything_else_is_denied_to_the_account_and_to_nobody_else(accounts: Accounts, request_: Request) -> None:
    """A policy of ours denies it with 403, whatever RBAC grants; the same request of another account passes."""
    ours = accounts.send(accounts.ours, request_)
    assert by_policy(ours), (ours.status, ours.body)
    others = accounts.send(accounts.others, request_)
    assert others.status in {200, 201}, others.body


@pytest.mark.parametrize(
    ("number", "body", "permitted"),
    [
        (1000, replace("/spec/entries/999/podCliqueSetGenerationHash", HASH), True),
        (1000, replace("/spec/entries/999/role", "ScaleOut"), False),
        (1001, replace("/spec/entries/0/podCliqueSetGenerationHash", HASH), False),
    ],
)
def test_a_large_map_is_judged_to_its_last_entry(
    site: ServedSite, accounts: Accounts, *, number: int, body: list[Object], permitted: bool
) -> None:
    """CEL stops a policy that costs too much; what is beyond the entries that it looks at must not change either."""
    entries = [{"epoch": str(epoch), "role": "Tail", "podCliqueSetGenerationHash": "4b5c6d"} for epoch in range(number)]
    spec = {"podCliqueSetReplicaIndex": 0, "entries": entries}
    large = site.client.create(made("grove.io/v1alpha1", "PodGangMap", "large", WORKLOADS, spec=spec))
    about = Accounts(accounts.ours, accounts.others, [large])
    try:
        answer = about.send(about.ours, Request("large", "PodGangMap", body))
    finally:
        site.client.delete(large)
    assert (answer.status == 200) is permitted, answer.body
    assert by_policy(answer) is not permitted


@pytest.mark.parametrize(
    ("before", "after", "permitted"),
    [(0, 3, True), (3, 0, True), (1, 0, True), (1, 1, True), (0, 4, False), (4, 0, False), (1, 2, False)],
)
def test_the_operator_is_stopped_and_comes_back_within_three_replicas(
    site: ServedSite, accounts: Accounts, *, before: int, after: int, permitted: bool
) -> None:
    """Zero and back, and nothing else; an operator that could not be given back its replicas is not even stopped."""
    operator = site.deployment()
    scale = Request("scale", "Deployment/grove-operator", {"spec": {"replicas": after}}, "scale")
    assert site.client.patch(operator, {"spec": {"replicas": before}}, subresource="scale").status == 200
    try:
        answer = accounts.send(accounts.ours, scale)
        assert (answer.status == 200) is permitted, answer.body
        assert by_policy(answer) is not permitted
    finally:
        assert site.client.patch(operator, {"spec": {"replicas": 1}}, subresource="scale").status == 200
