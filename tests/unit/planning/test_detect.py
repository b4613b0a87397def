"""Which scheme explains a tree: order, ties, half-migrated trees, leftovers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH, Ref
from migrator.grove.places import CLIQUE_LABEL, POD_LABEL, SET_GENERATION, HashField, StoredHash, stored_hashes
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import IN_ORDER, SetHashes
from migrator.planning.detect import HashPair, Verdict, detect
from tests.support.builders import LABEL, OLD, World, clique
from tests.support.tables import table

CANDIDATES = schemes.all_schemes()
#: The target of most tests.
TO = "legacy-1.35"
ALIKE: dict[str, Any] = {"cliques": [clique("front", containers=("a", "b"))], "groups": {}}


def names(world: World, candidates: Sequence[str] = (), target: str = TO) -> tuple[str | None, str]:
    """The source of the only tree of a world, and the likely one; without candidates as ``--from auto`` finds them."""
    (tree,) = world.snapshot().trees
    tried = tuple(map(schemes.by_name, candidates)) or CANDIDATES
    pair, explained = detect(tree.pcs, tuple(stored_hashes(tree)), tried, schemes.by_name(target))
    likely = pair.source.scheme.name
    return likely if explained else None, likely


@pytest.mark.parametrize("scheme", [name for name in map(str, CANDIDATES) if name != TO])
def test_every_shipped_scheme_is_found(scheme: str) -> None:
    """The operator may be newer than the table of releases: ``auto`` finds the schemes of all layouts."""
    assert names(World().grow(scheme=scheme)) == (scheme, scheme)


def old_pods(*, alone: bool) -> World:
    """Pods of an older template under OnDelete, ``alone`` if nothing else holds a hash."""
    world = World().grow(on_delete=True)
    for pod in world.all("Pod"):
        pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = OLD
    for item in world.objects if alone else ():
        item["status"] = {}
        if item["kind"] != "Pod":
            item["metadata"].get("labels", {}).pop(LABEL_POD_TEMPLATE_HASH, None)
    return world


STRAY = ("Pod", "web-0-front-0", LABEL)
TARGETS = "Where no candidate gives any value, and the target gives some, the target itself is nearest."


def mixed() -> World:
    """A tree of legacy-1.34 with one value of legacy-1.33, and a set's hash of neither."""
    world = World().grow().put("PodCliqueSet", "web", "/status/currentGenerationHash")
    return world.put(*STRAY, world.hashes("legacy-1.33").templates["front"])


def half_way() -> World:
    """A legacy tree of which some values are the canonical hashes of its own layout."""
    world = World().grow()
    world.apply(world.decide("auto", "canonical-1.34").changes[:5])
    return world


@table(
    "world candidates target source likely_source",
    (
        "A source given by name is not replaced by a better one.",
        (World().grow(), ["legacy-1.33"], TO, None, "legacy-1.33"),
    ),
    (
        "Where legacy and canonical hashes are equal, the first in the order of the table is named.",
        (World().grow(scheme="canonical-1.37", **ALIKE), [], TO, "legacy-1.37", "legacy-1.37"),
    ),
    (
        "Candidates by name are tried in their own order.",
        (
            World().grow(scheme="canonical-1.34", **ALIKE),
            *(["canonical-1.34", "legacy-1.34"], TO, "canonical-1.34", "canonical-1.34"),
        ),
    ),
    (
        "Under InOrder the canonical generation hash differs from the legacy one even where all templates agree.",
        (World().grow(scheme="canonical-1.34", startup=IN_ORDER, **ALIKE), [], TO, "canonical-1.34", "canonical-1.34"),
    ),
    (
        "A tree between legacy and canonical is explained by the layout that both share.",
        (half_way(), [], "canonical-1.34", "legacy-1.34", "legacy-1.34"),
    ),
    (
        "A tree all of whose values are the target's is done, and the target is its source.",
        (World().grow(scheme="canonical-1.34"), [], "canonical-1.34", "canonical-1.34", "canonical-1.34"),
    ),
    (
        "So is a legacy tree where the canonical hash is the legacy one.",
        (World().grow(scheme=TO, **ALIKE), [], "canonical-1.35", "canonical-1.35", "canonical-1.35"),
    ),
    (
        "One value of neither scheme is enough: nothing explains the tree, and the nearest scheme is named.",
        (World().grow().put(*STRAY), [], TO, None, "legacy-1.34"),
    ),
    (
        "The scheme of the set's own hash is nearer than the scheme of more values.",
        (World().grow(scheme="legacy-1.33").put_generation_of("canonical-1.35"), [], TO, None, "canonical-1.35"),
    ),
    (
        "Of two candidates, the one that gives more of the values.",
        (mixed(), ["legacy-1.33", "legacy-1.34"], TO, None, "legacy-1.34"),
    ),
    (
        "Half an update to the target's hashes, and a pod of an edit: the old scheme is nearer, or all would be done.",
        (World().grow().put_generation_of(TO).put(*STRAY), [], TO, None, "legacy-1.34"),
    ),
    (
        "It is where the lists are in order, too: then the target's generation hash is also a canonical scheme's.",
        (World().grow(**ALIKE).put_generation_of(TO).put(*STRAY), [], TO, None, "legacy-1.34"),
    ),
    (TARGETS, (World().grow(scheme=TO).put(*STRAY), [], TO, None, TO)),
    (TARGETS, (World().grow(scheme=TO).put(*STRAY), ["legacy-1.33"], TO, None, TO)),
    (
        "Where no value is of any scheme, the first candidate stands in.",
        (World().grow(cliques=[clique("front")], groups={}).edit(), [], TO, None, "legacy-1.33"),
    ),
    (
        "Under OnDelete older pods speak neither for a scheme nor against one.",
        (old_pods(alone=False), [], TO, "legacy-1.34", "legacy-1.34"),
    ),
    ("Leftovers alone prove nothing.", (old_pods(alone=True), [], TO, None, "legacy-1.33")),
)
def test_the_scheme_of_a_tree(
    world: World, candidates: list[str], target: str, source: str | None, likely_source: str
) -> None:
    """Whatever is done to a tree, it is explained by one scheme, or by none, and then one is nearest."""
    assert names(world, candidates, target) == (source, likely_source)


@table(
    "value place of verdict",
    ("The source's.", ("old-a", POD_LABEL, "a", Verdict.SOURCE)),
    ("The target's.", ("new-a", CLIQUE_LABEL, "a", Verdict.TARGET)),
    ("What both schemes give is the target's.", ("both", SET_GENERATION, None, Verdict.TARGET)),
    ("A hash of another clique.", ("old-a", CLIQUE_LABEL, "b", Verdict.FOREIGN)),
    ("The target's hash of another clique.", ("new-a", CLIQUE_LABEL, "b", Verdict.FOREIGN)),
    ("A clique that the template lacks.", ("old-a", POD_LABEL, "gone", Verdict.FOREIGN)),
)
def test_each_value_is_judged_by_its_own_field(value: str, place: HashField, of: str | None, verdict: Verdict) -> None:
    """A value is compared with the hashes of its own clique, or with the set's."""
    source, target = (SetHashes(CANDIDATES[0], "both", {"a": f"{age}-a", "b": f"{age}-b"}) for age in ("old", "new"))
    pair = HashPair(source, target)
    assert pair.classify(StoredHash(Ref("Any", "ns", "x", "uid"), place, "/x", value, of)) is verdict
