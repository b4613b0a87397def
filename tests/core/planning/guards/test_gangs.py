"""PodGangMaps and PodGangs that cannot be migrated, or hold nothing to migrate."""

from __future__ import annotations

import pytest

from migrator.planning.model import TreeState
from tests.support.builders import World, refusals, warnings


def test_hashes_in_names_refuse() -> None:
    """alpha.10-rc1 keys entries by names that hold the hash, and marks its PodGangs."""
    world = World().grow(maps=True)
    for entry in world.of("PodGangMap", "web-0")["spec"]["entries"]:
        del entry["epoch"]
    gang = "web-0-1767323045000000000"
    world.of("PodGang", gang)["metadata"]["labels"]["grove.io/minimum-viable-unit"] = "x"
    assert refusals(world.findings()) == [
        ("GM-131", "web-0", "/spec/entries"),
        ("GM-131", gang, "/metadata/labels/grove.io~1minimum-viable-unit"),
    ]


@pytest.mark.parametrize("entries", [[], None])
def test_a_map_without_entries_warns(entries: object) -> None:
    """alpha.12 can leave a PodGangMap without entries: there is nothing to migrate in it."""
    world = World().grow(maps=True)
    world.of("PodGangMap", "web-0")["spec"]["entries"] = entries
    decided = world.decide()
    assert (decided.state, warnings(decided.findings)) == (TreeState.MIGRATE, [("GM-133", "web-0", "/spec/entries")])
