"""JSON documents in a text, and the positions of their values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from migrator import exact_json
from migrator.stores.json_stream import Path, PlacedError, after_space

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)

#: Deeper than any field of an object that we know, and the depth at which Go refuses a text.
_DEEP: Final = 200
_DEEPEST: Final = 10_000

# Only people escape these. Go does not undo escapes within a quantity, so it would refuse the quantity.
_IN_QUANTITIES: Final = " +-.0123456789EGKMPTeikmnu"
_ESCAPE: Final = re.compile(
    rf"\\(?:u(?:{'|'.join(f'{ord(one):04x}' for one in _IN_QUANTITIES)})|.)", re.DOTALL | re.IGNORECASE
)


def decode(text: str, index: int) -> tuple[Any, int]:
    """The value at an index, and its end; for :class:`~migrator.stores.json_stream.Stream`."""
    try:
        value, end = _DECODER.raw_decode(text, index)
    except RecursionError:
        value, end = _shallow(text, index)
    escapes = _ESCAPE.finditer(text, index, end) if text.find("\\u00", index, end) >= 0 else ()
    for match in escapes:
        if len(match[0]) > 2:  # noqa: PLR2004 - any other escape
            raise PlacedError(
                f"{match[0]} stands for a character that needs no escape; Go does not undo it within a quantity, so "
                "write the character itself",
                match.start(),
            )
    return value, end


def _shallow(text: str, index: int) -> tuple[Any, int]:
    """The document at an index, with null for what is nested too deep to be in a field that is known, and its end."""
    parts, depth, begin = [], 0, index
    for match in _TOKEN.finditer(text, index):
        if match[0] in "[{":
            depth += 1
            if depth == _DEEP:
                parts.append(text[begin : match.start()])
        elif match[0] in "]}":
            depth -= 1
            if depth == _DEEP - 1:
                parts.append("null")
                begin = match.end()
        if depth > _DEEPEST:
            break
        if not depth:
            value, _ = _DECODER.raw_decode("".join([*parts, text[begin : match.end()]]))
            return value, match.end()
    raise ValueError("nested too deeply")


def spans(text: str, start: int, wanted: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """The spans of the values at the wanted paths, in the document that begins at ``start``; the rest is skipped."""
    inner = {path[:length] for path in wanted for length in range(len(path))}
    found: dict[Path, tuple[int, int]] = {}

    def walk(index: int, path: Path) -> int:
        """Pass over the value at ``index`` and return its end."""
        if path not in inner or text[index] not in "{[":
            _, end = _SKIPPER.raw_decode(text, index)
            if path in wanted:
                found[path] = (index, end)
            return end
        is_object = text[index] == "{"
        index = after_space(text, index + 1)
        number = 0
        while text[index] not in "}]":
            key: str | int = number
            if is_object:
                key, index = _SKIPPER.raw_decode(text, index)
                index = after_space(text, after_space(text, index) + 1)  # behind the colon
            index = after_space(text, walk(index, (*path, key)))
            if text[index] == ",":
                index = after_space(text, index + 1)
            number += 1
        return index + 1

    walk(start, ())
    return found


_DECODER: Final = exact_json.decoder()
_SKIPPER: Final = json.JSONDecoder()
