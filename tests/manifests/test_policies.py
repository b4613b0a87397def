"""What the policies let the Job's account do: with every right that RBAC knows, still nothing but its work.

The account is made an administrator here, and so is another one, whose equal requests all pass: whatever is denied to
the first is denied by the policies, not because the request is wrong. Every request is a dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest

from tests.controlplane.client import JSON_PATCH, MERGE_PATCH, Answer, Client, Object, eventually
from tests.gangs import ANCHOR_EPOCH
from tests.manifests.site import ACCOUNT, NAMESPACE, USER, WORKLOADS, Site
from tests.manifests.test_exemption import webhook

pytestmark = pytest.mark.controlplane

#: What a hash looks like: SafeEncodeString (k8s.io/apimachinery/pkg/util/rand) of a number, so no vowel and no 0 to 3.
HASH: Final = "4b5c6d7f89"

OTHER: Final = "somebody-else"
_TEMPLATE_LABEL: Final = "/metadata/labels/grove.io~1pod-template-hash"
_GENERATION_LABEL: Final = "/metadata/labels/grove.io~1podcliqueset-generation-hash"
_EXEMPTION: Final = {"name": "exclude-grove-migrator", "expression": f'request.userInfo.username != "{USER}"'}
_OTHERS: Final = f"system:serviceaccount:{NAMESPACE}:{OTHER}"


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
    """A JSON Patch of one replacement."""
    return [{"op": "replace", "path": path, "value": value}]


def add(path: str, value: object) -> list[Object]:
    """A JSON Patch of one addition."""
    return [{"op": "add", "path": path, "value": value}]


def remove(path: str) -> list[Object]:
    """A JSON Patch of one removal."""
    return [{"op": "remove", "path": path}]


def made(api_version: str, kind: str, name: str, namespace: str | None = NAMESPACE, **rest: Any) -> Object:
    """A small object of a kind."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def created(item: Object, what: str = "create") -> Request:
    """The request that creates an object."""
    return Request(what, f"{item['kind']}/{item['metadata']['name']}", item, method="POST")


