"""docs/how-it-works.md tells what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrator.grove.places import PROGRESS_FIELDS, stored_hashes
from migrator.hashing.layouts import load, minors
from migrator.run.record import RUN_NAME, TABLES_PREFIX
from tests.support.builders import World
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "how-it-works.md").read_text()


def rows(heading: str) -> Iterator[list[str]]:
    """The cells of the first table below a heading, without its head."""
    text = PAGE.partition(f"# {heading}\n")[2]
    table = re.search(r"(?m)^\|.*\n\|[-|]*\n((?:\|.*\n)+)", text)
    assert table is not None, heading
    for line in table[1].splitlines():
        yield [cell.strip() for cell in line.strip("|").split("|")]


def test_the_table_of_places_is_complete() -> None:
    """Every kind and field in which the code finds a hash is in the table, and nothing else."""
    found = set()
    for progress in PROGRESS_FIELDS:
        world = World().grow(pods=1, group_replicas=1, maps=True, progress=(progress,))
        (tree,) = world.snapshot().trees
        for item in stored_hashes(tree):
            field = re.sub(r"/entries/\d+/", "/entries/<n>/", item.field).replace(
                "rollingUpdateProgress", "updateProgress"
            )
            found.add((item.ref.kind, field))
    told = set()
    for _, objects, fields, _ in rows("Where hashes are stored"):
        for pointer in re.findall(r"`(/[^`]+)`", fields):
            kinds = objects.split(", ")
            gang = "PodGang" if pointer.startswith("/metadata/labels/grove.io~1podcliqueset") else kinds[0]
            told.add((gang, pointer))
    assert told == found


def test_what_the_text_gains_and_loses_is_what_the_layouts_say() -> None:
    """The fields that each API minor adds to or takes from what a template may hold are those of the page."""
    told = {
        cells[0]: set(re.findall(r"`(\w+\.\w+)`", cells[1]))
        for cells in rows("Why it changes though nobody changed anything")
    }
    expected = {}
    for before, after in zip(minors(), minors()[1:], strict=False):
        old, new = load(before), load(after)
        expected[f"{before.replace('1.', '0.')} to {after.replace('1.', '0.')}"] = {
            f"{name.removeprefix('v1.')}.{field[0]}"
            for name in old.keys() & new.keys()
            if not isinstance(old[name], str) and name != "v1.EphemeralContainerCommon"  # it repeats Container
            for field in {*map(tuple, old[name])} ^ {*map(tuple, new[name])}
        }
    assert told == expected


def test_it_names_what_exists() -> None:
    """Files and ConfigMaps that the page names are there under these names."""
    for path in re.findall(r"`(migrator/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), path
    assert f"`{RUN_NAME}`" in PAGE
    assert f"`{TABLES_PREFIX}<n>`" in PAGE
