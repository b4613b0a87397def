"""A kind cluster with the stand-in operator, and what the scenarios do to the Job in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.hashing import podcliqueset
from migrator.releases.table import named
from testbed import operator_installation as installation
from testbed import workloads
from testbed.controlplane.client import Object, eventually
from tests.cluster.helm.wrapper import OPERATOR, settings
from tests.cluster.site import NAMESPACE, NEW, OLD, SECONDS, WORKLOADS, Site, made, of_kind, rights
from tests.e2e import images
from tests.e2e.jobs import JOB, Ended, ends_of, log_of, manifest, pods_of, result_of
from tests.e2e.kind import Kind
from tests.support.translation import GROVE

#: A run that can be caught among its writes, where `Scene.slow` makes each take a second.
_SETS: Final = 4
_RBAC: Final = "rbac.authorization.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_BUSY: Final = "never-answers"
_LISTENS: Final = "import socket, time; s = socket.create_server(('', 8443)); time.sleep(1e6)"


class Scene(Site):
    """One cluster for all scenarios; ``names`` are Helm's releases in it."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind.client)
        self.kind = kind
        self.names: list[str] = []

    # The operator, and what Helm has installed.

    def helm(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of Helm in the operator's namespace, however it ends."""
        if words[0] in {"install", "upgrade"}:
            self.names.append(next(word for word in words[1:] if not word.startswith("-")))
        return self.kind.helm(*words)

    def succeed(self, *words: str) -> None:
        done = self.helm(*words)
        assert done.returncode == 0, done.stdout + done.stderr

    def uninstall(self) -> None:
        """Uninstall all that Helm has installed, and wait until no pod is left in the operator's namespace."""
        for name in dict.fromkeys(self.names):
            self.helm("uninstall", name, "--no-hooks")
        self.names.clear()
        pods = ("v1", "Pod", NAMESPACE)
        eventually(lambda: not self.client.list(*pods), what="pods of the releases are left", seconds=SECONDS)

    def tag(self) -> str:
        return str(self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]

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
        self.succeed("upgrade", "--install", "grove", str(OPERATOR), *settings([f"image.tag={release}"]))
        if not self.replicas():
            self.start_operator()
        self.runs_operators(1, release)

    # What is there.

    def prepare(self) -> None:
        """CRDs, namespaces, and the stand-in operator's rights."""
        super().prepare()
        account = {"kind": "ServiceAccount", "name": installation.NAME, "namespace": NAMESPACE}
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
        binding = (f"{_RBAC}/v1", "ClusterRoleBinding", "stand-in-operator", None)
        self.client.apply(made(*binding, roleRef=role, subjects=[account]))

    def withdraw(self) -> None:
        """Take away what `grant` has applied."""
        for item in reversed(rights()):
            self.client.delete(item)

    def clear(self) -> None:
        """Remove Jobs, sets, records and Leases of the scenario before; an operator is left alone."""
        for item in (*self.client.list("batch/v1", "Job", NAMESPACE), *pods_of(self.client)):
            self.client.delete(item)
        eventually(lambda: not pods_of(self.client), what="pods of the Job are still there", seconds=SECONDS)
        super().clear()

    def plant(self, *sets: Object) -> None:
        """Create so many sets that a run can be caught among its writes, or others."""
        several = [workloads.disaggregated(f"set-{number}", namespace=WORKLOADS) for number in range(_SETS)]
        super().plant(*(sets or several))

    def written(self) -> int:
        """How many pods of sets have the hash of the new release."""
        scheme = named(NEW).scheme
        sets = self.client.list(GROVE, "PodCliqueSet", WORKLOADS)
        hashes = [podcliqueset.SetHasher(pcs).under(scheme).templates.values() for pcs in sets]
        new = {value for values in hashes for value in values}
        return sum(pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] in new for pod in self.pods())

    # The Job.

    def run(self) -> None:
        """Create the Job of manifests/job.yaml with our image."""
        [job] = of_kind(manifest({"--to": NEW}), "Job")
        self.client.create(job)

    def finish(self) -> list[Ended]:
        """Wait for the Job's success; its pods, the oldest first."""
        assert result_of(self.client) == "Complete", self.told()
        return ends_of(self.client)

    def told(self) -> str:
        """All that is known of the Job's pods, for an error's message."""
        return "\n".join(f"{pod['status']}\n{log_of(self.client, pod)}" for pod in pods_of(self.client, JOB))

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

    def hurry(self) -> None:
        """Let writes take no longer, and the Lease of a run that is gone last 5 s instead of a minute."""
        self.client.delete(_webhook())
        for lease in self.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE):
            self.client.patch(lease, {"spec": {"leaseDurationSeconds": 5}})


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
    return made(_ADMISSION, "ValidatingWebhookConfiguration", _BUSY, None, webhooks=[hook])
