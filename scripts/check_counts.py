"""Compare what a test run really did with what it must have done.

    python -m scripts.check_counts COUNTS [NAME=REASON]...

COUNTS, which GROVE_MIGRATOR_COUNTS named during the run, has JSON lines {"name", "n"}. Prints the sums by name as one
JSON line; exits with 1 if one is below tests/required_counts.json, where {minor} stands for every minor of k8s.io/api
that has a layout. What has a REASON cannot be counted here: the line has the reason, and nothing is required.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from migrator.hashing import layouts

REQUIRED: Final = Path(__file__).resolve().parent.parent / "tests" / "required_counts.json"


def totals(text: str) -> dict[str, int]:
    """Sum the lines of a counts file by name."""
    sums = Counter[str]()
    for entry in map(json.loads, text.splitlines()):
        sums[entry["name"]] += int(entry["n"])
    return dict(sums)


def expanded(required: Mapping[str, int]) -> dict[str, int]:
    """What is required of each name, with every minor in the place of ``{minor}``."""
    minors = layouts.minors()
    return {name.replace("{minor}", minor): least for name, least in required.items() for minor in minors}


def main(path: str, *cannot: str) -> int:
    """Print the counts, and on stderr what is missing."""
    counted = totals(Path(path).read_text(encoding="utf-8"))
    reasons = {name: f"cannot: {reason}" for name, _, reason in (given.partition("=") for given in cannot)}
    required = expanded(json.loads(REQUIRED.read_text(encoding="utf-8")))
    required = {name: least for name, least in required.items() if name not in reasons}
    sys.stdout.write(json.dumps({**counted, **reasons}, sort_keys=True) + "\n")
    missing = {name: least for name, least in sorted(required.items()) if counted.get(name, 0) < least}
    for name, least in missing.items():
        sys.stderr.write(f"check_counts: {name}: {counted.get(name, 0)}, but at least {least} are required\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
