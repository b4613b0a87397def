"""The plan as one self-contained HTML file: the blast radius as a picture that people can send to their team.

No script, no font, no request: it opens on a phone, prints, and follows the reader's light or dark setting. Everything
that comes from a cluster is escaped; no value of a pod template is in it, only names and hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Final

from migrator import report
from migrator.explain import as_text, explain
from migrator.hashing import schemes
from migrator.model import Finding, Plan, SetHashes, Severity, TreePlan, TreeState

_STATES: Final = {
    TreeState.MIGRATE: "will be migrated",
    TreeState.REFUSED: "refused",
    TreeState.SKIPPED: "skipped",
    TreeState.DONE: "done already",
}

_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --ground: #ffffff; --card: #f4f6f8; --line: #d5dbe1;
  --migrate: #1f6feb; --refused: #c62f3b; --skipped: #9a6700; --done: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --dim: #9aa5b1; --ground: #0e1116; --card: #171c23; --line: #303841;
    --migrate: #58a6ff; --refused: #ff7b72; --skipped: #d8a83c; --done: #56c36b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0; }
p { margin: .3rem 0; } .dim { color: var(--dim); }
code { font: .86em ui-monospace, monospace; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .7rem; margin: 1rem 0;
  padding: 0; }
.tiles div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.tiles dt { color: var(--dim); font-size: .85rem; } .tiles dd { margin: 0; font-size: 1.5rem; font-weight: 600; }
.bars { list-style: none; margin: 0; padding: 0; }
.bars li { display: grid; grid-template-columns: minmax(8rem, 16rem) 1fr 9.5rem; gap: .7rem; align-items: center;
  padding: .25rem 0; }
.bar { height: 1rem; background: var(--card); border-radius: .25rem; overflow: hidden; }
.bar i { display: block; height: 100%; min-width: 3px; background: var(--migrate); }
.key { display: inline-block; width: .8em; height: .8em; border-radius: .2em; background: var(--migrate); }
.bar i.refused, .key.refused { background: var(--refused); }
.bar i.skipped, .key.skipped { background: var(--skipped); }
.bar i.done, .key.done { background: var(--done); }
.amount { font-variant-numeric: tabular-nums; text-align: right; }
article { border: 1px solid var(--line); border-left: .35rem solid var(--migrate); border-radius: .4rem;
  padding: .7rem .9rem; margin: .7rem 0; break-inside: avoid; }
article.refused { border-left-color: var(--refused); } article.skipped { border-left-color: var(--skipped); }
article.done { border-left-color: var(--done); }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
th, td { text-align: left; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 500; font-size: .85rem; }
ul.findings { margin: .5rem 0; padding-left: 1.1rem; } .refusal b { color: var(--refused); }
.warning b { color: var(--skipped); }
pre { white-space: pre-wrap; font: .82em ui-monospace, monospace; margin: .4rem 0; }
details summary { cursor: pointer; color: var(--dim); }
@media (max-width: 40rem) { .bars li { grid-template-columns: 1fr auto; }
  .bars .bar { grid-column: 1 / -1; grid-row: 2; } }
@media print { body { max-width: none; padding: 0; } details { display: block; } a { color: inherit; } }
"""


def render(plan: Plan) -> str:
    """The whole document, as text."""
    return "\n".join(_document(plan)) + "\n"


def _document(plan: Plan) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<title>grove-migrator plan</title>"
    yield f"<style>{_STYLE}</style></head><body>"
    yield f"<header><h1>{_capital(report.headline(plan))}</h1>"
    yield (
        f'<p class="dim">Plan from <code>{escape(plan.requested_source)}</code> to '
        f"<code>{escape(plan.requested_target)}</code>. Nothing has been written.</p></header>"
    )
    yield from _tiles(plan)
    yield from _picture(plan)
    yield from _findings_of_the_cluster(plan)
    if plan.trees:
        yield "<h2>Set by set</h2>"
    for tree in plan.trees:
        yield from _article(tree)
    yield from (f'<p class="dim">{_capital(note)}</p>' for note in report.notes(plan))
    yield "</body></html>"


