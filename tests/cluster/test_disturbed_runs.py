"""Runs as processes on a real API server that are killed, disturbed or not alone: what tests/faults shows in memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.exact_json import JSONObject
from testbed.controlplane.client import eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import GROVE, load
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.process import KILLED
from tests.faults.test_faults_of_the_run import hashes
from tests.faults.truth import DONE, REFUSED, STUCK, lies
from tests.support.paths import ROOT

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

WORKLOADS: Final = "default"
LEASE: Final = ("coordination.k8s.io/v1", "Lease")
CONFIG_MAP: Final = ("v1", "ConfigMap")
DEPLOYMENT: Final = ("apps/v1", "Deployment")
WEB: Final = ("PodCliqueSet", WORKLOADS, "web")
_SLOWLY: Final = {"PYTHONPATH": str(ROOT / "tests/support/slow_network"), "PATCH_DELAY": "0.3"}
_LONGEST_RUN: Final = 180


class Run:
    """One process of ``grove-migrator run``; ``slowly``, each of its patches is late and waits for the one before."""

    def __init__(self, live: LiveCluster, *more: str, slowly: bool = False) -> None:
        self._log = live.directory / f"log-{len(live.runs)}"
        command = [sys.executable, "-m", "migrator", "run", "--kubeconfig", live.kubeconfig, "--to", cluster.TARGET]
        options = ("--stop-operator", *more, *(["--concurrency", "1"] if slowly else []))
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, *options],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, **(_SLOWLY if slowly else {})},
            )
        live.runs.append(self)

    def wait(self) -> Run:
        """Wait for its end."""
        self.process.wait(_LONGEST_RUN)
        return self

    @property
    def code(self) -> int:
        """The exit code, or the negative number of the signal that ended it."""
        code = self.process.poll()
        assert code is not None, "it has not ended"
        return code

    @property
    def patches(self) -> int:
        """How many patches it says that it sent."""
        events: list[dict[str, Any]] = [json.loads(line) for line in str(self).splitlines() if line.startswith("{")]
        return next(int(event["patches"]) for event in events if event["event"] == "summary")

    def __str__(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")


class LiveCluster:
    """The cluster of :mod:`tests.faults.cluster` on an API server, whose ``default`` and ``grove-system`` it has."""

    def __init__(self, control_plane: ControlPlane, directory: Path) -> None:
        self.directory, self.kubeconfig = directory, str(control_plane.kubeconfig)
        self.client = control_plane.client()
        self.runs: list[Run] = []
        apply_crds(control_plane, "alpha.9")
        namespace, *installation = cluster.operator()
        self.client.apply(namespace)
        self.empty()
        for item in installation:
            self.client.create(item)
        load(self.client, cluster.trees())
        self.before = self.grove()
        self.after = cluster.migrated(self.before)

    def empty(self) -> None:
        """Nothing of Grove's and nothing of ours."""
        kinds = [((resource.api_version, resource.kind), WORKLOADS) for resource in GROVE]
        for kind, namespace in (*kinds, *((kind, cluster.NAMESPACE) for kind in (CONFIG_MAP, LEASE, DEPLOYMENT))):
            self.client.call("DELETE", self.client.kind(*kind).path(namespace))

    def close(self) -> None:
        """Leave nothing behind."""
        for run in self.runs:
            run.process.kill()
            run.process.wait()
        self.empty()
        self.client.delete_namespace(cluster.NAMESPACE)
        self.client.close()

    def caught(self, holds: Callable[[dict[cluster.Key, Object]], bool]) -> Run:
        """A run that is among its writes: it goes on slowly, and what is written so far is as a test wants it."""
        run = Run(self, slowly=True)
        eventually(lambda: run.process.poll() is not None or holds(self.grove()), what=f"it does not come there: {run}")
        assert run.process.poll() is None, str(run)
        return run

    def patch(self, kind: str, name: str, body: JSONObject, subresource: str | None = None) -> int:
        """Merge something into an object of the default namespace; returns the status of the API server's answer."""
        version = "v1" if kind == "Pod" else "grove.io/v1alpha1"
        item = {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": WORKLOADS}}
        return self.client.patch(item, body, subresource=subresource).status

    # --- what is there ------------------------------------------------------------------------------------------

    def grove(self) -> dict[cluster.Key, Object]:
        """Grove's objects."""
        return cluster.by_key([item for r in GROVE for item in self.client.list(r.api_version, r.kind, WORKLOADS)])

    def written(self, found: dict[cluster.Key, Object], kind: str = "") -> list[cluster.Key]:
        """What is not as before, of one kind or of all."""
        return [key for key, item in found.items() if item != self.before[key] and kind in {"", key[0]}]

    @property
    def deployment(self) -> Object:
        """The operator's Deployment."""
        return self.client.get(*DEPLOYMENT, cluster.DEPLOYMENT, cluster.NAMESPACE)

    @property
    def wrongs(self) -> list[str]:
        """What must hold at any moment and does not: see :func:`cluster.strays` and :func:`cluster.early_commits`."""
        found = self.grove()
        return cluster.strays(found, self.before, self.after) + cluster.early_commits(found, self.after)

    @property
    def replicas(self) -> int:
        """What the operator's Deployment asks for."""
        return int(self.deployment["spec"]["replicas"])

    @property
    def holder(self) -> str:
        """Who holds the operator's Lease."""
        leases = {item["metadata"]["name"]: item for item in self.client.list(*LEASE, cluster.NAMESPACE)}
        return str(leases.get(cluster.LEASE, {}).get("spec", {}).get("holderIdentity") or "")

    @property
    def records(self) -> list[str]:
        """The names of what runs have recorded."""
        names = [item["metadata"]["name"] for item in self.client.list(*CONFIG_MAP, cluster.NAMESPACE)]
        return sorted(name for name in names if name.startswith("grove-migrator"))


@pytest.fixture
def live(control_plane: ControlPlane, tmp_path: Path) -> Iterator[LiveCluster]:
    """The cluster before its migration; nothing of it stays for the tests that follow."""
    found = LiveCluster(control_plane, tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize("reverted", [False, True], ids=["rerun", "revert"])
def test_what_a_kill_interrupted_is_finished_or_undone(live: LiveCluster, *, reverted: bool) -> None:
    """Killed in the middle of the writes: no value is a third one, and a rerun or a revert ends well."""
    run = live.caught(lambda found: len(live.written(found)) > 2)
    run.process.kill()
    assert run.wait().code == KILLED
    assert lies(live, run) == []
    assert live.grove() not in (live.before, live.after)
    live.client.call("DELETE", live.client.kind(*LEASE).path(cluster.NAMESPACE))  # a rerun would wait for a minute
    again = Run(live, *(["--revert"] if reverted else [])).wait()
    assert (again.code, live.wrongs, live.holder) == (DONE, [], ""), str(again)
    if reverted:
        assert (live.grove() == live.before, live.replicas, live.records) == (True, 1, [])
        managers = live.deployment["metadata"]["managedFields"]
        assert not [entry for entry in managers if entry.get("subresource") == "scale"], "replicas were touched"
    else:
        assert (live.grove() == live.after, live.replicas) == (True, 0)
        assert "grove-migrator-run" in live.records


def test_one_of_two_runs_writes(live: LiveCluster) -> None:
    """A second run that starts while the first one writes waits for its Lease, and finds nothing left to write."""
    first = live.caught(lambda found: bool(live.written(found)))
    second = Run(live)
    assert (first.wait().code, second.wait().code) == (DONE, DONE), f"{first}\n{second}"
    assert (second.patches, live.wrongs) == (0, [])
    assert (live.grove() == live.after, live.replicas, live.holder) == (True, 0, "")


def test_a_foreign_value_after_the_writes_is_seen(live: LiveCluster) -> None:
    """Somebody writes another hash on migrated pods before the last commit: 6, never 0."""
    pods = [name for kind, _, name in live.before if kind == "Pod"]
    expected = {key for key, item in live.before.items() if key[0] == "Pod" and item != live.after[key]}
    run = live.caught(lambda found: set(live.written(found, "Pod")) == expected)
    label = {"metadata": {"labels": {cluster.HASH_LABEL: "f0re16n"}}}
    assert {live.patch("Pod", name, label) for name in pods} == {200}
    assert run.wait().code == STUCK, str(run)


def test_a_scale_during_the_run_is_no_edit(live: LiveCluster) -> None:
    """`kubectl scale` of one set before its commit: 0, and every hash is the target's."""
    run = live.caught(lambda found: bool(live.written(found)) and found[WEB] == live.before[WEB])
    assert live.patch("PodCliqueSet", "web", {"spec": {"replicas": 2}}, "scale") == 200
    assert (run.wait().code, hashes(live.grove()) == hashes(live.after)) == (DONE, True), str(run)


@pytest.fixture
def strict(live: LiveCluster) -> Iterator[LiveCluster]:
    """An API server with a policy that denies every status patch of a PodClique."""
    rule = {"apiGroups": ["grove.io"], "apiVersions": ["*"], "resources": ["podcliques/status"]}
    name = "no-podclique-status.example.test"
    named = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    matched = {"resourceRules": [{**rule, "operations": ["UPDATE"]}]}
    policy = {"matchConstraints": matched, "validations": [{"expression": "false"}]}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    objects: list[Object] = [
        {**named, "kind": "ValidatingAdmissionPolicy", "spec": policy},
        {**named, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]
    for item in objects:
        live.client.apply(item)
    clique = next(name for kind, _, name in live.before if kind == "PodClique")
    eventually(
        lambda: live.patch("PodClique", clique, {"status": {}}, "status") != 200,
        what="the policy is not in force",
        seconds=30,
    )
    yield live
    for item in reversed(objects):
        live.client.delete(item)


def test_a_patch_that_is_certain_to_be_rejected_is_found_before_the_stop(strict: LiveCluster) -> None:
    """A policy denies status patches of PodCliques: 3, and the operator was never stopped."""
    generation = strict.deployment["metadata"]["generation"]
    run = Run(strict).wait()
    assert (run.code, strict.deployment["metadata"]["generation"]) == (REFUSED, generation), str(run)
    assert lies(strict, run) == []
