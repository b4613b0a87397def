"""Durations as Go spells them: ``15s``, ``1h30m0s``, ``1m0.5s`` (Go's ``time.ParseDuration``)."""

from __future__ import annotations

import re
from typing import Final

_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse(text: str) -> float:
    """Return the seconds of a Go duration; raises ``ValueError`` where Go would not accept the text."""
    unsigned = text[1:] if text[:1] in {"+", "-"} else text
    sign = -1.0 if text[:1] == "-" else 1.0
    if unsigned == "0":
        return 0.0
    parts = list(_PART.finditer(unsigned))
    if not parts or "".join(part.group(0) for part in parts) != unsigned:
        raise ValueError(f"{text!r} is not a Go duration such as 15s or 1m30s")
    return sign * sum(float(part.group(1)) * _SECONDS[part.group(2)] for part in parts)
