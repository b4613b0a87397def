"""The upgrades of tests/upgrade on a real node: operators, workloads and the tool run in containers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.node import images
from tests.node.kind import OwnNode
from tests.support import counts
from tests.upgrade import builds
from tests.upgrade.kind.charts import Charts
from tests.upgrade.kind.cluster import KindCluster
from tests.upgrade.matrix import BY_CHART, ON_A_NODE, Pair, record, upgrade, upgrade_twice

pytestmark = [pytest.mark.node, pytest.mark.upgrade, pytest.mark.timeout(3600)]


pairs = pytest.mark.parametrize("pair", ON_A_NODE, ids=lambda pair: pair.name)
New = Callable[..., KindCluster]


@pytest.fixture
def cluster(pair: Pair, namespaces: None, tmp_path: Path) -> New:  # noqa: ARG001 - it only skips
    """Makes clusters on a node that has the operators of a pair."""
    charts = Charts((builds.directory() or Path()) / "charts")
    if not all(build.runs for build in pair.builds):
        pytest.skip(f"{builds.VARIABLE} names no directory with binaries and charts of {pair.name}")

    def new(name: str, *, by_chart: bool = False) -> KindCluster:
        own = OwnNode(pair.builds, tmp_path / "images")
        return KindCluster(tmp_path / name, images.OURS, run=own, source=charts, by_chart=by_chart)

    return new


@pairs
def test_an_upgrade_with_the_job_recreates_no_pod(pair: Pair, cluster: New) -> None:
    """With the Job of manifests/job.yaml no pod is recreated; without it all that the target hashes otherwise."""
    result = upgrade_twice(pair, cluster)
    assert bool(result.without) is pair.recreates
    assert result.with_tool == 0
    record(pair.name, result)
    counts.record("node_pairs", 1)


@pairs
def test_an_upgrade_with_the_chart_recreates_no_pod(pair: Pair, cluster: New) -> None:
    """With the Job of our chart, which Helm waits for, no pod is recreated either."""
    with cluster("chart", by_chart=True) as charted:
        result = upgrade(pair, charted)
    assert result.with_tool == 0
    record(f"{pair.name}{BY_CHART}", result)
    counts.record("node_pairs", 1)
