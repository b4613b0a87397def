"""``scheme.json``: an operator's scheme in a file, so that one machine can read the binary for another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from migrator.errors import InputError
from migrator.hashing import layouts
from migrator.hashing.layouts import Layout
from migrator.hashing.schemes import CANONICAL, LEGACY, Scheme

FORMAT: Final = 1
_AGAIN: Final = "Make it again with `scheme PROGRAM -o json`."
_FLAGS: Final = ("canonical", "acceptsLegacy", "hashInNames", "podGangMaps")


@dataclass(frozen=True, slots=True)
class Recognised:
    """An algorithm, its flags, and the functions that show it; a canonical one accepts the legacy hash of its layout.

    ``hash_in_names`` is that of :class:`~migrator.hashing.schemes.Release`. ``pod_gang_maps``: it keeps the generation
    hash in PodGangMaps too.
    """

    algorithm: str
    hash_in_names: bool
    pod_gang_maps: bool
    by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperatorScheme:
    """The scheme of an operator. ``labels`` and ``warnings`` are only for people: no decision reads them."""

    recognised: Recognised
    layout: Layout
    labels: Mapping[str, str]
    warnings: tuple[str, ...] = ()

    @property
    def scheme(self) -> Scheme:
        """The scheme by name; :func:`~migrator.hashing.layouts.adopt` makes its layout known."""
        return Scheme(self.recognised.algorithm, layouts.name_of(self.layout))


def encode(found: OperatorScheme) -> str:
    """The text of the file."""
    shown = found.recognised
    is_canonical = shown.algorithm == CANONICAL
    flags = (is_canonical, is_canonical, shown.hash_in_names, shown.pod_gang_maps)
    document = {
        "formatVersion": FORMAT,
        "scheme": found.scheme.name,
        "algorithm": shown.algorithm,
        "layout": {},
        "layoutDigest": layouts.digest(found.layout),
        "flags": dict(zip(_FLAGS, flags, strict=True)),
        "recognisedBy": list(shown.by),
        "labels": dict(found.labels),
        "warnings": list(found.warnings),
    }
    types = ",\n".join(f"    {json.dumps(name)}: {json.dumps(one)}" for name, one in sorted(found.layout.items()))
    return json.dumps(document, indent=2).replace('"layout": {}', f'"layout": {{\n{types}\n  }}', 1) + "\n"


def decode(text: bytes) -> OperatorScheme:
    """Read a file; raises :class:`~migrator.errors.InputError` unless every part of it agrees with the others."""
    try:
        document = json.loads(text)
        if document["formatVersion"] != FORMAT:
            number = document["formatVersion"]
            raise InputError(f"this scheme.json has format {number}, and format {FORMAT} can be read. {_AGAIN}")
        return _decoded(document)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else error
        raise InputError(f"this is not a scheme.json: {why}. {_AGAIN}") from error


def _decoded(document: Mapping[str, Any]) -> OperatorScheme:
    algorithm, flags = document["algorithm"], document["flags"]
    if set(flags) != set(_FLAGS) or not all(isinstance(flag, bool) for flag in flags.values()):
        raise ValueError(f"its flags are {sorted(flags)}")
    layout = layouts.parse(document["layout"])
    if layouts.digest(layout) != document["layoutDigest"]:
        raise ValueError("its layout has another digest than it states")
    if algorithm not in {LEGACY, CANONICAL} or flags["canonical"] != (algorithm == CANONICAL):
        raise ValueError(f"its algorithm is {algorithm}")
    if flags["acceptsLegacy"] != flags["canonical"]:
        raise ValueError(f"its algorithm is {algorithm}, and acceptsLegacy is {json.dumps(flags['acceptsLegacy'])}")
    by = tuple(map(_text, document["recognisedBy"]))
    found = OperatorScheme(
        recognised=Recognised(algorithm, flags["hashInNames"], flags["podGangMaps"], by),
        layout=layout,
        labels={name: _text(text) for name, text in document["labels"].items()},
        warnings=tuple(map(_text, document["warnings"])),
    )
    # An older version of ours may have given its own name to a layout that is shipped by now.
    if document["scheme"] not in {found.scheme.name, f"{algorithm}-{layouts.digest_name(layout)}"}:
        raise ValueError(f"it names the scheme {document['scheme']}, but its layout is that of {found.scheme.name}")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value
