"""The rules of the API server that a mistake of ours could run into; a refusal is not a failed test."""

from __future__ import annotations

import re
from typing import Final

from migrator.errors import ApiError, Rejected
from migrator.exact_json import JSONObject
from migrator.resources import CONFIG_MAPS, EVENTS, LEASES, Resource

_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_LARGEST_CONFIG_MAP: Final = 1024 * 1024  # Kubernetes: pkg/apis/core/types.go:MaxSecretSize, for ConfigMaps too


def validate(resource: Resource, body: JSONObject) -> None:
    """Raises ``Rejected`` for what validation forbids, ``ApiError`` for what cannot be decoded."""
    name = body["metadata"].get("name")
    labels = body["metadata"].get("labels") or {}
    if not isinstance(labels, dict):
        raise Rejected(f"{name}: metadata.labels: {labels!r} is not a map", status=422, reason="Invalid")
    for key, value in labels.items():
        if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
            raise Rejected(f"{name}: metadata.labels[{key}]: {value!r} is not a value", status=422, reason="Invalid")
    if resource == LEASES:
        _validate_lease(body)
    elif resource == CONFIG_MAPS:
        data = (*(body.get("data") or {}).values(), *(body.get("binaryData") or {}).values())
        if sum(map(len, data)) > _LARGEST_CONFIG_MAP:
            raise Rejected(f"{name}: data: Too long", status=422, reason="Invalid")
    elif resource == EVENTS:
        _validate_event(body)


def _validate_lease(body: JSONObject) -> None:
    spec = body.get("spec") or {}
    for key in ("acquireTime", "renewTime"):
        if key in spec and not _MICRO_TIME.fullmatch(str(spec[key])):
            raise ApiError(f"spec.{key}: {spec[key]!r} has no six fraction digits", status=400, reason="BadRequest")
    if spec.get("leaseDurationSeconds", 1) <= 0 or spec.get("leaseTransitions", 0) < 0:
        raise Rejected("spec: must be positive", status=422, reason="Invalid")


def _validate_event(body: JSONObject) -> None:
    for key in ("action", "eventTime", "reportingController", "reportingInstance", "reason", "type"):
        if not body.get(key):
            raise Rejected(f"{key}: Required value", status=422, reason="Invalid")
    if not _MICRO_TIME.fullmatch(body["eventTime"]):
        raise ApiError("eventTime has no six fraction digits", status=400, reason="BadRequest")
    if len(body.get("note", "")) > 1024 or len(body["reason"]) > 128:
        raise Rejected("note or reason: Too long", status=422, reason="Invalid")
