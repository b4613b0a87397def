"""Strings anywhere in an object that may be hashes, so that no stored hash is missed.

A hash is 64 bits wide, so a string that equals a hash is one. A hash outside the known places
(``migrator/grove/places.py``) was written by an operator that keeps hashes in a place that is unknown here.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping
from typing import Any, Final

from migrator.exact_json import WITHOUT_REFERENCES, JSONObject, dumps
from migrator.grove.model import LABEL_GENERATION_HASH, LABEL_PART_OF, LABEL_POD_TEMPLATE_HASH, Ref, Sighting
from migrator.grove.places import PROGRESS_FIELDS
from migrator.resources import pointer

#: The API groups whose objects are searched; of a pod it is the metadata.
GROUPS: Final = ("grove.io", "scheduler.grove.io")

#: What Grove spells the ten digits as (``operator/internal/utils/kubernetes/pod.go:ComputeHash``).
_DIGITS: Final = "456789bcdf"
#: A hash of fewer digits occurs once in 10**9 templates; a shorter string means something else.
_SHORTEST: Final = 11
_LONGEST: Final = 20

#: How a string that may be a hash begins once all digits, and all that comes before a string, are alike.
_BEGINNING: Final = b'"' + b"x" * _SHORTEST
_ALIKE: Final = bytes(ord("x" if chr(code) in _DIGITS else '"' if chr(code) in '\0"' else " ") for code in range(256))

_LABELS: Final = ("metadata", "labels")
_PROGRESS: Final = tuple(("status", name) for name in PROGRESS_FIELDS)
_GENERATION: Final = "podCliqueSetGenerationHash"
#: The known places by kind: the fields of an object that hold a hash, by the path of that object.
_KNOWN: Final[Mapping[str, Mapping[tuple[str, ...], tuple[str, ...]]]] = {
    "PodCliqueSet": {("status",): ("currentGenerationHash",)},
    "PodClique": {
        _LABELS: (LABEL_POD_TEMPLATE_HASH,),
        ("status",): ("currentPodTemplateHash", "currentPodCliqueSetGenerationHash"),
        **dict.fromkeys(_PROGRESS, (_GENERATION, "podTemplateHash")),
    },
    "PodCliqueScalingGroup": {
        ("status",): ("currentPodCliqueSetGenerationHash",),
        **dict.fromkeys(_PROGRESS, (_GENERATION,)),
    },
    "PodGang": {_LABELS: (LABEL_GENERATION_HASH,)},
    "Pod": {_LABELS: (LABEL_POD_TEMPLATE_HASH,)},
}


class Sweep:
    """Collects the sightings of every object that it is shown, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str], Sighting] = {}

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """The sightings, in the order of reading."""
        return tuple(self._found.values())

    def look(self, raw: JSONObject, text: bytes | None = None) -> None:
        """Search an object; ``text`` is its JSON, if it came as JSON.

        It has nothing to report if its strings that begin as a hash does are as many as its hashes in known places.
        """
        known = _known_hashes(raw)
        if text is not None and _beginnings(text) == known:
            return
        if _beginnings(_serialised(raw["metadata"] if raw.get("kind") == "Pod" else raw)) != known:
            self._search(raw)

    def _search(self, raw: JSONObject) -> None:
        """Search the values of one object's fields; of a pod only the metadata."""
        kind, meta = str(raw.get("kind")), raw["metadata"]
        searched = {"metadata": {key: value for key, value in meta.items() if key != "managedFields"}}
        for path, value in _hashes(searched if kind == "Pod" else raw | searched):
            of_entry = kind == "PodGangMap" and path[:2] == ("spec", "entries") and path[3:] == (_GENERATION,)
            if of_entry or path[-1] in _KNOWN.get(kind, {}).get(path[:-1], ()):
                continue
            namespace, name = str(meta.get("namespace") or ""), str(meta.get("name"))
            ref = Ref(kind, namespace, name, str(meta.get("uid") or ""))
            part_of, field = (meta.get("labels") or {}).get(LABEL_PART_OF), pointer(*path)
            self._found[kind, namespace, name, field] = Sighting(ref, field, value, part_of)


def _beginnings(text: bytes) -> int:
    """How many strings begin as a hash does, counted in C, because this sees every string of a cluster."""
    return text.translate(_ALIKE).count(_BEGINNING)


def hashes_in(value: object) -> object:
    """A value without the strings that are not hashes; :class:`Sweep` finds the same in it as in the whole value."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {str(key): kept for key, part in items if (kept := hashes_in(part)) is not None} or None
    return value if _may_be_hash(value) else None


def _serialised(value: JSONObject) -> bytes:
    """The value as bytes, in which a quote or a zero byte comes before each string."""
    try:
        return marshal.dumps(value, WITHOUT_REFERENCES)
    except ValueError:  # a number in a spelling of its own
        return dumps(value).encode("utf-8", "surrogatepass")


def _known_hashes(raw: JSONObject) -> int:
    number = 0
    for path, fields in _KNOWN.get(str(raw.get("kind")), {}).items():
        holder: Any = raw
        for step in path:
            holder = holder.get(step) or {}
        number += sum(_may_be_hash(holder.get(name)) for name in fields)
    return number


def _may_be_hash(value: object) -> bool:
    return type(value) is str and _SHORTEST <= len(value) <= _LONGEST and not value.strip(_DIGITS)


def _hashes(node: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every string below ``node`` that looks like a hash, with its path."""
    if isinstance(node, str) and _may_be_hash(node):
        yield path, node
    elif isinstance(node, dict | list):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _hashes(part, (*path, str(key)))
