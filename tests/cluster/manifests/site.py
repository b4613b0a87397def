"""A cluster as the Job finds it: an operator that runs, sets whose hashes are of alpha.9, and our manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from migrator.hashing import podcliqueset, schemes
from testbed import operator_installation as installation
from testbed import workloads
from testbed.controlplane.client import Client, Object, eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane, Options
from testbed.controlplane.trees import plant
from testbed.gangs import MAPPED
from testbed.trees import State
from tests.support.paths import ROOT
from tests.support.translation import KINDS, stored

MANIFESTS: Final = ROOT / "manifests"
NAMESPACE: Final = "grove-system"
WORKLOADS: Final = "serving"
ACCOUNT: Final = "grove-migrator"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
OLD, NEW = "v0.1.0-alpha.9", "v0.1.0-alpha.11"
_API: Final = {
    "ConfigMap": "v1",
    "Lease": "coordination.k8s.io/v1",
    "Deployment": "apps/v1",
    "Event": "v1",
    "Service": "v1",
}
_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_WEBHOOK: Final = "ValidatingWebhookConfiguration"
_CONFIGURATION: Final = installation.configuration(lease_seconds=3)


def documents(name: str) -> list[Object]:
    """The objects of one file below manifests/."""
    return [found for found in yaml.safe_load_all((MANIFESTS / name).read_text(encoding="utf-8")) if found]


def made(api_version: str, kind: str, name: str, namespace: str | None = NAMESPACE, **rest: Any) -> Object:
    """A small object of a kind."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def of_kind(objects: Sequence[Object], *kinds: str) -> list[Object]:
    """The objects of these kinds."""
    return [item for item in objects if item["kind"] in kinds]


def by_name(objects: Sequence[Object]) -> dict[tuple[str, str], Object]:
    """The objects by kind and name; each is there once."""
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects)
    return found


def job_of(file: str = "job.yaml", **metadata: str) -> Object:
    """The Job of one file below manifests/, with this name or namespace in place of its own."""
    [job] = of_kind(documents(file), "Job")
    return {**job, "metadata": {**job["metadata"], **metadata}}


def rights() -> list[Object]:
    """Everything in manifests/job.yaml but the Job."""
    return [item for item in documents("job.yaml") if item["kind"] != "Job"]


def arguments(job: Object) -> list[str]:
    """The command line of a Job."""
    [container] = job["spec"]["template"]["spec"]["containers"]
    found: list[str] = container["args"]
    return found


def add_namespace(admin: Client, name: str, *, labels: Mapping[str, str] | None = None, account: bool = False) -> None:
    """A namespace, and the Job's account in it if it is asked for."""
    metadata = {"name": name, "labels": dict(labels or {})}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    if account:
        [item] = of_kind(documents("job.yaml"), "ServiceAccount")
        admin.apply({**item, "metadata": {**item["metadata"], "namespace": name}})


