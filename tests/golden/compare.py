"""Compare what Python and Go make of one input."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from migrator.errors import DecodeError
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import SetHasher, TemplateHasher
from migrator.hashing.quantity import SPACES
from testbed.oracle import Reply

ALGORITHMS = ("legacy", "canonical")

# What Go makes of it depends on the operator's time zone, or on bytes that decoding loses. We refuse it, Go may not.
UNKNOWABLE = "refused: what Go prints here cannot be known"
_UNKNOWABLE = re.compile(r"\.metadata\.(creationTimestamp|deletionTimestamp|managedFields\[\d+\]\.(time|fieldsV1))$")


def template_hash(value: Mapping[str, Any], scheme: str) -> str | None:
    """Return Python's hash of a template, None where it refuses the input as Go would, or UNKNOWABLE."""
    try:
        return TemplateHasher(value).under(schemes.by_name(scheme))
    except DecodeError as error:
        return _refusal(error)


def set_hashes(value: Mapping[str, Any], scheme: str) -> dict[str, Any] | str | None:
    """Return Python's hashes of a PodCliqueSet as the oracle prints them, None where it refuses, or UNKNOWABLE."""
    try:
        hashes = SetHasher(value).under(schemes.by_name(scheme))
    except DecodeError as error:
        return _refusal(error)
    return {"generationHash": hashes.generation, "podTemplateHashes": dict(hashes.templates)}


def _refusal(error: DecodeError) -> str | None:
    return UNKNOWABLE if error.message == SPACES or _UNKNOWABLE.search(error.path) else None


def mismatch(kind: str, value: Mapping[str, Any], line: bytes, minor: str, reply: Reply) -> str | None:
    """Describe how Python and Go's reply differ on a template (``input``) or a set (``pcs``), or return None."""
    for algorithm in ALGORITHMS:
        scheme, theirs = f"{algorithm}-{minor}", reply.get(algorithm)
        ours = template_hash(value, scheme) if kind == "input" else set_hashes(value, scheme)
        if ours not in (UNKNOWABLE, theirs):
            shown = line.decode("utf-8", "backslashreplace")
            return f"{scheme}: Python says {ours}, Go says {theirs} {reply.get('message', '')}\n  {shown}"
    return None
