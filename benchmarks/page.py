"""Make the tables of docs/performance.md and its plot from measured JSON: ``python -m benchmarks.page [RESULT.json]``.

Without an argument the newest result with the most pods is taken. Nothing is measured here.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import Any, Final

from scripts.marks import put

Document = Mapping[str, Any]

_ROOT: Final = Path(__file__).resolve().parents[1]
RESULTS: Final = _ROOT / "benchmarks" / "results"
PAGE: Final = _ROOT / "docs" / "performance.md"
PLOT: Final = _ROOT / "docs" / "performance-growth.svg"

_WIDTH, _HEIGHT, _MARGIN = 640, 360, 60
_LOOKS: Final = 'font-family="sans-serif" font-size="12" role="img" aria-label="Seconds of CPU against pods"'
_NOTHING: Final = "Not part of this measurement."
_SERIES: Final = (("snapshotSeconds", "snapshot", "#1f6f8b"), ("planSeconds", "plan", "#c8553d"))


def newest() -> Path:
    """The result that the page is made from."""
    found = sorted(RESULTS.glob("*.json"), key=lambda path: (_load(path)["pods"], _load(path)["measured"]))
    if not found:
        raise FileNotFoundError(f"there is no result in {RESULTS}: run `make bench` first")
    return found[-1]


def reached(goal: str, ours: float, ratio: float | None) -> bool | None:
    """Whether a figure reaches its goal; ``None`` without one."""
    if not goal:
        return None
    sign, _, bound = goal.partition(" ")
    value = ours if ratio is None else ratio
    return value <= float(bound) if sign == "<=" else value >= float(bound)


def page(document: Document, source: str) -> str:
    """docs/performance.md with its generated parts anew; ``source`` names the result that they are made from."""
    text = PAGE.read_text(encoding="utf-8")
    parts = {
        "measured": _measured(document, source),
        "figures": figures(document["rows"]),
        "growth": _growth(document["growth"]),
        "passes": _passes(document["passes"]),
    }
    for name, lines in parts.items():
        text = put(text, name, "\n".join(lines))
    return text


def plot(document: Document) -> str:
    """Seconds of CPU against pods, both axes logarithmic: what is linear is a line of slope one."""
    sizes = document["growth"]
    pods = [one["pods"] for one in sizes]
    values = [max(one[key], 1e-3) for one in sizes for key, *_ in _SERIES]
    left, right = log10(min(pods)), log10(max(pods))
    bottom, top = int(log10(min(values))) - 1, int(log10(max(values))) + 1

    def x(value: float) -> float:
        return _MARGIN + (log10(value) - left) / (right - left or 1) * (_WIDTH - 2 * _MARGIN)

    def y(value: float) -> float:
        return _HEIGHT - _MARGIN - (log10(value) - bottom) / (top - bottom) * (_HEIGHT - 2 * _MARGIN)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_LOOKS}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for power in range(bottom, top + 1):
        at = y(10.0**power)
        lines.append(f'<path d="M{_MARGIN} {at:.1f}H{_WIDTH - _MARGIN}" stroke="#ddd"/>')
        lines.append(f'<text x="{_MARGIN - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g} s</text>')
    below = _HEIGHT - _MARGIN + 18
    lines += [f'<text x="{x(size):.1f}" y="{below}" text-anchor="middle">{size:,}</text>' for size in pods]
    lines.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 14}" text-anchor="middle">pods</text>')
    for number, (key, name, colour) in enumerate(_SERIES):
        points = [(x(one["pods"]), y(max(one[key], 1e-3))) for one in sizes]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        lines.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in points]
        lines.append(f'<text x="{_MARGIN + 12}" y="{_MARGIN + 16 * number}" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _measured(document: Document, source: str) -> Iterator[str]:
    machine = document["machine"]
    yield (
        f"`benchmarks/results/{source}` was measured {document['measured']} in {document['seconds']} s on "
        f"{machine['cores']} cores of {machine['cpu']} ({machine['memoryGiB']} GiB, {machine['system']}, "
        f"Python {machine['python']}, {machine['go']}); load average when it ended: {machine['loadAverage']}."
    )
    yield ""
    missed = [row for row in document["rows"] if _reached(row) is False]
    if missed:
        yield "Goals that were not reached in this measurement:"
        yield ""
        for row in missed:
            value = f"{_number(row['ours'])} {row['unit']}" if row["ratio"] is None else f"{row['ratio']:.2f}"
            yield f"- {row['figure']}: {value}, and the goal is {row['goal']}"
    else:
        yield "Every goal was reached in this measurement."
    yield ""
    for part, why in document.get("leftOut", {}).items():
        yield f"- `{part}` is not part of this measurement: {why}"


def figures(rows: Sequence[Document]) -> Iterator[str]:
    """The table of all figures; what did not reach its goal comes first."""
    yield "| figure | ours | reference | unit | ratio | goal | reached |"
    yield "|---|---:|---:|---|---:|---|---|"
    for row in sorted(rows, key=lambda row: _reached(row) is not False):
        reference = "" if row["reference"] is None else _number(row["reference"])
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        verdict = {None: "", True: "yes", False: "**no**"}[_reached(row)]
        yield (
            f"| {row['figure']} | {_number(row['ours'])} | {reference} | {row['unit']} | {ratio} | {row['goal']} | "
            f"{verdict} |"
        )


def _growth(sizes: Sequence[Document]) -> Iterator[str]:
    if not sizes:
        yield _NOTHING
        return
    yield f"![Seconds of CPU against pods]({PLOT.name})"
    yield ""
    yield "| pods | patches | snapshot, s of CPU | plan, s of CPU | peak memory, MiB |"
    yield "|---:|---:|---:|---:|---:|"
    for one in sizes:
        yield (
            f"| {one['pods']:,} | {one['patches']:,} | {one['snapshotSeconds']:.2f} | {one['planSeconds']:.2f} | "
            f"{one['peakKiB'] / 1024:.0f} |"
        )


def _passes(passes: Sequence[Document]) -> Iterator[str]:
    if not passes:
        yield _NOTHING
        return
    yield "| shape | pass | s | CPU of the client, s | CPU of the servers, s | peak memory, MiB | stages, s |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for one in passes:
        if "seconds" not in one:
            continue
        stages = ", ".join(f"{name} {seconds:g}" for name, seconds in (one.get("stages") or {}).items())
        beside = f" (concurrency {one['concurrency']})" if "concurrency" in one else ""
        yield (
            f"| {one['shape']} | {one['pass']}{beside} | {one['seconds']:.2f} | {one['cpu']:.2f} | "
            f"{one['server_cpu']:.2f} | {one['peak_kib'] / 1024:.0f} | {stages} |"
        )


def _reached(row: Mapping[str, Any]) -> bool | None:
    return reached(row["goal"], row["ours"], row["ratio"])


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _load(path: Path) -> Document:
    document: Document = json.loads(path.read_text(encoding="utf-8"))
    return document


def main(arguments: Sequence[str]) -> int:
    """Write the page and its plot."""
    source = Path(arguments[0]) if arguments else newest()
    document = _load(source)
    PAGE.write_text(page(document, source.name), encoding="utf-8")
    if document["growth"]:
        PLOT.write_text(plot(document), encoding="utf-8")
    print(f"{PAGE} from {source}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
