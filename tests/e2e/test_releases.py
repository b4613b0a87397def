"""Upgrades of real operators on kind: real kubelets, Grove's charts, and the tool as its Job and by its chart.

Releases come from where Grove publishes them, or from ``GROVE_OPERATORS_DIR``, which has binaries and charts.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.helm import PROGRAMS
from tests.e2e.lab import builds
from tests.e2e.lab.matrix import ON_KIND, Pair, record, upgrade, upgrade_twice
from tests.e2e.releases import KindCluster
from tests.support.commands import attempt

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2 * 3600)]

pairs = pytest.mark.parametrize("pair", ON_KIND, ids=lambda pair: pair.name)
New = Callable[..., KindCluster]


@pytest.fixture
def cluster(pair: Pair, engine: None, tmp_path: Path) -> New:  # noqa: ARG001 - it only skips
    """Makes clusters for a pair; skips where one of its operators cannot be had."""
    for build in pair.builds:
        show = attempt(PROGRAMS["helm3"].binary(), "show", "chart", *builds.chart(build.name))
        if show.returncode or not (builds.directory() is None or build.runs):
            pytest.skip(f"{build.name} cannot be had: {show.stderr}")

    def new(name: str, *, by_chart: bool = False) -> KindCluster:
        return KindCluster(tmp_path / name, pair.builds, by_chart=by_chart)

    return new


@pairs
def test_an_upgrade_with_the_job_recreates_no_pod(pair: Pair, cluster: New) -> None:
    """With the Jobs of manifests/ no pod is recreated, there or back; without, all that the target hashes otherwise."""
    result = upgrade_twice(pair, cluster, back=True)
    assert bool(result.without) is pair.recreates
    record(pair, "the Job", result, back=True)


@pairs
def test_an_upgrade_with_the_chart_recreates_no_pod(pair: Pair, cluster: New) -> None:
    """With the Jobs of our chart, which Helm waits for, no pod is recreated either, there or back."""
    with cluster("chart", by_chart=True) as charted:
        result = upgrade(pair, charted, back=True)
    record(pair, "the chart", result, back=True)