def kubeconfig_of(server: ControlPlane, token: str, path: Path) -> Path:
    """Write a kubeconfig of whom a token belongs to."""
    path.write_text(server.kubeconfig.read_text(encoding="utf-8").replace(server.token, token), encoding="utf-8")
    return path


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb on one resource, of one role; ``names`` are the objects to which it is limited, if it is."""

    role: str  # Role or ClusterRole
    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}"

    def covers(self, request: Object) -> bool:
        """Whether a request of the audit log is one that this permits."""
        what = request.get("objectRef") or {}
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        return (
            (request["verb"], what.get("apiGroup", "")) == (self.verb, self.group)
            and self.resource in ("*", resource)
            and (self.role == "ClusterRole" or what.get("namespace") == NAMESPACE)
            and (not self.names or what.get("name") in self.names)
        )


def grants(objects: Sequence[Object]) -> list[Grant]:
    """Everything that the roles among objects permit, one by one."""
    return [
        Grant(role["kind"], verb, group, resource, tuple(rule.get("resourceNames", ())))
        for role in of_kind(objects, "Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@contextmanager
def started(directory: Path) -> Iterator[Site]:
    """An API server with controllers and an audit log, as its administrator has it."""
    log = directory / "audit.jsonl"
    options = Options(controller_manager=True, audit_log=log)
    with ControlPlane(directory, options) as server:
        admin = server.client()
        yield Site(server, admin, directory)
        admin.close()


@dataclass
class Site:
    """One API server, and the administrator's way to it."""

    server: ControlPlane
    admin: Client
    directory: Path
    planted: list[Object] = field(default_factory=list)

    def prepare(self) -> None:
        """CRDs with PodGangMaps, and namespaces."""
        apply_crds(self.admin, MAPPED)
        for name in (NAMESPACE, WORKLOADS):
            add_namespace(self.admin, name)

    def grant(self) -> None:
        """Apply everything in manifests/job.yaml but the Job, and wait until the policies are in force."""
        for item in rights():
            self.admin.apply(item)
        eventually(self._policies_hold, what="the policies are not in force")

    def fill(self, *more: Object) -> None:
        """Begin anew: an operator of alpha.9 that runs, and sets as it leaves them: two, or others."""
        self.clear()
        self.operate(OLD)
        self.plant(*more)

    def plant(self, *more: Object) -> None:
        """Create two sets, or others, as an operator of alpha.9 leaves them."""
        state = State(MAPPED, updated=True, pod_gangs=True)
        for pcs in more or (
            workloads.standalone("web", namespace=WORKLOADS, replicas=2),
            workloads.disaggregated("disagg", namespace=WORKLOADS),
        ):
            self.planted += plant(self.admin, pcs, _hashes(OLD), state)

    def clear(self) -> None:
        """Remove what `fill` made, and what runs left."""
        self.planted.clear()
        for name in (NAMESPACE, WORKLOADS):
            for kind in _API:
                for item in self.admin.list(_API[kind], kind, name):
                    if item["metadata"]["name"] != "kube-root-ca.crt":
                        self.admin.delete(item)
        for api_version, kind in ((_ADMISSION, _WEBHOOK), *reversed(KINDS)):
            for item in self.admin.list(api_version, kind):
                self.admin.delete(item)
        eventually(lambda: not self.admin.list("v1", "Pod"), what="pods are still there")

    def expire(self) -> None:
        """Let the Leases of a process that is gone be over at once: the next one would wait for a minute."""
        for item in self.admin.list(_API["Lease"], "Lease", NAMESPACE):
            self.admin.delete(item)

    def operate(self, version: str) -> None:
        """Install an operator as its chart does, and wait for its pod."""
        self.admin.apply(installation.config_map(_CONFIGURATION))
        for item in installation.webhook():
            self.admin.apply(item)
        self.admin.apply(installation.deployment(installation.image(version)))
        eventually(lambda: len(self.operators()) == 1, what="the operator has no pod")

    def operators(self) -> list[Object]:
        """The operator's pods."""
        selector = ",".join(f"{key}={value}" for key, value in installation.LABELS.items())
        return self.admin.list("v1", "Pod", NAMESPACE, selector=selector)

    def deployment(self) -> Object:
        """The operator's Deployment."""
        return self.admin.get("apps/v1", "Deployment", "grove-operator", NAMESPACE)

    def replicas(self) -> int:
        """How many replicas the operator's Deployment asks for."""
        return int(self.deployment()["spec"]["replicas"])

    def objects(self) -> dict[tuple[str, str], Object]:
        """Everything of the sets, without what every write changes."""
        return stored(self.admin, WORKLOADS)

    def names(self, kind: str) -> list[str]:
        """The names of our objects of a kind in the operator's namespace."""
        found = [item["metadata"]["name"] for item in self.admin.list(_API[kind], kind, NAMESPACE)]
        return sorted(name for name in found if name.startswith(ACCOUNT))

    def may(self, grant: Grant) -> bool:
        """Whether RBAC lets our account do this; it knows of a change some time after the change."""
        resource, _, subresource = grant.resource.partition("/")
        attributes = {
            "verb": grant.verb,
            "group": grant.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": NAMESPACE,
            "name": next(iter(grant.names), ""),
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": USER, "resourceAttributes": attributes},
        }
        answer = self.admin.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
        return bool(answer["status"]["allowed"])

    def _policies_hold(self) -> bool:
        """Whether a ConfigMap that RBAC would let our account create is denied to it by policy."""
        body = made("v1", "ConfigMap", "x")
        own = self.server.client(token=self.admin.service_account_token(NAMESPACE, ACCOUNT))
        answer = own.request("POST", f"/api/v1/namespaces/{NAMESPACE}/configmaps", body, query={"dryRun": "All"})
        own.close()
        return answer.status == 403 and "ValidatingAdmissionPolicy" in str(answer.body)


def _hashes(release: str) -> Any:
    scheme = schemes.resolve(release)
    return lambda pcs: podcliqueset.hash_pod_clique_set(pcs, scheme)
