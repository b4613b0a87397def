"""Strings that may be hashes, wherever an object holds them, so that no place where an operator keeps one is missed.

A hash is 64 bits wide, so a string that equals one is one. What is found here outside the known places
(``migrator/grove/places.py``) was written by an operator that keeps hashes where nobody has looked yet.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from migrator.exact_json import JSONObject
from migrator.grove.model import (
    LABEL_GENERATION_HASH,
    LABEL_PART_OF,
    LABEL_POD_TEMPLATE_HASH,
    Ref,
    Sighting,
)
from migrator.grove.places import PROGRESS_FIELDS

T = TypeVar("T")

#: The API groups whose objects are searched; of a pod it is the metadata.
GROUPS: Final = ("grove.io", "scheduler.grove.io")

#: What Grove spells the ten digits as (``operator/internal/utils/kubernetes/pod.go:ComputeHash``).
_DIGITS: Final = "456789bcdf"
#: A hash of fewer digits occurs once in 10**9 templates; a shorter string means something else.
_SHORTEST: Final = 11
_LONGEST: Final = 20

_RUN: Final = b"x" * _SHORTEST
_DIGITS_ONLY: Final = bytes(ord("x") if chr(code) in _DIGITS else ord(" ") for code in range(256))

_GENERATION_PROGRESS: Final = tuple(("status", name, "podCliqueSetGenerationHash") for name in PROGRESS_FIELDS)
_LABEL: Final = ("metadata", "labels", LABEL_POD_TEMPLATE_HASH)
_GENERATION: Final = ("status", "currentPodCliqueSetGenerationHash")
_KNOWN: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "PodCliqueSet": (("status", "currentGenerationHash"),),
    "PodClique": (
        _LABEL,
        ("status", "currentPodTemplateHash"),
        _GENERATION,
        *_GENERATION_PROGRESS,
        *(("status", name, "podTemplateHash") for name in PROGRESS_FIELDS),
    ),
    "PodCliqueScalingGroup": (_GENERATION, *_GENERATION_PROGRESS),
    "PodGang": (("metadata", "labels", LABEL_GENERATION_HASH),),
    "Pod": (_LABEL,),
}
#: The known place in a PodGangMap, without the position of the entry.
_ENTRY: Final = ("spec", "entries", "", "podCliqueSetGenerationHash")


class Sweep:
    """Collects the sightings of every object that it is shown, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], Sighting] = {}

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """What was found, in the order of reading."""
        return tuple(self._found.values())

    def over(self, project: Callable[[JSONObject], T]) -> Callable[[JSONObject], T]:
        """The same projection, which looks at each object as it passes."""

        def both(raw: JSONObject) -> T:
            self.look(raw)
            return project(raw)

        return both

    def look(self, raw: JSONObject) -> None:
        """Search one object, a pod's metadata only."""
        kind = str(raw.get("kind"))
        meta, searched = raw.get("metadata") or {}, raw
        if "managedFields" in meta:  # names of fields, no values
            meta = {key: value for key, value in meta.items() if key != "managedFields"}
            searched = {**raw, "metadata": meta}
        if kind == "Pod":
            searched = {"metadata": meta}
        known = _KNOWN.get(kind, ())
        runs = _runs(searched)
        if runs == 0 or runs == sum(_may_be_hash(_at(raw, path)) for path in known):
            return
        found: list[tuple[tuple[str, ...], str]] = []
        _search(searched, (), found)
        for path, value in found:
            if path in known or (kind == "PodGangMap" and _is_entry(path)):
                continue
            namespace, name = str(meta.get("namespace") or ""), str(meta.get("name"))
            ref = Ref(kind, namespace, name, str(meta.get("uid") or ""))
            pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)
            part_of = (meta.get("labels") or {}).get(LABEL_PART_OF)
            self._found[kind, namespace, name, pointer] = Sighting(ref, pointer, value, part_of)


def hashes_in(value: object) -> object:
    """A value without its strings that are no hashes; :class:`Sweep` finds in it what it would find in the whole."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {str(key): kept for key, part in items if (kept := hashes_in(part)) is not None} or None
    return value if _may_be_hash(value) else None


def _runs(value: Any) -> int | None:  # noqa: ANN401 - any JSON value
    """How many runs of hash digits the value's strings have; ``None`` where that cannot be counted.

    Counted over a serialisation that Python makes in C, because this sees every string of a cluster. Version 2 of it
    writes each string out where it stands. A hash is one run, and so may be something else, never the reverse.
    """
    try:
        return marshal.dumps(value, 2).translate(_DIGITS_ONLY).count(_RUN)
    except ValueError:  # a number in a spelling of its own
        return None


def _at(raw: JSONObject, path: tuple[str, ...]) -> object:
    node: object = raw
    for step in path:
        if not isinstance(node, dict):
            return None
        node = node.get(step)
    return node


def _may_be_hash(value: object) -> bool:
    return type(value) is str and _SHORTEST <= len(value) <= _LONGEST and not value.strip(_DIGITS)


def _is_entry(path: tuple[str, ...]) -> bool:
    return len(path) == len(_ENTRY) and (*path[:2], "", path[3]) == _ENTRY


def _search(node: object, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> None:
    """Every string below ``node`` that looks like a hash, with its path."""
    if isinstance(node, str):
        if _may_be_hash(node):
            found.append((path, node))
    elif isinstance(node, dict):
        for key, value in node.items():
            _search(value, (*path, str(key)), found)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            _search(value, (*path, str(index)), found)
