"""The operator as Grove's chart installs it: Deployment, pod, and webhook."""

from __future__ import annotations

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


def deployment(of: str, *, replicas: int = 1, namespace: str = NAMESPACE, observed: bool = False) -> Object:
    """The Deployment for an image; ``observed``, as where its controller has seen it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {**_named(NAME, namespace), "labels": dict(LABELS), "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(LABELS)},
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod_spec(of)},
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
        "spec": _pod_spec(of),
        "status": {"phase": "Running"},
    }


def webhook() -> Object:
    """The configuration of the operator's webhook, which names its Service; without rules it is never called."""
    hook = {
        "name": "pcs.validating.webhooks.grove.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": _named(NAME, NAMESPACE)},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "podcliqueset-validating-webhook"},
        "webhooks": [hook],
    }


def _named(name: str, namespace: str) -> Object:
    return {"name": name, "namespace": namespace}


def _pod_spec(of: str) -> Object:
    return {"containers": [{"name": "grove-operator", "image": of}]}
