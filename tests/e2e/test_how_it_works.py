"""docs/how-it-works.md describes what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrator.grove.hash_fields import PROGRESS_FIELDS, stored_hashes
from migrator.run.record import RUN_NAME
from tests.support.builders import World
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "how-it-works.md").read_text()


def rows(heading: str, number: int = 0) -> Iterator[list[str]]:
    """The cells of a table below a heading, by default of the first, without its head."""
    text = PAGE.partition(f"# {heading}\n")[2]
    tables = re.findall(r"(?m)^\|.*\n\|[-|]*\n((?:\|.*\n)+)", text)
    assert len(tables) > number, heading
    for line in tables[number].splitlines():
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
    shown = set()
    for _, objects, fields, _ in rows("Where hashes are stored"):
        for pointer in re.findall(r"`(/[^`]+)`", fields):
            kinds = objects.split(", ")
            gang = "PodGang" if pointer.startswith("/metadata/labels/grove.io~1podcliqueset") else kinds[0]
            shown.add((gang, pointer))
    assert shown == found


def test_it_names_what_exists() -> None:
    """Files and ConfigMaps that the page names are there under these names."""
    for path in re.findall(r"`(migrator/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), path
    assert f"`{RUN_NAME}`" in PAGE
