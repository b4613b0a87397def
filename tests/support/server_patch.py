"""What the API server does with a write to an object: JSON Patch, every operation of it, and validation.

The ``jsonpatch`` library does the work; where the server's own library differs from RFC 6902 it is followed
(Kubernetes uses ``evanphx/json-patch``, ``v4/patch.go``): ``replace`` of an absent key creates it, ``test`` with null
asserts absence, and values are equal only if their JSON types and spellings are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import jsonpatch
from jsonpointer import EndOfList, JsonPointerException

from migrator.errors import ApiError, Rejected, TestFailed
from migrator.exact_json import JSONObject, loads
from migrator.kinds import LEASES, Op, Resource
from tests.support.memory_objects import copied, same

_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


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
        raise TestFailed(f"a test of the patch does not hold: {str(error)[:200]}") from error
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
        if isinstance(found, EndOfList) or not same(found, wanted):
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


def validate(resource: Resource, body: JSONObject) -> None:
    """Raises ``Rejected`` for what validation forbids, ``ApiError`` for what cannot be decoded.

    These are the rules that a mistake of ours could run into; a refusal is not a failed test.
    """
    name = body["metadata"].get("name")
    labels = body["metadata"].get("labels") or {}
    if not isinstance(labels, dict):
        raise Rejected(f"{name}: metadata.labels: {labels!r} is not a map")
    for key, value in labels.items():
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise Rejected(f"{name}: metadata.labels[{key}]: {value!r} is not a value")
    if resource == LEASES:
        spec = body.get("spec") or {}
        for key in ("acquireTime", "renewTime"):
            if key in spec and not _MICRO_TIME.fullmatch(str(spec[key])):
                raise ApiError(f"spec.{key}: {spec[key]!r} has no six fraction digits")
        if spec.get("leaseDurationSeconds", 1) <= 0 or spec.get("leaseTransitions", 0) < 0:
            raise Rejected("spec: must be positive")
