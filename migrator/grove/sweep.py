"""Strings that may be hashes, wherever an object holds them, so that no place where an operator keeps one is missed.

A hash is 64 bits wide, so a string that equals one is one. What is found here outside the known places
(``migrator/grove/places.py``) was written by an operator that keeps hashes where nobody has looked yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from migrator.exact_json import JSONObject
from migrator.grove.model import (
    LABEL_PART_OF,
    POINTER_GENERATION_HASH_LABEL,
    POINTER_TEMPLATE_HASH_LABEL,
    Ref,
    Sighting,
)
from migrator.grove.places import POINTER_GENERATION, POINTER_SET_GENERATION, POINTER_TEMPLATE, PROGRESS_FIELDS

T = TypeVar("T")

#: The API groups whose objects are searched; of a pod it is the metadata.
GROUPS: Final = ("grove.io", "scheduler.grove.io")

#: What Grove spells the ten digits as (``operator/internal/utils/kubernetes/pod.go:ComputeHash``).
_DIGITS: Final = "456789bcdf"
#: A hash of fewer digits occurs once in 10**9 templates; a shorter string means something else.
_SHORTEST: Final = 11
_LONGEST: Final = 20

_GENERATION_PROGRESS: Final = frozenset(f"/status/{name}/podCliqueSetGenerationHash" for name in PROGRESS_FIELDS)
_KNOWN: Final = {
    "PodCliqueSet": frozenset({POINTER_SET_GENERATION}),
    "PodClique": frozenset(
        {POINTER_TEMPLATE_HASH_LABEL, POINTER_TEMPLATE, POINTER_GENERATION, *_GENERATION_PROGRESS}
        | {f"/status/{name}/podTemplateHash" for name in PROGRESS_FIELDS}
    ),
    "PodCliqueScalingGroup": frozenset({POINTER_GENERATION, *_GENERATION_PROGRESS}),
    "PodGang": frozenset({POINTER_GENERATION_HASH_LABEL}),
    "Pod": frozenset({POINTER_TEMPLATE_HASH_LABEL}),
}
_GANG_MAP_ENTRY: Final = re.compile(r"/spec/entries/\d+/podCliqueSetGenerationHash")


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
        kind = raw.get("kind")
        found: list[tuple[tuple[str, ...], str]] = []
        if kind == "Pod":
            _search(raw.get("metadata"), ("metadata",), found)
        else:
            _search(raw, (), found)
        if not found:
            return
        known = _KNOWN.get(str(kind), frozenset())
        for path, value in found:
            pointer = "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in path)
            if pointer in known or (kind == "PodGangMap" and _GANG_MAP_ENTRY.fullmatch(pointer)):
                continue
            meta = raw.get("metadata") or {}
            namespace, name = str(meta.get("namespace") or ""), str(meta.get("name"))
            ref = Ref(str(kind), namespace, name, str(meta.get("uid") or ""))
            part_of = (meta.get("labels") or {}).get(LABEL_PART_OF)
            self._found[ref.kind, namespace, name, pointer] = Sighting(ref, pointer, value, part_of)


def _search(node: Any, path: tuple[str, ...], found: list[tuple[tuple[str, ...], str]]) -> None:  # noqa: ANN401, C901
    """Every string below ``node`` that looks like a hash. Written for speed: it sees every string of a cluster."""
    if type(node) is dict:
        for key, value in node.items():
            if type(value) is str:
                if _SHORTEST <= len(value) <= _LONGEST and value[0] in _DIGITS and not value.strip(_DIGITS):
                    found.append(((*path, key), value))
            elif value and type(value) in {dict, list} and key != "managedFields":
                _search(value, (*path, key), found)
    elif type(node) is list:
        for index, value in enumerate(node):
            if type(value) is str:
                if _SHORTEST <= len(value) <= _LONGEST and value[0] in _DIGITS and not value.strip(_DIGITS):
                    found.append(((*path, str(index)), value))
            elif value and type(value) in {dict, list}:
                _search(value, (*path, str(index)), found)
