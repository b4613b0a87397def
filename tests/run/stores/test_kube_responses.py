"""What an answer of the API server means."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.errors import AlreadyExists, ApiError, Conflict, NotAuthorised, NotFound, Rejected, TestFailed
from migrator.stores.kube import responses

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
    """Every failure that was measured is the error whose handling fits it."""
    assert type(responses.error_of(code, body, "patch Pod a/p", patching=True)) is kind


def test_422_of_a_create_is_no_failed_test() -> None:
    """Only a patch has tests that can fail."""
    body = {"reason": "Invalid", "details": {}}
    assert type(responses.error_of(422, body, "create Lease a/l", patching=False)) is Rejected


def test_status_and_reason_are_kept() -> None:
    """Code and reason of the answer can be asked for."""
    error = responses.error_of(409, {"reason": "Conflict"}, "patch Pod a/p", patching=True)
    assert isinstance(error, ApiError)
    assert (error.status, error.reason) == (409, "Conflict")


@pytest.mark.parametrize(
    ("code", "message", "transient"),
    [
        (429, "", True),
        (500, "etcdserver: leader changed", True),
        (502, "", True),
        (503, "", True),
        (504, "", True),
        (500, WEBHOOK_DOWN, False),
        (404, "", False),
        (409, "", False),
        (410, "", False),
        (422, "", False),
    ],
)
def test_transient(code: int, message: str, *, transient: bool) -> None:
    """Throttling and the server's own errors pass; a webhook that is down does not by waiting here."""
    assert responses.is_transient(code, {"message": message}) is transient


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({"Retry-After": "Fri, 02 Jan 2026 03:04:35 GMT"}, {}, 30.0),
        ({"Retry-After": "Fri, 02 Jan 2026 03:00:00 GMT"}, {}, 0.0),
        ({"Retry-After": "soon"}, {}, 0.0),
        ({}, {"details": {"retryAfterSeconds": 3}}, 3.0),
        ({"Retry-After": "1"}, {"details": {"retryAfterSeconds": 3}}, 1.0),
        ({}, {"details": {}}, None),
        ({}, {}, None),
    ],
)
def test_retry_after(headers: dict[str, str], body: dict[str, Any], seconds: float | None) -> None:
    """Seconds, a date, or the body's own field; the header comes first."""
    assert responses.retry_after(headers, body, NOW) == seconds


def test_messages_do_not_quote_objects() -> None:
    """The whole object that a patch error quotes, template and all, never reaches a message."""
    template = json.dumps({"spec": {"containers": [{"env": [{"name": "PASSWORD", "value": "hunter2"}]}]}})
    body = {
        "message": f' "" is invalid: patch: Invalid value: {json.dumps(template)}: json: cannot unmarshal number',
        "reason": "Invalid",
        "details": {"causes": [{"field": "patch", "message": f"Invalid value: {template}: json: cannot unmarshal"}]},
    }
    for details in (body["details"], {"name": "x"}):
        text = str(responses.error_of(422, {**body, "details": details}, "patch Pod a/p", patching=True))
        assert "hunter2" not in text
        assert "Invalid value" in text


def test_what_is_wrong_with_a_quoted_object_is_said() -> None:
    """The reason stands behind the object that is cut out."""
    quoted = json.dumps(json.dumps({"env": [{"value": 'hunter2 "}": '}]}))
    cause = {"field": "patch", "message": f"Invalid value: {quoted}: strict decoding error: unknown field status.x"}
    text = responses.describe(422, {"message": "", "reason": "Invalid", "details": {"causes": [cause]}})
    assert "hunter2" not in text
    assert text.endswith("unknown field status.x")


def test_messages_are_short_and_on_one_line() -> None:
    """However long and many-lined a message is, one readable line is left of it."""
    text = responses.describe(500, {"message": "word\n" * 10_000, "reason": "InternalError"})
    assert text.startswith("HTTP 500 InternalError: word word")
    assert len(text) < 500
    assert "\n" not in text


def test_causes_say_which_field() -> None:
    """A validation error names object, field and reason."""
    body = {"message": 'PodClique.grove.io "x" is invalid: spec', "reason": "Invalid", "details": CAUSES}
    text = responses.describe(422, body)
    assert text == 'HTTP 422 Invalid: PodClique.grove.io "x" is invalid: spec.replicas: must be positive'


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b"\xff", b'{"kind":"Pod"}'])
def test_a_body_without_status_is_no_status(body: bytes) -> None:
    """What a proxy answers, or an object, is not taken for a Status."""
    assert responses.status_of(body) == {}
