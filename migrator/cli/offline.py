"""The commands that read no object: ``scheme``, ``releases`` and ``guards``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from migrator import words
from migrator.cli.flags import command, not_empty, output_format
from migrator.cli.stdout import as_json, write
from migrator.cli.target import read_program
from migrator.errors import UsageError
from migrator.hashing import schemes
from migrator.planning.guards import CATALOGUE, CODES
from migrator.planning.guards.base import Guard
from migrator.planning.known_issues import KNOWN_ISSUES
from migrator.releases import table
from migrator.releases.program import Operator


@command(
    "scheme",
    "Read the hash scheme from an operator's program file.",
    """
    crane export "$IMAGE" - | tar -xO grove-operator > grove-operator
    grove-migrator scheme grove-operator
    """,
)
@click.argument("program", type=not_empty)
def scheme(*, program: str) -> None:
    """Read PROGRAM, an operator's program file, and print the hash scheme that this operator uses.

    The scheme follows from the libraries and functions that Go recorded in the file. If it is printed as likely, it
    is not certain: --to-binary refuses such a program, and you decide whether to name the scheme with --to.
    """
    for title, text in _facts(read_program(program)):
        write(words.row(title, text))


def _facts(operator: Operator) -> Iterator[tuple[str, str]]:
    """What a program computes, and what it says of itself: title and text."""
    used_by = ", ".join(table.builds_with(operator.scheme))
    likely = "likely " if operator.doubt else ""
    yield "scheme", f"{likely}{operator.scheme} (used by {used_by or 'no release in the table'})"
    if operator.doubt:
        yield "doubt", f"{operator.doubt}. If you are sure, name the scheme: --to {operator.scheme}"
    yield "built", ", ".join([operator.go, *(f"{name} {version}" for name, version in operator.libraries.items())])


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
    used = {scheme: table.builds_with(scheme) for scheme in schemes.all_schemes()}
    if output == "json":
        listed = [
            {"scheme": one.name, "algorithm": one.algorithm, "kubernetesMinor": one.minor, "releases": names}
            for one, names in used.items()
        ]
        write(as_json({"releases": [*_releases()], "schemes": listed}))
        return
    rows = [(one.name, ", ".join(one.dynamo) or "-", one.scheme.name) for one in table.releases()]
    write(words.columns(("RELEASE", "DYNAMO", "SCHEME"), rows))
    unused = ", ".join(scheme.name for scheme, names in used.items() if not names)
    dynamo = "DYNAMO has the versions that a source confirms; docs/dynamo.md says what is known of the others."
    write("\n" + words.wrapped(dynamo) + words.wrapped(f"Schemes that no release uses: {unused}."))


def _releases() -> Iterator[dict[str, object]]:
    for release in table.releases():
        yield {
            "release": release.name,
            "source": release.source,
            "dynamo": dict(release.dynamo),
            "scheme": release.scheme.name,
            "algorithm": release.scheme.algorithm,
            "kubernetesMinor": release.scheme.minor,
            "commit": release.commit,
        }


@command(
    "guards",
    "Explain a code: what it means and what to do.",
    """
    grove-migrator guards
    grove-migrator guards GM-101 GM-102
    """,
)
@click.argument("codes", nargs=-1, metavar="[CODE]...", type=not_empty)
def guards(*, codes: tuple[str, ...]) -> None:
    """Explain the code of a guard or a known issue: what it means, and what to do. docs/guards.md has more.

    Without a code: all codes with their titles and names, what refuses, and which of them `run --allow` accepts.
    """
    if not codes:
        found = {guard.code: f"{guard.title} ({guard.name}: {_verdict(guard)})" for guard in CATALOGUE.values()}
        found |= {code: f"{issue.title} (known issue)" for code, issue in KNOWN_ISSUES.items()}
        write("".join(words.row(code, title) for code, title in sorted(found.items())))
        return
    wanted = [CODES.get(code.lower()) or f"GM-{code.upper().removeprefix('GM-')}" for code in codes]
    for code, typed in zip(wanted, codes, strict=True):
        if code not in CATALOGUE and code not in KNOWN_ISSUES:
            raise UsageError(f"Unknown code {typed}. Run `grove-migrator guards` to list all codes.")
    write("".join(text for code in wanted for text in _explained(code)))


def _verdict(guard: Guard) -> str:
    """What a guard does to a run."""
    if guard.warns:
        return "warns"
    return "refuses, --allow" if guard.overridable else "refuses"


def _explained(code: str) -> Iterator[str]:
    """The entry of a code."""
    entry = CATALOGUE.get(code) or KNOWN_ISSUES[code]
    yield words.row(code, words.sentence(entry.title))
    if isinstance(entry, Guard):
        yield words.row("", f"{entry.name}: {_verdict(entry)}")
    else:
        yield words.row("", words.sentence(entry.effect))
        yield words.row("", f"Source: {entry.source}; {entry.confidence}.")
    yield words.row("", f"-> {words.sentence(entry.remedy or 'nothing is to be done')}")
