"""Requests that the Job's account makes, and others that it could try if RBAC let it: the table of test_policies.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from testbed.controlplane.client import Object
from testbed.gangs import ANCHOR_EPOCH
from tests.cluster.manifests.site import USER, WORKLOADS, made

#: What a hash looks like: SafeEncodeString (k8s.io/apimachinery/pkg/util/rand) of a number, so no vowel and no 0 to 3.
HASH: Final = "4b5c6d7f89"

OTHER: Final = "somebody-else"
_TEMPLATE_LABEL: Final = "/metadata/labels/grove.io~1pod-template-hash"
_GENERATION_LABEL: Final = "/metadata/labels/grove.io~1podcliqueset-generation-hash"
_EXEMPTION: Final = {"name": "exclude-grove-migrator", "expression": f'request.userInfo.username != "{USER}"'}


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
BINDING: Final = made(
    "rbac.authorization.k8s.io/v1",
    "ClusterRoleBinding",
    "x",
    None,
    roleRef=_ROLE_REF,
    subjects=[{"kind": "ServiceAccount", "name": "x", "namespace": WORKLOADS}],
)
LEASE: Final = "coordination.k8s.io/v1"

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
            "PodCliqueScalingGroup": ("currentPodCliqueSetGenerationHash", "updateProgress/podCliqueSetGenerationHash"),
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
    created(made(LEASE, "Lease", "grove-migrator", WORKLOADS, spec={})),
    Request("its own", "Lease/grove-migrator", {"spec": {"leaseTransitions": 1}}),
    Request("the operator's", "Lease/grove-operator-leader-election", {"spec": {"holderIdentity": "us"}}),
    created(EVENT),
)

_GROVE: Final = ("PodClique", "PodCliqueScalingGroup", "PodCliqueSet")
_OPERATOR: Final = "Deployment/grove-operator"
_WEBHOOKS: Final = "ValidatingWebhookConfiguration"

DENIED: Final = (
    # What is denied of several kinds.
    *(
        Request("delete", kind, method="DELETE")
        for kind in ("Pod", *_GROVE, "PodGang", "PodGangMap", _OPERATOR, _WEBHOOKS)
    ),
    *(Request("replicas", kind, {"spec": {"replicas": 7}}) for kind in _GROVE),
    *(Request("scale", kind, {"spec": {"replicas": 7}}, "scale") for kind in _GROVE),
    *(
        Request("an annotation", kind, {"metadata": {"annotations": {"x": "y"}}})
        for kind in ("Pod", "PodClique", "PodCliqueSet", _OPERATOR)
    ),
    *(
        Request("a label", kind, {"metadata": {"labels": {"x": "y"}}})
        for kind in ("PodCliqueScalingGroup", "PodGangMap", _WEBHOOKS)
    ),
    *(Request("a finalizer", kind, {"metadata": {"finalizers": ["example.test/x"]}}) for kind in ("Pod", "PodClique")),
    *(Request("its owner", kind, remove("/metadata/ownerReferences")) for kind in ("Pod", "PodClique")),
    # Pods: everything but the value of one label.
    Request("a new label", "Pod", {"metadata": {"labels": {"x": "y"}}}),
    Request("another label", "Pod", {"metadata": {"labels": {"grove.io/podclique": "x"}}}),
    Request("the managing operator", "Pod", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "x"}}}),
    Request("no hash", "Pod", remove(_TEMPLATE_LABEL)),
    Request("a value that is not a hash", "Pod", replace(_TEMPLATE_LABEL, "hash-1")),
    Request("an empty value", "Pod", replace(_TEMPLATE_LABEL, "")),
    Request("an image", "Pod", replace("/spec/containers/0/image", "example.test/x:1")),
    Request("a deadline", "Pod", {"spec": {"activeDeadlineSeconds": 1}}),
    Request("its phase", "Pod", {"status": {"phase": "Failed"}}, "status"),
    Request("another label through its status", "Pod", {"metadata": {"labels": {"x": "y"}}}, "status"),
    Request("evict", "Pod", {"apiVersion": "policy/v1", "kind": "Eviction"}, "eviction", "POST"),
    Request("bind", "Pod", {"target": {"kind": "Node", "name": "x"}}, "binding", "POST"),
    created(made("v1", "Pod", "x", WORKLOADS, spec={"containers": [_CONTAINER]})),
    # PodCliques.
    Request("another label", "PodClique", {"metadata": {"labels": {"grove.io/podgang": "x"}}}),
    Request("no hash", "PodClique", remove(_TEMPLATE_LABEL)),
    Request("a value that is not a hash", "PodClique", replace(_TEMPLATE_LABEL, "0123")),
    Request("an image", "PodClique", replace("/spec/podSpec/containers/0/image", "example.test/x:1")),
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
    Request("a counter", "PodCliqueScalingGroup", replace("/status/replicas", 7), "status"),
    Request("the template", "PodCliqueSet", replace("/spec/template/cliques/0/spec/replicas", 7)),
    Request("the observed generation", "PodCliqueSet", replace("/status/observedGeneration", 7), "status"),
    Request("a counter", "PodCliqueSet", replace("/status/updatedReplicas", 7), "status"),
    Request(
        "an update's start",
        "PodCliqueSet",
        replace("/status/updateProgress/updateStartedAt", "2026-03-01T00:00:00Z"),
        "status",
    ),
    # PodGangs and PodGangMaps.
    Request("another label", "PodGang", {"metadata": {"labels": {"grove.io/epoch": "1"}}}),
    Request("its pods", "PodGang", replace("/spec/podgroups", [])),
    Request("its status", "PodGang", {"status": {"phase": "Pending"}}, "status"),
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
            {"epoch": "9", "role": "ScaleOut", "podCliqueSetGenerationHash": HASH, "dependsOn": [ANCHOR_EPOCH]},
        ),
    ),
    Request("a value that is not a hash", "PodGangMap", replace("/spec/entries/0/podCliqueSetGenerationHash", "x-y")),
    Request("its replica", "PodGangMap", replace("/spec/podCliqueSetReplicaIndex", 7)),
    # The operator: zero and back through /scale, nothing else.
    Request("another size", _OPERATOR, replace("/spec/replicas", 3), "scale"),
    Request("to zero by itself", _OPERATOR, replace("/spec/replicas", 0)),
    Request("its image", _OPERATOR, replace("/spec/template/spec/containers/0/image", "example.test/x:1")),
    # What else is in the operator's namespace.
    Request("delete", "Lease/grove-operator-leader-election", method="DELETE"),
    created(made("v1", "ConfigMap", "x")),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", {"data": {"config.yaml": ""}}),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", method="DELETE"),
    created(made(LEASE, "Lease", "x", spec={})),
    Request("of somebody else", "Lease/somebody-elses", {"spec": {"holderIdentity": "us"}}),
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
    Request("delete", "Namespace/serving", method="DELETE"),
    created(BINDING),
    created(made("v1", "Namespace", "x", None)),
    Request("its schema", "CustomResourceDefinition/podcliques.grove.io", {"metadata": {"annotations": {"x": "y"}}}),
    # Webhooks.
    Request("ignore failures", _WEBHOOKS, replace("/webhooks/0/failurePolicy", "Ignore")),
    Request("exempt itself", _WEBHOOKS, add("/webhooks/0/matchConditions", [_EXEMPTION])),
    created(made("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "x", None, webhooks=[])),
)