EVENT: Final = made(
    "events.k8s.io/v1",
    "Event",
    "said",
    WORKLOADS,
    eventTime="2026-01-01T00:00:00.000000Z",
    reportingController="grove.io/migrator",
    reportingInstance="x",
    action="Migrate",
    reason="HashesMigrated",
    type="Normal",
    note="x",
    regarding={"apiVersion": "v1", "kind": "Namespace", "namespace": WORKLOADS, "name": WORKLOADS},
)
_CONTAINER: Final = {"name": "x", "image": "example.test/x:1"}
_JOB: Final = made(
    "batch/v1",
    "Job",
    "x",
    WORKLOADS,
    spec={"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}},
)
_ROLE_REF: Final = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
_BINDING: Final = made(
    "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding",
    "x",
    None,
    roleRef=_ROLE_REF,
    subjects=[{"kind": "ServiceAccount", "name": "x", "namespace": WORKLOADS}],
)
_LEASE: Final = "coordination.k8s.io/v1"

PERMITTED: Final = (
    Request("template hash", "Pod", replace(_TEMPLATE_LABEL, HASH)),
    Request("template hash through its status", "Pod", replace(_TEMPLATE_LABEL, HASH), "status"),
    Request("nothing", "Pod", []),
    Request("template hash", "PodClique", replace(_TEMPLATE_LABEL, HASH)),
    Request("generation hash", "PodGang", replace(_GENERATION_LABEL, HASH)),
    Request("generation hash", "PodGangMap", replace("/spec/entries/0/podCliqueSetGenerationHash", HASH)),
    Request(
        "both entries",
        "PodGangMap",
        [
            *replace("/spec/entries/0/podCliqueSetGenerationHash", HASH),
            *replace("/spec/entries/1/podCliqueSetGenerationHash", HASH),
        ],
    ),
    *(
        Request(field, kind, replace(f"/status/{field}", HASH), "status")
        for kind, fields in {
            "PodCliqueSet": ("currentGenerationHash",),
            "PodCliqueScalingGroup": (
                "currentPodCliqueSetGenerationHash",
                "updateProgress/podCliqueSetGenerationHash",
            ),
            "PodClique": (
                "currentPodTemplateHash",
                "currentPodCliqueSetGenerationHash",
                "updateProgress/podTemplateHash",
                "updateProgress/podCliqueSetGenerationHash",
            ),
        }.items()
        for field in fields
    ),
    Request("to zero", "Deployment/grove-operator", replace("/spec/replicas", 0), "scale"),
    created(made("v1", "ConfigMap", "grove-migrator-table-0", data={"x": "y"})),
    Request("its own", "ConfigMap/grove-migrator-run", {"data": {"x": "z"}}),
    Request("its own", "ConfigMap/grove-migrator-run", method="DELETE"),
    created(made(_LEASE, "Lease", "grove-migrator", spec={})),
    Request("the operator's", "Lease/grove-operator-leader-election", {"spec": {"holderIdentity": "us"}}),
    created(EVENT),
    Request("exempt itself", "ValidatingWebhookConfiguration", add("/webhooks/0/matchConditions", [_EXEMPTION])),
)

DENIED: Final = (
    # Pods: everything but the value of one label.
    Request("an annotation", "Pod", {"metadata": {"annotations": {"x": "y"}}}),
    Request("a new label", "Pod", {"metadata": {"labels": {"x": "y"}}}),
    Request("another label", "Pod", {"metadata": {"labels": {"grove.io/podclique": "x"}}}),
    Request("the managing operator", "Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}),
    Request("no hash", "Pod", remove(_TEMPLATE_LABEL)),
    Request("a value that is no hash", "Pod", replace(_TEMPLATE_LABEL, "hash-1")),
    Request("an empty value", "Pod", replace(_TEMPLATE_LABEL, "")),
    Request("a finalizer", "Pod", {"metadata": {"finalizers": ["example.test/x"]}}),
    Request("its owner", "Pod", remove("/metadata/ownerReferences")),
    Request("an image", "Pod", replace("/spec/containers/0/image", "example.test/x:1")),
    Request("a deadline", "Pod", {"spec": {"activeDeadlineSeconds": 1}}),
    Request("its phase", "Pod", {"status": {"phase": "Failed"}}, "status"),
    Request("another label through its status", "Pod", {"metadata": {"labels": {"x": "y"}}}, "status"),
    Request("delete", "Pod", method="DELETE"),
    Request("evict", "Pod", {"apiVersion": "policy/v1", "kind": "Eviction"}, "eviction", "POST"),
    Request("bind", "Pod", {"target": {"kind": "Node", "name": "x"}}, "binding", "POST"),
    created(made("v1", "Pod", "x", WORKLOADS, spec={"containers": [_CONTAINER]})),
    # PodCliques.
    Request("an annotation", "PodClique", {"metadata": {"annotations": {"x": "y"}}}),
    Request("another label", "PodClique", {"metadata": {"labels": {"grove.io/podgang": "x"}}}),
    Request("no hash", "PodClique", remove(_TEMPLATE_LABEL)),
    Request("a value that is no hash", "PodClique", replace(_TEMPLATE_LABEL, "0123")),
    Request("replicas", "PodClique", {"spec": {"replicas": 7}}),
    Request("an image", "PodClique", replace("/spec/podSpec/containers/0/image", "example.test/x:1")),
    Request("a finalizer", "PodClique", {"metadata": {"finalizers": ["example.test/x"]}}),
    Request("its owner", "PodClique", remove("/metadata/ownerReferences")),
    Request("scale", "PodClique", {"spec": {"replicas": 7}}, "scale"),
    Request("delete", "PodClique", method="DELETE"),
    Request("a condition", "PodClique", replace("/status/conditions/0/status", "True"), "status"),
    Request(
        "a condition's time",
        "PodClique",
        replace("/status/conditions/0/lastTransitionTime", "2026-01-01T00:00:00Z"),
        "status",
    ),
    Request("a counter", "PodClique", replace("/status/updatedReplicas", 7), "status"),
    Request("a removed counter", "PodClique", remove("/status/updatedReplicas"), "status"),
    Request("the observed generation", "PodClique", replace("/status/observedGeneration", 7), "status"),
    Request(
        "an update's end",
        "PodClique",
        replace("/status/updateProgress/updateEndedAt", "2026-03-01T00:00:00Z"),
        "status",
    ),
    Request("an update without end", "PodClique", remove("/status/updateProgress/updateEndedAt"), "status"),
    Request("no update", "PodClique", remove("/status/updateProgress"), "status"),
    Request("no hash in an update", "PodClique", {"status": {"updateProgress": {"podTemplateHash": "x-y"}}}, "status"),
    Request("no current hash", "PodClique", remove("/status/currentPodTemplateHash"), "status"),
    Request("a current hash that is none", "PodClique", replace("/status/currentPodTemplateHash", "x-y"), "status"),
    Request("a new field", "PodClique", {"status": {"hpaPodSelector": "x=y"}}, "status"),
    # Scaling groups and sets: nothing but status.
    Request("a label", "PodCliqueScalingGroup", {"metadata": {"labels": {"x": "y"}}}),
    Request("replicas", "PodCliqueScalingGroup", {"spec": {"replicas": 7}}),
    Request("scale", "PodCliqueScalingGroup", {"spec": {"replicas": 7}}, "scale"),
    Request("a counter", "PodCliqueScalingGroup", replace("/status/replicas", 7), "status"),
    Request("delete", "PodCliqueScalingGroup", method="DELETE"),
    Request("an annotation", "PodCliqueSet", {"metadata": {"annotations": {"x": "y"}}}),
    Request("replicas", "PodCliqueSet", {"spec": {"replicas": 7}}),
    Request("the template", "PodCliqueSet", replace("/spec/template/cliques/0/spec/replicas", 7)),
    Request("scale", "PodCliqueSet", {"spec": {"replicas": 7}}, "scale"),
    Request("the observed generation", "PodCliqueSet", replace("/status/observedGeneration", 7), "status"),
    Request("a counter", "PodCliqueSet", replace("/status/updatedReplicas", 7), "status"),
    Request(
        "an update's start",
        "PodCliqueSet",
        replace("/status/updateProgress/updateStartedAt", "2026-03-01T00:00:00Z"),
        "status",
    ),
    Request("delete", "PodCliqueSet", method="DELETE"),
    # PodGangs and PodGangMaps.
    Request("another label", "PodGang", {"metadata": {"labels": {"grove.io/epoch": "1"}}}),
    Request("its pods", "PodGang", replace("/spec/podgroups", [])),
    Request("its status", "PodGang", {"status": {"phase": "Pending"}}, "status"),
    Request("delete", "PodGang", method="DELETE"),
    Request("an epoch", "PodGangMap", replace("/spec/entries/1/epoch", "1")),
    Request("a role", "PodGangMap", replace("/spec/entries/1/role", "ScaleOut")),
    Request("cliques", "PodGangMap", {"spec": {"entries": []}}),
    Request("one entry less", "PodGangMap", remove("/spec/entries/1")),
    Request("what an entry waits for", "PodGangMap", replace("/spec/entries/1/dependsOn", [])),
    Request(
        "one entry more",
        "PodGangMap",
        add(
            "/spec/entries/-",
            {
                "epoch": "9",
                "role": "ScaleOut",
                "podCliqueSetGenerationHash": HASH,
                "dependsOn": [ANCHOR_EPOCH],
            },
        ),
    ),
    Request("a value that is no hash", "PodGangMap", replace("/spec/entries/0/podCliqueSetGenerationHash", "x-y")),
    Request("its replica", "PodGangMap", replace("/spec/podCliqueSetReplicaIndex", 7)),
    Request("a label", "PodGangMap", {"metadata": {"labels": {"x": "y"}}}),
    Request("delete", "PodGangMap", method="DELETE"),
    # The operator: zero and back through /scale, nothing else.
    Request("another size", "Deployment/grove-operator", replace("/spec/replicas", 3), "scale"),
    Request("to zero by itself", "Deployment/grove-operator", replace("/spec/replicas", 0)),
    Request(
        "its image", "Deployment/grove-operator", replace("/spec/template/spec/containers/0/image", "example.test/x:1")
    ),
    Request("an annotation", "Deployment/grove-operator", {"metadata": {"annotations": {"x": "y"}}}),
    Request("delete", "Deployment/grove-operator", method="DELETE"),
    # What else is in the operator's namespace.
    created(made("v1", "ConfigMap", "x")),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", {"data": {"config.yaml": ""}}),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", method="DELETE"),
    created(made(_LEASE, "Lease", "x", spec={})),
    Request("of somebody else", "Lease/somebody-elses", {"spec": {"holderIdentity": "us"}}),
    Request("delete", "Lease/grove-operator-leader-election", method="DELETE"),
    created(made("v1", "Secret", "x")),
    created(made("v1", "ServiceAccount", "x")),
    Request(
        "a token",
        f"ServiceAccount/{OTHER}",
        made("authentication.k8s.io/v1", "TokenRequest", OTHER, spec={}),
        "token",
        "POST",
    ),
    created(_JOB),
    # The cluster.
    created(_BINDING),
    Request("delete", "Namespace/serving", method="DELETE"),
    created(made("v1", "Namespace", "x", None)),
    Request("its schema", "CustomResourceDefinition/podcliques.grove.io", {"metadata": {"annotations": {"x": "y"}}}),
    # Webhooks: one matchCondition.
    Request("ignore failures", "ValidatingWebhookConfiguration", replace("/webhooks/0/failurePolicy", "Ignore")),
    Request("no rules", "ValidatingWebhookConfiguration", replace("/webhooks/0/rules", [])),
    Request("no webhooks", "ValidatingWebhookConfiguration", remove("/webhooks/0")),
    Request(
        "another condition",
        "ValidatingWebhookConfiguration",
        add("/webhooks/0/matchConditions", [{"name": "never", "expression": "false"}]),
    ),
    Request(
        "exempt another",
        "ValidatingWebhookConfiguration",
        add(
            "/webhooks/0/matchConditions",
            [
                {**_EXEMPTION, "expression": f'request.userInfo.username != "{_OTHERS}"'},
            ],
        ),
    ),
    Request(
        "exempt all",
        "ValidatingWebhookConfiguration",
        add("/webhooks/0/matchConditions", [{**_EXEMPTION, "expression": "false"}]),
    ),
    Request("a label", "ValidatingWebhookConfiguration", {"metadata": {"labels": {"x": "y"}}}),
    Request("delete", "ValidatingWebhookConfiguration", method="DELETE"),
    created(made("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "x", None, webhooks=[])),
)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Our account and another one, both with every right, and the objects that requests are about."""

    admin: Client
    ours: Client
    others: Client
    planted: Sequence[Object]

    def send(self, client: Client, request: Request) -> Answer:
        """Send a request that changes nothing."""
        item = self._object(request)
        kind = client.kind_of(item)
        metadata = item["metadata"]
        name = None if request.method == "POST" and not request.subresource else metadata["name"]
        path = kind.path(metadata.get("namespace"), name, request.subresource or None)
        body = request.body
        if request.subresource in {"eviction", "binding"}:
            body = {**body, "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]}}
        content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        return client.request(
            request.method,
            path,
            body,
            query={"dryRun": "All"},
            content_type=content_type if request.method == "PATCH" else "application/json",
        )

    def _object(self, request: Request) -> Object:
        if request.method == "POST" and not request.subresource:
            created: Object = request.body
            return created
        kind, _, name = request.to.partition("/")
        return next(
            item for item in reversed(self.planted) if item["kind"] == kind and name in ("", item["metadata"]["name"])
        )


@pytest.fixture(scope="module")
def accounts(site: Site) -> Iterator[Accounts]:
    """Both accounts as administrators, and one object of each kind that requests are about."""
    site.fill()
    beside = [
        site.admin.create(item)
        for item in (
            made("v1", "ServiceAccount", OTHER),
            made("v1", "ConfigMap", "grove-migrator-run", data={"x": "y"}),
            made(_LEASE, "Lease", "grove-operator-leader-election", spec={"holderIdentity": ""}),
            made(_LEASE, "Lease", "somebody-elses", spec={"holderIdentity": "x"}),
            {
                **_BINDING,
                "metadata": {"name": "policies-alone"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in (ACCOUNT, OTHER)
                ],
            },
            _unasked(webhook()),
        )
    ]
    for name in ("grove-operator-cm-0123abcd", "grove-operator"):
        api_version, kind = ("v1", "ConfigMap") if "cm" in name else ("apps/v1", "Deployment")
        beside.append(site.admin.get(api_version, kind, name, NAMESPACE))
    beside.append(site.admin.get("v1", "Namespace", WORKLOADS))
    crds = site.admin.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    clients = [site.server.client(token=site.admin.service_account_token(NAMESPACE, name)) for name in (ACCOUNT, OTHER)]
    found = Accounts(site.admin, *clients, [*site.planted, *beside, *crds])
    probe = Request("may it?", "Namespace/serving", {"metadata": {"labels": {"x": "y"}}})
    eventually(lambda: found.send(found.others, probe).status == 200, what="the other account is no administrator")
    eventually(lambda: by_policy(found.send(found.ours, probe)), what="our account is no administrator")
    yield found
    for client in clients:
        client.close()
    for item in reversed(beside[:6]):
        site.admin.delete(item)


def _unasked(configuration: Object) -> Object:
    """The authorizer where there is no operator to answer it: it is asked about nothing."""
    [found] = configuration["webhooks"]
    return {**configuration, "webhooks": [{**found, "objectSelector": {"matchLabels": {"example.test/x": "never"}}}]}


def by_policy(answer: Answer) -> bool:
    """Whether one of our policies denied the request."""
    message = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
    return answer.status == 403 and "ValidatingAdmissionPolicy 'grove-migrator-" in message


@pytest.mark.parametrize("request_", PERMITTED, ids=str)
def test_what_a_run_does_is_permitted(accounts: Accounts, request_: Request) -> None:
    """No policy stands in the way of the one thing that the account is for."""
    answer = accounts.send(accounts.ours, request_)
    assert answer.status in {200, 201}, answer.body


@pytest.mark.parametrize("request_", DENIED, ids=str)
def test_everything_else_is_denied_to_the_account_and_to_nobody_else(accounts: Accounts, request_: Request) -> None:
    """A policy of ours denies it with 403, whatever RBAC grants; the same request of another account passes."""
    ours = accounts.send(accounts.ours, request_)
    assert by_policy(ours), (ours.status, ours.body)
    others = accounts.send(accounts.others, request_)
    assert others.status in {200, 201}, others.body


def test_all_pods_at_once_cannot_be_deleted(accounts: Accounts) -> None:
    """A policy denies a deletion of a whole collection too, at its first object."""
    path = accounts.ours.kind("v1", "Pod").path(WORKLOADS)
    assert by_policy(accounts.ours.request("DELETE", path, query={"dryRun": "All"}))
    assert accounts.others.request("DELETE", path, query={"dryRun": "All"}).status == 200


def test_a_shell_in_a_pod_is_denied(accounts: Accounts) -> None:
    """Connecting is denied before a node is even looked for."""
    pod = next(item["metadata"]["name"] for item in accounts.planted if item["kind"] == "Pod")
    path, query = accounts.ours.kind("v1", "Pod").path(WORKLOADS, pod, "exec"), {"command": "sh", "stdout": "true"}
    assert by_policy(accounts.ours.request("POST", path, query=query))
    assert not by_policy(accounts.others.request("POST", path, query=query))


def test_the_operator_comes_back_from_zero_only(site: Site, accounts: Accounts) -> None:
    """From zero the account may scale to what the replicas were, and nowhere else from there but to zero."""
    back = Request("back", "Deployment/grove-operator", replace("/spec/replicas", 2), "scale")
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment"}
    operator = {**deployment, "metadata": {"name": "grove-operator", "namespace": NAMESPACE}}
    assert by_policy(accounts.send(accounts.ours, back))
    assert site.admin.patch(operator, {"spec": {"replicas": 0}}, subresource="scale").status == 200
    try:
        answer = accounts.send(accounts.ours, back)
        assert (answer.status, answer.body["spec"]["replicas"]) == (200, 2)
    finally:
        assert site.admin.patch(operator, {"spec": {"replicas": 1}}, subresource="scale").status == 200


@pytest.mark.parametrize("kind", ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"])
def test_the_policies_themselves_are_guarded_by_rbac_alone(accounts: Accounts, kind: str) -> None:
    """The API server asks no policy about policies, so that a bad one can be mended.

    The account has no right to them (tests/manifests/test_rights.py).
    """
    path = accounts.ours.kind("admissionregistration.k8s.io/v1", kind).path(name="grove-migrator-labels")
    assert accounts.ours.request("DELETE", path, query={"dryRun": "All"}).status == 200
