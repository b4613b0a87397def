"""The upgrades of tests/upgrade again, on kind: real kubelets, published charts, and the tool as its Job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade.kind.cluster import KindCluster
from tests.upgrade.kind.commands import lacking_charts
from tests.upgrade.matrix import ON_KIND, Pair, upgrade_twice

pytestmark = [pytest.mark.kind, pytest.mark.timeout(4 * 3600)]


@pytest.mark.parametrize("pair", ON_KIND, ids=lambda pair: pair.name)
def test_an_upgrade_on_kind_recreates_no_pod_with_the_job_and_all_without(
    pair: Pair, image: str, tmp_path: Path
) -> None:
    """Between releases, with the Job of manifests/job.yaml no pod is recreated, without it all that hash otherwise."""
    reason = lacking_charts([build.name for build in pair.builds])
    if reason is not None:
        pytest.skip(reason)
    result = upgrade_twice(pair, lambda name: KindCluster(tmp_path / name, image))
    assert result.without
    assert result.with_tool == 0
