"""Migrations on a real API server, over the CRDs of each release line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from migrator.hashing import podcliqueset, schemes
from migrator.run.leases import RECORD
from testbed import workloads
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import load
from testbed.trees import Object, State, grow
from tests.support import translation
from tests.support.command_line import Invoke
from tests.support.translation import migrated, stored

pytestmark = pytest.mark.controlplane

NAMESPACE: Final = "default"
KINDS: Final = [kind for kind in translation.KINDS if "Gang" not in kind[1]]  # these sets have none
OLD: Final = "4567b"  # the hash of a template of long ago


#: Source, target, and the release line whose CRDs are installed: those that keep ``rollingUpdateProgress``. The CRDs of
#: alpha.11 are in manifests/test_rights.py.
PAIRS: Final = [
    ("legacy-1.33", "legacy-1.34", "alpha.3"),
    ("legacy-1.34", "legacy-1.35", "alpha.8"),
]
#: The fields in which the operators of these lines keep an update.
PROGRESS: Final = {"alpha.3": ("rollingUpdateProgress",), "alpha.8": ("updateProgress", "rollingUpdateProgress")}


@pytest.fixture
def cluster(api: Client, pair: tuple[str, str, str]) -> Iterator[Client]:
    """An API server with the line's CRDs, and trees under the source's hashes."""
    source, _, line = pair
    apply_crds(api, line)
    api.empty_namespace(NAMESPACE)
    for pcs, state in _sets(PROGRESS[line], on_delete=line != "alpha.3"):  # the field came with alpha.7
        load(api, grow(pcs, podcliqueset.SetHasher(pcs).under(schemes.by_name(source)), state))
    yield api
    api.empty_namespace(NAMESPACE)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}-on-{pair[2]}")
def test_there_and_back(
    control_plane: ControlPlane, cluster: Client, invoke: Invoke, pair: tuple[str, str, str]
) -> None:
    """Every value becomes the target's and nothing else changes; again, nothing is written; a revert restores all.

    A dry run on the server passes admission and validation for every patch, and leaves everything as it was.
    """
    source, target, _ = pair
    where = ("--kubeconfig", control_plane.kubeconfig, "--operator", f"{NAMESPACE}/grove-operator")
    run = ("run", "--to", target, "-o", "json", *where)
    before = stored(cluster, NAMESPACE, KINDS)
    after = migrated(before, source, target)
    assert invoke(*run, "--dry-run").json["patches"] > 0
    assert stored(cluster, NAMESPACE, KINDS) == before

    assert invoke(*run).json["patches"] > 0
    assert stored(cluster, NAMESPACE, KINDS) == after != before

    assert invoke(*run).json["patches"] == 0
    assert stored(cluster, NAMESPACE, KINDS) == after

    invoke(*run, "--from", source, "--revert", "--yes")
    assert stored(cluster, NAMESPACE, KINDS) == before
    for lease in cluster.list("coordination.k8s.io/v1", "Lease"):
        assert RECORD not in (lease["metadata"].get("annotations") or {})


def _sets(progress: tuple[str, ...], *, on_delete: bool) -> list[tuple[Object, State]]:
    """Standalone cliques, scaling groups started in order after a finished update, and OnDelete leftovers."""
    leftovers = {"frontend": OLD} if on_delete else {}
    return [
        (workloads.standalone("web", replicas=2), State()),
        (workloads.disaggregated("disagg", replicas=2, startup="CliqueStartupTypeInOrder"), State(progress)),
        (workloads.standalone("patient", on_delete=on_delete), State(progress, leftovers)),
    ]
