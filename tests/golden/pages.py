"""The tables in pages that follow from the oracles: which minors there are, and what each of them changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from testbed.oracle import HERE, MINORS
from tests.golden.layouts import layout

CHANGES = HERE.parents[1] / "docs" / "how-it-works.md"
ORACLES = HERE / "README.md"
_CHANGES_HEAD = "| step of k8s.io/api | what the text gains or loses |\n|---|---|\n"
_ORACLES_HEAD = "| directory | k8s.io/api and apimachinery | schemes |\n|---|---|---|\n"
#: It repeats Container's fields.
_REPEATED = "v1.EphemeralContainerCommon"


def rendered() -> dict[Path, str]:
    """Return the text of every page with its table as it should be."""
    return {
        CHANGES: _with_rows(CHANGES, _CHANGES_HEAD, _steps()),
        ORACLES: _with_rows(ORACLES, _ORACLES_HEAD, _oracles()),
    }


def _with_rows(page: Path, head: str, rows: Iterator[str]) -> str:
    before, found, after = page.read_text(encoding="utf-8").partition(head)
    if not found:
        raise ValueError(f"{page} has no table that begins with {head!r}")
    return before + head + "".join(rows) + re.sub(r"^(?:[|].*\n)+", "", after)


def _steps() -> Iterator[str]:
    types = {minor: layout(minor)["types"] for minor in MINORS}
    for old, new in pairwise(MINORS):
        gone, come = _fields(types[new], types[old]), _fields(types[old], types[new])
        parts = [f"`{name}` goes" for name in gone] + [f"`{name}` comes" if gone else f"`{name}`" for name in come]
        yield f"| {_api(old)} to {_api(new)} | {', '.join(parts) or 'nothing'} |\n"


def _fields(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The fields that types of both have in the new one only, in the order of types and fields."""
    both = [name for name in new if name in old and name != _REPEATED and not isinstance(new[name], str)]
    return [
        f"{name.removeprefix('v1.')}.{field[0]}"
        for name in sorted(both)
        for field in new[name]
        if field not in old[name]
    ]


def _oracles() -> Iterator[str]:
    for minor in MINORS:
        found = re.search(r"k8s\.io/api (v\S+)", (HERE / f"v{minor}" / "go.mod").read_text(encoding="utf-8"))
        if found is None:
            raise ValueError(f"the go.mod of {minor} does not name k8s.io/api")
        yield f"| `v{minor}` | {found[1]} | `legacy-{minor}`, `canonical-{minor}` |\n"


def _api(minor: str) -> str:
    return minor.replace("1.", "0.", 1)
