"""The Job and its rights, applied to a real API server and used by the ServiceAccount that they are for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import durations
from migrator.hashing import podcliqueset, schemes
from migrator.resources import CONFIG_MAPS
from migrator.resources import POD_CLIQUE_SETS as _PCS
from migrator.stores.kube import store as kube_store
from testbed import workloads
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from testbed.trees import PROGRESS, State, grow
from tests.cluster.manifests.site import NAMESPACE, arguments, documents, of_kind
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

DOCUMENTS = documents("job.yaml")


#: Lines of CRDs, by where an update's progress is kept, and what their operators hash.
LINES = {"alpha.3": "legacy-1.33", "alpha.8": "legacy-1.34", "alpha.9": "legacy-1.34"}


@pytest.fixture(params=LINES)
def line(request: pytest.FixtureRequest) -> str:
    """A line of CRDs."""
    return str(request.param)


@pytest.fixture
def applied(control_plane: ControlPlane, api: Client, line: str) -> Iterator[Client]:
    """The manifest as it stands, on a server with the CRDs of a line."""
    apply_crds(control_plane, line)
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for document in DOCUMENTS:
        api.apply(document)
    yield api
    for document in reversed(DOCUMENTS):
        api.delete(document)
    api.delete_namespace(NAMESPACE)


def test_the_manifest_applies_and_the_account_migrates_with_exactly_these_rights(
    control_plane: ControlPlane, applied: Client, line: str, tmp_path: Path, invoke: Invoke
) -> None:
    """As the Job's ServiceAccount, the Job's own command line migrates a set with every field of that line."""
    store = kube_store.connect(kubeconfig=str(control_plane.kubeconfig))
    pcs = workloads.disaggregated("disagg")
    source = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(LINES[line]))
    load(applied, grow(pcs, source, State(line=line, updated=True)))
    config: Any = yaml.safe_load(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": applied.service_account_token(NAMESPACE, "grove-migrator")}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        where = ("-o", "json", "--kubeconfig", tmp_path / "kubeconfig", "--operator-namespace", NAMESPACE)
        assert invoke(*arguments("job.yaml"), *where).json["patches"] > 0
        [stored] = applied.list(
            "grove.io/v1alpha1", "PodClique", "default", selector="app.kubernetes.io/name=disagg-0-frontend"
        )
        assert {name for name in stored["status"] if "Progress" in name} == set(PROGRESS[line])
        assert source.generation_hash not in json.dumps(stored)
        names = store.list(CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace=NAMESPACE)
        assert "grove-migrator-run" in names
    finally:
        for item in store.list(_PCS, lambda raw: raw["metadata"]):
            store.delete(_PCS, item["namespace"], item["name"], item["uid"])
        applied.empty_namespace("default")


#: How long a run may take to put things back after its time is up (seconds).
PUTTING_BACK = 600


def test_the_deadline_leaves_every_attempt_its_time() -> None:
    """Each attempt may take `--timeout`, the time to put things back, and the grace period after SIGTERM."""
    spec = of_kind(DOCUMENTS, "Job")[0]["spec"]
    pod = spec["template"]["spec"]
    [timeout] = [found for found in pod["containers"][0]["args"] if found.startswith("--timeout=")]
    each = durations.parse(timeout.removeprefix("--timeout=")) + PUTTING_BACK + pod["terminationGracePeriodSeconds"]
    assert spec["activeDeadlineSeconds"] == (spec["backoffLimit"] + 1) * each
