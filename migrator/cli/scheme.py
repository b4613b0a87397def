"""``scheme``: the hashes that an operator's own binary computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from migrator.cli.options import command, output
from migrator.cli.output import write

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme


@command(
    "scheme",
    "Read the hash scheme from an operator's program file.",
    """
    crane export "$IMAGE" - | tar -xO grove-operator > grove-operator
    grove-migrator scheme grove-operator
    grove-migrator scheme grove-operator -o json > scheme.json
    grove-migrator plan --to-binary scheme.json
    """,
)
@click.argument("binary")
@output(["table", "json"], "A text for people, or the scheme.json that --to-binary and --from-binary take.")
def scheme(*, binary: str, output: str) -> None:
    """Read from BINARY, an operator's program file, which hashes the operator computes.

    The layout of the structs is read exactly; the algorithm is recognised by its functions.
    """
    from migrator.cli import operator_source
    from migrator.operators import schemefile
    from migrator.render.text import printable

    found = operator_source.read(binary)
    if output == "json":
        write(schemefile.encode(found))
        return
    for title, text in _rows(found):
        write(f"{title:<12}  {printable(text)}\n")


def _rows(found: OperatorScheme) -> Iterator[tuple[str, str]]:
    from migrator.hashing import layouts, schemes
    from migrator.operators import layout

    scheme = found.scheme
    releases = ", ".join(release.name for release in schemes.speakers(scheme))
    yield "scheme", f"{scheme} (used by {releases})" if releases else f"{scheme}, used by no release in the table"
    if scheme.minor in layouts.minors():
        yield "layout", f"that of {layouts.title(scheme.minor)}, {layouts.digest(found.layout)}"
    else:
        nearest = layout.nearest(found.layout)
        yield "layout", f"not one of ours, {layouts.digest(found.layout)}; against {layouts.title(nearest)}:"
        for sentence in layout.differences(layouts.load(nearest), found.layout):
            yield "", sentence
    shown = found.recognised
    yield "algorithm", f"{shown.algorithm}, recognised by {len(shown.by)} functions:"
    for name in shown.by:
        yield "", name
    flags = {
        "accepts legacy hashes": shown.accepts_legacy,
        "puts the hash into object names": shown.hash_in_names,
        "keeps PodGangMaps": shown.pod_gang_maps,
    }
    yield "flags", ", ".join(name for name, is_set in flags.items() if is_set) or "none"
    for name, text in found.labels.items():
        yield name.removeprefix("github.com/davecgh/"), text
    commit = found.labels.get("commit", "")
    release = next((one for one in schemes.releases() if one.commit and commit.startswith(one.commit)), None)
    if release is not None and release.scheme != scheme:
        yield "warning", f"its commit is that of {release.name}, built as {release.scheme}; the binary decides"
    for warning in found.warnings:
        yield "warning", warning