def _tiles(plan: Plan) -> Iterator[str]:
    summary = report.plan_json(plan)["summary"]
    tiles = (
        ("PodCliqueSets", summary["podCliqueSets"]),
        ("pods", summary["pods"]),
        ("values to change", summary["changes"]),
        ("refusals", summary["refusals"]),
        ("pods recreated without migration", summary["podsRecreatedWithoutMigration"]),
        ("GPUs recreated without migration", summary["gpusRecreatedWithoutMigration"]),
    )
    yield '<dl class="tiles">'
    yield from (f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in tiles)
    yield "</dl>"


def _picture(plan: Plan) -> Iterator[str]:
    """The blast radius, largest first: one bar for each set that the upgrade would roll."""
    struck = sorted(
        (tree for tree in plan.trees if tree.blast.pods), key=lambda tree: (-tree.blast.pods, tree.tree.ref)
    )
    if not struck:
        return
    most = struck[0].blast.pods
    yield "<h2>What the upgrade would recreate without this migration</h2>"
    yield '<ul class="bars">'
    for tree in struck:
        pods, gpus = report.count(tree.blast.pods, "pod"), report.count(tree.blast.gpus, "GPU")
        width = 100 * tree.blast.pods / most
        yield (
            f"<li><span>{_name(tree)}</span>"
            f'<span class="bar" role="img" aria-label="{pods}, {gpus}, {_STATES[tree.state]}">'
            f'<i class="{tree.state.value}" style="width:{width:.1f}%"></i></span>'
            f'<span class="amount">{pods}<br><span class="dim">{gpus}</span></span></li>'
        )
    yield "</ul>"
    shown = {tree.state for tree in struck}
    keys = (f'<i class="key {state.value}"></i> {words}' for state, words in _STATES.items() if state in shown)
    yield f'<p class="dim">{" &ensp; ".join(keys)}</p>'


def _findings_of_the_cluster(plan: Plan) -> Iterator[str]:
    if plan.findings:
        yield "<h2>About the whole cluster</h2>"
        yield from _findings(plan.findings)


def _article(tree: TreePlan) -> Iterator[str]:
    yield f'<article class="{tree.state.value}"><h3>{_name(tree)}</h3>'
    source = f"from <code>{escape(tree.source)}</code> " if tree.source else ""
    changed = report.count(len(tree.changes), "value")
    yield (
        f'<p class="dim">{_STATES[tree.state]}, {source}to <code>{escape(tree.target)}</code>, {changed} to change, '
        f"{report.count(tree.blast.pods, 'pod')} and {report.count(tree.blast.gpus, 'GPU')} at stake</p>"
    )
    yield from _findings(tree.findings)
    if tree.changes and tree.source_hashes and tree.target_hashes:
        yield from _hashes(tree.source_hashes, tree.target_hashes)
        yield from _reasons(tree)
    yield "</article>"


def _hashes(old: SetHashes, new: SetHashes) -> Iterator[str]:
    yield "<table><thead><tr><th>hash of</th><th>stored now</th><th>after</th></tr></thead><tbody>"
    rows = [("all cliques (generation)", old.generation, new.generation)]
    rows += [(f"clique {name}", value, new.templates.get(name, "")) for name, value in old.templates.items()]
    for what, before, after in rows:
        cells = (escape(what), f"<code>{escape(before)}</code>", f"<code>{escape(after)}</code>")
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table>"


def _reasons(tree: TreePlan) -> Iterator[str]:
    """Why the hashes differ, as `explain` says it."""
    if tree.source is None:
        return
    why = explain({"spec": tree.tree.pcs.spec}, schemes.by_name(tree.source), schemes.by_name(tree.target))
    yield f"<details><summary>why they differ</summary><pre>{escape(as_text(why))}</pre></details>"


def _findings(findings: Iterable[Finding]) -> Iterator[str]:
    ordered = sorted(findings, key=lambda finding: (finding.severity is not Severity.REFUSAL, finding.code))
    if ordered:
        yield '<ul class="findings">'
        for finding in ordered:
            yield f'<li class="{finding.severity.value}"><b>{escape(finding.code)}</b> {escape(finding.message)}</li>'
        yield "</ul>"


def _name(tree: TreePlan) -> str:
    return f"{escape(tree.tree.ref.namespace)}/<wbr>{escape(tree.tree.ref.name)}"


def _capital(text: str) -> str:
    return escape(text[:1].upper() + text[1:])
