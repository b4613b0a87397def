"""Images of the target: by a release's tag, or as the user names one."""

from __future__ import annotations

import pytest

from migrator.hashing import schemes
from migrator.planning.releases import is_target

TARGET = schemes.by_name("legacy-1.35")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.11", True),
        ("grove-operator:0.1.0-alpha.11", True),
        ("registry.local:5000/grove/grove-operator:v0.1.0-alpha.10", True),
        ("registry.local:5000/grove/grove-operator:v0.1.0-alpha.10@sha256:00", True),
        ("grove-operator:main-fcc3b3bb", True),
        ("grove-operator:v0.1.0-alpha.9", False),
        ("grove-operator:v0.1.0-alpha.10-rc1", False),
        ("grove-operator:v0.1.0-alpha.99", False),
        ("grove-operator:legacy-1.35", False),
        ("grove-operator:latest", False),
        ("grove-operator@sha256:00", False),
        ("registry.local:5000/grove-operator", False),
        ("", False),
    ],
)
def test_the_target_is_told_by_its_release(image: str, *, expected: bool) -> None:
    """A tag that is a release of the target's scheme; no guess for anything else."""
    assert is_target(image, TARGET, None) is expected


def test_hashes_in_names_are_never_a_target() -> None:
    """alpha.10-rc1 hashes like alpha.9, but cannot be migrated to."""
    assert is_target("o:v0.1.0-alpha.9", schemes.by_name("legacy-1.34"), None)
    assert not is_target("o:v0.1.0-alpha.10-rc1", schemes.by_name("legacy-1.34"), None)


def test_a_given_target_image_is_taken_literally() -> None:
    """--target-image names one image, the same text and nothing near it."""
    target = schemes.by_name("canonical-1.35")
    assert is_target("mine/op@sha256:00", target, "mine/op@sha256:00")
    assert not is_target("mine/op@sha256:01", target, "mine/op@sha256:00")
