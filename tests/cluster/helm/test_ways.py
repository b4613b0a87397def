"""The ways of docs/upgrade.md and docs/dynamo.md that need Helm or kubectl: a shell runs every block as it stands."""

from __future__ import annotations

import pytest

from tests.cluster.helm.cluster import RIGHTS, Cluster
from tests.cluster.helm.reader import NEW, Reader
from tests.cluster.helm.wrapper import operator_chart, platform_chart, wrapper
from tests.repo.pages import blocks

pytestmark = pytest.mark.controlplane

OLD = "v0.1.0-alpha.8"
#: By page: the release, where Grove's values are in its chart, what makes the chart, and the wrapper of examples/helm.
CHARTS = {
    "upgrade": ("grove", "", operator_chart, "grove"),
    "dynamo": ("dynamo-platform", "grove.", platform_chart, "dynamo"),
}


@pytest.mark.parametrize(
    ("page", "section", "helm"), [("upgrade", "Helm", "helm4"), ("dynamo", "Bundled Grove", "helm3")]
)
def test_migrate_upgrade_verify_and_back(cluster: Cluster, page: str, section: str, helm: str) -> None:
    """The three steps of a page, and its way back: every hash is translated, and the new operator has its replicas."""
    release, cluster.prefix, make, _ = CHARTS[page]
    cluster.program = helm
    old, new = make(cluster.directory / "old", OLD), make(cluster.directory / "new", NEW)
    reader = Reader(cluster, helm, RELEASE=release, CHART=str(new), VERSION="1.4.0")
    before = cluster.begin(release, old)
    after = cluster.site.expected(before, OLD, NEW)
    _, migrate, upgrade, verify, *_ = blocks(page, section)
    reader.type(migrate)
    assert (cluster.site.objects(), cluster.site.replicas(), cluster.tag()) == (after, 0, OLD)
    reader.type(upgrade)
    cluster.running(2)
    assert cluster.tag() == NEW
    reader.type(verify)
    assert (cluster.site.objects(), cluster.site.names("ConfigMap"), cluster.ours(RIGHTS, "Role")) == (after, [], [])
    reader.type(blocks(page, "Going back")[-1])
    cluster.running(2)
    assert (cluster.site.objects(), cluster.tag()) == (before, OLD)


def test_the_platform_stops_grove_by_the_subcharts_value(cluster: Cluster) -> None:
    """`grove.replicaCount=0` stops the operator and `grove.replicaCount=1` starts the new one; between them, a run."""
    cluster.prefix = "grove."
    old, new = (platform_chart(cluster.directory / name, tag) for name, tag in (("old", OLD), ("new", NEW)))
    variables = {"RELEASE": "dynamo-platform", "OLD_CHART": str(old), "CHART": str(new), "VERSION": "1.4.0"}
    reader = Reader(cluster, "helm4", **variables)
    before = cluster.begin("dynamo-platform", old)
    _, migrate, _, _, by_hand, _ = blocks("dynamo", "Bundled Grove")
    stop, start = by_hand.splitlines()
    reader.type("helm upgrade $RELEASE $OLD_CHART -n $NAMESPACE --reuse-values --set replicaCount=0")
    assert cluster.site.replicas() == 2, "it is the subchart's value"
    reader.type(stop)
    cluster.running(0)
    reader.type(migrate)
    reader.type(start)
    cluster.running(1)
    assert (cluster.tag(), cluster.site.objects()) == (NEW, cluster.site.expected(before, OLD, NEW))


@pytest.mark.parametrize(("page", "section"), [("upgrade", "As a hook of Helm"), ("dynamo", "Bundled Grove")])
def test_the_hook_takes_over_a_plain_release(cluster: Cluster, page: str, section: str) -> None:
    """A release of Grove's or Dynamo's own chart is upgraded to the wrapper, and migrated on the way."""
    release, cluster.prefix, make, kind = CHARTS[page]
    reader = Reader(cluster, "helm4", RELEASE=release, WRAPPER=str(wrapper(kind, cluster.directory, NEW)))
    before = cluster.begin(release, make(cluster.directory / "old", OLD))
    reader.type(blocks(page, section)[-1])
    assert (cluster.jobs(), cluster.tag()) == ({"grove-migrator": "Complete"}, NEW)
    assert cluster.site.objects() == cluster.site.expected(before, OLD, NEW)
    cluster.running(1)


def test_reuse_values_would_start_the_old_operator(cluster: Cluster) -> None:
    """Why the pages forbid it: with `--reuse-values` the new chart installs the old chart's image tag."""
    old, new = (operator_chart(cluster.directory / name, tag) for name, tag in (("old", OLD), ("new", NEW)))
    cluster.succeed("install", "grove", str(old))
    cluster.succeed("upgrade", "grove", str(new), "--reuse-values")
    assert cluster.tag() == OLD
    cluster.succeed("upgrade", "grove", str(new), "--reset-then-reuse-values")
    assert cluster.tag() == NEW


@pytest.mark.parametrize("namespace", ["grove-system"])
def test_the_job_by_kubectl_alone(cluster: Cluster) -> None:
    """Delete, apply, wait; and the rights go when the upgrade is over. The manifests name their namespace."""
    reader = Reader(cluster, "helm4", RELEASE="grove")
    before = cluster.begin("grove", operator_chart(cluster.directory / "old", OLD))
    run, remove = blocks("upgrade", "kubectl")
    reader.type(run)
    assert cluster.site.objects() == cluster.site.expected(before, OLD, NEW)
    reader.type(remove)
    assert cluster.ours(RIGHTS, "ClusterRole") == []
