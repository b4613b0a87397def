"""Pod templates to hash, all different: what the templates of one cluster have in common is what hashing can save."""

from __future__ import annotations

import random
from typing import Any, Final

Object = dict[str, Any]
Chance = random.Random

_CONTAINERS: Final = ("engine", "router", "agent", "cache", "proxy")
_VARIABLES: Final = (40, 15, 7)
_OPTIONAL: Final[Object] = {
    "hostNetwork": True,
    "dnsPolicy": "ClusterFirstWithHostNet",
    "shareProcessNamespace": False,
    "schedulerName": "kai-scheduler",
    "nodeSelector": {"pool": "gpu", "zone": "a"},
    "runtimeClassName": "nvidia",
    "securityContext": {"fsGroup": 1000, "supplementalGroups": [1, 2, 3], "runAsUser": 1000},
    "initContainers": [{"name": "init", "image": "registry.example/init:1", "command": ["/init"]}],
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
}
_SOURCES: Final[tuple[Object, ...]] = (
    {"emptyDir": {"medium": "Memory", "sizeLimit": "80Gi"}},
    {"configMap": {"name": "serving-config"}},
    {"secret": {"secretName": "serving-tls"}},
    {"persistentVolumeClaim": {"claimName": "models"}},
    {"emptyDir": {}},
    {"hostPath": {"path": "/dev/infiniband"}},
    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "token", "audience": "api"}}]}},
)
_GPUS: Final = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["H100", "H200", "B200"]}

#: What Go would refuse with another value, and the units of quantities.
_KEPT: Final = frozenset({"fieldPath", "operator", "effect", "path"})
_UNITS: Final = {"cpu": "", "memory": "Gi", "sizeLimit": "Gi", "nvidia.com/gpu": ""}


def template(number: int) -> Object:
    """Like one of Dynamo's: two to four containers, 60 variables, probes, volumes and affinity, 35 KB of dump.

    Containers, the fields that are set, the lengths of lists and three of four values are chosen by ``number``.
    """
    chance = Chance(f"template {number}")
    names = chance.sample(_CONTAINERS, chance.randint(2, 4))
    volumes = [{"name": f"volume-{place}", **source} for place, source in enumerate(_SOURCES)]
    term = {"nodeSelectorTerms": [{"matchExpressions": [_GPUS]}]}
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 60,
        "serviceAccountName": "serving",
        "containers": [_container(name, _VARIABLES[place % 3], chance) for place, name in enumerate(names)],
        "volumes": chance.sample(volumes, chance.randint(4, 8)),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
        **{name: value for name, value in _OPTIONAL.items() if chance.random() < 0.5},  # noqa: PLR2004 - even odds
    }
    labels = {"app.example/role": "decode", "app.example/graph": f"graph-{number % 50}"}
    return {"labels": labels, "priorityClassName": "high", "podSpec": _varied(spec, chance)}


def _container(name: str, variables: int, chance: Chance) -> Object:
    """A container without some of its fields, variables and mounts."""
    probe = {"httpGet": {"path": "/health", "port": 9090}, "periodSeconds": 10, "failureThreshold": 60}
    resources = {"cpu": "32", "memory": "200Gi", "nvidia.com/gpu": "4"}
    fields: Object = {
        "command": ["/bin/sh", "-c"],
        "args": ["exec python3 -m serving --config /etc/serving/config.yaml && true"],
        "ports": [{"name": "http", "containerPort": 8000}, {"containerPort": 9090}],
        "resources": {"limits": resources, "requests": resources},
        "livenessProbe": probe,
        "readinessProbe": {**probe, "failureThreshold": 3},
        "startupProbe": {**probe, "failureThreshold": 600},
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": f"volume-{n}", "mountPath": f"/mnt/{n}"} for n in range(chance.randint(4, 8))],
    }
    kept = {field: value for field, value in fields.items() if chance.random() < 0.8}  # noqa: PLR2004 - most
    env = [_variable(place) for place in range(variables) for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
    return {"name": name, "image": "registry.example/serving/part:1.2.3", "env": env, **kept}


def _variable(place: int) -> Object:
    own: Object = {"value": f"fixed-{place}-of-x"}
    return {"name": f"SETTING_{place}"} | (
        own if place % 9 else {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    )


def _varied(value: Any, chance: Chance, key: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """A copy in which three of four scalars have another value of their own kind."""
    if isinstance(value, dict):
        return {name: _varied(item, chance, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_varied(item, chance, key) for item in value]
    if isinstance(value, bool) or key in _KEPT or chance.random() < 0.25:  # noqa: PLR2004 - one of four stays
        return value
    if isinstance(value, int):
        return chance.randrange(1, 60_000)
    if key in _UNITS:
        return f"{chance.randrange(1, 500)}{_UNITS[key]}"
    return f"{value[: len(value) // 2]}{chance.randrange(36**4):x}{value[len(value) // 2 + 4 :]}"
