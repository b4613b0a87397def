"""The CRDs of two releases on a real API server, applied as users do: what is seen, said, and done about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from migrator.planning.crds import application
from testbed.controlplane.client import Client, eventually
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from tests.cluster.helm.wrapper import grove_chart, platform_chart, published
from tests.support.command_line import Invoke
from tests.support.pages import blocks
from tests.support.shell import HELMS, Shell

pytestmark = pytest.mark.controlplane

OLD, NEW = "v0.1.0-alpha.8", "v0.1.0-alpha.12-rc1"
TOPOLOGY, BINDING = "clustertopologies", "clustertopologybindings"
MADE: Final = "made-by-somebody"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ControlPlane]:
    """An API server without CRDs."""
    with ControlPlane(tmp_path / "controlplane") as found:
        yield found


def served(client: Client) -> set[str]:
    """The plurals of Grove's kinds that can be listed."""
    answer = client.request("GET", "/apis/grove.io/v1alpha1")
    return {kind["name"] for kind in answer.body["resources"] if "list" in kind["verbs"]}


#: From one line's CRDs to those of another, for a target; the kind that is gone then, and the one that is there.
WAYS: Final = {
    "there": ("alpha.8", "alpha.11", NEW, "ClusterTopology", BINDING),
    "back": ("alpha.11", "alpha.8", OLD, "ClusterTopologyBinding", TOPOLOGY),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_crd_in_the_way_is_named_and_what_upgrade_says_removes_it(
    server: ControlPlane, invoke: Invoke, tmp_path: Path, way: str
) -> None:
    """Before and after other CRDs are applied; once it is typed, their kind is served, and the objects are in a file.

    Typed again it keeps the file.
    """
    before, after, target, kind, there = WAYS[way]
    [gone] = {TOPOLOGY, BINDING} - {there}
    block = blocks("upgrade", "The CRDs")[[*WAYS].index(way)]
    client = server.client()

    def named() -> list[str]:
        plan = invoke("plan", "--to", target, "--kubeconfig", server.kubeconfig, "-o", "json").json
        return [issue["name"] for issue in plan["advisories"] if issue["id"] == "GM-312"]

    both = {gone, there}
    apply_crds(client, before)
    made = {"apiVersion": "grove.io/v1alpha1", "kind": kind, "metadata": {"name": MADE}}
    client.apply({**made, "spec": {"levels": [{"domain": "rack", "key": "example.test/rack"}]}})
    assert both & served(client) == {gone}
    assert named() == [f"{gone}.grove.io"]
    apply_crds(client, after)
    assert both & served(client) == {gone}
    assert named() == [f"{gone}.grove.io"]
    shell = Shell(tmp_path / "shell", server.kubeconfig)
    shell.paste(block)
    saved = (shell.directory / f"{gone}.yaml").read_text(encoding="utf-8")
    assert f"    name: {MADE}\n" in saved
    with pytest.raises(AssertionError, match="the server doesn't have a resource type"):
        shell.paste(block)
    assert (shell.directory / f"{gone}.yaml").read_text(encoding="utf-8") == saved
    eventually(lambda: there in served(client), what=f"{there} is not served")
    assert named() == []


@pytest.mark.parametrize(
    ("page", "helm"), [("upgrade", HELMS[0]), *((page, HELMS[1]) for page in ("upgrade", "dynamo", "run"))]
)
def test_the_commands_for_crds_apply_groves_and_no_others(
    control_plane: ControlPlane, tmp_path: Path, page: str, helm: str
) -> None:
    """Those of the pages, and the one that ``run`` prints, from Grove's chart or Dynamo's, with each Helm."""
    block = {
        "upgrade": lambda: blocks("upgrade", "The CRDs")[2],
        "dynamo": lambda: blocks("dynamo", "Bundled Grove")[2],
        "run": lambda: application('"$VERSION"'),
    }[page]()
    chart = grove_chart(tmp_path / "grove-charts", NEW, NEW) if page == "upgrade" else platform_chart(tmp_path, NEW)
    with published(chart, tmp_path / "repository") as address:
        shell = Shell(tmp_path / "shell", control_plane.kubeconfig, helm=helm, CHART=address, VERSION="1.4.0")
        for _ in range(2):  # nothing is in the way of somebody who types it again
            applied = re.findall(r"(?m)^customresourcedefinition\S+/(\S+) serverside-applied$", shell.paste(block))
            assert {name.partition(".")[2] for name in applied} == {"grove.io", "scheduler.grove.io"}
            assert f"{BINDING}.grove.io" in applied
