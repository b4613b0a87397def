"""What an answer of the API server other than success means: one of our errors, or another attempt.

The cases are those of Kubernetes' own answers (``staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go``), as
measured on a real API server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from migrator import errors
from migrator.words import first_of

OK: Final = range(200, 300)
SERVER_ERRORS: Final = range(500, 600)

_SHOWN_CAUSES: Final = 3
_SHOWN_CHARACTERS: Final = 256
_LONGEST_REASON: Final = 64
#: A denial, or a webhook that does not answer, as the message of a Status begins to tell it.
_STOPPED: Final = re.compile(
    r"(?P<by>failed calling webhook|admission webhook|ValidatingAdmissionPolicy) "
    r"(?P<quote>[\"'])(?P<name>[^\"']{1,253})(?P=quote)"
)
#: A denial by a plugin of the API server; that of a missing permission goes on with ``User`` and a name, and may end
#: with any words of an authorizer (``k8s.io/apiserver`` ``endpoints/handlers/responsewriters/errors.go``).
_ADMISSION: Final = re.compile(
    r"\S+(?: \"[^\"]*\")? is forbidden: (?!User )"
    r"(?:exceeded quota: (?P<quota>[a-z0-9.-]{1,253}),|.*(?P<ending>because it is being terminated)"
    r"|(?P<unready>not yet ready to handle request)|)"
)
#: An error of etcd as the API server passes it on; none of them quotes a value.
_ETCD: Final = re.compile(r"etcdserver: [A-Za-z:, -]{1,100}")
_TOO_LARGE: Final = "etcdserver: request is too large"
_FIELD: Final = re.compile(r"[A-Za-z0-9_.\[\]/~-]{1,200}")

#: What a user can do about these codes.
_REMEDIES: Final[Mapping[int, str]] = {
    **dict.fromkeys(range(300, 400), "a redirect is not followed: is a proxy or a login page in the way?"),
    HTTPStatus.UNAUTHORIZED: (
        "the API server does not accept these credentials. They may have expired: log in again, or choose another "
        "--context"
    ),
    HTTPStatus.FORBIDDEN: "this account lacks the permission: SECURITY.md lists all that it needs",
}


class _Reason(NamedTuple):
    """Why a request failed; ``denied_by``: the webhook or policy, empty for a plugin, ``None`` if it was no denial."""

    text: str
    denied_by: str | None = None
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An answer with a ``code`` other than 2xx; ``str(failure)`` is one line for a person.

    ``status`` is the ``Status`` in its body, empty if there is none. ``text`` is the body then, as a proxy or a server
    that expects TLS writes it, unless it begins as JSON does.
    """

    code: int
    status: Mapping[str, Any]
    text: str = ""

    @classmethod
    def of(cls, code: int, body: bytes) -> Failure:
        """The failure that an answer tells."""
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            text = " ".join(body.decode("utf-8", "replace").split())
            # Control characters escaped, without the quotes around it.
            return cls(code, {}, "" if text.startswith(("{", "[")) else ascii(text[:_SHOWN_CHARACTERS])[1:-1])
        is_status = isinstance(parsed, dict) and parsed.get("kind") == "Status"
        return cls(code, parsed if is_status else {})

    @property
    def is_page(self) -> bool:
        """Whether a proxy without a backend answers: its 404 must not look like an absence of objects."""
        return self.code == HTTPStatus.NOT_FOUND and self.text.startswith("<")

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later: throttled, or an error of the server itself.

        A webhook that does not answer is not a transient error: the request would wait for it again each time.
        """
        if self.code == HTTPStatus.TOO_MANY_REQUESTS:
            return True
        return self._reason.may_pass if self._reason is not None else self.code in SERVER_ERRORS

    def error(self, what: str, *, patching: bool) -> errors.MigratorError:
        """The error of a definite failure; ``what`` names the request in the message."""
        code, text, reason = self.code, f"{what}: {self}", self._reason
        if reason is not None and reason.denied_by is not None:
            return errors.Rejected(text, denied_by=reason.denied_by)
        names_nothing = self.status and not self._details.get("causes") and not self._details.get("name")
        if code == HTTPStatus.UNPROCESSABLE_ENTITY and patching and names_nothing:
            return errors.TestFailed(f"{what}: a test of the patch does not hold")
        conflict = errors.AlreadyExists if self.status.get("reason") == "AlreadyExists" else errors.Conflict
        kinds: Mapping[int, type[errors.ClusterError]] = {
            401: errors.NotAuthorised,
            403: errors.Forbidden,
            404: errors.NotFound,
            409: conflict,
            410: errors.Expired,
            422: errors.Rejected,
        }
        return kinds.get(code, errors.ApiError)(text)

    def __str__(self) -> str:
        """Code, reason, the fields of the causes, who denied it, etcd's error; or the text of what is no ``Status``.

        Nothing else of a ``Status``: its message quotes values, and values are secrets.
        """
        parts = [f"HTTP {self.code} {_word(self.status.get('reason'))}".strip()]
        named = (cause.get("field", "") for cause in self._details.get("causes") or ())
        fields = [field for field in named if _FIELD.fullmatch(field)]
        if fields:
            parts.append(first_of(fields, _SHOWN_CAUSES))
        if self._reason is not None:
            parts.append(self._reason.text)
        elif self.code in _REMEDIES:
            parts.append(_REMEDIES[self.code])
        return ": ".join([*parts, *filter(None, [self.text])])

    @property
    def _details(self) -> Mapping[str, Any]:
        return self.status.get("details") or {}

    @property
    def _reason(self) -> _Reason | None:
        """What the message of a ``Status`` begins to tell, in words that quote no value."""
        message = " ".join(str(self.status.get("message") or "").split())
        if stopped := _STOPPED.search(message):
            by = stopped["by"] if stopped["by"].startswith("failed") else "denied by"
            return _Reason(f"{by} {stopped['name']}", denied_by=stopped["name"])
        if self.code == HTTPStatus.FORBIDDEN and (denial := _ADMISSION.match(message)):
            # Plugins that have just started deny every write (``k8s.io/apiserver``, ``admission.Handler``).
            why, is_unready = "", denial["unready"] is not None
            if denial["quota"]:
                why = f": quota {denial['quota']} is exceeded"
            elif denial["ending"]:
                why = ": the namespace is being deleted"
            elif is_unready:
                why = ": the API server is not ready yet"
            return _Reason(f"admission control denies it{why}", denied_by="", may_pass=is_unready)
        if self.code in SERVER_ERRORS and (etcd := _ETCD.match(message)):
            return _Reason(etcd[0], may_pass=etcd[0] != _TOO_LARGE)
        return None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the server asks us to wait, in seconds; as client-go, we read no dates (``rest/request.go``)."""
    header = headers.get("Retry-After", "")
    return float(header) if header.isascii() and header.isdigit() else None


def _word(value: object) -> str:
    """A reason is one word in CamelCase; anything else is not one."""
    return value if isinstance(value, str) and value.isalpha() and len(value) < _LONGEST_REASON else ""
