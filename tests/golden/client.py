"""Ask the oracle: many lines at once."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from testbed.oracle import oracle

Reply = dict[str, Any]


def line(identity: str, kind: str, text: bytes) -> bytes:
    """Return one line of input; `kind` is `input` or `pcs`, and `text` is JSON that keeps its bytes."""
    if b"\n" in text:
        raise ValueError(f"{identity}: a line of JSON Lines cannot hold a raw newline")
    return b'{"id":%s,"%s":%s}' % (json.dumps(identity).encode(), kind.encode(), text)


def ask(minor: str, lines: Iterable[bytes]) -> list[Reply]:
    asked = b"\n".join(lines) + b"\n"
    printed = subprocess.run([oracle(minor).binary(), "hash"], input=asked, check=True, capture_output=True)
    return [json.loads(reply) for reply in printed.stdout.split(b"\n") if reply]
