"""Follow all objects of a kind, as informers do: one list, then every change after it, none missed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

import urllib3

from testbed.controlplane.client import AnswerError, Client, Object

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"
_STREAM_SECONDS: Final = 3  # a stream ends by itself so soon, so that nobody must break one off
_GONE: Final = 410

Handler = Callable[[str, Object], None]


class Watch:
    """Calls a handler with every change of the objects at a path, one after another, from a thread of its own."""

    def __init__(self, client: Client, path: str, handle: Handler) -> None:
        self._client, self._path = client, path
        self._handle = handle
        self._known: dict[str, Object] = {}
        self._stopped = threading.Event()
        self._listed = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> Watch:
        """Begin, and return once the first list has been handled."""
        self._thread.start()
        if not self._listed.wait(30):
            raise TimeoutError(f"{self._path} could not be listed")
        return self

    def stop(self) -> None:
        """End, and return when the last handler has returned."""
        self._stopped.set()
        self._thread.join(2 * _STREAM_SECONDS)

    def _follow(self) -> None:
        version = ""
        while not self._stopped.is_set():
            try:
                version = version or self._list()
                for change in self._changes(version):
                    version = self._take(change)
            except (AnswerError, urllib3.exceptions.HTTPError, OSError, json.JSONDecodeError):
                time.sleep(0.1)  # the server is away for a moment; nothing is missed, because version has not moved

    def _list(self) -> str:
        body = self._client.call("GET", self._path)
        found = {item["metadata"]["uid"]: item for item in body["items"]}
        for uid in self._known.keys() - found.keys():
            self._handle(DELETED, self._known.pop(uid))
        for uid, item in found.items():
            self._handle(MODIFIED if uid in self._known else ADDED, item)
            self._known[uid] = item
        self._listed.set()
        return str(body["metadata"]["resourceVersion"])

    def _changes(self, version: str) -> Iterator[Object]:
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        query["timeoutSeconds"] = str(_STREAM_SECONDS)
        stream = self._client.send("GET", self._path, query=query, preload_content=False)
        rest = b""
        try:
            for chunk in stream.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (json.loads(line) for line in lines if line)
        finally:
            stream.release_conn()

    def _take(self, change: Object) -> str:
        """Handle a change, and return the version to go on from: none to list anew."""
        item = change["object"]
        if change["type"] == "ERROR":
            if item.get("code") != _GONE:
                raise OSError(f"watching {self._path}: {item.get('message')}")
            return ""
        if change["type"] != "BOOKMARK":
            uid = item["metadata"]["uid"]
            if change["type"] == DELETED:
                self._known.pop(uid, None)
            else:
                self._known[uid] = item
            self._handle(change["type"], item)
        return str(item["metadata"]["resourceVersion"])
