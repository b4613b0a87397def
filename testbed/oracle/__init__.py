"""The Go oracles, one for each k8s.io/api minor, and how they are asked."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from testbed.go_programs import GoProgram

HERE: Final = Path(__file__).resolve().parent
MINORS: Final = tuple(sorted((path.name[1:] for path in HERE.glob("v1.*")), key=lambda minor: int(minor[2:])))
NEWEST: Final = MINORS[-1]

Reply = dict[str, Any]


def oracle(minor: str) -> GoProgram:
    """The oracle of a minor such as ``1.35``."""
    return GoProgram(f"oracle-{minor}", HERE / f"v{minor}", sources=(HERE / "shared",))


def line(identity: str, kind: str, text: bytes) -> bytes:
    """One line of input; ``kind`` is ``input`` or ``pcs``, and ``text`` is JSON that keeps its bytes."""
    return b'{"id":%s,"%s":%s}' % (json.dumps(identity).encode(), kind.encode(), text)


def ask(minor: str, lines: Iterable[bytes]) -> list[Reply]:
    """What an oracle makes of many lines at once."""
    asked = b"\n".join(lines) + b"\n"
    printed = subprocess.run([oracle(minor).binary(), "hash"], input=asked, check=True, capture_output=True)
    return [json.loads(reply) for reply in printed.stdout.split(b"\n") if reply]
