"""What the scenarios of the Job have shown: rows that the tests write, and the table of docs/compatibility.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: A file that rows are added to; docs/compatibility.md is made of the one beside this module.
VARIABLE: Final = "GROVE_NODE_SCENARIOS"
FILE: Final = Path(__file__).with_name("scenarios.json")

_HEAD: Final = (
    "| scenario | pods of the Job, the first one first | termination message | Job | Events | the cluster afterwards |",
    "|---|---|---|---|---|---|",
)


@dataclass(frozen=True, slots=True)
class Row:
    """How a scenario ended, in words; ``title`` is the beginning of its test's docstring."""

    title: str
    pods: Sequence[str]
    message: str
    job: str
    events: str
    cluster: str


def table(rows: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The table, in Markdown."""
    lines = list(_HEAD)
    for row in rows.values():
        cells = [row["title"], ", ".join(row["pods"]), row["message"], row["job"], row["events"], row["cluster"]]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
