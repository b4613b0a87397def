"""What the guards advise is possible: with the webhooks of a real operator, and with kubectl."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from testbed import workloads
from testbed.controlplane.client import JSON_PATCH, Object, eventually
from tests.upgrade import photo
from tests.upgrade.builds import BUILDS, need
from tests.upgrade.cluster import WORKLOADS
from tests.upgrade.lab import Lab

pytestmark = pytest.mark.upgrade

ALPHA_9 = BUILDS["v0.1.0-alpha.9"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """alpha.9 with a set whose clique names end alike, under every order of startup."""
    need(ALPHA_9.name)
    with Lab(tmp_path_factory.mktemp("remedies") / "lab") as found:
        found.install(ALPHA_9)
        for name, startup in (("anyorder", None), ("inorder", "CliqueStartupTypeInOrder")):
            cliques = [workloads.clique(clique, replicas=1) for clique in ("worker", "prefill-worker")]
            found.create_set(workloads.pod_clique_set(name, cliques, namespace=WORKLOADS, startup=startup))
        # Such sets never come to rest: what they store can never be current.
        eventually(lambda: len(found.photo().pods()) == 4, what="there are not four pods", seconds=found.settle_seconds)
        yield found


def accepts(lab: Lab, name: str, patch: list[Object]) -> bool:
    """Whether the operator's webhooks let a change of a set through."""
    path = lab.client.kind(photo.GROVE, photo.SET).path(WORKLOADS, name)
    query = {"dryRun": "All"}
    return lab.client.request("PATCH", path, patch, query=query, content_type=JSON_PATCH).status == 200


def test_the_way_out_of_the_suffix_trap_is_the_one_that_the_webhook_leaves(lab: Lab) -> None:
    """Cliques are reordered under AnyOrder only, and never renamed: GM-101 advises nothing else."""
    planned = json.loads(lab.tool("plan", "--to", "v0.1.0-alpha.11", "-o", "json").out)
    advice = {
        r["name"].partition("-0-")[0]: r["remedy"]
        for r in planned["refusals"]
        if "made from the template" in r["message"]
    }
    swapped = [{"op": "move", "from": "/spec/template/cliques/1", "path": "/spec/template/cliques/0"}]
    renamed = [{"op": "replace", "path": "/spec/template/cliques/1/name", "value": "prefill"}]
    assert "put prefill-worker before worker" in advice["anyorder"]
    assert accepts(lab, "anyorder", swapped)
    assert "does not allow cliques to be renamed or reordered" in advice["inorder"]
    assert not accepts(lab, "inorder", swapped)
    assert not accepts(lab, "anyorder", renamed)
    assert not accepts(lab, "inorder", renamed)
