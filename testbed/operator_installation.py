"""The operator as Grove's chart installs it: Deployment, pod, and the webhook with its Service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Object = dict[str, Any]

NAMESPACE: Final = "grove-system"
NAME: Final = "grove-operator"
LEASE: Final = "grove-operator-leader-election"
LABELS: Final = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}


def image(release: str) -> str:
    """The image of a release."""
    return f"example.test/grove-operator:{release}"


def pod_spec(of: str) -> Object:
    """The pod spec for an image."""
    return {"containers": [{"name": "grove-operator", "image": of}]}


def deployment(of: str, *, replicas: int = 1, namespace: str = NAMESPACE, observed: bool = False) -> Object:
    """The Deployment for an image; ``observed``, as where its controller has seen it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_named(NAME, namespace), "labels": dict(LABELS), "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(LABELS)},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": pod_spec(of)},
        },
        **({"status": {"observedGeneration": 1}} if observed else {}),
    }


def pod(of: str, *, name: str = "grove-operator-x", namespace: str = NAMESPACE) -> Object:
    """A pod of the Deployment, running."""
    metadata = {**_named(name, namespace), "labels": dict(LABELS)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": pod_spec(of),
        "status": {"phase": "Running"},
    }


def webhook(*, namespace: str = NAMESPACE, selector: Mapping[str, str] = LABELS) -> tuple[Object, Object]:
    """The Service of the operator's webhook, and the webhook; without rules it is never called."""
    spec = {"selector": dict(selector), "ports": [{"port": 443}]}
    hook = {
        "name": "pcs.validating.webhooks.grove.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": _named(NAME, namespace)},
    }
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": _named(NAME, namespace), "spec": spec},
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "podcliqueset-validating-webhook"},
            "webhooks": [hook],
        },
    )


def _named(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace}
