"""Clusters in memory with the operator installed as its chart does it, beside a sidecar, and what is found there."""

from __future__ import annotations

from typing import Any

from migrator.exact_json import JSONObject
from migrator.planning.model import Severity
from migrator.run import operator
from testbed import operator_installation as installation
from testbed.operator_installation import LABELS
from tests.support.memory_store import MemoryCluster

IMAGE = installation.image("v0.1.0-alpha.9")
CONFIG = installation.configuration()


def in_company(body: JSONObject) -> JSONObject:
    """An object of the chart with a sidecar in front, and with volumes that are not the configuration."""
    spec = body["spec"]["template"]["spec"] if body["kind"] == "Deployment" else body["spec"]
    spec["containers"].insert(0, {"name": "sidecar", "image": "proxy:v9.9.9"})
    spec["volumes"][:0] = [
        {"name": "certificates", "secret": {"secretName": "grove-webhook-server-cert"}},
        {"name": "extra", "configMap": {"name": "somebody-elses"}},
    ]
    return body


def deployment(
    *, image: str = IMAGE, name: str = "grove-operator", labels: dict[str, str] = LABELS, **options: Any
) -> JSONObject:
    """The chart's Deployment, with one label more."""
    body = in_company(installation.deployment(image, **options))
    body["metadata"] |= {"name": name, "labels": {**labels, "release": "grove"}}
    body["spec"]["selector"]["matchLabels"] = body["spec"]["template"]["metadata"]["labels"] = labels
    return body


def pod(
    name: str, *, image: str = IMAGE, labels: dict[str, str] = LABELS, terminating: bool = False, **options: Any
) -> JSONObject:
    """A pod of the operator."""
    phase = options.pop("phase", "Running")
    body = in_company(installation.pod(image, name=name, **options)) | {"status": {"phase": phase}}
    body["metadata"]["labels"] = {**labels, "pod-template-hash": name}
    if terminating:
        body["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    return body


def installed(*more: JSONObject, config: str = CONFIG, **options: Any) -> MemoryCluster:
    """A cluster with one installation, one pod, and more objects."""
    one = pod("grove-operator-1", image=options.get("image", IMAGE))
    return MemoryCluster(deployment(**options), installation.config_map(config), one, *more)


def look(cluster: MemoryCluster, *, namespace: str | None = None, name: str | None = None) -> operator.Found:
    """Find, with all of the options optional."""
    return operator.find(cluster, operator.OperatorFlags(namespace, name))


def found_in(cluster: MemoryCluster, **flags: str | None) -> operator.Operator:
    """Find the operator, which must be there."""
    found = look(cluster, **flags).operator
    assert found is not None
    return found


def refusals(cluster: MemoryCluster, **options: str | None) -> str:
    """What the findings refuse, as one text."""
    findings = look(cluster, **options).findings
    return "; ".join(f"{f.code}: {f}" for f in findings if f.severity is Severity.REFUSAL)
