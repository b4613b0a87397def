"""The digest of the binary that was read, against the operator's own image."""

from __future__ import annotations

import pytest

from migrator.hashing import schemes
from migrator.planning.images import is_target
from migrator.resources import CONFIG_MAPS, DEPLOYMENTS, PODS
from migrator.run import operator, target_image
from tests.run.test_operator import config_map, deployment, pod
from tests.support.small_cluster import SmallCluster

READ, OTHER = f"sha256:{64 * 'a'}", f"sha256:{64 * 'b'}"
TARGET = schemes.by_name("legacy-1.35")


@pytest.mark.parametrize(
    ("image", "accepted"),
    [
        (f"example.test/operator:v0.1.0-alpha.11@{READ}", True),
        (f"example.test/operator:v0.1.0-alpha.11@{OTHER}", False),
        (f"example.test/operator@{READ}", True),
        ("example.test/operator:v0.1.0-alpha.11", True),
        ("example.test/operator:latest", False),
    ],
)
def test_a_digest_decides_where_the_image_names_one(image: str, *, accepted: bool) -> None:
    """An image by digest is the target's if the digest is that of what was read; one by tag as without a digest."""
    assert is_target(image, TARGET, None, frozenset({READ})) is accepted


def test_without_a_digest_nothing_changes() -> None:
    """What was read of a bare binary has no digest, and the tag decides."""
    image = f"example.test/operator:v0.1.0-alpha.11@{OTHER}"
    assert is_target(image, TARGET, None)


@pytest.mark.parametrize(
    ("image_id", "problems"),
    [
        (f"example.test/operator@{READ}", 0),
        (f"docker-pullable://example.test/operator@{OTHER}", 1),
        (OTHER, 0),
        ("", 0),
    ],
)
def test_the_running_image_is_compared(image_id: str, problems: int) -> None:
    """An imageID from a registry must be the one that was read; one that names no registry's digest says nothing."""
    running = pod("grove-operator-1")
    running["status"]["containerStatuses"] = [{"name": "grove-operator", "imageID": image_id}]
    cluster = SmallCluster((DEPLOYMENTS, deployment()), (CONFIG_MAPS, config_map()), (PODS, running))
    found = list(target_image.others(cluster, operator.find(cluster, operator.Flags()).operator, frozenset({READ})))
    assert len(found) == problems
    for ref, _, message in found:
        assert ref.name == "grove-operator-1"
        assert READ in message
        assert OTHER in message


def test_without_an_operator_there_is_nothing_to_compare() -> None:
    """No operator is no problem of this comparison."""
    assert not list(target_image.others(SmallCluster(), None, frozenset({READ})))
