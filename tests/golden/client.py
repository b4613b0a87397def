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


def ask(minor: str, lines: Iterable[bytes], command: str = "hash") -> list[Reply]:
    printed = subprocess.run(
        [oracle(minor).binary(), command], input=b"\n".join(lines) + b"\n", check=True, capture_output=True
    )
    return [json.loads(reply) for reply in printed.stdout.split(b"\n") if reply]


def random_lines(minor: str, seed: int, count: int, *, sets: bool = False) -> list[bytes]:
    """Return random lines for `ask`: templates, or PodCliqueSets."""
    command = [str(oracle(minor).binary()), "random", f"-seed={seed}", f"-count={count}", f"-pcs={str(sets).lower()}"]
    printed = subprocess.run(command, check=True, capture_output=True)
    return [text for text in printed.stdout.split(b"\n") if text]
