"""JSON Patch on an object in memory, every operation of it, with the API server's semantics.

The ``jsonpatch`` library does the work; where the server's own library differs from RFC 6902 it is followed
(Kubernetes uses ``evanphx/json-patch``, ``v4/patch.go``): ``replace`` of an absent key creates it, ``test`` with null
asserts absence, and values are equal only if their JSON types and spellings are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import jsonpatch
from jsonpointer import JsonPointerException

from migrator.errors import TestFailed
from migrator.exact_json import JSONObject, loads
from migrator.resources import Op
from migrator.stores.dump.patching import same
from tests.support.memory_objects import copied

_UNPROCESSABLE: Final = 422


def patched(document: JSONObject, ops: Sequence[Op], *, subresource: str = "") -> JSONObject:
    """The object after the patch; ``document`` stays as it is.

    As on the server, the main resource does not accept changes of ``status``, nor ``status`` any others: they are
    dropped in silence, while a ``test`` sees the whole object. Raises :class:`~migrator.errors.TestFailed` where any
    operation cannot be applied.
    """
    changed = apply_ops(document, ops)
    kept, given = (document, changed) if subresource == "status" else (changed, document)
    merged = {key: value for key, value in kept.items() if key != "status" or key in given}
    if "status" in given:
        merged["status"] = given["status"]
    return merged


def apply_ops(document: JSONObject, ops: Sequence[Op]) -> JSONObject:
    """The document after the operations, all of it open to change; else as :func:`patched`."""
    try:
        result = _ServerPatch([loads(op.text) for op in ops]).apply(copied(document), in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise TestFailed(
            f"a test of the patch does not hold: {str(error)[:200]}", status=_UNPROCESSABLE, reason="Invalid"
        ) from error
    applied: JSONObject = result
    return applied


class _Test(jsonpatch.TestOperation):
    """``test`` with strict types; null also holds where a key is absent and its parent is not."""

    def apply(self, obj: Any) -> Any:
        wanted = self.operation["value"]
        holder, part = self.pointer.to_last(obj)
        if part is None:
            found = holder
        elif isinstance(holder, Mapping):
            found = holder.get(part)
        else:
            found = self.pointer.walk(holder, part)
        if not same(found, wanted):
            raise jsonpatch.JsonPatchTestFailed(f"{self.location} has another value")
        return obj


class _Replace(jsonpatch.ReplaceOperation):
    """``replace`` that creates an absent key of a present parent."""

    def apply(self, obj: Any) -> Any:
        holder, part = self.pointer.to_last(obj)
        if part is not None and isinstance(holder, dict):
            holder.setdefault(part, None)
        return super().apply(obj)


class _ServerPatch(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "test": _Test, "replace": _Replace})
