"""``helm upgrade`` of a chart that owns webhooks out of which a run has left its account."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from migrator.kube import store as kube_store
from migrator.planning.webhooks import CONDITION, expression, webhooks_of
from migrator.run import webhooks
from testbed.controlplane.client import JSON_PATCH, Client
from testbed.controlplane.server import ControlPlane
from testbed.helm import PROGRAMS
from tests.cluster.site import NAMESPACE, NEW, USER
from tests.cluster.webhooks import GUARD, KIND, configuration
from tests.support.command_line import Invoke
from tests.support.commands import attempt
from tests.support.tables import table

pytestmark = pytest.mark.controlplane

OURS: Final = {"name": CONDITION, "expression": expression(USER)}
AUTHORITY: Final = configuration(*GUARD)["webhooks"][0]["clientConfig"]["caBundle"]
THEIRS: Final = {"name": "theirs", "expression": "true"}


def chart(directory: Path, seconds: int, **rest: Any) -> Path:
    """A chart with the guard's configuration, whose authority the operator writes, as it does in Grove's."""
    item = configuration(*GUARD, timeoutSeconds=seconds, **rest)
    del item["webhooks"][0]["clientConfig"]["caBundle"]
    (directory / "templates").mkdir(parents=True)
    about = {"apiVersion": "v2", "name": "grove-charts", "version": "1.0.0"}
    (directory / "Chart.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    (directory / "templates" / "webhook.yaml").write_text(yaml.safe_dump(item), encoding="utf-8")
    return directory


def upgrade(helm: str, server: ControlPlane, chart: Path, *flags: str) -> None:
    where = ("--namespace", NAMESPACE, "--create-namespace", "--kubeconfig", server.kubeconfig)
    done = attempt(PROGRAMS[helm].binary(), "upgrade", "--install", "grove", chart, *where, *flags)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def api_with_release(api: Client) -> Iterator[Client]:
    """The API server, without what a release leaves."""
    yield api
    api.delete({"apiVersion": KIND[0], "kind": KIND[1], "metadata": {"name": GUARD[0]}})
    for secret in api.list("v1", "Secret", NAMESPACE, selector="owner=helm"):
        api.delete(secret)


@pytest.mark.parametrize("left", [False, True], ids=["removed at its end", "left by a kill"])
@table(
    "first then flags",
    ("Helm 3.", ("helm3", "helm3", ())),
    ("Helm 4.", ("helm4", "helm4", ())),
    ("Helm 3, then Helm 4.", ("helm3", "helm4", ())),
    ("Helm 3, then Helm 4 by server-side apply.", ("helm3", "helm4", ("--server-side=true",))),
)
def test_the_next_helm_upgrade_has_no_conflict(
    api_with_release: Client,
    control_plane: ControlPlane,
    invoke: Invoke,
    tmp_path: Path,
    *,
    first: str,
    then: str,
    flags: tuple[str, ...],
    left: bool,
) -> None:
    """The chart's changes arrive, also a condition of its own; one of ours that was left stays, and verify names it."""
    api = api_with_release
    upgrade(first, control_plane, chart(tmp_path / "old", 10))
    add = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": AUTHORITY}]
    path = api.kind(*KIND).path(None, GUARD[0])
    api.call("PATCH", path, add, content_type=JSON_PATCH, query={"fieldManager": "grove-operator"})
    cluster = kube_store.connect(kubeconfig=str(control_plane.kubeconfig), context=None)
    webhooks.open_for(cluster, USER, webhooks_of(api.get(*KIND, GUARD[0])))
    assert api.get(*KIND, GUARD[0])["webhooks"][0]["matchConditions"] == [OURS]
    if not left:
        webhooks.close(cluster)
    upgrade(then, control_plane, chart(tmp_path / "new", 20, matchConditions=[THEIRS]), *flags)
    [hook] = api.get(*KIND, GUARD[0])["webhooks"]
    assert hook["timeoutSeconds"] == 20
    assert hook["clientConfig"]["caBundle"] == AUTHORITY
    assert THEIRS in hook["matchConditions"]
    assert (OURS in hook["matchConditions"]) == left
    assert len(hook["matchConditions"]) == 1 + left
    verified = invoke("verify", "--to", NEW, "--after-upgrade", "--kubeconfig", control_plane.kubeconfig, code=7)
    assert ("still leaves an account of grove-migrator out" in verified.out + verified.err) is left
    if left:
        webhooks.close(cluster)
        assert api.get(*KIND, GUARD[0])["webhooks"][0]["matchConditions"] == [THEIRS]
