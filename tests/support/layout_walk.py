"""Every place of a pod template that JSON can fill, read from the layout files.

Deliberately not the loader of the hash core: what a test expects must not come from the code under test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.golden.layouts import LAYOUTS

Path_ = tuple[str | int, ...]

# Set values of these are refused: what Go prints of them depends on the operator's process, or on lost bytes.
REFUSED = frozenset({"v1.Time", "v1.FieldsV1"})


@dataclass(frozen=True, slots=True)
class Place:
    """One place: the path in a template's input, and the Go type that fills it, with its `*`."""

    path: Path_
    type: str

    def __str__(self) -> str:
        return ".".join(str(part) for part in self.path)


@cache
def types(minor: str) -> dict[str, Any]:
    """Return all types of a minor, what its file shares with older minors included."""
    content = json.loads((LAYOUTS / f"{minor}.json").read_text(encoding="utf-8"))
    shared = types(content["base"]) if "base" in content else {}
    kept = {name: fields for name, fields in shared.items() if name not in content.get("removed", ())}
    return {**kept, **content["types"]}


@cache
def custom(minor: str) -> frozenset[str]:
    """Return the types that decode themselves."""
    content = json.loads((LAYOUTS / f"{minor}.json").read_text(encoding="utf-8"))
    return frozenset(content["custom"]) if "custom" in content else custom(content["base"])


def places(minor: str) -> Iterator[Place]:
    """Yield every place of a template input, parents before what is inside them."""
    yield Place(("labels",), "map[string]string")
    yield Place(("annotations",), "map[string]string")
    yield from _inside(minor, ("podSpec",), "v1.PodSpec")


def _inside(minor: str, path: Path_, go_type: str) -> Iterator[Place]:
    bare = underlying(minor, go_type.removeprefix("*"))
    if bare.startswith("[]"):
        yield from _inside(minor, (*path, 0), bare[2:])
        return
    for name, inner in fields(minor, bare):
        yield Place((*path, name), inner)
        yield from _inside(minor, (*path, name), inner)


def fields(minor: str, go_type: str) -> Iterator[tuple[str, str]]:
    """Yield JSON name and Go type of every field of a struct, embedded ones included; else nothing."""
    declared = types(minor).get(go_type)
    if go_type in custom(minor) or not isinstance(declared, list):
        return
    for _, name, inner in declared:
        if name == "":
            yield from fields(minor, inner)
        elif name is not None:
            yield name, inner


def underlying(minor: str, go_type: str) -> str:
    """Return `[]T`, `map[K]V` or a basic type for a name of one; struct names stay as they are."""
    declared = types(minor).get(go_type)
    return underlying(minor, declared) if isinstance(declared, str) else go_type


def filled(minor: str, go_type: str, n: int = 1) -> Any:
    """Return a JSON value that sets every field inside a type; another `n` gives other scalars everywhere.

    Fields inside of types that are refused are left out.
    """
    bare = go_type.removeprefix("*")
    if bare in custom(minor):
        return _filled_custom(bare, n)
    basic = underlying(minor, bare)
    if basic.startswith("[]"):
        return [filled(minor, basic[2:], n)]
    if basic.startswith("map["):
        return {f"key{n}": filled(minor, basic.partition("]")[2], n)}
    if basic in types(minor):
        inner = fields(minor, basic)
        return {name: filled(minor, kind, n) for name, kind in inner if kind.removeprefix("*") not in REFUSED}
    return {"string": f"text{n}", "bool": True, "int32": n, "int64": n}[basic]


def _filled_custom(go_type: str, n: int) -> Any:
    return {
        "resource.Quantity": f"{n}",
        "intstr.IntOrString": n,
        "v1.Time": f"2024-05-06T07:08:{n:02}Z",
        "v1.FieldsV1": {f"f:key{n}": {}},
    }[go_type]


def document(path: Path_, value: Any) -> Any:
    """Return the smallest JSON value that has `value` at `path`; a list has one element on the way."""
    for part in reversed(path):
        value = [value] if part == 0 else {part: value}
    return value
