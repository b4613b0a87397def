"""The packed chart in a cluster, by real Helm 3 and 4: a release of its own, and the wrappers of examples/helm."""

from __future__ import annotations

import shutil

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
    verify = ("--set", f"target={NEW}", "--set", "mode=verify", "--set", "verify.settle=60s")
    cluster.succeed("upgrade", "--install", "grove-migrator", ours, *verify)
    assert cluster.jobs() == {"grove-migrator": "Complete", "grove-migrator-verify": "Complete"}
    assert (cluster.site.names("ConfigMap"), cluster.site.objects()) == ([], after)
    cluster.succeed("uninstall", "grove-migrator")
    assert cluster.ours(RIGHTS, "ClusterRole") == []


@pytest.mark.parametrize("helm", ["helm3", "helm4"])
def test_a_refused_run_fails_and_the_same_command_runs_it_again(cluster: Cluster, helm: str) -> None:
    """A target that is not a release fails the Job and Helm, which prints its log; nothing is disturbed or in the way.

    Helm ends when the Job fails, and does not wait for its own timeout.
    """
    cluster.program = helm
    ours = str(packed(cluster.directory / "packed"))
    before = cluster.install(OLD)
    again = ("upgrade", "--install", "grove-migrator", ours, "--timeout=145m", "--set")
    refused = cluster.do(*again, "target=v0.1.0-alpha.99")
    assert refused.returncode != 0
    assert "alpha.99" in refused.stderr
    assert cluster.jobs() == {"grove-migrator": "Failed"}
    assert (cluster.site.objects(), cluster.site.replicas()) == (before, 2)
    cluster.succeed(*again, f"target={NEW}")
    assert cluster.jobs() == {"grove-migrator": "Complete"}
    assert cluster.site.objects() == cluster.site.expected(before, OLD, NEW)


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
    check = ("--set", "grove-migrator.verify.enabled=true", "--set", "grove-migrator.verify.settle=60s")
    cluster.succeed("upgrade", "platform", str(new), *cluster.grove(), *check, "--timeout=35m")
    after = cluster.site.expected(before, OLD, NEW)
    assert cluster.jobs() == {"grove-migrator": "Complete", "grove-migrator-verify": "Complete"}
    assert (cluster.tag(), cluster.site.objects(), cluster.site.names("ConfigMap")) == (NEW, after, [])
    cluster.running(2)
    cluster.succeed("rollback", "platform", "1", "--timeout=35m")
    assert (cluster.tag(), cluster.site.objects()) == (OLD, before)
    cluster.running(2)


def test_a_pod_that_never_starts_is_over_before_helm_gives_up(cluster: Cluster) -> None:
    """No node fits the hook's pod: the Job's deadline ends it, Helm fails for the Job's sake, nothing runs later.

    The chart's times are made short here: ten seconds for the Job, of the 120 that Helm has.
    """
    cluster.prefix = "grove."
    old, new = (wrapper("grove", cluster.directory, tag) for tag in (OLD, NEW))
    [archive] = (new / "charts").glob("grove-migrator-*.tgz")
    shutil.unpack_archive(archive, new / "charts", filter="data")
    archive.unlink()
    helpers = new / "charts" / "grove-migrator" / "templates" / "_helpers.tpl"
    text = helpers.read_text(encoding="utf-8")
    assert (text.count(" 1200"), text.count("sub $seconds 360")) == (1, 1)
    helpers.write_text(text.replace(" 1200", " 60").replace("$seconds 360", "$seconds 110"), encoding="utf-8")
    before = cluster.begin("grove", old)
    nowhere = ("grove-migrator.helmTimeout=120s", "grove-migrator.nodeSelector.none=such")
    settings = [word for value in nowhere for word in ("--set", value)]
    refused = cluster.do("upgrade", "grove", str(new), *cluster.grove(), *settings, "--timeout=120s")
    assert refused.returncode != 0
    assert "DeadlineExceeded" in refused.stderr + str(cluster.ours("batch/v1", "Job"))
    assert cluster.jobs() == {"grove-migrator": "Failed"}
    assert (cluster.site.objects(), cluster.site.replicas(), cluster.tag()) == (before, 2, OLD)


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
