"""Jobs of ours in a cluster: as a user of manifests/ edits them, and how their pods ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from testbed.controlplane.client import Client, Object, eventually
from tests.cluster.site import ACCOUNT, NAMESPACE, SECONDS, arguments, documents, of_kind
from tests.e2e import images

#: What the Job of the manifests is called.
JOB = ACCOUNT


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pod of a Job ended: its container's exit code, and its log."""

    code: int
    log: str

    @property
    def events(self) -> list[str]:
        """What is JSON in the log is the tool's own, the rest is its output."""
        return [line for line in self.log.splitlines() if line.startswith("{")]

    @property
    def summary(self) -> Any:
        """The last event: what was done, or why not."""
        return json.loads(self.events[-1])


def manifest(flags: Mapping[str, str]) -> list[Object]:
    """The objects of manifests/job.yaml, or of revert.yaml with ``--from``, as a user edits them.

    The image is ours. A flag that is there already gets this value, and another one is added.
    """
    objects = documents("revert.yaml" if "--from" in flags else "job.yaml")
    [job] = of_kind(objects, "Job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["image"] = images.OURS
    there = {word.partition("=")[0]: word for word in arguments(job)}
    container["args"] = list((there | {flag: f"{flag}={value}" for flag, value in flags.items()}).values())
    return objects


def pods_of(client: Client, name: str = "") -> list[Object]:
    """The pods of a Job, the oldest first; of all Jobs without a name."""
    selector = f"batch.kubernetes.io/job-name={name}" if name else "batch.kubernetes.io/job-name"
    found = client.list("v1", "Pod", NAMESPACE, selector=selector)
    return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))


def ends_of(client: Client, name: str = JOB) -> list[Ended]:
    """The Job's pods that have ended, the oldest first."""
    return [_ended(client, pod) for pod in pods_of(client, name) if pod["status"]["phase"] in {"Failed", "Succeeded"}]


def result_of(client: Client, name: str = JOB, *, seconds: float = SECONDS) -> str:
    """Wait for the Job's end: Complete or Failed."""

    def ends() -> list[str]:
        conditions = client.get("batch/v1", "Job", name, NAMESPACE)["status"].get("conditions") or ()
        return [one["type"] for one in conditions if one["status"] == "True" and one["type"] in {"Complete", "Failed"}]

    eventually(ends, what=f"{name} does not end", seconds=seconds, every=0.3)
    return ends()[0]


def log_of(client: Client, pod: Object) -> str:
    """What a pod of a Job has printed; empty if it cannot be had."""
    path = client.kind("v1", "Pod").path(NAMESPACE, pod["metadata"]["name"], "log")
    answer = client.request("GET", path, accept="*/*")
    return str(answer.body) if answer.status == 200 else ""


def _ended(client: Client, pod: Object) -> Ended:
    [container] = pod["status"].get("containerStatuses") or [{}]
    state = container.get("state", {}).get("terminated") or {}
    return Ended(state.get("exitCode", -1), log_of(client, pod))
