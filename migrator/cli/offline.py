"""The commands that read no object: ``scheme``, ``releases`` and ``guards``."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator

import click

from migrator.cli.options import command, output_format
from migrator.cli.stdout import as_json, write
from migrator.errors import UsageError, suggestion
from migrator.hashing import layouts, schemes
from migrator.operators import layout, schemefile
from migrator.operators.schemefile import OperatorScheme
from migrator.planning.guards.base import ALIKE, CATALOGUE, CODES
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.render.text import columns, filled, row, wrapped


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
@output_format(["table", "json"], "A text for people, or the scheme.json that --to-binary and --from-binary take.")
def scheme(*, binary: str, output: str) -> None:
    """Read from BINARY, an operator's program file, which hashes the operator computes.

    The layout of the structs is read exactly; the algorithm is recognised by its functions.
    """
    from migrator.cli import operator_source

    operator = operator_source.read(binary)
    if output == "json":
        write(schemefile.encode(operator))
        return
    for title, text in _facts(operator):
        write(row(title, text))


def _facts(operator: OperatorScheme) -> Iterator[tuple[str, str]]:
    """What a binary computes, and what it says of itself: title and text."""
    used_by = ", ".join(release.name for release in schemes.releases_with(operator.scheme))
    yield "scheme", f"{operator.scheme} (used by {used_by or 'no release in the table'})"
    if operator.scheme.minor in layouts.minors():
        yield "layout", f"that of {layouts.title(operator.scheme.minor)}, {layouts.digest(operator.layout)}"
    else:
        nearest = layout.nearest(operator.layout)
        yield "layout", f"unknown, {layouts.digest(operator.layout)}. Differences from {layouts.title(nearest)}:"
        yield from (("", sentence) for sentence in layout.differences(layouts.load(nearest), operator.layout))
    algorithm = operator.recognised
    yield "algorithm", f"{algorithm.algorithm}, recognised by {len(algorithm.by)} functions:"
    yield from (("", name) for name in algorithm.by)
    flags = {
        "accepts legacy hashes": algorithm.algorithm == schemes.CANONICAL,
        "puts the hash into object names": algorithm.hash_in_names,
        "keeps PodGangMaps": algorithm.pod_gang_maps,
    }
    yield "flags", ", ".join(name for name, is_set in flags.items() if is_set) or "none"
    yield from ((name.removeprefix("github.com/davecgh/"), text) for name, text in operator.labels.items())
    commit = operator.labels.get("commit", "")
    release = next((one for one in schemes.releases() if one.commit and commit.startswith(one.commit)), None)
    if release is not None and release.scheme != operator.scheme:
        yield "warning", f"its commit is that of {release.name}, built as {release.scheme}; the binary decides"
    yield from (("warning", warning) for warning in operator.warnings)


@command(
    "releases",
    "List the releases of Grove, their Dynamo versions and their schemes.",
    """
    grove-migrator releases
    grove-migrator releases -o json
    """,
)
@output_format(["table", "json"])
def releases(*, output: str) -> None:
    """List Grove's releases and the hash schemes that they use.

    Two releases with the same scheme store the same hashes: between them there is nothing to migrate.
    """
    used = {scheme: [release.name for release in schemes.releases_with(scheme)] for scheme in schemes.all_schemes()}
    if output == "json":
        listed = [
            {"scheme": one.name, "algorithm": one.algorithm, "kubernetesMinor": one.minor, "releases": names}
            for one, names in used.items()
        ]
        write(as_json({"releases": [*_releases()], "schemes": listed}))
        return
    rows = [
        (one.name, ", ".join(one.dynamo) or "-", one.scheme.name, "only for `hash`" if one.hash_in_names else "")
        for one in schemes.releases()
    ]
    unread = schemes.unread_releases().items()
    rows += [(name, ", ".join(dynamo) or "-", "-", "not read: use --to-binary") for name, dynamo in unread]
    write(columns(("RELEASE", "DYNAMO", "SCHEME", "NOTE"), rows))
    unused = ", ".join(scheme.name for scheme, names in used.items() if not names)
    write("\n" + wrapped(f"Schemes that no release uses: {unused}."))


def _releases() -> Iterator[dict[str, object]]:
    for release in schemes.releases():
        yield {
            "release": release.name,
            "dynamo": list(release.dynamo),
            "scheme": release.scheme.name,
            "algorithm": release.scheme.algorithm,
            "kubernetesMinor": release.scheme.minor,
            "commit": release.commit,
            "dev": release.dev,
            "hashInNames": release.hash_in_names,
        }
    unknown = dict.fromkeys(("scheme", "algorithm", "kubernetesMinor", "commit"))
    for name, dynamo in schemes.unread_releases().items():
        yield {"release": name, "dynamo": list(dynamo), **unknown, "dev": False, "hashInNames": None}


@command(
    "guards",
    "Explain a code: what it means and what to do.",
    """
    grove-migrator guards
    grove-migrator guards GM-101 GM-102
    """,
)
@click.argument("codes", nargs=-1, metavar="[CODE]...")
def guards(*, codes: tuple[str, ...]) -> None:
    """Explain the code of a guard or a known issue: what it means, what to do, and how to see it with kubectl.

    Without a code: all codes with their titles and names, and which of them `run --allow` accepts.
    """
    if not codes:
        found = {g.code: f"{g.title} ({g.name}{', --allow' if g.overridable else ''})" for g in CATALOGUE.values()}
        write("".join(row(code, title) for code, title in sorted({**found, **ISSUE_TITLES}.items())))
        return
    texts = sections()
    wanted = [CODES.get(code.lower()) or f"GM-{code.upper().removeprefix('GM-')}" for code in codes]
    for code, typed in zip(wanted, codes, strict=True):
        if code not in texts:
            hint = suggestion(code, texts, alike=ALIKE) or suggestion(typed.lower(), CODES)
            raise UsageError(f"Unknown code {typed}. Run `grove-migrator guards` to list all codes.{hint}")
    text = "\n".join(texts[code] for code in wanted)
    write("".join(f"{filled(line, rest='  ' if line.startswith('- ') else '')}\n" for line in text.splitlines()))


def sections() -> dict[str, str]:
    """The text for each code, as docs/guards.md has it, without the marks of bold text."""
    page = (pkgutil.get_data("migrator.cli", "guards.md") or b"").decode("utf-8")
    found = re.findall(r"(?ms)^### (GM-\d{3})\n(.*?)(?=^#+ |\Z)", page)
    return {code: f"{code}  {body.strip().replace('**', '')}\n" for code, body in found}
