"""The digest of the binary that was read, against the operator's own image."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.planning.images import other_digest, pulled_digests
from migrator.planning.options import PlanOptions
from migrator.run import operator
from migrator.run.context import RunOptions
from migrator.run.observation import Observation
from testbed import operator_installation as installation
from tests.simulation import cluster
from tests.support.memory_store import MemoryStore

READ, OTHER = f"sha256:{64 * 'a'}", f"sha256:{64 * 'b'}"


@pytest.mark.parametrize(
    ("image_id", "other"),
    [
        (f"example.test/operator@{READ}", False),
        (f"docker-pullable://example.test/operator@{OTHER}", True),
        (OTHER, False),
        ("", False),
    ],
)
def test_the_running_image_is_compared(image_id: str, *, other: bool) -> None:
    """An imageID from a registry must be the one that was read; one that names no registry's digest says nothing."""
    said = other_digest(pulled_digests(_pulled(installation.pod(cluster.NEW_IMAGE), image_id)), frozenset({READ}))
    assert (said is not None) is other
    assert said is None or (READ in said and OTHER in said)
    assert other_digest(frozenset({OTHER}), frozenset()) is None


def _pulled(pod: dict[str, Any], image_id: str) -> dict[str, Any]:
    pod["status"]["containerStatuses"] = [{"name": "grove-operator", "imageID": image_id}]
    return pod


@pytest.mark.parametrize("image", [cluster.NEW_IMAGE, cluster.OLD_IMAGE], ids=["target", "source"])
@pytest.mark.parametrize("digest", [READ, OTHER], ids=["read", "other"])
def test_a_run_refuses_another_build_of_the_target(image: str, digest: str) -> None:
    """A pod that counts as the target's by its tag, and was pulled by another digest than was read, refuses the run."""
    store = MemoryStore({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.NAMESPACE}})
    for item in (
        *cluster.operator(image=image),
        _pulled(installation.pod(image), f"registry.example/op@{digest}"),
    ):
        store.put(item)
    options = RunOptions(PlanOptions(target=cluster.TARGET), stop_operator=True, target_digests=frozenset({READ}))
    seen = Observation(options, operator.find(store, options.flags))
    said = [finding.message for finding in seen.findings() if READ in finding.message]
    assert len(said) == (image == cluster.NEW_IMAGE and digest == OTHER)
    assert all(OTHER in one and "read the deployed image" in one for one in said)
