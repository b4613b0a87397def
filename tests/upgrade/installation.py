"""What Grove's chart installs, in our own words: the names, labels and mounts are facts that the tool relies on.

Three things differ from a cluster's, so that everything stays on the loopback interface: the Service that the API
server calls webhooks at is an alias of ``localhost``, the operator binds to 127.0.0.1, and its ports are free ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from testbed.controlplane.client import Object
from testbed.operator_installation import LABELS as SELECTOR
from testbed.operator_installation import LEASE, NAMESPACE
from testbed.operator_installation import NAME as DEPLOYMENT
from tests.upgrade.builds import Build

_ACCOUNT: Final = "grove-operator"
_CERTIFICATE: Final = "grove-webhook-server-cert"
_TOKENS: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_EVERYTHING: Final = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
_RIGHTS: Final = (
    ("grove.io", ["*"]),
    ("scheduler.grove.io", ["*"]),
    ("", ["pods", "pods/status", "services", "secrets", "serviceaccounts", "events", "nodes"]),
    ("events.k8s.io", ["events"]),
    ("rbac.authorization.k8s.io", ["roles", "rolebindings"]),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("resource.k8s.io", ["resourceclaims", "resourceclaimtemplates"]),
    ("admissionregistration.k8s.io", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]),
    ("apiextensions.k8s.io", ["customresourcedefinitions"]),
)

#: alpha.8 removes its ClusterTopology at the start, and ends if the kind is not known.
TOPOLOGY: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clustertopologies.grove.io"},
    "spec": {
        "group": "grove.io",
        "names": {"kind": "ClusterTopology", "plural": "clustertopologies"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a site chooses: the ports, whether replicas elect a leader, and whether the authorizer is on."""

    webhooks: int
    health: int
    metrics: int
    leader_election: bool
    lease_rights: bool
    authorizer: bool = False


def objects(build: Build, settings: Settings, *, replicas: int = 1) -> list[Object]:
    """Everything but CRDs and the namespace, in an order in which it can be applied."""
    text = json.dumps(_configuration(settings), indent=1)  # JSON is YAML
    name = f"grove-operator-cm-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return [
        _object("v1", "ServiceAccount", _ACCOUNT, automountServiceAccountToken=False),
        *_rights(settings),
        {**_object("v1", "ConfigMap", name), "immutable": True, "data": {"config.yaml": text}},
        _service(settings),
        _deployment(build, name, replicas),
    ]


def certificate() -> Object:
    """The Secret of the webhooks' certificate, empty until the operator has made one; applied once, never again."""
    return {
        **_object("v1", "Secret", _CERTIFICATE),
        "type": "kubernetes.io/tls",
        "data": {"tls.crt": "", "tls.key": ""},
    }


def webhooks(settings: Settings) -> list[Object]:
    """The webhook configurations; the operator puts its CA into them, so they are created once, never applied again."""
    sets = _rule("grove.io", ["podcliquesets"], ["CREATE", "UPDATE"])
    paths = {"Mutating": ("defaulting", "default"), "Validating": ("validating", "validate")}
    found = [
        _webhook(
            f"{kind}WebhookConfiguration",
            f"podcliqueset-{role}-webhook",
            f"pcs.{role}",
            _service_path(settings, f"{verb}-podcliqueset"),
            [sets],
        )
        for kind, (role, verb) in paths.items()
    ]
    if settings.authorizer:
        rules = [
            _rule("", ["secrets", "serviceaccounts", "services"], ["UPDATE", "DELETE"], "v1"),
            _rule("", ["pods"], ["UPDATE"], "v1"),
            _rule("grove.io", ["podcliques", "podcliquescalinggroups"], ["CREATE", "UPDATE", "DELETE"]),
            _rule("scheduler.grove.io", ["podgangs"], ["CREATE", "UPDATE", "DELETE"]),
        ]
        at = _service_path(settings, "authorizer-webhook")
        guard = _webhook("ValidatingWebhookConfiguration", "authorizer-webhook", "authorizer", at, rules)
        guard["webhooks"][0]["objectSelector"] = {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}}
        found.append(guard)
    return found


def _object(api_version: str, kind: str, name: str, **rest: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **rest}


