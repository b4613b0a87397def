"""JSON in which a number that is not a plain integer keeps its spelling.

Go parses the text of a quantity, so ``1e3`` and ``1000`` differ; and a file that is written back must differ in planned
values only.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import simplejson

JSONObject = dict[str, Any]

#: They print what has no :class:`JSONNumber`, in a quarter of the time.
_COMPACT, _SORTED = (
    json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=order)
    for order in (False, True)
)

#: The version of marshal in which equal values have equal bytes, whether or not other objects share parts of them.
#: With it, a :class:`JSONNumber` raises ``ValueError``.
WITHOUT_REFERENCES: Final = 2

_MAX_INT_DIGITS: Final = 4000  # below CPython's own limit for str to int


@dataclass(frozen=True, slots=True)
class JSONNumber:
    """A JSON number that is not a plain integer, as it was spelt (``1.0``, ``1e3``, ``-0``)."""

    text: str

    def __str__(self) -> str:
        return self.text


def loads(text: str | bytes) -> Any:  # noqa: ANN401 - any JSON value
    """Parse JSON, keeping number tokens; raises ``ValueError`` on anything that is not strict JSON."""
    decoded = text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else text
    return json.loads(decoded, parse_float=JSONNumber, parse_int=_integer, parse_constant=_refuse)


def decoder(*, repeated: bool = False) -> json.JSONDecoder:
    """The parser of :func:`loads`. A repeated key is an error, because Go merges its values; an API server has none."""
    pairs = None if repeated else _object
    return json.JSONDecoder(object_pairs_hook=pairs, parse_float=JSONNumber, parse_int=_integer, parse_constant=_refuse)


def integer(value: object, default: int = 0) -> int:
    """The value if it is an integer, else ``default``."""
    return value if isinstance(value, int) else default


def dumps(value: Any, *, sort_keys: bool = False) -> str:  # noqa: ANN401
    """Print compact JSON with every :class:`JSONNumber` as it was spelt."""
    if isinstance(value, str):
        return encode_basestring(value)
    with suppress(TypeError):
        return (_SORTED if sort_keys else _COMPACT).encode(value)
    import simplejson  # noqa: PLC0415 - only a JSONNumber needs it

    compact = (",", ":")
    return str(
        simplejson.dumps(
            value, default=_raw, ensure_ascii=False, separators=compact, sort_keys=sort_keys, allow_nan=False
        )
    )


def _object(pairs: list[tuple[str, Any]]) -> JSONObject:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} is set twice")
    return found


def _integer(token: str) -> int | JSONNumber:
    return JSONNumber(token) if token == "-0" or len(token) > _MAX_INT_DIGITS else int(token)


def _refuse(token: str) -> None:
    raise ValueError(f"{token} is not JSON")


def _raw(value: object) -> simplejson.RawJSON:
    import simplejson  # noqa: PLC0415

    if isinstance(value, JSONNumber):
        return simplejson.RawJSON(value.text)
    raise TypeError(f"{type(value).__name__} is not a JSON value")
