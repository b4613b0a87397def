"""The meaning of an answer of the API server: a value, one of our errors, or another attempt.

The cases are those of Kubernetes' own answers (``staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go``), as
measured on a real API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final

from migrator.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    LeaseLost,
    MigratorError,
    NotAuthorised,
    NotFound,
    Rejected,
    TestFailed,
)

OK: Final = range(200, 300)
SERVER_ERRORS: Final = range(500, 600)

#: The policy that asks whose the Lease is: a denial by it means that the Lease is lost.
FENCE_POLICY: Final = "grove-migrator-fence"

_SHOWN_CAUSES: Final = 3
_WEBHOOK_FAILED: Final = re.compile(r"failed calling webhook \"([^\"]{1,253})\"")
_DENIED_BY: Final = re.compile(r"(?:admission webhook \"|ValidatingAdmissionPolicy ')([^\"']{1,253})[\"']")
_FIELD: Final = re.compile(r"[A-Za-z0-9_.\[\]/~-]{1,200}")


def status_of(body: bytes) -> Mapping[str, Any]:
    """The ``Status`` in a body, or an empty mapping where there is none, as in a proxy's answer."""
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) and parsed.get("kind", "Status") == "Status" else {}


def is_transient(code: int, status: Mapping[str, Any]) -> bool:
    """Whether the same request may succeed later: throttled, or an error of the server itself.

    A webhook that does not answer is not a transient error: the request would wait for it again each time.
    """
    if code == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return code in SERVER_ERRORS and not _WEBHOOK_FAILED.search(_message(status))


def retry_after(headers: Mapping[str, str], status: Mapping[str, Any], now: datetime) -> float | None:
    """How long the server asks us to wait, in seconds: from the header (RFC 9110), else from the ``Status``."""
    header = headers.get("retry-after", "").strip()
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


def error_of(code: int, status: Mapping[str, Any], what: str, *, patching: bool) -> MigratorError:
    """The error of a definite failure; ``what`` names the request in the message."""
    message = _message(status)
    reason = str(status.get("reason") or "")
    text = f"{what}: {describe(code, status)}"
    failed = _WEBHOOK_FAILED.search(message)
    denied = failed or (_DENIED_BY.search(message) if code not in SERVER_ERRORS else None)
    by = denied[1] if denied else ""
    if by == FENCE_POLICY:
        return LeaseLost(f"{text}: this run does not hold the Lease, or the API server does not know yet that it does")
    if denied:
        return Rejected(text, status=code, reason=reason, denied_by=by)
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return NotAuthorised(text)
    if code == HTTPStatus.UNPROCESSABLE_ENTITY and patching and _is_anonymous(status):
        return TestFailed(f"{what}: a test of the patch does not hold", status=code, reason=reason)
    conflict = AlreadyExists if reason == "AlreadyExists" else Conflict
    kinds: Mapping[int, type[ApiError]] = {404: NotFound, 409: conflict, 422: Rejected}
    return kinds.get(code, ApiError)(text, status=code, reason=reason)


def describe(code: int, status: Mapping[str, Any]) -> str:
    """One line for a person: code, reason, the fields of the causes, and who denied it.

    Nothing else of the server's message: it quotes values, and values are secrets.
    """
    parts = [f"HTTP {code} {_word(status.get('reason'))}".strip()]
    causes = [cause for cause in _details(status).get("causes") or () if isinstance(cause, dict)]
    fields = [str(cause["field"]) for cause in causes if _FIELD.fullmatch(str(cause.get("field") or ""))]
    if code == HTTPStatus.UNAUTHORIZED:
        parts.append("the API server does not accept these credentials")
    if fields:
        more = f" (and {len(fields) - _SHOWN_CAUSES} more)" if len(fields) > _SHOWN_CAUSES else ""
        parts.append(f"{', '.join(fields[:_SHOWN_CAUSES])}{more}")
    message = _message(status)
    failed, denied = _WEBHOOK_FAILED.search(message), _DENIED_BY.search(message)
    if failed:
        parts.append(f"failed calling webhook {failed[1]}")
    elif denied:
        parts.append(f"denied by {denied[1]}")
    return ": ".join(parts)


def _word(value: object) -> str:
    """A reason is one word in CamelCase; anything else is not one."""
    return value if isinstance(value, str) and value.isalpha() and len(value) < 64 else ""  # noqa: PLR2004


def _message(status: Mapping[str, Any]) -> str:
    return " ".join(str(status.get("message") or "").split())


def _details(status: Mapping[str, Any]) -> Mapping[str, Any]:
    details = status.get("details")
    return details if isinstance(details, dict) else {}


def _is_anonymous(status: Mapping[str, Any]) -> bool:
    return bool(status) and not _details(status).get("causes") and not _details(status).get("name")
