"""``explain``: why the hash differs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import click

from migrator.cli import log, operators, output, wiring
from migrator.cli.options import ClusterFlags
from migrator.errors import NotFound, UsageError, suggestion
from migrator.hashing import schemes
from migrator.planning import explain as core
from migrator.planning import lineage
from migrator.planning.options import AUTO
from migrator.render.summary import CANONICAL_NOTE
from migrator.render.text import printable
from migrator.resources import DEFAULT_NAMESPACE, POD_CLIQUE_SETS
from migrator.selectors import matches_labels
from migrator.store import DryRun
from migrator.stores.dump.store import read_documents

_COLOURS: Final = {"  + ": "green", "  - ": "red", "  ~ ": "yellow"}


def main(*, names: tuple[str, ...], path: str | None, form: str, cluster: ClusterFlags, **given: Any) -> None:  # noqa: ANN401 - those of directions
    """Print the differences, set by set and scheme by scheme."""
    source, target, _ = operators.directions(given, None if path else cluster, migrates=False)
    first = None if source == AUTO else schemes.resolve(source)
    last = None if target in {None, schemes.CANONICAL} else schemes.resolve(str(target))
    if target == schemes.CANONICAL or (last is not None and last.algorithm == schemes.CANONICAL):
        log.write_warning("canonical_target", CANONICAL_NOTE)
    for namespace, name, pcs in _wanted(path, frozenset(names), cluster):
        what = f"PodCliqueSet {namespace}/{name}"
        old = first or core.source_of(pcs, what)
        others = (scheme for scheme, _ in lineage.targets() if scheme != old)
        for new in others if target is None else (last or schemes.canonical_over(old),):
            explanation = core.explain(pcs, old, new)
            if form == "json":
                output.write(
                    output.as_json({"namespace": namespace, "name": name, **core.as_json(explanation)}, indent=None)
                )
            else:
                title = printable(f"{what}: {explanation.source} → {explanation.target}")
                output.write(f"{title}\n{_painted(core.as_text(explanation))}\n")


def _wanted(
    path: str | None, names: frozenset[str], cluster: ClusterFlags
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The named and selected sets; at the end ``UsageError`` for a name without a set, or if there was no set."""
    selection = wiring.selection(cluster)
    seen: set[str] = set()
    found = False
    for pcs in _sets(path, cluster):
        metadata = pcs.get("metadata") or {}
        namespace, name = str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")
        spellings = {name, f"{namespace}/{name}"}
        seen |= spellings
        if (names and not names & spellings) or selection.namespace not in {None, namespace}:
            continue
        if matches_labels(selection.selector, metadata.get("labels") or {}):
            found = True
            yield namespace, name, pcs
    if missing := names - seen:
        where = f" in namespace {cluster.namespace}" if cluster.namespace else ""
        hint = suggestion(min(missing), seen)
        raise UsageError(f"PodCliqueSet {', '.join(sorted(missing))} does not exist{where}.{hint}")
    if not found:
        raise UsageError("found no PodCliqueSet to explain")


def _sets(path: str | None, cluster: ClusterFlags) -> Iterator[Mapping[str, Any]]:
    if path is not None:
        yield from (one for one in read_documents(path) if one.get("kind") == POD_CLIQUE_SETS.kind)
        return
    store = wiring.connect(cluster, dry_run=DryRun.CLIENT)
    with suppress(NotFound):
        yield from store.list(POD_CLIQUE_SETS, lambda pcs: pcs, namespace=cluster.namespace)


def _painted(text: str) -> str:
    """The diff, in colour where stdout has colours; characters that a terminal would obey are escaped."""
    colour = log.wants_colour(sys.stdout)
    lines = (printable(line) for line in text.splitlines())
    return "".join(f"{click.style(line, fg=_COLOURS.get(line[:4])) if colour else line}\n" for line in lines)
