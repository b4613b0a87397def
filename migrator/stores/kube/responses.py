"""What an answer of the API server means: a value, one of our errors, or try again.

The cases are those of Kubernetes' own answers (``staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go``), as
measured on a real API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from migrator.errors import (
    AlreadyExists,
    ApiError,
    ClusterError,
    Conflict,
    NotAuthorised,
    NotFound,
    Rejected,
    TestFailed,
)

OK: Final = range(200, 300)
BAD_REQUEST: Final = 400
UNAUTHORISED: Final = 401
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
INVALID: Final = 422
TOO_MANY_REQUESTS: Final = 429
SERVER_ERRORS: Final = range(500, 600)

_LONGEST_MESSAGE: Final = 400
_LONGEST_VALUE: Final = 120
_SHOWN_CAUSES: Final = 3
_VALUE: Final = re.compile(r"Invalid value: (?=[{\[&]|\"?\{|map\[)")
_QUOTED_OBJECT: Final = re.compile(r'Invalid value: "\{(?:[^"\\]|\\.)*"')
_DENIED: Final = re.compile(r"admission webhook \"|ValidatingAdmissionPolicy '|denied (the )?request")
_WEBHOOK_FAILED: Final = re.compile(r"failed calling webhook \"")


def status_of(body: bytes) -> Mapping[str, Any]:
    """The ``Status`` in a body, or an empty mapping where there is none (a proxy's answer, say)."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("kind", "Status") == "Status" else {}


def is_transient(code: int, status: Mapping[str, Any]) -> bool:
    """Whether the same request may succeed later: throttled, or an error of the server itself.

    A webhook that does not answer is no transient error: the request would wait for it again each time.
    """
    if code == TOO_MANY_REQUESTS:
        return True
    return code in SERVER_ERRORS and not _WEBHOOK_FAILED.search(_message(status))


def may_have_been_applied(code: int) -> bool:
    """Whether a write so answered may have been applied all the same (a timeout of etcd is a 500)."""
    return code in SERVER_ERRORS


def retry_after(headers: Mapping[str, str], status: Mapping[str, Any], now: datetime) -> float | None:
    """How long the server asks us to wait, in seconds: from the header (RFC 9110), else from the ``Status``."""
    header = headers.get("Retry-After", "").strip()
    if header.isascii() and header.isdigit():
        return float(header)
    if header:
        try:
            at = parsedate_to_datetime(header)
        except ValueError:
            at = now
        return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
    asked = _details(status).get("retryAfterSeconds")
    return float(asked) if isinstance(asked, int) and asked > 0 else None


def error_of(code: int, status: Mapping[str, Any], what: str, *, patching: bool) -> ClusterError:
    """The error that a definite failure is; ``what`` says which request, for the message."""
    message = _message(status)
    reason = str(status.get("reason") or "")
    text = f"{what}: {describe(code, status)}"
    if _WEBHOOK_FAILED.search(message) or (code not in SERVER_ERRORS and _DENIED.search(message)):
        return Rejected(text, status=code, reason=reason)
    if code in (UNAUTHORISED, FORBIDDEN):
        return NotAuthorised(text)
    if code == INVALID and patching and _is_anonymous(status):
        return TestFailed(f"{what}: a test of the patch does not hold", status=code, reason=reason)
    kind = {NOT_FOUND: NotFound, INVALID: Rejected}.get(code, ApiError)
    if code == CONFLICT:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
    return kind(text, status=code, reason=reason)


def describe(code: int, status: Mapping[str, Any]) -> str:
    """One line for a person: code, reason and message, cut, and without the objects that a message may quote."""
    causes = _details(status).get("causes")
    message = _message(status)
    if code == INVALID and isinstance(causes, list) and causes:
        shown = [
            f"{cause.get('field', '')}: {_cut(str(cause.get('message', '')), _LONGEST_VALUE)}"
            for cause in causes[:_SHOWN_CAUSES]
            if isinstance(cause, dict)
        ]
        more = f" (and {len(causes) - _SHOWN_CAUSES} more)" if len(causes) > _SHOWN_CAUSES else ""
        head = message.partition(" is invalid")[0]
        named = f"{head} is invalid: " if head.strip(' "') else ""
        message = f"{named}{'; '.join(shown)}{more}"
    reason = str(status.get("reason") or "")
    label = f"HTTP {code} {reason}".strip()
    return f"{label}: {_cut(message, _LONGEST_MESSAGE)}" if message else label


def _message(status: Mapping[str, Any]) -> str:
    return " ".join(str(status.get("message") or "").split())


def _details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def _is_anonymous(status: Mapping[str, Any]) -> bool:
    return bool(status) and not _details(status).get("causes") and not _details(status).get("name")


def _cut(text: str, limit: int) -> str:
    text = _QUOTED_OBJECT.sub("Invalid value: (an object, not shown)", text)  # what is wrong with it follows
    open_ended = _VALUE.search(text)
    if open_ended:
        text = text[: open_ended.end()] + "(an object, not shown)"
    return text if len(text) <= limit else text[: limit - 3] + "..."
