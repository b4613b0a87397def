"""A small client of the API server for the tests, apart from the product's own; objects are plain JSON."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import urllib3

Object = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
_DISCOVERY: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_TOO_MANY_REQUESTS: Final = 429
NOT_FOUND: Final = 404
_ERROR: Final = 400
_THREADS: Final = 8


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object as discovery has it."""

    api_version: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]
    subresources: frozenset[str]

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of all objects, of one, or of one's subresource."""
        parts = ["apis" if "/" in self.api_version else "api", self.api_version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [quote(part) for part in (self.plural, name, subresource) if part]
        return "/" + "/".join(parts)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered; ``body`` is the parsed JSON, or text where it is none."""

    status: int
    body: Any
    headers: Mapping[str, str]


class AnswerError(Exception):
    """The server refused; ``answer`` is its answer."""

    def __init__(self, request: str, answer: Answer) -> None:
        message = answer.body.get("message") if isinstance(answer.body, dict) else answer.body
        super().__init__(f"{request}: {answer.status}: {message}")
        self.answer = answer


class Client:
    """Requests as one user; safe for many threads."""

    def __init__(self, url: str, *, token: str, ca: Path) -> None:
        self.url = url
        self._authorization = {"Authorization": f"Bearer {token}"}
        context = ssl.create_default_context(cafile=ca)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT  # certificates may lack what Python 3.13 demands, and ours do
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=2 * _THREADS,
            block=True,
            ssl_context=context,
            timeout=urllib3.Timeout(connect=5, read=60),
            retries=False,
        )
        self._kinds: dict[tuple[str, str], Kind] = {}

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        **options: Any,
    ) -> urllib3.BaseHTTPResponse:
        """Send one request and return the answer as urllib3 has it, which takes the options."""
        return self._pool.request(
            method,
            f"{self.url}{path}{'?' + urlencode(query) if query else ''}",
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._authorization, "Content-Type": content_type, "Accept": accept},
            **options,
        )

    def request(self, method: str, path: str, body: object = None, **options: Any) -> Answer:
        """Send one request and return the answer, whatever its code."""
        answer = self.send(method, path, body, **options)
        text = answer.data.decode()
        is_json = "json" in answer.headers.get("Content-Type", "")
        return Answer(answer.status, json.loads(text) if is_json else text, answer.headers)

    def call(self, method: str, path: str, body: object = None, **options: Any) -> Any:
        """Send a request until the server is not too busy; return the body, or raise AnswerError from 400 on."""
        for _ in range(100):
            answer = self.request(method, path, body, **options)
            if answer.status != _TOO_MANY_REQUESTS:
                break
            time.sleep(0.1)
        if answer.status >= _ERROR:
            raise AnswerError(f"{method} {path}", answer)
        return answer.body

    def kind(self, api_version: str, kind: str) -> Kind:
        """Return a kind by its apiVersion and name; raises KeyError if the server does not have it."""
        if (api_version, kind) not in self._kinds:
            self._kinds = dict(self._discover())
        return self._kinds[api_version, kind]

    def kind_of(self, item: Object) -> Kind:
        """Return the kind of an object."""
        return self.kind(item["apiVersion"], item["kind"])

    def _discover(self) -> Iterator[tuple[tuple[str, str], Kind]]:
        for root in ("/api", "/apis"):
            for group in self.call("GET", root, accept=_DISCOVERY)["items"]:
                for version in group["versions"]:
                    name = group["metadata"].get("name", "")
                    api_version = f"{name}/{version['version']}" if name else version["version"]
                    for resource in version["resources"]:
                        found = Kind(
                            api_version,
                            resource["resource"],
                            resource["scope"] == "Namespaced",
                            frozenset(resource["verbs"]),
                            frozenset(sub["subresource"] for sub in resource.get("subresources", ())),
                        )
                        yield (api_version, resource["responseKind"]["kind"]), found

    def create(self, item: Object) -> Object:
        """Create an object, with its status if it has one, and return it as it is then."""
        kind, metadata = self.kind_of(item), item["metadata"]
        body = {key: value for key, value in item.items() if key != "status"}
        created: Object = self.call("POST", kind.path(metadata.get("namespace")), body)
        if item.get("status") is None or "status" not in kind.subresources:
            return created
        metadata = created["metadata"]
        path = kind.path(metadata.get("namespace"), metadata["name"], "status")
        updated: Object = self.call("PATCH", path, {"status": item["status"]}, content_type=MERGE_PATCH)
        return updated

    def apply(self, item: Object, *, manager: str = "tests") -> Object:
        """Apply an object server-side, taking over fields from other managers."""
        metadata = item["metadata"]
        path = self.kind_of(item).path(metadata.get("namespace"), metadata["name"])
        query = {"fieldManager": manager, "force": "true"}
        applied: Object = self.call("PATCH", path, item, query=query, content_type=APPLY_PATCH)
        return applied

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return one object."""
        found: Object = self.call("GET", self.kind(api_version, kind).path(namespace, name))
        return found

    def list(self, api_version: str, kind: str, namespace: str | None = None, *, selector: str = "") -> list[Object]:
        """Return all objects of a kind, with their apiVersion and kind."""
        query = {"labelSelector": selector} if selector else None
        items = self.call("GET", self.kind(api_version, kind).path(namespace), query=query)["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def patch(self, item: Object, body: object, *, subresource: str | None = None, dry_run: bool = False) -> Answer:
        """Patch an object, as a JSON Patch if the body is a list and as a merge patch otherwise."""
        metadata = item["metadata"]
        return self.request(
            "PATCH",
            self.kind_of(item).path(metadata.get("namespace"), metadata["name"], subresource),
            body,
            query={"dryRun": "All"} if dry_run else None,
            content_type=JSON_PATCH if isinstance(body, list) else MERGE_PATCH,
        )

    def delete(self, item: Object) -> None:
        """Delete an object at once, without waiting for what it owns; one that is gone is not an error."""
        metadata = item["metadata"]
        path = self.kind_of(item).path(metadata.get("namespace"), metadata["name"])
        try:
            self.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        except AnswerError as error:
            if error.answer.status != NOT_FOUND:
                raise

    def service_account_token(self, namespace: str, name: str, *, pod: Object | None = None) -> str:
        """Return a fresh token of a ServiceAccount, good for an hour; a kubelet binds it to a pod."""
        path = self.kind("v1", "ServiceAccount").path(namespace, name, "token")
        spec: Object = {"expirationSeconds": 3600}
        if pod is not None:
            identity = {key: pod["metadata"][key] for key in ("name", "uid")}
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **identity}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.call("POST", path, body)["status"]["token"])

    def empty_namespace(self, namespace: str) -> None:
        """Delete everything in a namespace."""
        self._kinds = dict(self._discover())
        for kind in set(self._kinds.values()):
            if kind.namespaced and "deletecollection" in kind.verbs:
                options = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
                self.call("DELETE", kind.path(namespace), options)


def eventually(condition: Callable[[], object], *, what: str, seconds: float = 60, every: float = 0.02) -> None:
    """Wait until a condition holds, asked ``every`` so many seconds; raises TimeoutError with what did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:g} s: {what}")
        time.sleep(every)
