"""The Go struct layouts that ``dump.ForHash`` prints, one generated file per k8s.io/api minor.

A file is either whole or a delta to its ``base``; what minors share is stored once. A type is a list of fields
``[Go name, JSON name, Go type]`` in declaration order, or the text of its underlying type. The JSON name is empty
for an embedded struct, whose fields share the parent's JSON object, and null for what JSON never fills.
"""

from __future__ import annotations

import hashlib
import json
import os
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

Field: TypeAlias = tuple[str, str | None, str]
Layout: TypeAlias = Mapping[str, tuple[Field, ...] | str]

#: Layouts that were read from a binary or from a record, by the name that :func:`name_of` gives them.
_adopted: dict[str, Layout] = {}


@cache
def minors() -> tuple[str, ...]:
    """The API minors that have a layout, oldest first."""
    names = (name for directory in __path__ for name in os.listdir(directory))  # noqa: PTH208 - cheaper to import
    found = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return tuple(sorted(found, key=lambda minor: int(minor.partition(".")[2])))


def adopt(layout: Layout, name: str | None = None) -> str:
    """Make a layout that was read elsewhere known to :func:`load`, by default as :func:`name_of` names it."""
    name = name or name_of(layout)
    if name not in minors():
        _adopted[name] = layout
    return name


def adopted() -> tuple[str, ...]:
    """The names of the layouts that are known to this process and not shipped."""
    return tuple(_adopted)


def name_of(layout: Layout) -> str:
    """The oldest shipped minor with this very layout, else :func:`digest_name`."""
    shipped = next((minor for minor in minors() if dict(load(minor)) == dict(layout)), None)
    return shipped or digest_name(layout)


def digest_name(layout: Layout) -> str:
    """``x`` and the first 12 hexadecimal digits of a layout's digest."""
    return f"x{digest(layout).removeprefix('sha256:')[:12]}"


def title(name: str) -> str:
    """The origin of a layout, for people: a version of k8s.io/api, or a binary."""
    return f"k8s.io/api v0.{name.partition('.')[2]}" if name in minors() else f"a binary ({name})"


def digest(layout: Layout) -> str:
    """The sha256 of a layout's canonical JSON."""
    text = json.dumps(layout, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def parse(types: Mapping[str, Any]) -> Layout:
    """A layout from its JSON; raises ``ValueError`` for anything else."""
    try:
        found = {name: _definition(definition) for name, definition in types.items()}
    except (AttributeError, TypeError) as error:
        raise ValueError(f"not a layout: {error}") from error
    for name, definition in found.items():
        for go, key, kind in definition if isinstance(definition, tuple) else ():
            if {type(go), type(kind)} != {str} or not isinstance(key, str | None):
                raise ValueError(f"not a layout: {name}.{go}")
    return found


def load(minor: str) -> Layout:
    """Every type reachable from ``v1.PodTemplateSpec``, by the name that Go's reflection prints."""
    return _adopted.get(minor) or _shipped(minor)


@cache
def alike(older: str, newer: str, kind: str) -> bool:
    """Whether a Go type prints the same under two minors, all the way down; no type of a template contains itself."""
    element = re.sub(r"^(\*|\[\]|map\[[^\]]*\])+", "", kind)
    before, after = load(older).get(element, ()), load(newer).get(element, ())
    if isinstance(before, str) or before != after:
        return before == after and alike(older, newer, before)
    return all(alike(older, newer, child) for _, _, child in before)


@cache
def lost(minor: str, other: str) -> frozenset[str]:
    """The JSON names of the fields that ``minor`` has and ``other`` has not, in types that both have."""
    before, after = load(minor), load(other)
    return frozenset(key for kind in before.keys() & after.keys() for key in _keys(before[kind]) - _keys(after[kind]))


def _keys(definition: tuple[Field, ...] | str) -> frozenset[str]:
    return frozenset() if isinstance(definition, str) else frozenset(key for _, key, _ in definition if key)


@cache
def _shipped(minor: str) -> Layout:
    document = json.loads(pkgutil.get_data(__name__, f"{minor}.json") or b"")
    types = dict(load(document["base"])) if document.get("base") else {}
    for name in document.get("removed", ()):
        del types[name]
    types.update({name: _definition(definition) for name, definition in document["types"].items()})
    return types


def _definition(definition: Any) -> tuple[Field, ...] | str:  # noqa: ANN401 - JSON
    return definition if isinstance(definition, str) else tuple((go, key, kind) for go, key, kind in definition)
