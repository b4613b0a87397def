"""The checked-in layout files: what each minor's oracle says, with shared types stored once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from migrator.hashing import layouts
from testbed.oracle import MINORS, oracle

LAYOUTS = Path(layouts.__file__).parent


def rendered() -> dict[Path, str]:
    """Return the text of every layout file, as the oracles of today print it."""
    files = {}
    base: dict[str, Any] = {}
    base_minor = ""
    for minor in MINORS:
        printed = layout(minor)
        content = _delta(base_minor, base, printed) if base_minor else printed
        files[LAYOUTS / f"{minor}.json"] = _render(content)
        base_minor, base = minor, printed
    return files


def layout(minor: str) -> dict[str, Any]:
    printed = subprocess.run([oracle(minor).binary(), "layout"], check=True, capture_output=True)
    content: dict[str, Any] = json.loads(printed.stdout)
    return content


def _delta(base_minor: str, base: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    before, after = base["types"], whole["types"]
    delta = {
        "base": base_minor,
        "types": {name: fields for name, fields in after.items() if before.get(name) != fields},
        "removed": sorted(before.keys() - after.keys()),
    }
    if base["custom"] != whole["custom"]:
        delta["custom"] = whole["custom"]
    return delta


def _render(content: dict[str, Any]) -> str:
    """One type a line: small, and a diff shows which types changed."""
    heads = [f'"{key}": {json.dumps(content[key])}' for key in ("base", "custom", "removed") if key in content]
    types = [f"  {json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(content["types"].items())]
    return "{\n" + ",\n".join([*heads, '"types": {\n' + ",\n".join(types) + "\n}"]) + "\n}\n"
