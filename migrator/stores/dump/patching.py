"""JSON Patch on an object of a dump: ``test`` and ``replace``, the two operations that a plan is made of.

As on the API server (``evanphx/json-patch``, ``v4/patch.go``) ``replace`` of an absent key creates it, ``test`` with
null holds where a key is absent, and values are equal only if their JSON types and spellings are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migrator.errors import TestFailed
from migrator.exact_json import JSONObject
from migrator.resources import Op, steps

_UNPROCESSABLE: Final = 422


def patched(document: JSONObject, ops: Sequence[Op], *, subresource: str = "") -> JSONObject:
    """The object after the patch; ``document`` stays as it is and shares what the patch does not touch.

    As on the server, changes of ``status`` by the main resource, and others by ``status``, are dropped without an
    error; a ``test`` sees the whole object. Raises :class:`~migrator.errors.TestFailed` where an operation cannot be
    applied, and ``ValueError`` for an operation other than ``test`` and ``replace``.
    """
    changed = document
    for op in ops:
        if op.op not in {"test", "replace"}:
            raise ValueError(f"{op.op} is not applied to a dump")
        changed = _applied(op, changed, steps(op.path))
    kept, given = (document, changed) if subresource == "status" else (changed, document)
    merged = {key: value for key, value in kept.items() if key != "status" or key in given}
    if "status" in given:
        merged["status"] = given["status"]
    return merged


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON values
    """Whether two JSON values are equal in type and spelling: ``1``, ``1.0``, ``"1"`` and ``true`` all differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _applied(op: Op, value: Any, way: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON value
    """The value after the operation at the end of ``way``; only what lies on the way is copied."""
    if not way:
        if op.op == "test" and not same(value, op.value):
            raise _failed(op, "has another value")
        return value if op.op == "test" else op.value
    part, *rest = way
    if isinstance(value, dict) and (part in value or not rest):
        inner = _applied(op, value.get(part), rest)
        return value if op.op == "test" else {**value, part: inner}
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        index = int(part)
        inner = _applied(op, value[index], rest)
        return value if op.op == "test" else [*value[:index], inner, *value[index + 1 :]]
    raise _failed(op, "does not exist")


def _failed(op: Op, what: str) -> TestFailed:
    return TestFailed(f"a test of the patch does not hold: {op.path} {what}", status=_UNPROCESSABLE, reason="Invalid")
