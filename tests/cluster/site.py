"""A cluster as the Job finds it: an operator that runs, sets whose hashes are of alpha.9, and our manifests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from migrator.hashing import podcliqueset
from migrator.releases.table import named
from migrator.run.leases import RECORD
from testbed import operator_installation as installation
from testbed import workloads
from testbed.controlplane.client import Client, Object, eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import plant
from testbed.trees import State
from tests.support.paths import ROOT
from tests.support.translation import KINDS, migrated, stored

MANIFESTS: Final = ROOT / "manifests"
NAMESPACE: Final = installation.NAMESPACE
WORKLOADS: Final = "serving"
ACCOUNT: Final = "grove-migrator"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
OLD, NEW = "v0.1.0-alpha.9", "v0.1.0-alpha.11"
#: How long a cluster may take for anything, in seconds.
SECONDS: Final = 180
#: Nobody binds pods of these sets: they are as an operator leaves them, and no container of theirs runs.
_STATE: Final = State(("updateProgress",), maps=True, scheduler="nobody")
_LEASE: Final = ("coordination.k8s.io/v1", "Lease")
_DEPLOYMENT: Final = ("apps/v1", "Deployment")


def documents(name: str) -> list[Object]:
    return [found for found in yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")) if found]


def made(api_version: str, kind: str, name: str, namespace: str | None = NAMESPACE, **rest: Any) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    return [item for item in objects if item["kind"] in kinds]


def by_name(objects: Sequence[Object]) -> dict[tuple[str, str], Object]:
    """The objects by kind and name; each is there once."""
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects)
    return found


def job_of(file: str = "job.yaml") -> Object:
    [job] = of_kind(documents(file), "Job")
    return job


def rights() -> list[Object]:
    """Everything in manifests/job.yaml but the Job."""
    return [item for item in documents("job.yaml") if item["kind"] != "Job"]


def arguments(job: Object) -> list[str]:
    [container] = job["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def kubeconfig_of(server: ControlPlane, token: str, path: Path) -> Path:
    path.write_text(server.kubeconfig.read_text(encoding="utf-8").replace(server.token, token), encoding="utf-8")
    return path


class Operated:
    """A cluster with an operator; ``client`` is its administrator's."""

    client: Client

    def operators(self) -> list[Object]:
        """The operator's pods, those that are ending included."""
        selector = ",".join(f"{key}={value}" for key, value in installation.LABELS.items())
        return self.client.list("v1", "Pod", NAMESPACE, selector=selector)

    def deployment(self) -> Object:
        return self.client.get(*_DEPLOYMENT, installation.NAME, NAMESPACE)

    def replicas(self) -> int:
        return int(self.deployment()["spec"]["replicas"])

    def start_operator(self) -> None:
        self._scale(1)

    def stop_operator(self) -> None:
        """Scale the operator to zero, if there is one, and wait until its process has ended."""
        self._scale(0)
        eventually(lambda: not self.operators(), what="operator pods are still there", seconds=SECONDS)

    def _scale(self, replicas: int) -> None:
        for deployment in self.client.list(*_DEPLOYMENT, NAMESPACE):
            answer = self.client.patch(deployment, {"spec": {"replicas": replicas}}, subresource="scale")
            if answer.status != 200:
                raise RuntimeError(f"the operator cannot be scaled: {answer.body}")


class Site(Operated):
    """Such a cluster with sets as an operator of alpha.9 leaves them."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.planted: list[Object] = []

    def prepare(self) -> None:
        """CRDs with PodGangMaps, so that every place of a hash is there whatever the release, and namespaces."""
        apply_crds(self.client, "podgangmap")
        for name in (NAMESPACE, WORKLOADS):
            self.client.apply(made("v1", "Namespace", name, None))

    def grant(self) -> None:
        """Apply everything in manifests/job.yaml but the Job."""
        for item in rights():
            self.client.apply(item)

    def plant(self, *sets: Object) -> None:
        """Create sets as an operator of alpha.9 leaves them; two, unless others are given.

        No operator may run meanwhile that makes what belongs to a set, too.
        """
        scheme = named(OLD).scheme
        standalone = workloads.standalone("web", namespace=WORKLOADS, replicas=2)
        for pcs in sets or (standalone, workloads.disaggregated("disagg", namespace=WORKLOADS)):
            self.planted += plant(self.client, pcs, lambda it: podcliqueset.SetHasher(it).under(scheme), _STATE)

    def clear(self) -> None:
        """Remove sets, and what runs have left; an operator is left alone."""
        self.planted.clear()
        for api_version, kind in KINDS:
            for item in self.client.list(api_version, kind, WORKLOADS):
                self.client.delete(item)
        for item in self.client.list(*_LEASE, NAMESPACE):
            self.client.delete(item)
        eventually(lambda: not self.client.list("v1", "Pod", WORKLOADS), what="pods of sets are left", seconds=SECONDS)

    def records(self) -> list[str]:
        """The names of the Leases that have a record of ours."""
        found = [item["metadata"] for item in self.client.list(*_LEASE, NAMESPACE)]
        return [metadata["name"] for metadata in found if RECORD in (metadata.get("annotations") or {})]

    def pods(self) -> list[Object]:
        return self.client.list("v1", "Pod", WORKLOADS)

    def objects(self) -> dict[tuple[str, str], Object]:
        """Everything of the sets, without what every write changes."""
        return stored(self.client, WORKLOADS)

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Nobody deletes, recreates or changes anything of a set in the block, hashes aside; all are migrated after."""
        before = self.objects()
        yield
        assert self.objects() == migrated(before, OLD, NEW)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing of the sets changes in the block."""
        before = self.objects()
        yield
        assert self.objects() == before


class ServedSite(Site):
    """An API server of ours with controllers and an audit log, and no kubelet."""

    def __init__(self, server: ControlPlane) -> None:
        super().__init__(server.client())
        self.server = server

    def prepare(self) -> None:
        """Apply our manifests too."""
        super().prepare()
        self.grant()
        eventually(self._policies_hold, what="the policies are not in force")

    def fill(self, *sets: Object) -> None:
        """Begin anew: an operator of alpha.9 that runs, and sets as it leaves them."""
        self.clear()
        for item in (installation.webhook(), installation.deployment(installation.image(OLD))):
            self.client.apply(item)
        eventually(lambda: len(self.operators()) == 1, what="the operator has no pod")
        self.plant(*sets)

    def clear(self) -> None:
        """Remove sets, what runs have left, and the operator."""
        super().clear()
        for item in self.client.list(*_DEPLOYMENT, NAMESPACE):
            self.client.delete(item)
        eventually(lambda: not self.operators(), what="the operator's pod is still there")

    def _policies_hold(self) -> bool:
        """Whether a Lease that RBAC would let our account create is denied to it by policy."""
        own = self.server.client(token=self.client.service_account_token(NAMESPACE, ACCOUNT))
        path, query = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", {"dryRun": "All"}
        answer = own.request("POST", path, made(*_LEASE, "x"), query=query)
        own.close()
        return answer.status == 403 and "ValidatingAdmissionPolicy" in str(answer.body)
