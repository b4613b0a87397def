"""``explain``: why the hash differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from migrator.cli import output
from migrator.cli.operators import binary_options, named_by_binaries
from migrator.cli.options import (
    ClusterFlags,
    cluster_options,
    file_option,
    log_options,
    output_option,
    source_option,
    suggestion,
    target_option,
)
from migrator.errors import NotFound, UsageError
from migrator.resources import DEFAULT_NAMESPACE

_COLOURS: Final = {"  + ": "green", "  - ": "red", "  ~ ": "yellow"}


@click.command(
    short_help="Why two schemes give different hashes.",
    epilog="""\b
    Examples:
      grove-migrator explain demo -n default                  against each scheme that a release speaks
      grove-migrator explain demo -n default --to v0.1.0-alpha.11
      grove-migrator explain -f sets.yaml --from legacy-1.34 --to legacy-1.35
      grove-migrator explain -f sets.yaml demo --to canonical
    """,
)
@click.argument("names", metavar="[PCS]...", nargs=-1)
@file_option("path", "Read PodCliqueSets from a file instead of a cluster, as `hash` does; - is stdin.", metavar="FILE")
@source_option("The scheme to start from; auto takes the one whose generation hash the set stores.")
@target_option(
    "The scheme to compare with. Without it: every other scheme that a release speaks. Only builds of Grove's "
    "pull request #566 speak the canonical schemes."
)
@output_option("table", "json", meaning="A small diff, or one JSON object on a line, for each set and scheme.")
@binary_options
@cluster_options
@log_options
@named_by_binaries(migrates=False)
def explain(
    *, names: tuple[str, ...], path: str | None, source: str, target: str | None, form: str, cluster: ClusterFlags
) -> int:
    """Show which fields the newer structs added and which lists the canonical order moved.

    PCS is a name or namespace/name; without one, all PodCliqueSets are explained. Values of your templates are
    never shown.
    """
    from migrator.cli import log  # noqa: PLC0415
    from migrator.hashing import schemes  # noqa: PLC0415
    from migrator.planning import explain as core  # noqa: PLC0415 - --help needs none of it
    from migrator.planning import lineage  # noqa: PLC0415
    from migrator.render import summary  # noqa: PLC0415
    from migrator.render.text import printable  # noqa: PLC0415

    first = None if source == "auto" else schemes.resolve(source)
    last = None if target in {None, schemes.CANONICAL} else schemes.resolve(target)
    if target == schemes.CANONICAL or (last is not None and last.algorithm == schemes.CANONICAL):
        log.write_warning("canonical_target", summary.CANONICAL_NOTE)
    for pcs in _wanted(_documents(path, cluster), frozenset(names), cluster):
        namespace, name = _identity(pcs)
        what = f"PodCliqueSet {namespace}/{name}"
        old = first or core.source_of(pcs, what)
        known = (scheme for scheme, _ in lineage.targets() if scheme != old)
        for new in known if target is None else (last or schemes.canonical_over(old),):
            explanation = core.explain(pcs, old, new)
            if form == "json":
                document = {"namespace": namespace, "name": name, **core.as_json(explanation)}
                output.write(json.dumps(document, ensure_ascii=False) + "\n")
            else:
                title = printable(f"{what}: {explanation.source} → {explanation.target}")
                output.write(f"{title}\n{_painted(core.as_text(explanation))}\n")
    return 0


def _wanted(
    documents: Iterator[Mapping[str, Any]], names: frozenset[str], cluster: ClusterFlags
) -> Iterator[Mapping[str, Any]]:
    """The named and selected sets. After the last it raises ``UsageError`` for a name without a set, and for none."""
    from migrator.cli import wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.selectors import matches_labels  # noqa: PLC0415

    selection = wiring.selection(cluster)
    seen: set[str] = set()
    found = False
    for pcs in documents:
        namespace, name = _identity(pcs)
        spellings = {name, f"{namespace}/{name}"}
        seen |= spellings
        if (names and not names & spellings) or selection.namespace not in {None, namespace}:
            continue
        if matches_labels(selection.selector, (pcs.get("metadata") or {}).get("labels") or {}):
            found = True
            yield pcs
    if missing := names - seen:
        raise UsageError(f"PodCliqueSet {', '.join(sorted(missing))} does not exist.{suggestion(min(missing), seen)}")
    if not found:
        raise UsageError("found no PodCliqueSet to explain")


def _documents(path: str | None, cluster: ClusterFlags) -> Iterator[Mapping[str, Any]]:
    from migrator.cli import wiring  # noqa: PLC0415 - --help needs none of it
    from migrator.resources import POD_CLIQUE_SETS  # noqa: PLC0415
    from migrator.store import DryRun  # noqa: PLC0415
    from migrator.stores.dump.store import read_documents  # noqa: PLC0415

    if path is not None:
        yield from (document for document in read_documents(path) if document.get("kind") == POD_CLIQUE_SETS.kind)
        return
    store = wiring.connect(cluster, dry_run=DryRun.CLIENT)
    try:
        yield from store.list(POD_CLIQUE_SETS, lambda pcs: pcs, namespace=cluster.namespace).items
    except NotFound:
        return


def _painted(text: str) -> str:
    """The diff, in colour where stdout has colours; characters that a terminal would obey are escaped."""
    from migrator.cli import log  # noqa: PLC0415 - --help needs none of it
    from migrator.render.text import printable  # noqa: PLC0415

    colour = log.wants_colour(sys.stdout)
    lines = (printable(line) for line in text.splitlines())
    return "".join(f"{click.style(line, fg=_COLOURS.get(line[:4])) if colour else line}\n" for line in lines)


def _identity(pcs: Mapping[str, Any]) -> tuple[str, str]:
    metadata = pcs.get("metadata") or {}
    return str(metadata.get("namespace") or DEFAULT_NAMESPACE), str(metadata.get("name") or "")
