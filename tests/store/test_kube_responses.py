"""What an answer of the API server means."""

from __future__ import annotations

from typing import Any

import pytest
from urllib3 import HTTPHeaderDict

from migrator import errors
from migrator.kube.responses import Failure, retry_after

SECRET = "hunter2"
WEBHOOK_DOWN = (
    'Internal error occurred: failed calling webhook "authorizer.webhooks.grove.io": failed to call webhook: Post '
    f'"https://grove-operator.grove-system.svc:9443/webhooks/authorizer-webhook?timeout=10s": {SECRET}'
)
POLICY_DENIES = (
    "pods \"p1\" is forbidden: ValidatingAdmissionPolicy 'grove-migrator-labels' with binding 'grove-migrator-labels' "
    f"denied request: {SECRET}"
)
QUOTA = f'leases.coordination.k8s.io "l" is forbidden: exceeded quota: no-leases, requested: {SECRET}=1'
TERMINATING = 'leases "l" is forbidden: unable to create new content in namespace a because it is being terminated'
NO_PERMISSION = f'pods "p" is forbidden: User "{SECRET}" cannot patch resource "pods" in API group ""'
TOO_LARGE = "etcdserver: request is too large"
FULL = "etcdserver: mvcc: database space exceeded"
WEBHOOK_DENIES = f'admission webhook "other.example" denied the request: token {SECRET} is wrong'


def causes(*fields: str) -> dict[str, Any]:
    """The details of an object that is not valid; their messages quote its values."""
    return {"name": "x", "causes": [{"field": field, "message": f'Invalid value: "{SECRET}"'} for field in fields]}


@pytest.mark.parametrize(
    ("code", "body", "kind", "said"),
    [
        (401, {"reason": "Unauthorized"}, errors.NotAuthorised, "log in again, or choose another --context"),
        (403, {"reason": "Forbidden", "message": f'"{SECRET}" cannot list'}, errors.Forbidden, "all that it needs"),
        (403, {"reason": "Forbidden", "message": POLICY_DENIES}, errors.Rejected, "denied by grove-migrator-labels"),
        (403, {"message": NO_PERMISSION}, errors.Forbidden, "all that it needs"),
        # The reason of an authorizer, in its own words.
        (403, {"message": f"{NO_PERMISSION}: that is forbidden: {SECRET}"}, errors.Forbidden, "all that it needs"),
        (403, {"message": QUOTA}, errors.Rejected, "admission control denies it: quota no-leases is exceeded"),
        (403, {"message": TERMINATING}, errors.Rejected, "denies it: the namespace is being deleted"),
        (403, {"message": f'pods "p" is forbidden: no {SECRET}'}, errors.Rejected, "admission control denies it"),
        (403, {"message": WEBHOOK_DENIES}, errors.Rejected, "HTTP 403: denied by other.example"),
        *(
            (code, {"message": WEBHOOK_DENIES}, errors.Rejected, f"HTTP {code}: denied by other.example")
            for code in (400, 503)
        ),
        (400, {"reason": "BadRequest", "message": f"decoding: {SECRET}"}, errors.ApiError, "HTTP 400 BadRequest"),
        (404, {"reason": "NotFound"}, errors.NotFound, "HTTP 404 NotFound"),
        (409, {"reason": "AlreadyExists"}, errors.AlreadyExists, "HTTP 409 AlreadyExists"),
        (409, {"reason": "Conflict"}, errors.Conflict, "HTTP 409 Conflict"),
        (409, {}, errors.Conflict, "HTTP 409"),
        (410, {"reason": "Expired"}, errors.Expired, "HTTP 410 Expired"),
        (415, {"reason": "UnsupportedMediaType"}, errors.ApiError, "HTTP 415 UnsupportedMediaType"),
        (422, {"reason": "Invalid", "details": {}}, errors.TestFailed, "a test of the patch does not hold"),
        (422, {"reason": "Invalid"}, errors.TestFailed, "a test of the patch does not hold"),
        (422, {"reason": "Invalid", "details": {"name": "x"}, "message": SECRET}, errors.Rejected, "HTTP 422 Invalid"),
        (
            422,
            {"reason": "Invalid", "details": causes("spec.env[0].value")},
            errors.Rejected,
            "Invalid: spec.env[0].value",
        ),
        (422, {"reason": "Invalid", "details": causes(f"{SECRET} \n")}, errors.Rejected, "HTTP 422 Invalid"),
        (422, {"details": causes(*"abcde")}, errors.Rejected, "HTTP 422: a; b; c; and 2 more"),
        (422, {}, errors.Rejected, "HTTP 422"),
        (302, {}, errors.ApiError, "HTTP 302: a redirect is not followed: is a proxy or a login page in the way?"),
        (500, {"message": TOO_LARGE}, errors.ApiError, "HTTP 500: etcdserver: request is too large"),
        (500, {"message": f"panic: {SECRET}\n{SECRET}", "reason": f"reason {SECRET}"}, errors.ApiError, "HTTP 500"),
        (
            500,
            {"reason": "InternalError", "message": WEBHOOK_DOWN},
            errors.Rejected,
            "webhook authorizer.webhooks.grove.io",
        ),
    ],
)
def test_error_of_a_patch(code: int, body: dict[str, Any], kind: type[Exception], said: str) -> None:
    """Every failure that was measured is the error whose handling fits it, and quotes no value: values are secrets.

    It says code, reason, the fields of the causes, and who denied it.
    """
    error = Failure(code, body).error("patch Pod a/p", patching=True)
    assert type(error) is kind
    assert str(error).startswith("patch Pod a/p: ")
    assert str(error).endswith(said)
    assert SECRET not in str(error)
    denied_by = getattr(error, "denied_by", "")  # as data, so that nobody reads the text again
    assert said.endswith(denied_by)
    assert bool(denied_by) is ("denied by" in said or "webhook" in said)


