"""JSON in which a number that is not a plain integer keeps its spelling, and durations as Go reads them.

Go parses the text of a quantity, so ``1e3`` and ``1000`` differ.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import Any, Final

import durationpy

JSONObject = dict[str, Any]

#: Go's durations alone: durationpy also reads days, and skips over what it cannot read.
_DURATION: Final = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")

_MAX_INT_DIGITS: Final = 4000  # below CPython's own limit for str to int

#: Strings and braces: by these the end of an object is found.
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}]', re.DOTALL)
_FIELD_SET: Final = re.compile(r'"fieldsV1"\s*:\s*(?=\{)')
_DEEPEST_FIELD_SET: Final = 100  # no field of Kubernetes is deeper

#: What stands before a number in the string that ``json`` prints in its place: no text of a user has it.
_MARK: Final = f"number {os.urandom(8).hex()} "
_MARKED: Final = re.compile(rf'"{_MARK}([^"]*)"')


@dataclass(frozen=True, slots=True)
class JSONNumber:
    """A JSON number that is not a plain integer, as it was spelt (``1.0``, ``1e3``, ``-0``)."""

    text: str

    def __str__(self) -> str:
        return self.text


def loads(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON, keeping number tokens; raises ``ValueError`` on anything that is not strict JSON.

    Whoever may change one object can write field sets into its ``managedFields`` that are nested more deeply than
    Python reads (measured), and so spoil every list with it: these are read as empty.
    """
    decoded = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    try:
        return _parsed(decoded)
    except RecursionError:
        return _parsed(_without_deep_field_sets(decoded))


def _parsed(text: str) -> Any:  # noqa: ANN401 - any JSON value
    return json.loads(text, parse_float=JSONNumber, parse_int=_integer, parse_constant=_refuse)


def _without_deep_field_sets(text: str) -> str:
    """The text, in which each ``fieldsV1`` that is nested too deeply is an empty object."""
    parts, copied = list[str](), 0
    began, depth, deepest = -1, 0, 0  # of the field set that is being read
    for token in _TOKEN.finditer(text):
        if began < 0:
            if found := _FIELD_SET.match(text, token.start()):
                began, depth, deepest = found.end(), 0, 0
        elif token[0] == "{":
            depth += 1
            deepest = max(deepest, depth)
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                if deepest > _DEEPEST_FIELD_SET:
                    parts += [text[copied:began], "{}"]
                    copied = token.end()
                began = -1
    return "".join([*parts, text[copied:]])


def dumps(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """Print compact JSON with every :class:`JSONNumber` as it was spelt."""
    text = json.dumps(value, default=_marked, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _MARKED.sub(r"\1", text) if _MARK in text else text


def integer(value: object, default: int = 0) -> int:
    """The value if it is an integer, else ``default``."""
    return value if isinstance(value, int) else default


def seconds(duration: str) -> float | None:
    """The seconds of a duration as Go's ``time.ParseDuration`` reads it; ``None`` if it refuses the text."""
    if not _DURATION.fullmatch(duration):
        return None
    try:
        return durationpy.from_str(duration).total_seconds()
    except ValueError:  # out of Python's range
        return None


def _object(pairs: list[tuple[str, Any]]) -> JSONObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is set twice")
    return found


def _integer(token: str) -> int | JSONNumber:
    if len(token) > _MAX_INT_DIGITS:
        raise ValueError(f"a number has {len(token):,} digits, and no API server prints such a one")
    return JSONNumber(token) if token == "-0" else int(token)


def _refuse(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _marked(value: object) -> str:
    if isinstance(value, JSONNumber):
        return f"{_MARK}{value.text}"
    raise TypeError(f"{type(value).__name__} is not a JSON value")


#: The parser for files. Unlike :func:`loads` it refuses a repeated key, because Go merges its values; an API server
#: has none.
DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=JSONNumber, parse_int=_integer, parse_constant=_refuse
)
