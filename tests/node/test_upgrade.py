"""The upgrades of tests/upgrade on a real node: operators, workloads and the tool run in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node import images
from tests.node.kind import OwnNode
from tests.node.pairs import PAIRS
from tests.support import counts
from tests.upgrade import builds
from tests.upgrade.kind.charts import Local
from tests.upgrade.kind.cluster import KindCluster
from tests.upgrade.matrix import Pair, record, upgrade_twice, with_tool

pytestmark = [pytest.mark.node, pytest.mark.upgrade, pytest.mark.timeout(3600)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_on_a_real_node_recreates_no_pod_with_the_job(
    pair: Pair,
    namespaces: None,  # noqa: ARG001 - it only skips
    tmp_path: Path,
) -> None:
    """With the Job of manifests/job.yaml, and of our chart, no pod is recreated; without all that hash otherwise."""
    home = builds.directory()
    if home is None or pair.missing() or not all((home / "charts" / build.name).is_dir() for build in pair.builds):
        pytest.skip(f"{builds.VARIABLE} names no directory with binaries and charts of {pair.name}")

    def cluster(name: str) -> KindCluster:
        own = OwnNode(pair.builds, tmp_path / "images")
        by_chart = name == "chart"
        return KindCluster(tmp_path / name, images.OURS, run=own, source=Local(home / "charts"), by_chart=by_chart)

    result = upgrade_twice(pair, cluster)
    assert (result.without > 0) is pair.recreates
    assert result.with_tool == 0
    with cluster("chart") as charted:
        before, after, _ = with_tool(charted, pair)
    assert before.pods() == after.pods()
    record(pair, result)
    counts.record("node_pairs", 1)
