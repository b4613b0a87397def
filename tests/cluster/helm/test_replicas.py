"""An upgrade with Helm starts the operator again that a run has stopped: no field of its Deployment is ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests.cluster.helm.release import Release, Way
from tests.cluster.manifests.site import NAMESPACE, NEW, OLD

pytestmark = pytest.mark.controlplane

HELM_3: Final = Way("helm3")
SERVER_SIDE: Final = Way("helm4", ("--server-side=true",))
CLIENT_SIDE: Final = Way("helm4", ("--server-side=false",))
WAYS: Final = [
    pytest.param((HELM_3, HELM_3), id="helm 3"),
    pytest.param((SERVER_SIDE, SERVER_SIDE), id="helm 4 server-side"),
    pytest.param((CLIENT_SIDE, CLIENT_SIDE), id="helm 4 client-side"),
    pytest.param((HELM_3, Way("helm4")), id="helm 4 after helm 3"),
    pytest.param((HELM_3, SERVER_SIDE), id="helm 4 server-side after helm 3", marks=pytest.mark.slow),
]


def image(release: Release) -> str:
    """The operator's image."""
    [container] = release.deployment()["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def patch_replicas(release: Release, subresource: str | None) -> None:
    """Set the operator's replicas to zero as `grove-migrator` does it, or on the Deployment itself."""
    path = release.site.admin.kind("apps/v1", "Deployment").path(NAMESPACE, "grove-operator", subresource)
    body = [{"op": "replace", "path": "/spec/replicas", "value": 0}]
    query = {"fieldManager": "grove-migrator"}
    release.site.admin.call("PATCH", path, body, query=query, content_type="application/json-patch+json")


def migrate(release: Release, *flags: str) -> None:
    """``grove-migrator run`` as an administrator at a terminal starts it."""
    command = [sys.executable, "-m", "migrator", "run", "--to", NEW, "--kubeconfig", str(release.helm.kubeconfig)]
    done = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("way", WAYS)
def test_the_upgrade_after_a_run_brings_the_operator_back(release: Release, way: tuple[Way, Way]) -> None:
    """A run stops two replicas and leaves no trace in the Deployment's managedFields; the upgrade starts two again."""
    first, second = way
    release.install(first, OLD)
    release.site.plant()
    migrate(release, "--stop-operator")
    assert (release.deployment()["spec"]["replicas"], release.site.operators()) == (0, [])
    assert release.replicas_owners() == []
    assert "grove-migrator" not in release.managers()
    release.upgrade_to(second, NEW)
    assert (release.deployment()["spec"]["replicas"], image(release)) == (2, f"example.test/grove-operator:{NEW}")
    assert "grove-migrator" not in release.managers()
    release.wait_for_pods()


def test_a_zero_on_the_deployment_itself_would_conflict_server_side(release: Release) -> None:
    """The negative control: the same zero, written past ``/scale``, is owned, and Helm 4 stops at it."""
    release.install(SERVER_SIDE, OLD)
    patch_replicas(release, None)
    assert ("grove-migrator", "Update") in release.replicas_owners()
    upgraded = release.upgrade(SERVER_SIDE, NEW)
    assert upgraded.returncode != 0
    assert 'conflict with "grove-migrator"' in upgraded.stderr
    assert ".spec.replicas" in upgraded.stderr
    assert release.deployment()["spec"]["replicas"] == 0


def test_a_zero_through_scale_does_not_conflict(release: Release) -> None:
    """The same request through ``/scale``, and nothing else in between: Helm 4 takes it back."""
    release.install(SERVER_SIDE, OLD)
    patch_replicas(release, "scale")
    assert release.replicas_owners() == []
    release.upgrade_to(SERVER_SIDE, NEW)
    assert release.deployment()["spec"]["replicas"] == 2


@pytest.mark.slow
def test_two_helm_steps_need_nobody_else_to_touch_the_deployment(release: Release) -> None:
    """The runbook's other way: Helm itself scales to zero with the old chart, and back with the new one."""
    release.install(SERVER_SIDE, OLD)
    release.site.plant()
    release.replicas = 0
    release.upgrade_to(SERVER_SIDE, OLD)
    release.wait_for_pods()
    generation = release.deployment()["metadata"]["generation"]
    before = release.site.objects()
    migrate(release)
    assert release.site.objects() == release.site.expected(before, OLD, NEW)
    assert release.deployment()["metadata"]["generation"] == generation
    release.replicas = 2
    release.upgrade_to(SERVER_SIDE, NEW)
    assert (release.deployment()["spec"]["replicas"], image(release)) == (2, f"example.test/grove-operator:{NEW}")
