"""A cluster with the stand-in operator, sets as it leaves them, and what the scenarios do to the Job in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.hashing import podcliqueset, schemes
from testbed import operator_installation as installation
from testbed import workloads
from testbed.controlplane.client import Client, Object, eventually, job_end
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.trees import plant
from testbed.gangs import MAPPED
from testbed.trees import State
from tests.cluster.helm.wrapper import OPERATOR
from tests.e2e import images
from tests.e2e.kind import Kind
from tests.support.paths import ROOT
from tests.support.translation import GROVE, KINDS, migrated, stored

NAMESPACE: Final = installation.NAMESPACE
OLD, NEW = "v0.1.0-alpha.9", "v0.1.0-alpha.11"
SECONDS: Final = 180
WORKLOADS: Final = "serving"
JOB: Final = "grove-migrator"
#: A run that can be caught among its writes, where `Scene.slow` makes each take a second.
FEW: Final = "--concurrency=4"
#: Nobody binds pods of these sets: they are as an operator leaves them, and no container of theirs runs.
_NOBODY: Final = "nobody"
_SETS: Final = 4
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_BUSY: Final = "never-answers"
_LISTENS: Final = "import socket, time; s = socket.create_server(('', 8443)); time.sleep(1e6)"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a pod of the Job ended: its container's exit code and reason, its log, and what Kubernetes kept of that."""

    name: str
    code: int
    reason: str
    message: str
    log: str

    @property
    def summary(self) -> Any:
        """The last event of the log: what was done, or why not. Beside it a result may stand on stdout."""
        return json.loads([line for line in self.log.splitlines() if line.startswith("{")][-1])


