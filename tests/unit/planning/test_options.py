"""What the options mean: schemes by name, images of the target, and the sets that the user selects."""

from __future__ import annotations

import pytest

from migrator.errors import UsageError
from migrator.hashing import schemes
from migrator.planning.options import PlanOptions, Selection, direction_of
from migrator.planning.releases import is_target
from migrator.selectors import matches_labels
from tests.support.builders import World
from tests.support.tables import table

SHIPPED = [f"{algorithm}-1.{minor}" for algorithm in ("legacy", "canonical") for minor in range(33, 38)]


@pytest.mark.parametrize(
    ("source", "target", "candidates", "scheme"),
    [
        ("auto", "legacy-1.35", SHIPPED, "legacy-1.35"),
        ("v0.1.0-alpha.9", "0.1.0-alpha.11", ["legacy-1.34"], "legacy-1.35"),
        ("legacy-1.33", "canonical-1.34", ["legacy-1.33"], "canonical-1.34"),
    ],
)
def test_names_become_schemes(source: str, target: str, candidates: list[str], scheme: str) -> None:
    """Releases and schemes by name, and ``auto`` for every shipped layout."""
    direction = direction_of(PlanOptions(source=source, target=target))
    assert [candidate.name for candidate in direction.candidates] == candidates
    assert direction.target.name == scheme


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


# --- kubectl's grammar of -n and -l -----------------------------------------------------------------------------------


LABELS = {"app": "web", "tier": "", "grove.io/x": "1", "size": "7", "in": "y", "long": "x" * 63}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        # a key, or none
        *((text, True) for text in (None, "", "  ", "app", "tier", "in", "!absent", "! absent")),
        *((text, False) for text in ("absent", "!app")),
        # equality
        *((text, True) for text in ("app=web", " app == web ", "tier=", "app!=other", "absent!=web")),
        *((text, False) for text in ("app=other", "absent=", "app!=web")),
        # sets
        *((text, True) for text in ("app in (web, api)", "tier in ()", "tier in (,a)", "in in (y)")),
        *((text, False) for text in ("app in(api)", "absent in (web)", "app notin (web)")),
        *((text, True) for text in ("app notin (api,db)", "absent notin (web)")),
        # several
        ("grove.io/x=1,app=web,!absent", True),
        *((text, False) for text in ("grove.io/x=1,app=db", "app=web,app!=web")),
        (f"long={'x' * 63}", True),
    ],
)
def test_selectors_match_as_in_the_api_server(selector: str | None, *, matches: bool) -> None:
    """Every operator of the API server's label selectors, and all terms must hold."""
    assert matches_labels(selector, LABELS) is matches


@pytest.mark.parametrize(
    "selector",
    [
        *(",", "app,", ",app", "app,,tier", "=web", "app=web tier", "app web"),
        *("app in web", "app in (web", "app in (web))", "app in (a b)", "app=-web", "app=web)"),
        *("-app", "a/b/c", "Upper/x=1", "/x", "x/", "!app=web", "!!app", "app=wéb"),
        *("size>", "size>6", "size < 8"),
        *(f"{'x' * 64}=1", f"app={'x' * 64}", f"{'x' * 254}/y"),
    ],
)
def test_what_the_api_server_rejects_is_rejected(selector: str) -> None:
    """A selector that is none says so, with examples, whatever there is to select from."""
    with pytest.raises(UsageError, match=r"is not a valid label selector; examples: app=web, tier!=cache"):
        matches_labels(selector, LABELS)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        (Selection(), ["one/web", "two/api"]),
        (Selection(namespace="one"), ["one/web"]),
        (Selection(selector="team=b"), ["two/api"]),
        (Selection(namespace="one", selector="team=b"), []),
    ],
)
def test_namespace_and_labels_select_sets(selection: Selection, names: list[str]) -> None:
    """A set is meant if both its namespace and its own labels fit."""
    world = World().grow("web", namespace="one").grow("api", namespace="two")
    for pcs, team in zip(world.all("PodCliqueSet"), "ab", strict=True):
        pcs["metadata"]["labels"] = {"team": team}
    trees = world.snapshot().trees
    assert [f"{tree.ref.namespace}/{tree.ref.name}" for tree in trees if selection.matches(tree.pcs)] == names
