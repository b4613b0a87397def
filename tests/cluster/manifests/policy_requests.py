"""Requests that the Job's account makes, and others that it could try if RBAC let it: the table of test_policies.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from testbed.controlplane.client import Object
from testbed.gangs import ANCHOR_EPOCH
from tests.cluster.site import WORKLOADS, made

#: What a hash looks like: SafeEncodeString (k8s.io/apimachinery/pkg/util/rand) of a number, so no vowel and no 0 to 3.
HASH: Final = "4b5c6d7f89"

OTHER: Final = "somebody-else"
_TEMPLATE_LABEL: Final = "/metadata/labels/grove.io~1pod-template-hash"
_GENERATION_LABEL: Final = "/metadata/labels/grove.io~1podcliqueset-generation-hash"


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
    Request("nothing", "Pod", []),
    Request("template hash", "PodClique", replace(_TEMPLATE_LABEL, HASH)),
    Request("generation hash", "PodGang", replace(_GENERATION_LABEL, HASH)),
    Request("generation hash", "PodGangMap", replace("/spec/entries/0/podCliqueSetGenerationHash", HASH)),
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
    created(made("v1", "ConfigMap", "grove-migrator-run", data={"x": "y"})),
    Request("its own", "ConfigMap/grove-migrator-run", {"data": {"x": "z"}}),
    Request("its own", "ConfigMap/grove-migrator-run", method="DELETE"),
    created(made(LEASE, "Lease", "grove-migrator", WORKLOADS, spec={})),
    Request("its own", "Lease/grove-migrator", {"spec": {"leaseTransitions": 1}}),
    Request("the operator's", "Lease/grove-operator-leader-election", {"spec": {"holderIdentity": "us"}}),
)

_OPERATOR: Final = "Deployment/grove-operator"

DENIED: Final = (
    *(Request("an annotation", kind, {"metadata": {"annotations": {"x": "y"}}}) for kind in ("Pod", "PodClique")),
    *(Request("a label", kind, {"metadata": {"labels": {"x": "y"}}}) for kind in ("Pod", "PodGangMap", "PodGang")),
    *(Request("a finalizer", kind, {"metadata": {"finalizers": ["example.test/x"]}}) for kind in ("Pod", "PodClique")),
    *(Request("its owner", kind, remove("/metadata/ownerReferences")) for kind in ("Pod", "PodClique")),
    # Pods: everything but the value of one label.
    Request("another label", "Pod", {"metadata": {"labels": {"grove.io/podclique": "x"}}}),
    Request("an empty value", "Pod", replace(_TEMPLATE_LABEL, "")),
    Request("no hash", "Pod", remove(_TEMPLATE_LABEL)),
    Request("a value that is not a hash", "Pod", replace(_TEMPLATE_LABEL, "hash-1")),
    Request("an image", "Pod", replace("/spec/containers/0/image", "example.test/x:1")),
    # PodCliques.
    Request("replicas", "PodClique", {"spec": {"replicas": 7}}),
    Request("a value that is not a hash", "PodClique", replace(_TEMPLATE_LABEL, "0123")),
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
    # The operator's namespace.
    Request("another size", "Deployment/grove-operator", replace("/spec/replicas", 3), "scale"),
    *(created(made("v1", "ConfigMap", name)) for name in ("x", "grove-migrator-tables-0")),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", {"data": {"config.yaml": ""}}),
    Request("the operator's", "ConfigMap/grove-operator-cm-0123abcd", method="DELETE"),
    created(made(LEASE, "Lease", "x", spec={})),
    Request("of somebody else", "Lease/somebody-elses", {"spec": {"holderIdentity": "us"}}),
)
