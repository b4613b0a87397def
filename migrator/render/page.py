"""The plan as one self-contained HTML file: the blast radius as a picture that people can send to their team.

No script, no font, no request: it opens on a phone, prints, and follows the reader's light or dark setting. Everything
that comes from a cluster is escaped; no value of a pod template is in it, only names and hashes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Final

from migrator.grove.model import Plan, Ref, TreePlan, TreeState
from migrator.hashing import schemes
from migrator.planning.explain import Explanation, as_text, explain
from migrator.render import summary as report
from migrator.render.findings import FindingGroup, Saying, grouped
from migrator.render.reasons import Reason, reasons
from migrator.render.style import STYLE

_STATES: Final = {
    TreeState.REFUSED: "refused",
    TreeState.MIGRATE: "can be migrated",
    TreeState.SKIPPED: "skipped",
    TreeState.DONE: "done already",
}

#: How many objects a refusal names, and a warning; the rest is a number, and in the JSON.
_NAMED: Final = 12
_MENTIONED: Final = 4

#: What a browser may load for this page: nothing. The style is in it.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


def render(plan: Plan) -> str:
    """The whole document, as text."""
    return "\n".join(_document(plan)) + "\n"


def _document(plan: Plan) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield "<title>grove-migrator plan</title>"
    yield f"<style>{STYLE}</style></head><body>"
    yield from _header(plan)
    yield from _refused(plan)
    yield from _picture(plan)
    warnings = grouped(report.warnings_of(plan))
    if warnings:
        yield "<section><h2>Worth knowing</h2>"
        for group in warnings:
            yield from _finding(group)
        yield "</section>"
    why = _explained(plan)
    yield from _reasons(reasons(why.values()))
    yield from _sets(plan, why)
    yield "<footer>"
    yield from (f'<p class="dim small">{_capital(note)}</p>' for note in report.notes(plan))
    yield "</footer></body></html>"


def _header(plan: Plan) -> Iterator[str]:
    yield f"<header><h1>{_capital(report.headline(plan))}</h1>"
    yield (
        f'<p class="dim">What an upgrade of the Grove operator would recreate: a plan from '
        f"<code>{escape(plan.requested_source)}</code> to <code>{escape(plan.requested_target)}</code>. "
        "Nothing has been written.</p></header>"
    )
    yield from _stakes(plan)
    summary = report.summary(plan)
    tiles = (
        ("PodCliqueSets", summary["podCliqueSets"]),
        ("pods in them", summary["pods"]),
        ("stored values to change", summary["changes"]),
        ("refusals", summary["refusals"]),
        ("warnings", summary["warnings"]),
    )
    yield '<dl class="tiles">'
    yield from (f"<div><dt>{name}</dt><dd>{number:,}</dd></div>" for name, number in tiles)
    yield "</dl>"


def _stakes(plan: Plan) -> Iterator[str]:
    """The whole story in two bars: pods recreated without the migration, and with it."""
    total, left = plan.cluster_blast, report.left_behind(plan)
    if not total.pods:
        return
    refused = bool(report.refusals_of(plan))
    rows = (
        ("Without the migration", total, "refused"),
        ("With run --skip-refused, which leaves out what is refused" if refused else "With it", left, "refused"),
    )
    yield '<section class="stakes" aria-label="pods recreated">'
    for words, blast, style in rows:
        amount = f"{report.count(blast.pods, 'pod')}, {report.count(blast.gpus, 'GPU')}"
        yield f"<div>{words}: <b>{amount}</b> recreated{_bar(style, blast.pods, total.pods)}</div>"
    yield "</section>"


def _refused(plan: Plan) -> Iterator[str]:
    groups = grouped(report.refusals_of(plan))
    if not groups:
        return
    yield "<section><h2>What is refused, and why</h2>"
    for group in groups:
        yield from _finding(group)
    yield from (f"<p>{escape(step)}</p>" for step in report.next_steps(plan))
    yield "</section>"


def _finding(group: FindingGroup) -> Iterator[str]:
    """One guard: its title, what was found of which objects, and what to do."""
    yield f'<article class="card {"refused" if group.refuses else "skipped"}">'
    code = f'<span class="code">{escape(group.code)}</span>'
    if all(finding.ref is None for finding in group.findings):  # of no object, so the sentence is all there is
        yield from (f"<p>{code} {escape(finding.message)}</p>" for finding in group.findings)
    else:
        times = f' <span class="dim">({len(group.findings):,}x)</span>' if len(group.findings) > 1 else ""
        yield f"<h3>{code} {escape(group.title)}{times}</h3><ul>"
        most = _NAMED if group.refuses else _MENTIONED
        yield from (f"<li>{_saying(saying, most)}</li>" for saying in group.sayings[:most])
        if len(group.sayings) > most:
            yield f'<li class="dim">and {len(group.sayings) - most:,} more</li>'
        yield "</ul>"
        yield from (f'<p class="do">{escape(remedy)}</p>' for remedy in group.remedies)
    yield "</article>"


def _saying(saying: Saying, most: int) -> str:
    refs = "<br>".join(_object(ref) for ref in saying.refs[:most])
    left = len(saying.refs) - most
    more = f' <span class="dim">and {left:,} more</span>' if left > 0 else ""
    if not saying.refs:
        return escape(saying.found)
    if len(saying.refs) == 1:
        return f"{refs}: {escape(saying.found)}"
    return f"{escape(saying.found)}:<br>{refs}{more}"


def _object(ref: Ref) -> str:
    path = f"{escape(ref.namespace)}/<wbr>{escape(ref.name)}" if ref.namespace else escape(ref.name)
    return f'<span class="dim">{escape(ref.kind)}</span> {path}'


def _picture(plan: Plan) -> Iterator[str]:
    """The blast radius, largest first: for each set that the upgrade would roll, its pods and its GPUs."""
    struck = sorted(
        (tree for tree in plan.trees if tree.blast.pods),
        key=lambda tree: (-tree.blast.gpus, -tree.blast.pods, tree.tree.ref),
    )
    if not struck:
        return
    pods, gpus = max(tree.blast.pods for tree in struck), max(tree.blast.gpus for tree in struck) or 1
    yield "<section><h2>What the upgrade would recreate without the migration, set by set</h2>"
    shown = {tree.state for tree in struck}
    keys = [f"<span><i class='key {state.value}'></i> pods, {words}</span>" for state, words in _STATES.items()]
    keys = [key for key, state in zip(keys, _STATES, strict=True) if state in shown]
    yield f'<p class="dim small keys">{"".join(keys)}<span><i class="key gpu"></i> GPUs</span></p>'
    yield '<ul class="bars">'
    for tree in struck:
        bars = _bar(tree.state.value, tree.blast.pods, pods) + _bar("gpu", tree.blast.gpus, gpus, "track thin")
        yield (
            f'<li><span>{_name(tree)}</span><span class="bar" aria-hidden="true">{bars}</span>'
            f'<span class="amount">{report.count(tree.blast.pods, "pod")}</span>'
            f'<span class="amount dim">{report.count(tree.blast.gpus, "GPU")}</span></li>'
        )
    yield "</ul></section>"


def _bar(style: str, part: int, whole: int, shape: str = "track") -> str:
    return f'<span class="{shape}"><i class="{style}" style="width:{100 * part / whole:.1f}%"></i></span>'


def _explained(plan: Plan) -> dict[Ref, Explanation]:
    """Why the hashes of each set differ, where it is known under which scheme it is stored."""
    return {
        tree.tree.ref: explain({"spec": tree.tree.pcs.spec}, schemes.by_name(tree.source), schemes.by_name(tree.target))
        for tree in plan.trees
        if tree.changes and tree.source is not None
    }


def _reasons(found: Iterable[Reason]) -> Iterator[str]:
    found = list(found)
    if not found:
        return
    yield "<section><h2>What the hashes are, and why they change</h2>"
    yield (
        "<p>Grove's operator dumps the pod templates of a set as text and hashes that text. It stores a "
        "<b>pod template hash</b> for each clique (on its PodCliques and their pods) and a <b>generation hash</b> over "
        "all cliques (on the set, its PodCliques and scaling groups). An operator that computes another value takes "
        "every template for edited and recreates the pods, though no template has changed.</p>"
    )
    for reason in found:
        pair = f"{escape(reason.source.name)} → {escape(reason.target.name)}"
        yield f"<h3>{pair}, {report.count(reason.sets, 'set')}</h3>"
        yield f'<p class="dim small">{escape(reason.speakers)}</p>'
        yield from (f"<p>{escape(sentence)}</p>" for sentence in reason.sentences)
        if reason.fields:
            yield "<table><thead><tr><th>text in the dump</th><th>of the struct</th><th>in</th></tr></thead><tbody>"
            for change, sets in reason.fields:
                sign = "+" if change.added else "-"
                yield (
                    f"<tr><td><code>{sign} {escape(change.text)}</code></td>"
                    f'<td data-is="in"><code>{escape(change.struct)}</code></td>'
                    f'<td data-is="of">{report.count(sets, "set")}</td></tr>'
                )
            yield "</tbody></table>"
        if reason.lists:
            yield "<table><thead><tr><th>list that moves</th><th>in</th></tr></thead><tbody>"
            for path, sets in reason.lists:
                yield (
                    f'<tr><td><code>~ {escape(path)}</code></td><td data-is="of">{report.count(sets, "set")}</td></tr>'
                )
            yield "</tbody></table>"
    yield "</section>"


def _sets(plan: Plan, why: Mapping[Ref, Explanation]) -> Iterator[str]:
    if not plan.trees:
        return
    yield "<section><h2>Every set</h2>"
    for tree in sorted(plan.trees, key=lambda tree: (tree.tree.ref.namespace, tree.tree.ref.name)):
        yield from _set(tree, why.get(tree.tree.ref))
    yield "</section>"


def _set(tree: TreePlan, why: Explanation | None) -> Iterator[str]:
    source = f"{escape(tree.source)} → " if tree.source else ""
    stake = f", {report.count(tree.blast.pods, 'pod')} and {report.count(tree.blast.gpus, 'GPU')} at stake"
    codes = ", ".join(sorted({finding.code for finding in tree.refusals}))
    line = (
        f'<h3>{_name(tree)}</h3> <span class="dim">{_STATES[tree.state]}{f" by {codes}" if codes else ""}, '
        f"{source}{escape(tree.target)}{stake if tree.blast.pods else ''}</span>"
    )
    if not tree.changes:
        yield f'<article class="card {tree.state.value}">{line}</article>'
        return
    yield f'<details class="card {tree.state.value}"><summary>{line}</summary>'
    yield "<table><thead><tr><th>hash</th><th>stored now</th><th>after</th><th>in</th></tr></thead><tbody>"
    for group in report.change_groups(tree):
        where = ", ".join(f"{kind} {number:,}x" for kind, number in sorted(group.kinds.items()))
        yield (
            f"<tr><td>{escape(group.what)}</td>"
            f'<td data-is="now"><code class="hash">{escape(group.old)}</code></td>'
            f'<td data-is="after"><code class="hash">{escape(group.new)}</code></td>'
            f'<td class="dim">{escape(where)}</td></tr>'
        )
    yield "</tbody></table>"
    if why is not None:
        yield f"<pre>{escape(as_text(why))}</pre>"
    yield "</details>"


def _name(tree: TreePlan) -> str:
    return (
        f'<span class="dim">{escape(tree.tree.ref.namespace)}/</span><wbr>'
        f'<span class="name">{escape(tree.tree.ref.name)}</span>'
    )


def _capital(text: str) -> str:
    return escape(text[:1].upper() + text[1:])
