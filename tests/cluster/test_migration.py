"""Migrations on a real API server, from every kind of scheme to every other."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator import resources
from migrator.hashing import podcliqueset, schemes
from migrator.planning.options import PlanOptions
from migrator.run import migration
from migrator.run.context import RunOptions, RunResult
from migrator.run.operator import OperatorFlags
from migrator.store import DryRun
from migrator.stores.kube import store as kube_store
from migrator.stores.kube.store import KubeStore
from migrator.stores.kube.transport import Request
from testbed import workloads
from testbed.controlplane.client import Client
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import GROVE, load
from testbed.trees import Object, State, grow
from tests.support.small_cluster import context_of
from tests.support.translation import new_hashes, translated

#: Source, target, and the release line whose CRDs are installed.
PAIRS = [
    ("legacy-1.33", "legacy-1.34", "alpha.3"),
    ("legacy-1.34", "legacy-1.35", "alpha.8"),
    ("legacy-1.34", "legacy-1.35", "alpha.9"),
    ("legacy-1.34", "canonical-1.34", "alpha.9"),
    ("canonical-1.35", "legacy-1.35", "alpha.11"),
]
pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair[0]}-to-{pair[1]}-on-{pair[2]}"),
]
OLD = "4567b"  # the hash of a template of long ago


@dataclass
class Cluster:
    """One API server with trees on it, and what was sent to it."""

    kubeconfig: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    def store(self) -> KubeStore:
        """A store that notes every request."""
        store = kube_store.connect(kubeconfig=self.kubeconfig)
        send = store._transport.send

        def noted(request: Request, **how: Any) -> bytes:
            self.requests.append((request.method, request.path))
            return send(request, **how)

        store._transport.send = noted  # type: ignore[method-assign]
        return store

    def run(self, source: str, target: str, *, revert: bool = False, mode: DryRun = DryRun.NONE) -> RunResult:
        """A run as the command line starts it."""
        self.requests.clear()
        plan = PlanOptions(source=source, target=target)
        options = RunOptions(plan=plan, revert=revert, flags=OperatorFlags("default"))
        identity = f"test-{time.monotonic_ns()}"
        context = context_of(time.monotonic, lambda: datetime.now(UTC), identity, threads=True)
        return migration.run(self.store().in_dry_run(mode), options, context)

    def writes(self) -> list[tuple[str, str]]:
        """The requests that may change something; asking who we are is a POST that stores nothing."""
        return [
            (verb, path)
            for verb, path in self.requests
            if verb not in {"GET", "LIST"} and not path.endswith("/selfsubjectreviews")
        ]

    def read(self) -> dict[tuple[str, str, str], Object]:
        """Every object of Grove's by kind, namespace and name, without what any write changes."""
        found: dict[tuple[str, str, str], Object] = {}
        for resource in GROVE:
            for item in self.store().list(resource, copy.deepcopy):
                metadata = item["metadata"]
                metadata.pop("resourceVersion", None)
                metadata.pop("managedFields", None)
                found[item["kind"], metadata.get("namespace", ""), metadata["name"]] = item
        return found


@pytest.fixture
def cluster(control_plane: ControlPlane, api: Client, pair: tuple[str, str, str]) -> Iterator[Cluster]:
    """An API server with the line's CRDs and the fixture trees under the source's hashes."""
    source, target, line = pair
    apply_crds(control_plane, line)
    found = Cluster(str(control_plane.kubeconfig))
    store = found.store()
    _empty(store)
    for pcs, state in _sets(line):
        before = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(source))
        after = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(target))
        assert before.generation_hash != after.generation_hash, "a set whose hashes are equal would prove nothing"
        load(api, grow(pcs, before, state))
    yield found
    _empty(store)


def test_every_value_becomes_the_targets_and_nothing_else_changes(cluster: Cluster, pair: tuple[str, str, str]) -> None:
    """After a run every stored hash is the target's, leftovers stay, and the rest of every object is as it was."""
    source, target, _ = pair
    before = cluster.read()
    result = cluster.run("auto", target)
    after = cluster.read()
    words = new_hashes(before.values(), schemes.by_name(source), schemes.by_name(target))
    assert after == translated(before, words)
    assert result.trees == 3
    assert {plan.source for plan in result.plan.trees} == {source}


def test_a_second_run_writes_nothing(cluster: Cluster, pair: tuple[str, str, str]) -> None:
    """A rerun on a migrated cluster sends reads only."""
    _, target, _ = pair
    cluster.run("auto", target)
    assert cluster.writes()
    again = cluster.run("auto", target)
    assert cluster.writes() == []
    assert again.patches == 0


def test_a_revert_gives_back_the_very_objects(cluster: Cluster, pair: tuple[str, str, str]) -> None:
    """Reverting restores every object, but for resourceVersion and managedFields, and removes the record."""
    source, target, _ = pair
    before = cluster.read()
    cluster.run("auto", target)
    assert cluster.read() != before
    cluster.run(source, target, revert=True)
    assert cluster.read() == before
    names = cluster.store().list(resources.CONFIG_MAPS, lambda raw: raw["metadata"]["name"], namespace="default")
    assert not [name for name in names if name.startswith("grove-migrator")]


def test_a_dry_run_on_the_server_changes_nothing(cluster: Cluster, pair: tuple[str, str, str]) -> None:
    """--dry-run=server passes admission and validation for every patch, and leaves everything as it was."""
    _, target, _ = pair
    before = cluster.read()
    assert cluster.run("auto", target, mode=DryRun.SERVER).patches > 0
    assert cluster.read() == before


def _sets(line: str) -> list[tuple[Object, State]]:
    """Standalone cliques, scaling groups started in order after a finished update, and OnDelete leftovers."""
    on_delete = line != "alpha.3"  # the field came with alpha.7
    leftovers = {"frontend": OLD} if on_delete else {}
    return [
        (workloads.standalone("web", replicas=2), State(line)),
        (workloads.disaggregated("disagg", replicas=2, startup="CliqueStartupTypeInOrder"), State(line, updated=True)),
        (workloads.standalone("patient", on_delete=on_delete), State(line, updated=True, leftovers=leftovers)),
    ]


def _empty(store: KubeStore) -> None:
    for resource in (*GROVE, resources.CONFIG_MAPS, resources.LEASES):
        for metadata in store.list(resource, lambda raw: raw["metadata"]):
            ours = resource in GROVE or metadata["name"].startswith("grove-migrator")
            if ours:
                store.delete(resource, metadata["namespace"], metadata["name"], metadata["uid"])
