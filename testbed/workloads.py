"""PodCliqueSets of our own making, in the shapes in which inference is served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]


def container(name: str, *, gpus: int = 0, port: int = 8000) -> Object:
    """A server container with what real ones have: environment, resources, ports in no particular order, a probe."""
    limits = {"memory": "8Gi", "cpu": "1500m"}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    return {
        "name": name,
        "image": f"registry.example/{name}:1.4.2",
        "args": ["--listen", f":{port}"],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [
            {"name": "http", "containerPort": port, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 700, "protocol": "TCP"},
        ],
        "resources": {"limits": limits, "requests": {"memory": "1.5Gi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": port}, "periodSeconds": 5},
        "volumeMounts": [{"name": "shm", "mountPath": "/shm"}, {"name": "cache", "mountPath": "/cache"}],
    }


def clique(name: str, *, replicas: int = 2, gpus: int = 0, containers: Sequence[str] = ("server", "agent")) -> Object:
    """A clique whose containers, ports, mounts and volumes are not in canonical order."""
    return {
        "name": name,
        "labels": {"role": name},
        "annotations": {"example.test/team": "serving"},
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "minAvailable": 1,
            "podSpec": {
                "restartPolicy": "Always",
                "terminationGracePeriodSeconds": 30,
                "containers": [
                    container(part, gpus=gpus if number == 0 else 0, port=8000 + number)
                    for number, part in enumerate(containers)
                ],
                "volumes": [
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
                    {"name": "cache", "emptyDir": {}},
                ],
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            },
        },
    }


def pod_clique_set(
    name: str,
    cliques: Sequence[Object],
    *,
    namespace: str = "default",
    replicas: int = 1,
    groups: Sequence[Object] = (),
    startup: str | None = None,
    on_delete: bool = False,
) -> Object:
    """A PodCliqueSet as a user writes it, admission defaults filled in."""
    template: Object = {"cliques": list(cliques), "terminationDelay": "4h0m0s"}
    if groups:
        template["podCliqueScalingGroups"] = list(groups)
    if startup:
        template["cliqueStartupType"] = startup
    spec: Object = {"replicas": replicas, "template": template}
    if on_delete:
        spec["updateStrategy"] = {"type": "OnDelete"}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def standalone(name: str = "web", **options: Any) -> Object:
    """Two standalone cliques, not in the order of their names."""
    return pod_clique_set(name, [clique("router", replicas=1), clique("frontend")], **options)


def disaggregated(name: str = "disagg", *, scale: int = 2, **options: Any) -> Object:
    """A frontend, and prefill and decode workers that scale together."""
    group = {"name": "workers", "cliqueNames": ["prefill", "decode"], "replicas": scale, "minAvailable": 1}
    return pod_clique_set(
        name,
        [clique("frontend", replicas=1), clique("prefill", gpus=4), clique("decode", gpus=8)],
        groups=[group],
        **options,
    )
