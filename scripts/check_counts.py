"""Compare what a test run really did with what it must have done.

    python -m scripts.check_counts COUNTS [NAME=REASON]...

COUNTS, which GROVE_MIGRATOR_COUNTS named during the run, has JSON lines {"name", "n"}. Prints the sums by name as one
JSON line; exits with 1 if one is below tests/required_counts.json, where {minor} stands for every minor of k8s.io/api
that has a layout. What has a REASON cannot be counted here: the line has the reason, and nothing is required.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from migrator.hashing import layouts

REQUIRED: Final = Path(__file__).resolve().parent.parent / "tests" / "required_counts.json"


def totals(text: str) -> dict[str, int]:
    """Sum the lines of a counts file by name."""
    sums: dict[str, int] = {}
    for line in text.splitlines():
        entry = json.loads(line)
        sums[entry["name"]] = sums.get(entry["name"], 0) + int(entry["n"])
    return sums


def expanded(required: Mapping[str, int]) -> dict[str, int]:
    """What is required of each name, with every minor in the place of ``{minor}``."""
    names = {name: [name.replace("{minor}", minor) for minor in layouts.minors()] for name in required}
    return {name: least for family, least in required.items() for name in names[family]}


def shortfalls(counted: Mapping[str, int], required: Mapping[str, int]) -> list[str]:
    """One sentence for each count that is below what is required; a name that is missing counts as 0."""
    return [
        f"{name}: {counted.get(name, 0)}, but at least {least} are required"
        for name, least in sorted(required.items())
        if counted.get(name, 0) < least
    ]


def main(path: str, *cannot: str) -> int:
    """Print the counts, and on stderr what is missing."""
    counted = totals(Path(path).read_text(encoding="utf-8"))
    reasons = {name: f"cannot: {reason}" for name, _, reason in (given.partition("=") for given in cannot)}
    required = expanded(json.loads(REQUIRED.read_text(encoding="utf-8")))
    required = {name: least for name, least in required.items() if name not in reasons}
    sys.stdout.write(json.dumps({**counted, **reasons}, sort_keys=True) + "\n")
    missing = shortfalls(counted, required)
    for sentence in missing:
        sys.stderr.write(f"check_counts: {sentence}\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
