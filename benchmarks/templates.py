"""A Dynamo-like pod template to measure with, in as many variants as one likes."""

from __future__ import annotations

import random
from typing import Any, Final

Object = dict[str, Any]

#: What differs between the templates, besides labels, a unique annotation and image tags.
CHANGING_VALUES: Final = 12
ENVIRONMENT: Final = 62

_WORDS: Final = ("cache", "cluster", "engine", "graph", "lease", "model", "node", "prefill", "rank", "router", "token")


def dynamo(seed: int = 0) -> Object:
    """Three containers, 62 environment variables, 8 volumes, probes and affinity: about 35 KB of dump.

    Templates of different seeds differ in labels, an annotation, image tags and 12 environment values.
    """
    chance = random.Random(seed)  # noqa: S311 - nothing secret
    tag = f"1.{chance.randrange(40)}.{chance.randrange(20)}"
    names = [f"{_WORDS[n % len(_WORDS)].upper()}_SETTING_{n}" for n in range(ENVIRONMENT)]
    changing = set(range(0, ENVIRONMENT, ENVIRONMENT // CHANGING_VALUES)[:CHANGING_VALUES])
    environment = [
        {
            "name": name,
            "value": f"{'v' if n in changing else 'fixed'}-{chance.randrange(10**9) if n in changing else n}-of-x",
        }
        if n % 9
        else {"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        for n, name in enumerate(names)
    ]
    shares = (environment[:40], environment[40:55], environment[55:])
    return {
        "labels": {"app.example/role": "decode", "app.example/graph": f"graph-{chance.randrange(50)}"},
        "annotations": {"example.test/revision": f"{seed}-{chance.randrange(10**12)}"},
        "priorityClassName": "high",
        "podSpec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 60,
            "serviceAccountName": "serving",
            "containers": [_container(n, tag, share) for n, share in enumerate(shares)],
            "volumes": _volumes(),
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": _affinity(),
            "imagePullSecrets": [{"name": "registry"}],
        },
    }


def _container(number: int, tag: str, environment: list[Object]) -> Object:
    probe = {"httpGet": {"path": "/health", "port": 9090}, "periodSeconds": 10, "failureThreshold": 60}
    return {
        "name": ("engine", "router", "agent")[number],
        "image": f"registry.example/serving/part-{number}:{tag}",
        "command": ["/bin/sh", "-c"],
        "args": ["exec python3 -m serving --config /etc/serving/config.yaml && true"],
        "env": environment,
        "ports": [
            {"name": "http", "containerPort": 8000, "protocol": "TCP"},
            {"containerPort": 9090, "protocol": "TCP"},
        ],
        "resources": {
            "limits": {"cpu": "32", "memory": "200Gi", "nvidia.com/gpu": "4"},
            "requests": {"cpu": "16", "memory": "200Gi", "nvidia.com/gpu": "4"},
        },
        "livenessProbe": probe,
        "readinessProbe": {**probe, "failureThreshold": 3},
        "startupProbe": {**probe, "failureThreshold": 600},
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(8)],
    }


def _volumes() -> list[Object]:
    return [
        {"name": "volume-0", "emptyDir": {"medium": "Memory", "sizeLimit": "80Gi"}},
        {"name": "volume-1", "configMap": {"name": "serving-config"}},
        {"name": "volume-2", "secret": {"secretName": "serving-tls"}},
        {"name": "volume-3", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "volume-4", "emptyDir": {}},
        {"name": "volume-5", "hostPath": {"path": "/dev/infiniband"}},
        {
            "name": "volume-6",
            "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]},
        },
        {"name": "volume-7", "projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "api"}}]}},
    ]


def _affinity() -> Object:
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H100", "H200", "B200"]}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {"matchLabels": {"app.example/role": "decode"}},
                    },
                }
            ]
        },
    }
