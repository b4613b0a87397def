"""Write the tables of docs/compatibility.md from the results of the upgrade matrix.

python -m tests.e2e.lab.compatibility            print the page
python -m tests.e2e.lab.compatibility --write    write it; a test checks that it is current
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from scripts.marks import put
from tests.e2e.lab.matrix import BY_CHART, ON_KIND, PAIRS, Pair
from tests.support.paths import ROOT

RESULTS: Final = Path(__file__).with_name("results.json")
KIND_RESULTS: Final = Path(__file__).with_name("kind_results.json")
TARGET: Final = ROOT / "docs" / "compatibility.md"

_BY: Final = {"the Job": "", "the chart": BY_CHART}


def page(
    text: str,
    results: Mapping[str, Mapping[str, Any]],
    on_kind: Mapping[str, Mapping[str, Any]],
) -> str:
    """The page with its tables anew: upgrades by the name of their pair, and those on kind."""
    upgrades = [
        "| from | to | CRDs changed | sets | pods | recreated without | recreated with | run | away |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_row(pair, results.get(pair.name)) for pair in PAIRS),
    ]
    kind = [
        "| from | to | by | sets | pods | recreated without | recreated with | and back | run | away | quiet for |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_kind_row(pair, by, on_kind.get(f"{pair.name}{end}")) for pair in ON_KIND for by, end in _BY.items()),
    ]
    for name, lines in (("upgrades", upgrades), ("kind", kind)):
        text = put(text, name, "\n".join(lines))
    return text


def _kind_row(pair: Pair, by: str, result: Mapping[str, Any] | None) -> str:
    ends = [*(build.title for build in pair.builds), by]
    if result is None:
        return _line(*ends, "not run", *[""] * 7)
    without = "" if result["without"] is None else str(result["without"])
    if result["stalled_of"] is not None:
        without += f" of {result['stalled_of']}, then the update stood still for 180 s and was given up"
    back = "not run" if result["back"] is None else result["back"]
    quiet = f"{result['soak_seconds']:g} s"
    return _line(*ends, result["sets"], result["pods"], without, result["with_tool"], back, *_times(result), quiet)


def _row(pair: Pair, result: Mapping[str, Any] | None) -> str:
    source, target = pair.builds
    crds = "before the run" if pair.crds_first else "after the run"
    if source.crds == target.crds:
        crds = "no"
    if result is None:
        return _line(source.title, target.title, crds, "not run: no binary", *[""] * 5)
    counted = (result[name] for name in ("sets", "pods", "without", "with_tool"))
    return _line(source.title, target.title, crds, *counted, *_times(result))


def _times(result: Mapping[str, Any]) -> list[str]:
    return [f"{result[name]:g} s" for name in ("run_seconds", "downtime_seconds")]


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the page, or write it."""
    read = (json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, KIND_RESULTS))
    text = page(TARGET.read_text(encoding="utf-8"), *read)
    if sys.argv[1:] == ["--write"]:
        TARGET.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
