"""The Go struct layouts that ``dump.ForHash`` prints, one generated file per k8s.io/api minor.

A file is either whole or a delta to its ``base``; what minors share is stored once. A type is a list of fields
``[Go name, JSON name, Go type]`` in declaration order, or the text of its underlying type. The JSON name is empty
for an embedded struct, whose fields share the parent's JSON object, and null for what JSON never fills.
"""

from __future__ import annotations

import json
import os
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeAlias

Field: TypeAlias = tuple[str, str | None, str]
Layout: TypeAlias = Mapping[str, tuple[Field, ...] | str]


@cache
def minors() -> tuple[str, ...]:
    """The API minors that have a layout, oldest first."""
    names = (name for directory in __path__ for name in os.listdir(directory))  # noqa: PTH208 - cheaper to import
    found = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return tuple(sorted(found, key=lambda minor: int(minor.partition(".")[2])))


@cache
def load(minor: str) -> Layout:
    """Every type reachable from ``v1.PodTemplateSpec``, by the name that Go's reflection prints."""
    document = json.loads(pkgutil.get_data(__name__, f"{minor}.json") or b"")
    types = dict(load(document["base"])) if document.get("base") else {}
    for name in document.get("removed", ()):
        del types[name]
    types.update({name: _definition(definition) for name, definition in document["types"].items()})
    return types


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


def _definition(definition: Any) -> tuple[Field, ...] | str:  # noqa: ANN401 - JSON
    return definition if isinstance(definition, str) else tuple((go, key, kind) for go, key, kind in definition)
