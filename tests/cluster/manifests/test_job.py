"""The Job and its rights, applied to a real API server and used by the ServiceAccount that they are for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator import durations
from migrator.hashing import podcliqueset, schemes
from testbed import workloads
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from testbed.trees import PROGRESS, State, grow
from tests.cluster.manifests.site import (
    ACCOUNT,
    GROVE,
    NAMESPACE,
    add_namespace,
    arguments,
    documents,
    job_of,
    kubeconfig_of,
)
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

#: Lines of CRDs, by where an update's progress is kept, and what their operators hash.
LINES = {"alpha.3": "legacy-1.33", "alpha.8": "legacy-1.34", "alpha.9": "legacy-1.34"}


@pytest.fixture
def applied(control_plane: ControlPlane, api: Client, line: str) -> Iterator[Client]:
    """The manifest as it stands, on a server with the CRDs of a line."""
    apply_crds(control_plane, line)
    add_namespace(api, NAMESPACE)
    for document in documents("job.yaml"):
        api.apply(document)
    yield api
    for document in reversed(documents("job.yaml")):
        api.delete(document)
    api.delete_namespace(NAMESPACE)
    api.empty_namespace("default")


@pytest.mark.parametrize("line", LINES)
def test_the_manifest_applies_and_the_account_migrates_with_exactly_these_rights(
    control_plane: ControlPlane, applied: Client, line: str, tmp_path: Path, invoke: Invoke
) -> None:
    """As the Job's ServiceAccount, the Job's own command line migrates a set with every field of that line."""
    pcs = workloads.disaggregated("disagg")
    source = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(LINES[line]))
    load(applied, grow(pcs, source, State(line=line, updated=True)))
    token = applied.service_account_token(NAMESPACE, ACCOUNT)
    config = kubeconfig_of(control_plane, token, tmp_path / "kubeconfig")
    where = ("-o", "json", "--kubeconfig", config, "--operator", f"{NAMESPACE}/grove-operator")
    assert invoke(*arguments(job_of()), *where).json["patches"] > 0
    [stored] = applied.list(GROVE, "PodClique", "default", selector="app.kubernetes.io/name=disagg-0-frontend")
    assert {name for name in stored["status"] if "Progress" in name} == set(PROGRESS[line])
    assert source.generation_hash not in json.dumps(stored)
    assert "grove-migrator-run" in [item["metadata"]["name"] for item in applied.list("v1", "ConfigMap", NAMESPACE)]


#: How long a run may take to revert after its time is up (seconds).
REVERT = 600


def test_the_deadline_leaves_every_attempt_its_time() -> None:
    """Each attempt may wait, run for `--timeout`, revert, and take the grace period after SIGTERM."""
    spec = job_of()["spec"]
    pod = spec["template"]["spec"]
    words = dict(word.split("=", 1) for word in arguments(job_of()) if "=" in word)
    times = sum(durations.parse(value) for name, value in words.items() if name.startswith(("--wait", "--timeout")))
    assert spec["activeDeadlineSeconds"] == 4 * (times + REVERT + pod["terminationGracePeriodSeconds"])
    assert spec["backoffLimit"] == 3