@dataclass
class Scene:
    """One cluster for all scenarios; ``begin`` makes it new for the next one. ``names`` are Helm's releases in it."""

    kind: Kind
    names: list[str] = field(default_factory=list)

    # The operator, and what Helm has installed.

    @property
    def client(self) -> Client:
        """The administrator's."""
        return self.kind.client

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of Helm in the operator's namespace, however it ends."""
        if words[0] in {"install", "upgrade"}:
            self.names.append(next(word for word in words[1:] if not word.startswith("-")))
        return self.kind.helm(*words, "--namespace", NAMESPACE)

    def succeed(self, *words: str) -> None:
        """One command of Helm that must succeed."""
        done = self.helm(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def uninstall(self) -> None:
        """Uninstall all that Helm has installed, and wait until no pod is left in the operator's namespace."""
        for name in dict.fromkeys(self.names):
            self.helm("uninstall", name, "--no-hooks")
        self.names.clear()
        pods = ("v1", "Pod", NAMESPACE)
        eventually(lambda: not self.client.list(*pods), what="pods of the releases are left", seconds=SECONDS)

    def deployment(self) -> Object:
        """The operator's Deployment."""
        return self.client.get("apps/v1", "Deployment", installation.NAME, NAMESPACE)

    def replicas(self) -> int:
        """How many replicas the operator's Deployment asks for."""
        return int(self.deployment()["spec"]["replicas"])

    def tag(self) -> str:
        """The tag of the operator's image."""
        return str(self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]

    def operators(self) -> list[Object]:
        """The operator's pods."""
        selector = ",".join(f"{key}={value}" for key, value in installation.LABELS.items())
        return self.client.list("v1", "Pod", NAMESPACE, selector=selector)

    def runs_operators(self, replicas: int, release: str = OLD) -> None:
        """Wait until so many pods of the operator of a release run, and no others."""

        def look() -> bool:
            found = self.operators()
            images = {pod["spec"]["containers"][0]["image"] for pod in found}
            running = [pod for pod in found if pod["status"]["phase"] == "Running"]
            return len(found) == len(running) == replicas and images <= {installation.image(release)}

        eventually(look, what=f"not {replicas} pods of the operator run", seconds=SECONDS, every=0.3)

    def operate(self, release: str) -> None:
        """Install the stand-in operator of a release by its chart, or upgrade to it, and wait until it alone runs."""
        self.succeed("upgrade", "--install", "grove", str(OPERATOR), *arguments([f"image.tag={release}"]))
        if not self.replicas():
            self.client.patch(self.deployment(), {"spec": {"replicas": 1}})
        self.runs_operators(1, release)

    def stop_operator(self) -> None:
        """Scale the operator to zero, if there is one, and wait until its pods are gone."""
        for deployment in self.client.list("apps/v1", "Deployment", NAMESPACE):
            self.client.patch(deployment, {"spec": {"replicas": 0}})
        eventually(lambda: not self.operators(), what="pods of the operator are left", seconds=SECONDS)

    # What is there.

    def prepare(self) -> None:
        """CRDs, namespaces, everything of manifests/job.yaml but the Job, and the stand-in operator's rights."""
        apply_crds(self.client, MAPPED)
        for name in (NAMESPACE, WORKLOADS):
            self.client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = {"kind": "ServiceAccount", "name": installation.NAME, "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}
        metadata = {"name": "stand-in-operator"}
        self.client.apply({**binding, "metadata": metadata, "roleRef": role, "subjects": [account]})

    def grant(self) -> None:
        """Apply everything of manifests/job.yaml but the Job."""
        for item in manifest():
            if item["kind"] != "Job":
                self.client.apply(item)

    def withdraw(self) -> None:
        """Take away what `grant` has applied."""
        for item in reversed(manifest()):
            if item["kind"] != "Job":
                self.client.delete(item)

    def clear(self) -> None:
        """Remove Jobs, sets, records and Leases of the scenario before; an operator is left alone."""
        for job in self.client.list("batch/v1", "Job", NAMESPACE):
            self.client.delete(job)
        for pod in self.job_pods():
            self.client.delete(pod)
        eventually(lambda: not self.job_pods(), what="pods of the Job are still there", seconds=SECONDS)
        for api_version, kind in KINDS:
            for item in self.client.list(api_version, kind, WORKLOADS):
                self.client.delete(item)
        for name in self.record():
            self.client.delete({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(name)})
        for lease in self.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE):
            self.client.delete(lease)
        eventually(lambda: not self.pods(), what="pods of sets are still there", seconds=SECONDS)

    def begin(self) -> None:
        """Remove what the scenario before has left, and fill the cluster anew."""
        self.stop_operator()
        self.clear()
        self.plant()
        self.operate(OLD)

    def plant(self) -> None:
        """Create sets as an operator of alpha.9 leaves them; their pods have no containers that run.

        No operator may run meanwhile: it would make what belongs to a set, too.
        """
        scheme, state = schemes.resolve(OLD), State(MAPPED, updated=True, pod_gangs=True, scheduler=_NOBODY)
        for number in range(_SETS):
            pcs = workloads.disaggregated(f"set-{number}", namespace=WORKLOADS)
            plant(self.client, pcs, lambda created: podcliqueset.hash_pod_clique_set(created, scheme), state)

    def record(self) -> list[str]:
        """The names of the ConfigMaps of our record."""
        found = self.client.list("v1", "ConfigMap", NAMESPACE)
        return [item["metadata"]["name"] for item in found if item["metadata"]["name"].startswith("grove-migrator-")]

    def pods(self) -> list[Object]:
        """The pods of all sets."""
        return self.client.list("v1", "Pod", WORKLOADS)

    def written(self) -> int:
        """How many pods of sets have the hash of the new release."""
        scheme = schemes.resolve(NEW)
        sets = self.client.list(GROVE, "PodCliqueSet", WORKLOADS)
        hashes = [podcliqueset.hash_pod_clique_set(pcs, scheme).pod_template_hashes.values() for pcs in sets]
        new = {value for values in hashes for value in values}
        return sum(pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] in new for pod in self.pods())

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Nobody deletes, recreates or changes anything of a set in the block, hashes aside; all are migrated after."""
        before = stored(self.client, WORKLOADS)
        yield
        assert stored(self.client, WORKLOADS) == migrated(before, OLD, NEW)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing of the sets changes in the block."""
        before = stored(self.client, WORKLOADS)
        yield
        assert stored(self.client, WORKLOADS) == before

    # The Job.

    def run(self, *more: str, name: str = JOB, to: str = NEW, wait: str = "") -> None:
        """Create the Job of manifests/job.yaml with our image and, if given, other arguments.

        ``wait`` is how long it waits for an update in flight, where that is not what the manifest says.
        """
        [job] = [item for item in manifest(to, *more) if item["kind"] == "Job"]
        job["metadata"]["name"] = name
        [container] = job["spec"]["template"]["spec"]["containers"]
        if wait:
            waits = [word.partition("=")[0] for word in container["args"] if word.startswith("--wait")]
            container["args"] += [f"{word}={wait}" for word in waits]
        self.client.create(job)

    def job(self, name: str = JOB) -> Object:
        """A Job."""
        return self.client.get("batch/v1", "Job", name, NAMESPACE)

    def job_pods(self, name: str = "") -> list[Object]:
        """The pods of a Job, the oldest first; of all Jobs without a name."""
        selector = f"batch.kubernetes.io/job-name={name}" if name else "batch.kubernetes.io/job-name"
        found = self.client.list("v1", "Pod", NAMESPACE, selector=selector)
        return sorted(found, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def ends(self, name: str = JOB) -> list[Ended]:
        """The Job's pods that have ended, the oldest first."""
        ended = (pod for pod in self.job_pods(name) if pod["status"]["phase"] in {"Failed", "Succeeded"})
        return [_ended(pod, self.log(pod["metadata"]["name"])) for pod in ended]

    def result(self, name: str = JOB) -> tuple[str, str]:
        """Wait for the Job's end: the condition that says so, and its reason."""
        eventually(lambda: job_end(self.job(name)), what=f"{name} does not end", seconds=SECONDS, every=0.3)
        found = job_end(self.job(name))
        assert found is not None
        return found

    def finish(self, name: str = JOB) -> list[Ended]:
        """Wait for the Job's success; its pods, the oldest first."""
        assert self.result(name)[0] == "Complete", self.told(name)
        return self.ends(name)

    def log(self, pod: str) -> str:
        """What a pod of the Job has printed; empty if it cannot be had."""
        answer = self.client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/log", accept="*/*")
        return str(answer.body) if answer.status == 200 else ""

    def told(self, name: str = JOB) -> str:
        """All that is known of a Job's pods, for an error's message."""
        return "\n".join(f"{pod['status']}\n{self.log(pod['metadata']['name'])}" for pod in self.job_pods(name))

    @contextmanager
    def slow(self) -> Iterator[None]:
        """Every write to a pod of a set takes a second in the block: a webhook that never answers is asked first."""
        place, labels = {"name": _BUSY, "namespace": "default"}, {"app": _BUSY}
        spec = {"containers": [{"name": "one", "image": images.OURS, "command": ["python", "-c", _LISTENS]}]}
        service = {"selector": labels, "ports": [{"port": 443, "targetPort": 8443}]}
        self.client.apply({"apiVersion": "v1", "kind": "Service", "metadata": place, "spec": service})
        self.client.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {**place, "labels": labels}, "spec": spec})

        def runs() -> bool:
            return bool(self.client.get("v1", "Pod", **place)["status"]["phase"] == "Running")

        eventually(runs, what="the webhook does not run", seconds=SECONDS)
        self.client.apply(_webhook())
        try:
            yield
        finally:
            self.client.delete(_webhook())

    @contextmanager
    def in_mid_write(self) -> Iterator[Object]:
        """A run that has written some of the hashes and not all, and its pod; the block unharmed."""
        with self.slow(), self.unharmed():
            self.run(FEW)
            yield self.writing()

    def writing(self) -> Object:
        """Wait until a run has written some of the hashes and not all, and return its pod."""
        eventually(lambda: self.written() > 0, what="nothing is written", seconds=SECONDS)
        assert self.written() < len(self.pods()), "the run has written everything already"
        return next(pod for pod in self.job_pods() if pod["status"]["phase"] == "Running")

    def hurry(self) -> None:
        """Let writes take no longer, and the Lease of a run that is gone last 5 s instead of a minute."""
        self.client.delete(_webhook())
        for lease in self.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE):
            self.client.patch(lease, {"spec": {"leaseDurationSeconds": 5}})


def arguments(values: Sequence[str]) -> list[str]:
    """Values of a chart, as arguments of Helm."""
    return [word for value in values for word in ("--set", value)]


def manifest(to: str = NEW, *more: str, origin: str = "") -> list[Object]:
    """The objects of manifests/job.yaml as a user edits them: our image, this target, and more arguments if given.

    ``origin``: those of manifests/revert.yaml, from that release back.
    """
    text = (ROOT / "manifests" / ("revert.yaml" if origin else "job.yaml")).read_text(encoding="utf-8")
    objects = [found for found in yaml.safe_load_all(text) if found]
    [container] = [item["spec"]["template"]["spec"]["containers"][0] for item in objects if item["kind"] == "Job"]
    container["image"] = images.OURS
    named = {"--to": to, "--from": origin}
    words = [word.partition("=") for word in container["args"]]
    container["args"] = [*(f"{flag}{sign}{named.get(flag, value)}" for flag, sign, value in words), *more]
    return objects


def _webhook() -> Object:
    """What lets a write to a pod of a set wait for a second, and pass."""
    hook = {
        "name": "never.answers.example",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 1,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": WORKLOADS}},
        "clientConfig": {"service": {"name": _BUSY, "namespace": "default"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}],
    }
    kind = {"apiVersion": _ADMISSION, "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": _BUSY}, "webhooks": [hook]}


def _named(name: str) -> Object:
    return {"name": name, "namespace": NAMESPACE}


def _ended(pod: Object, log: str) -> Ended:
    [container] = pod["status"].get("containerStatuses") or [{}]
    state = container.get("state", {}).get("terminated") or {}
    code, reason, message = state.get("exitCode", -1), state.get("reason", ""), state.get("message", "")
    return Ended(pod["metadata"]["name"], code, reason, message, log)