def test_422_of_a_create_is_no_failed_test() -> None:
    """Only a patch has tests that can fail."""
    assert type(Failure(422, {"reason": "Invalid"}).error("create Lease a/l", patching=False)) is errors.Rejected


@pytest.mark.parametrize(
    ("code", "message", "transient"),
    [
        *((code, "", True) for code in (429, 502, 503, 504)),
        *((500, message, True) for message in ("etcdserver: leader changed", FULL)),
        (500, TOO_LARGE, False),
        *((500, message, False) for message in (WEBHOOK_DOWN, WEBHOOK_DENIES)),
        *((code, "", False) for code in (404, 409, 410, 422)),
    ],
)
def test_transient(code: int, message: str, *, transient: bool) -> None:
    """Throttling and the server's own errors pass; a webhook that is down, or denies, does not by waiting here."""
    assert Failure(code, {"message": message}).is_transient is transient


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("soon", None), ("\u00b2", None), (None, None)])
def test_retry_after(header: str | None, seconds: float | None) -> None:
    """Whole seconds, as the API server writes them; anything else is no wish."""
    assert retry_after(HTTPHeaderDict({"retry-after": header} if header else {})) == seconds


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"Client sent an HTTP request to an HTTPS server.\n", "Client sent an HTTP request to an HTTPS server."),
        (b"<html>\x1b[31m502\xff</html>", r"<html>\x1b[31m502\ufffd</html>"),
        (b"x" * 1000, "x" * 256),
        (b"[]", ""),
        (b'{"kind":"Pod","spec":"secret"}', ""),
        (b' {"kind":"Status","message":"secret', ""),
        (b"[" * 100_000, ""),
    ],
)
def test_a_body_that_is_no_status_is_shown(body: bytes, text: str) -> None:
    """What a proxy or a TLS server writes says most; it is short and harmless on a terminal. JSON may hold values."""
    failure = Failure.of(400, body)
    assert failure.status == {}
    assert failure.text == text
    assert str(failure) == f"HTTP 400: {text}" if text else "HTTP 400"
