"""Put into the pages what the program says, between two marks: ``python -m scripts.readme``.

Into README.md the output of examples/demo.sh, into docs/upgrade.md the schemes with their releases, and into
docs/how-it-works.md the places of stored hashes, and what each minor of k8s.io/api changed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from migrator.grove.places import HASH_FIELDS
from migrator.hashing import layouts
from migrator.releases import table

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
UPGRADE: Final = ROOT / "docs" / "upgrade.md"
HOW_IT_WORKS: Final = ROOT / "docs" / "how-it-works.md"
#: It repeats Container's fields.
_REPEATED: Final = "v1.EphemeralContainerCommon"


def _between(name: str, text: str, shown: str) -> str:
    """The text with ``shown`` between two marks of that name."""
    marked = re.compile(rf"(<!-- {name}: begin [^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    made, times = marked.subn(lambda match: f"{match[1]}{shown}\n{match[2]}", text)
    if times != 1:
        raise ValueError(f"the marks of {name} are there {times} times")
    return made


def with_releases(text: str) -> str:
    """A page with the release table as it is: a row for each scheme that a build uses."""
    rows = "\n| scheme | releases that use it |\n|---|---|\n"
    for scheme in table.released_schemes():
        rows += f"| `{scheme}` | {', '.join(table.builds_with(scheme))} |\n"
    return _between("releases", text, rows)


def with_places(text: str) -> str:
    """A page with the table of places as it is, in the order of writing."""
    rows = "\n| object | field | hash of | under `OnDelete` |\n|---|---|---|---|\n"
    for place in HASH_FIELDS:
        kind = "its clique" if place.template else "the set"
        left = "may be older" if place.leftover else ""
        rows += f"| {place.kind} | `{place.pointer}` | {kind} | {left} |\n"
    return _between("places", text, rows)


def with_minors(text: str) -> str:
    """A page with what each minor of k8s.io/api adds to structs that it shares with the minor before, and removes."""
    rows = "\n| step of k8s.io/api | what the text gains or loses |\n|---|---|\n"
    for old, new in pairwise(layouts.minors()):
        gone, come = _fields(new, old), _fields(old, new)
        parts = [f"`{name}` goes" for name in gone] + [f"`{name}` comes" if gone else f"`{name}`" for name in come]
        rows += f"| 0.{old[2:]} to 0.{new[2:]} | {', '.join(parts) or 'nothing'} |\n"
    return _between("minors", text, rows)


def _fields(old: str, new: str) -> list[str]:
    """The fields that structs of both minors have in the new one only, in the order of structs and fields."""
    before, after = layouts.load(old), layouts.load(new)
    both = sorted(name for name in after.keys() & before.keys() - {_REPEATED} if not isinstance(after[name], str))
    return [
        f"{name.removeprefix('v1.')}.{field[0]}" for name in both for field in after[name] if field not in before[name]
    ]


def demo() -> str:
    """What the demo prints on stdout, with this Python and this source tree as its grove-migrator."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "grove-migrator"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m migrator "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        path = f"{directory}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [str(ROOT / "examples" / "demo.sh")],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def pages() -> Iterator[tuple[Path, str]]:
    """Each page with what the program says now."""
    texts = {page: page.read_text(encoding="utf-8") for page in (README, UPGRADE, HOW_IT_WORKS)}
    yield README, _between("demo", texts[README], f"```\n{demo().strip()}\n```")
    yield UPGRADE, with_releases(texts[UPGRADE])
    yield HOW_IT_WORKS, with_minors(with_places(texts[HOW_IT_WORKS]))


def main() -> None:
    """Write the pages; a test checks that they are current."""
    for page, text in pages():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
