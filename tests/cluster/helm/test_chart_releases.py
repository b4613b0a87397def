"""The packed chart in a cluster, by real Helm 3 and 4: a release of its own, and the wrappers of examples/helm."""

from __future__ import annotations

import pytest

from tests.cluster.helm.cluster import RIGHTS, Cluster
from tests.cluster.helm.wrapper import OURS, packed, template, wrapper
from tests.cluster.manifests.site import NEW, OLD
from tests.cluster.manifests.test_rendered import apply_strictly

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_a_release_of_its_own_before_the_upgrade(cluster: Cluster, helm: str) -> None:
    """Four commands: migrate, upgrade the operator, verify, uninstall. Each is over when Helm returns."""
    cluster.program = helm
    ours = str(packed(cluster.directory / "packed"))
    before = cluster.install(OLD)
    cluster.succeed("upgrade", "--install", "grove-migrator", ours, "--set", f"target={NEW}")
    assert cluster.jobs() == {"grove-migrator": "Complete"}
    after = cluster.site.expected(before, OLD, NEW)
    assert cluster.site.objects() == after != before
    assert (cluster.site.replicas(), cluster.site.names("ConfigMap")[:1]) == (0, ["grove-migrator-run"])
    cluster.upgrade_to(NEW)
    cluster.running(2)
    verify = ("--set", f"target={NEW}", "--set", "mode=verify", "--set", "verify.wait=60s")
    cluster.succeed("upgrade", "--install", "grove-migrator", ours, *verify)
    assert cluster.jobs() == {"grove-migrator": "Complete", "grove-migrator-verify": "Complete"}
    assert (cluster.site.names("ConfigMap"), cluster.site.objects()) == ([], after)
    cluster.succeed("uninstall", "grove-migrator")
    assert cluster.ours(RIGHTS, "ClusterRole") == []


@pytest.mark.parametrize(
    ("kind", "prefix", "helm"),
    [
        ("grove", "grove.", "helm3"),
        pytest.param("grove", "grove.", "helm4", marks=pytest.mark.slow),
        pytest.param("dynamo", "dynamo-platform.grove.", "helm3", marks=pytest.mark.slow),
        ("dynamo", "dynamo-platform.grove.", "helm4"),
    ],
)
def test_a_wrapper_migrates_before_its_upgrade_and_before_its_rollback(
    cluster: Cluster, kind: str, prefix: str, helm: str
) -> None:
    """One command there, one back: the hook of each revision migrates to the operator that it installs.

    The stand-in of dynamo-platform has Grove as its subchart; both live in dynamo-system. A tag that is set past the
    import fails before anything is disturbed, and the check after the upgrade closes the record.
    """
    cluster.program, cluster.prefix = helm, prefix
    old, new = (wrapper(kind, cluster.directory, tag) for tag in (OLD, NEW))
    before = cluster.begin("platform", old)
    assert cluster.jobs() == {}
    assert cluster.do("upgrade", "platform", str(old), *cluster.grove(f"image.tag={NEW}")).returncode != 0
    assert (cluster.jobs(), cluster.tag(), cluster.site.objects()) == ({}, OLD, before)
    check = ("--set", "grove-migrator.verify.enabled=true", "--set", "grove-migrator.verify.wait=60s")
    cluster.succeed("upgrade", "platform", str(new), *cluster.grove(), *check, "--timeout=35m")
    after = cluster.site.expected(before, OLD, NEW)
    assert cluster.jobs() == {"grove-migrator": "Complete", "grove-migrator-verify": "Complete"}
    assert (cluster.tag(), cluster.site.objects(), cluster.site.names("ConfigMap")) == (NEW, after, [])
    cluster.running(2)
    cluster.succeed("rollback", "platform", "1", "--timeout=35m")
    assert (cluster.tag(), cluster.site.objects()) == (OLD, before)
    cluster.running(2)


@pytest.mark.parametrize(
    "values",
    [
        ("mode=hook", "helmTimeout=35m", f"operator.image.tag={NEW}", "verify.enabled=true"),
        ("mode=argocd", f"target={NEW}", "verify.enabled=true"),
        ("mode=job", "targetBinary.image=example.test/grove-operator:mine"),
        ("mode=job", "targetBinary.configMap=next", "operator.lease=other", "operator.deployment=another"),
        ("mode=verify", f"target={NEW}", "tolerations[0].operator=Exists", "imagePullSecrets[0].name=pull"),
    ],
)
def test_the_server_knows_every_field(cluster: Cluster, values: tuple[str, ...]) -> None:
    """A server-side apply with strict validation takes whatever the values make of the chart, and warns of nothing."""
    for item in template("helm4", OURS, *values, namespace=cluster.site.namespace):
        taken = apply_strictly(cluster.site, item)
        assert (taken.status in {200, 201}, taken.headers.get("Warning")) == (True, None), taken.body
