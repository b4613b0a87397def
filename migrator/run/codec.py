"""The text form of what a run records: JSON with camelCase names, made from dataclasses and read by their types."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def plain(value: Any) -> Any:  # noqa: ANN401 - any recorded value
    """What :mod:`json` cannot print by itself: a dataclass as a dict, a moment as text."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {_camel(field.name): getattr(value, field.name) for field in dataclasses.fields(value)}


def from_json(kind: type[T], raw: object) -> T:
    """Read a value of a type; raises ``ValueError`` with the place of a wrong value."""
    found: T = _read(kind, raw, kind.__name__)
    return found


def _read(kind: Any, raw: Any, where: str) -> Any:  # noqa: ANN401, PLR0911 - types are values here; one line for each
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return raw
    if origin in {types.UnionType, typing.Union}:
        return None if raw is None else _read(next(a for a in arguments if a is not type(None)), raw, where)
    if origin is tuple and isinstance(raw, list):
        return tuple(_read(arguments[0], item, where) for item in raw)
    if origin is Mapping and isinstance(raw, dict):
        return {str(key): _read(arguments[1], item, f"{where}.{key}") for key, item in raw.items()}
    if dataclasses.is_dataclass(kind) and isinstance(raw, dict):
        return _object(kind, raw, where)
    if kind is datetime and isinstance(raw, str):
        return datetime.fromisoformat(raw)
    if kind in {str, int, bool} and type(raw) is kind:
        return raw
    raise ValueError(f"{where} has the wrong type")


def _object(kind: Any, raw: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - types are values here
    values = {}
    for name, key, of in _fields(kind):
        if key not in raw:
            raise ValueError(f"{where} lacks {key}")
        values[name] = _read(of, raw[key], f"{where}.{key}")
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[tuple[str, str, Any], ...]:  # noqa: ANN401 - types are values here
    hints = typing.get_type_hints(kind)
    return tuple((field.name, _camel(field.name), hints[field.name]) for field in dataclasses.fields(kind))


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
