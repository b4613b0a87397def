"""What the options mean: schemes by name, images of the target, and the sets that the user selects."""

from __future__ import annotations

import pytest

from migrator.hashing import schemes
from migrator.releases.table import is_target
from tests.support.builders import World, options_of
from tests.support.tables import table

RELEASE = "A tag that is a release or build of the target's scheme."
NO_GUESS = "No guess for anything else."


@table(
    "image target named expected",
    *(
        (RELEASE, (image, "legacy-1.35", None, True))
        for image in (
            "ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.11",
            "grove-operator:0.1.0-alpha.11",
            "registry.local:5000/grove/grove-operator:v0.1.0-alpha.10@sha256:00",
            "grove-operator:main-fcc3b3bb",
        )
    ),
    *(
        (NO_GUESS, (image, "legacy-1.35", None, False))
        for image in (
            *("grove-operator:v0.1.0-alpha.9", "grove-operator:v0.1.0-alpha.99", "grove-operator:legacy-1.35"),
            *("grove-operator:latest", "grove-operator@sha256:00", "registry.local:5000/grove-operator", ""),
        )
    ),
    ("alpha.9 is one of its scheme.", ("o:v0.1.0-alpha.9", "legacy-1.34", None, True)),
    (
        "alpha.10-rc1 hashes like it, has hashes in names, and is not in the table.",
        ("o:v0.1.0-alpha.10-rc1", "legacy-1.34", None, False),
    ),
    ("--target-image names one image.", ("mine/op@sha256:00", "canonical-1.35", "mine/op@sha256:00", True)),
    ("Nothing near it.", ("mine/op@sha256:01", "canonical-1.35", "mine/op@sha256:00", False)),
)
def test_the_target_is_told_by_its_image(image: str, target: str, named: str | None, *, expected: bool) -> None:
    """By its release, or literally as the user names it."""
    assert is_target(image, schemes.by_name(target), named) is expected


@pytest.mark.parametrize(("namespace", "names"), [(None, ["one/web", "two/api"]), ("one", ["one/web"])])
def test_a_namespace_selects_sets(namespace: str | None, names: list[str]) -> None:
    """All of them without one."""
    trees = World().grow("web", namespace="one").grow("api", namespace="two").snapshot().trees
    options = options_of(namespace=namespace)
    assert [f"{tree.ref.namespace}/{tree.ref.name}" for tree in trees if options.selects(tree.pcs)] == names
