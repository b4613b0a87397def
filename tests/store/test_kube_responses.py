"""What an answer of the API server means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from urllib3 import HTTPHeaderDict

from migrator.errors import AlreadyExists, ApiError, Conflict, NotAuthorised, NotFound, Rejected, TestFailed
from migrator.stores.kube.responses import Failure

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "authorizer.webhooks.grove.io": failed to call webhook: Post '
    '"https://grove-operator.grove-system.svc:9443/webhooks/authorizer-webhook?timeout=10s": dial tcp: refused'
)
POLICY_DENIES = (
    "pods \"p1\" is forbidden: ValidatingAdmissionPolicy 'grove-migrator-labels' with binding 'grove-migrator-labels' "
    "denied request: grove-migrator may not change spec"
)
CAUSES = {"name": "x", "kind": "PodClique", "causes": [{"field": "spec.replicas", "message": "must be positive"}]}


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (401, {"reason": "Unauthorized", "message": "Unauthorized"}, NotAuthorised),
        (403, {"reason": "Forbidden", "message": 'pods is forbidden: User "x" cannot list resource'}, NotAuthorised),
        (403, {"reason": "Forbidden", "message": POLICY_DENIES}, Rejected),
        (403, {"message": 'admission webhook "authorizer.webhooks.grove.io" denied the request: no'}, Rejected),
        (400, {"message": 'admission webhook "x" denied the request: no'}, Rejected),
        (400, {"reason": "BadRequest", "message": "error decoding patch"}, ApiError),
        (404, {"reason": "NotFound"}, NotFound),
        (409, {"reason": "AlreadyExists"}, AlreadyExists),
        (409, {"reason": "Conflict"}, Conflict),
        (409, {}, Conflict),
        (415, {"reason": "UnsupportedMediaType"}, ApiError),
        (422, {"reason": "Invalid", "details": {}}, TestFailed),
        (422, {"reason": "Invalid"}, TestFailed),
        (422, {"reason": "Invalid", "details": CAUSES}, Rejected),
        (422, {"reason": "Invalid", "details": {"causes": [{"field": "patch", "message": "m"}]}}, Rejected),
        (422, {}, Rejected),
        (500, {"reason": "InternalError", "message": WEBHOOK_DOWN}, Rejected),
    ],
)
def test_error_of_a_patch(code: int, body: dict[str, Any], kind: type[Exception]) -> None:
    """Every failure that was measured is the error whose handling fits it; code and reason can be asked for."""
    error = Failure(code, body).error("patch Pod a/p", patching=True)
    assert type(error) is kind
    assert not isinstance(error, ApiError) or (error.status, error.reason) == (code, body.get("reason", ""))


def test_422_of_a_create_is_no_failed_test() -> None:
    """Only a patch has tests that can fail."""
    body = {"reason": "Invalid", "details": {}}
    assert type(Failure(422, body).error("create Lease a/l", patching=False)) is Rejected


@pytest.mark.parametrize(
    ("code", "message", "transient"),
    [
        *((code, "", True) for code in (429, 502, 503, 504)),
        (500, "etcdserver: leader changed", True),
        (500, WEBHOOK_DOWN, False),
        *((code, "", False) for code in (404, 409, 410, 422)),
    ],
)
def test_transient(code: int, message: str, *, transient: bool) -> None:
    """Throttling and the server's own errors pass; a webhook that is down does not by waiting here."""
    assert Failure(code, {"message": message}).is_transient is transient


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, {}, 7.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:04:35 GMT"}, {}, 30.0),
        ({"retry-after": "Fri, 02 Jan 2026 03:00:00 GMT"}, {}, 0.0),
        ({"retry-after": "soon"}, {}, 0.0),
        ({}, {"details": {"retryAfterSeconds": 3}}, 3.0),
        ({"retry-after": "1"}, {"details": {"retryAfterSeconds": 3}}, 1.0),
        ({}, {"details": {}}, None),
        ({}, {}, None),
    ],
)
def test_retry_after(headers: dict[str, str], body: dict[str, Any], seconds: float | None) -> None:
    """Seconds, a date, or the body's own field; the header comes first."""
    assert Failure(429, body).retry_after(HTTPHeaderDict(headers), NOW) == seconds


