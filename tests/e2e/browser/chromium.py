"""A headless Chromium and the little of its DevTools protocol that a static page needs.

The window of Chromium cannot be made as narrow as a phone, so the width is emulated
(https://chromedevtools.github.io/devtools-protocol/tot/Emulation/).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

import websocket

NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")

#: Quiet and offline; root may not use the sandbox, and there is nothing foreign in the page.
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
_PATIENCE: Final = 60.0  # seconds


def find() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One page, at the width and in the colours that a test asks for."""

    def __init__(self, url: str) -> None:
        self._socket = websocket.create_connection(url, timeout=_PATIENCE, suppress_origin=True)
        self._number = 0
        self.requests: list[str] = []
        self._send("Page.enable")
        self._send("Network.enable")

    def close(self) -> None:
        self._socket.close()

    def look(self, path: Path, *, width: int, scheme: str = "light", media: str = "screen") -> None:
        """Open a file as that wide a device shows it; ``requests`` is everything that it loads."""
        self._send(
            "Emulation.setDeviceMetricsOverride", width=width, height=812, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._send("Emulation.setEmulatedMedia", media=media, features=features)
        self.requests = []
        self._send("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + _PATIENCE
        while self.value("document.readyState") != "complete":
            assert time.monotonic() < deadline, f"{path} does not load"

    def value(self, expression: str) -> Any:
        """What an expression is in the page; the page's own policy does not bind the debugger."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("method") == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result


@contextmanager
def started(program: str, profile: Path) -> Iterator[Page]:
    """A Chromium of our own with an empty profile, and its one page."""
    with (profile.parent / f"{profile.name}.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"], stdout=log, stderr=subprocess.STDOUT
        )
    try:
        with closing(Page(_address(process, profile))) as page:
            yield page
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _address(process: subprocess.Popen[bytes], profile: Path) -> str:
    """Where the page can be spoken to: Chromium writes its port down when it listens."""
    ready, deadline = profile / "DevToolsActivePort", time.monotonic() + _PATIENCE
    while not (ready.is_file() and ready.read_text().strip()):
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        assert time.monotonic() < deadline, "Chromium does not listen"
        time.sleep(0.05)
    port = ready.read_text().split()[0]
    with urlopen(f"http://127.0.0.1:{int(port)}/json/list", timeout=_PATIENCE) as answer:
        pages = json.load(answer)
    return next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
