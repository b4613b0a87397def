"""Which PodCliqueSets the user means: kubectl's grammar of -n and -l."""

from __future__ import annotations

import pytest

from migrator.errors import UsageError
from migrator.planning.options import Selection
from migrator.selectors import matches_labels
from tests.support.builders import World

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
