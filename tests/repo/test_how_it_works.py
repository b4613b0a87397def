"""docs/how-it-works.md describes what the code does."""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrator.grove.hash_fields import PROGRESS_FIELDS, stored_hashes
from migrator.hashing import schemes
from migrator.hashing.canonical import canonicalize
from migrator.hashing.layouts import load
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


def moved(struct: str, prefix: str) -> tuple[set[str], set[str]]:
    """The lists of a struct that the canonical order moves, and those that it leaves; of the newest build with it."""
    newest = [scheme.minor for scheme in schemes.released_schemes() if scheme.algorithm == schemes.CANONICAL][-1]
    fields = {field[1]: field[2] for field in load(newest)[struct]}
    lists = {name for name, kind in fields.items() if kind.startswith("[]")}
    keys = ("name", "ip", "topologyKey", "mountPath", "devicePath")
    for name in lists | ({"claims"} if prefix else set()):
        reordered = [{**dict.fromkeys(keys, letter), "containerPort": ord(letter)} for letter in "ba"]
        inner = {"resources": {name: reordered}} if name == "claims" and prefix else {name: reordered}
        spec = {prefix: [inner]} if prefix else inner
        if canonicalize(spec) is not spec:
            lists = (lists - {name}) | {f"+{name}"}
    return {name[1:] for name in lists if name[0] == "+"}, {name for name in lists if name[0] != "+"}


def test_what_the_canonical_algorithm_sorts_is_what_the_code_sorts() -> None:
    """Each list of a pod spec and of a container is named as sorted or as printed, as the code treats it."""
    shown = {
        cells[0]: tuple(set(re.findall(r"`(\w+)`", cell)) - {"resources"} for cell in cells[1:])
        for cells in rows("Why it changes even though no spec changed", 1)
    }
    assert shown == {"the pod spec": moved("v1.PodSpec", ""), "a container": moved("v1.Container", "containers")}
    assert shown["a container"] == moved("v1.Container", "initContainers")


def test_it_names_what_exists() -> None:
    """Files and ConfigMaps that the page names are there under these names."""
    for path in re.findall(r"`(migrator/[\w./]+)`", PAGE):
        assert (ROOT / path).exists(), path
    assert f"`{RUN_NAME}`" in PAGE