SECRET = "hunter2"


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (
            422,
            {
                "message": f'PodClique.grove.io "x" is invalid: spec: Invalid value: "{SECRET}": bad',
                "details": {"causes": [{"field": "spec.env[0].value", "message": f'Invalid value: "{SECRET}"'}]},
            },
            "HTTP 422 Invalid: spec.env[0].value",
        ),
        (
            422,
            {"details": {"causes": [{"field": "spec", "message": f'Unsupported value: "{SECRET}": supported "a"'}]}},
            "HTTP 422 Invalid: spec",
        ),
        (
            422,
            {"message": f'" is invalid: patch: Invalid value: {SECRET}', "details": {"name": "x"}},
            "HTTP 422 Invalid",
        ),
        (422, {"details": {"causes": [{"field": f"spec {SECRET} \n"}]}}, "HTTP 422 Invalid"),
        (
            403,
            {"message": f'admission webhook "other.example" denied the request: token {SECRET} is wrong'},
            "HTTP 403 Invalid: denied by other.example",
        ),
        (
            403,
            {"message": f"ValidatingAdmissionPolicy 'no-secrets' with binding 'b' denied request: {SECRET}"},
            "HTTP 403 Invalid: denied by no-secrets",
        ),
        (500, {"message": f'failed calling webhook "w.example": Post: {SECRET}'}, "failed calling webhook w.example"),
        (401, {"reason": "Unauthorized"}, "HTTP 401 Unauthorized: the API server does not accept these credentials"),
        (500, {"message": f"panic: {SECRET}\n{SECRET}", "reason": f"reason {SECRET}"}, "HTTP 500"),
        (400, {"message": f"error decoding patch: {SECRET}"}, "HTTP 400 Invalid"),
    ],
)
def test_of_a_servers_message_no_value_is_left(code: int, body: dict[str, Any], said: str) -> None:
    """Code, reason, the fields of the causes, and the name of a webhook or policy; values are secrets.

    Wrong credentials are told apart from missing rights: nobody looks for a missing role when the token has expired.
    """
    error = Failure(code, {"reason": "Invalid", **body}).error("patch Pod a/p", patching=True)
    assert SECRET not in str(error)
    if not isinstance(error, TestFailed):
        assert said in str(error)


def test_causes_are_counted_beyond_three() -> None:
    """One line, however many there are."""
    body = {"reason": "Invalid", "details": {"causes": [{"field": f"spec.a{n}"} for n in range(5)]}}
    assert str(Failure(422, body)) == "HTTP 422 Invalid: spec.a0, spec.a1, spec.a2 (and 2 more)"


def test_a_denial_names_who_denied() -> None:
    """As data, so that nobody reads the text again."""
    error = Failure(403, {"message": POLICY_DENIES}).error("patch Pod a/p", patching=True)
    assert isinstance(error, Rejected)
    assert error.denied_by == "grove-migrator-labels"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"Client sent an HTTP request to an HTTPS server.\n", "Client sent an HTTP request to an HTTPS server."),
        (b"<html>\x1b[31m502\xff</html>", r"<html>\x1b[31m502\ufffd</html>"),
        (b"x" * 1000, "x" * 256),
        (b"[]", ""),
        (b'{"kind":"Pod","spec":"secret"}', ""),
    ],
)
def test_a_body_that_is_no_status_is_shown(body: bytes, text: str) -> None:
    """What a proxy or a TLS server writes says most; it is short and harmless on a terminal. JSON may hold values."""
    failure = Failure.of(400, body)
    assert (failure.status, failure.text) == ({}, text)
    assert str(failure) == f"HTTP 400: {text}" if text else "HTTP 400"