def _configuration(settings: Settings) -> Object:
    here = {"bindAddress": "127.0.0.1"}
    return {
        "apiVersion": "operator.config.grove.io/v1alpha1",
        "kind": "OperatorConfiguration",
        "runtimeClientConnection": {"qps": 100, "burst": 150},
        "leaderElection": {
            "enabled": settings.leader_election,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": LEASE,
            "resourceNamespace": NAMESPACE,
        },
        "server": {
            "webhooks": {**here, "port": settings.webhooks},
            "healthProbes": {**here, "port": settings.health},
            "metrics": {**here, "port": settings.metrics},
        },
        "controllers": {"podCliqueSet": {"concurrentSyncs": 3}, "podClique": {"concurrentSyncs": 3}},
        "logLevel": "info",
        "logFormat": "json",
        **(
            {
                "authorizer": {
                    "enabled": True,
                    "reconcilerServiceAccountUserName": f"system:serviceaccount:{NAMESPACE}:{_ACCOUNT}",
                    # The kubelet and the garbage collector are part of the cluster.
                    "exemptServiceAccountUserNames": [
                        "admin",
                        "system:serviceaccount:kube-system:generic-garbage-collector",
                    ],
                }
            }
            if settings.authorizer
            else {}
        ),
    }


def _rights(settings: Settings) -> list[Object]:
    name, group = "grove:system:grove-operator", "rbac.authorization.k8s.io"
    rules = [{"apiGroups": [api], "resources": resources, "verbs": _EVERYTHING} for api, resources in _RIGHTS]
    subjects = [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": NAMESPACE}]
    cluster = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    found = [
        {**cluster, "kind": "ClusterRole", "rules": rules},
        {
            **cluster,
            "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": subjects,
        },
    ]
    if settings.lease_rights:
        name = f"{name}-lease"
        leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _EVERYTHING}
        found += [
            _object(f"{group}/v1", "Role", name, rules=[leases]),
            _object(
                f"{group}/v1",
                "RoleBinding",
                name,
                roleRef={"apiGroup": group, "kind": "Role", "name": name},
                subjects=subjects,
            ),
        ]
    return found


def _service(settings: Settings) -> Object:
    ports = [{"name": "webhooks", "port": settings.webhooks, "protocol": "TCP"}]
    return _object(
        "v1", "Service", DEPLOYMENT, spec={"type": "ExternalName", "externalName": "localhost", "ports": ports}
    )


def _deployment(build: Build, configuration: str, replicas: int) -> Object:
    labels = {**SELECTOR, "chart": f"grove-charts-{build.name}", "release": "grove"}
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 43200}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    mounts: Mapping[str, tuple[str, Object]] = {
        "operator-config": ("/etc/grove-operator/config", {"configMap": {"name": configuration}}),
        "kube-api-access-grove": (_TOKENS, {"projected": {"sources": sources}}),
        _CERTIFICATE: ("/etc/grove-operator/webhook-certs", {"secret": {"secretName": _CERTIFICATE}}),
    }
    account = {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}
    container = {
        "name": "grove-operator",
        "image": build.image,
        "args": ["--config=/etc/grove-operator/config/config.yaml"],
        "env": [
            {"name": "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "valueFrom": account},
            {"name": "GROVE_INIT_CONTAINER_IMAGE", "value": "grove-initc"},
        ],
        "volumeMounts": [{"name": name, "mountPath": path} for name, (path, _) in mounts.items()],
    }
    pod = {
        "serviceAccountName": _ACCOUNT,
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": name, **source} for name, (_, source) in mounts.items()],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": SELECTOR}, "template": template}
    found = _object("apps/v1", "Deployment", DEPLOYMENT, spec=spec)
    found["metadata"]["labels"] = labels
    return found


def _rule(group: str, resources: list[str], operations: list[str], version: str = "v1alpha1") -> Object:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": operations,
        "resources": resources,
        "scope": "*",
    }


def _service_path(settings: Settings, path: str) -> Object:
    return {
        "name": DEPLOYMENT,
        "namespace": NAMESPACE,
        "path": f"/webhooks/{path}",
        "port": settings.webhooks,
    }


def _webhook(kind: str, name: str, prefix: str, service: Object, rules: list[Object]) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{prefix}.webhooks.grove.io",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"service": service},
                "failurePolicy": "Fail",
                "matchPolicy": "Exact",
                "sideEffects": "None",
                "timeoutSeconds": 10,
                "rules": rules,
            }
        ],
    }
