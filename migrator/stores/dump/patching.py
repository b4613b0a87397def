"""JSON Patch on an object of a dump: ``test``, and ``replace`` of one string by another. A plan has nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from migrator.errors import OutputError, TestFailed
from migrator.exact_json import JSONObject, dumps
from migrator.resources import Op, steps
from migrator.stores.json_stream import Path

_UNPROCESSABLE: Final = 422


def replaced_strings(document: JSONObject, ops: Sequence[Op], *, subresource: str = "") -> dict[Path, str]:
    """The strings that a patch puts into an object, by their paths.

    As on the API server (``evanphx/json-patch``, ``v4/patch.go``), ``test`` with null holds for an absent key, and
    changes of ``status`` by the main resource, and others by ``status``, are dropped without an error; a ``test`` sees
    the whole object. Raises ``TestFailed`` for an operation that cannot be applied, and ``OutputError`` for one that a
    dump cannot take.
    """
    found: dict[Path, str] = {}
    for op in ops:
        path, before = _lookup(document, op)
        if op.op == "test":
            if not same(found.get(path, before), op.value):
                raise _failed(op, "has another value")
        elif op.op != "replace" or not isinstance(before, str) or not isinstance(op.value, str):
            raise OutputError(f"only strings can be replaced in a dump, and {op.path} is changed otherwise")
        elif (path[0] == "status") == (subresource == "status"):
            found[path] = op.value
    return found


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 - any JSON values
    """Whether two JSON values are equal in type and spelling: ``1``, ``1.0``, ``"1"`` and ``true`` all differ."""
    return dumps(one, sort_keys=True) == dumps(other, sort_keys=True)


def _lookup(document: JSONObject, op: Op) -> tuple[Path, Any]:
    """The path of an operation and the value there, ``None`` for an absent key."""
    value: Any = document
    path: Path = ()
    ways = steps(op.path)
    for number, step in enumerate(ways, start=1):
        if isinstance(value, dict) and (step in value or number == len(ways)):
            value, path = value.get(step), (*path, step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value, path = value[int(step)], (*path, int(step))
        else:
            raise _failed(op, "does not exist")
    return path, value


def _failed(op: Op, what: str) -> TestFailed:
    return TestFailed(f"a test of the patch does not hold: {op.path} {what}", status=_UNPROCESSABLE, reason="Invalid")
