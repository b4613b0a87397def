"""``scheme``: the hashes that an operator's own binary computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from migrator.cli import output
from migrator.cli.options import log_options, output_option

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme


@click.command(
    short_help="The hashes that an operator's own binary computes.",
    epilog="""\b
    Examples:
      crane pull --format=oci registry.example/grove-operator:v0.1.0-alpha.11 operator
      grove-migrator scheme operator
      grove-migrator scheme operator -o json > scheme.json
      grove-migrator plan --to-binary scheme.json
    """,
)
@click.argument("source")
@click.option("--image", metavar="NAME", help="The image to read, in an archive of several.")
@output_option("table", "json", meaning="A text for people, or the file that --to-binary and --from-binary take.")
@log_options
def scheme(*, source: str, image: str | None, form: str) -> int:
    """Read which hashes an operator computes from SOURCE: its binary, or its image.

    SOURCE is an ELF file, an OCI layout (directory or archive), a docker archive, or a root file system (directory or
    tar). The layout of the structs is read exactly; the algorithm is recognised by its functions.
    """
    from migrator.cli import operators  # noqa: PLC0415 - --help needs none of it
    from migrator.operators import schemefile  # noqa: PLC0415
    from migrator.render.text import printable  # noqa: PLC0415

    found = operators.read(source, image=image)
    if form == "json":
        output.write(schemefile.encode(found))
        return 0
    for title, text in _rows(found):
        output.write(f"{title:<12}  {printable(text)}\n")
    return 0


def _rows(found: OperatorScheme) -> Iterator[tuple[str, str]]:
    from migrator.hashing import layouts, schemes  # noqa: PLC0415 - --help needs none of it
    from migrator.operators import layout  # noqa: PLC0415

    scheme = found.scheme
    releases = ", ".join(release.name for release in schemes.speakers(scheme))
    yield "scheme", f"{scheme} (spoken by {releases})" if releases else f"{scheme}, spoken by no release in the table"
    if scheme.minor in layouts.minors():
        yield "layout", f"that of {layouts.title(scheme.minor)}, {layouts.digest(found.layout)}"
    else:
        nearest = layout.nearest(found.layout)
        yield "layout", f"not one of ours, {layouts.digest(found.layout)}; against {layouts.title(nearest)}:"
        for sentence in layout.differences(layouts.load(nearest), found.layout):
            yield "", sentence
    yield "algorithm", f"{found.algorithm}, recognised by {len(found.recognised_by)} functions:"
    for name in found.recognised_by:
        yield "", name
    flags = {
        "accepts legacy hashes": found.accepts_legacy,
        "puts the hash into object names": found.hash_in_names,
        "keeps PodGangMaps": found.pod_gang_maps,
    }
    yield "flags", ", ".join(name for name, is_set in flags.items() if is_set) or "none"
    for platform in found.platforms:
        yield "platform", f"{platform.name}, binary {platform.binary}"
        if platform.manifest is not None:
            yield "", f"manifest {platform.manifest}"
    yield "image", found.image_digest or "not known: only OCI forms keep the digest that a registry gives"
    for name, text in found.labels.items():
        yield name.removeprefix("github.com/davecgh/"), text
    release = next((one for one in schemes.releases() if one.commit and _is_commit(found, one.commit)), None)
    if release is not None and release.scheme != scheme:
        yield (
            "warning",
            f"its commit is that of {release.name}, which was built as {release.scheme}; the binary decides",
        )
    for warning in found.warnings:
        yield "warning", warning


def _is_commit(found: OperatorScheme, commit: str) -> bool:
    return found.labels.get("commit", "").startswith(commit)
