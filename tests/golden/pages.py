"""The table of docs/how-it-works.md that follows from the oracles: what each minor of k8s.io/api changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from testbed.oracle import MINORS
from tests.golden.layouts import layout
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "how-it-works.md"
_HEAD = "| step of k8s.io/api | what the text gains or loses |\n|---|---|\n"
#: It repeats Container's fields.
_REPEATED = "v1.EphemeralContainerCommon"


def rendered() -> str:
    """Return the text of the page with its table as it should be."""
    before, found, after = PAGE.read_text(encoding="utf-8").partition(_HEAD)
    if not found:
        raise ValueError(f"{PAGE} has no table that begins with {_HEAD!r}")
    return before + _HEAD + "".join(_steps()) + re.sub(r"^(?:[|].*\n)+", "", after)


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


def _api(minor: str) -> str:
    return minor.replace("1.", "0.", 1)
