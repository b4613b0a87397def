"""Every command as a declaration: its summary, its examples, its flags, and the docstring that is its help.

The body of a command is ``main`` in the module of the same name. It is imported when the command runs, so that
``--help`` and shell completion cost no more than Click itself. It returns the exit code (``None`` is 0), or raises
a :class:`~migrator.errors.MigratorError` that carries one.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable
from typing import Final

import click

from migrator.cli.options import (
    BINARIES,
    CLUSTER,
    LOG,
    OPERATOR,
    Choice,
    arguments,
    complete_scheme,
    duration,
    one_of,
    option,
    output,
    source,
    target,
    variables,
)
from migrator.gc_paused import importing

_CANONICAL: Final = "Only builds of Grove's pull request #566 speak the canonical schemes."
_DUMP: Final = "the output of kubectl get instead of a cluster (YAML or JSON, gzip too; - is stdin)."

COMMANDS: Final[list[click.Command]] = []


class Command(click.Command):
    """A command whose body is imported when it runs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; a second -f of a command that reads one file is refused, because Click would drop the first."""
        given = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=list(args))[2]
        if any("-f" in param.opts and not param.multiple and given.count(param) > 1 for param in given):
            ctx.fail("-f is given more than once, and this command reads one file")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the body."""
        with importing():
            body = importlib.import_module(f"migrator.cli.{self.name}")
        return body.main(**arguments(ctx))


def _command(summary: str, examples: str, *params: click.Parameter) -> Callable[[Callable[[], None]], None]:
    def declare(stub: Callable[[], None]) -> None:
        name, own = stub.__name__.rstrip("_"), [copy.copy(param) for param in (*params, *LOG)]
        for param in own:
            if isinstance(param, click.Option):
                param.envvar = variables(name, param)
        epilog = f"\b\n    Examples:{examples}"
        COMMANDS.append(Command(name, params=own, help=stub.__doc__, short_help=summary, epilog=epilog))

    return declare


@_command(
    "Hashes of PodCliqueSets in a file.",
    """
      kubectl get podcliqueset demo -o yaml | grove-migrator hash -f -
      grove-migrator hash -f sets.yaml --scheme legacy-1.34 --scheme v0.1.0-alpha.11
      grove-migrator hash -f sets.jsonl -o json
    """,
    option(
        "-f, --filename FILE|-",
        "YAML documents, JSON, a List or JSON Lines, plain or gzipped; - is stdin. Other kinds are skipped.",
        "path",
        required=True,
    ),
    option(
        "--scheme SCHEME|RELEASE",
        "Hash under this scheme; may be repeated. Default: all of them.",
        "names",
        multiple=True,
        shell_complete=complete_scheme,
    ),
    output(
        *("json", "table"),
        default=False,
        meaning="A line of JSON for each set and scheme, or a table. Default: table on a terminal, json elsewhere.",
    ),
    *BINARIES,
)
def hash_() -> None:
    """Print the hashes of PodCliqueSets under one scheme, several, or all.

    The operator hashes what the API server returns. So give this command what `kubectl get -o yaml` prints: a
    manifest lacks the defaults that admission adds. A set that Go could not decode is reported, the others are
    printed, and the exit code is 2.
    """


@_command(
    "The changes, the refusals, and the pods at stake.",
    """
      grove-migrator plan                                   # each release that could come next
      grove-migrator plan --to v0.1.0-alpha.11
      grove-migrator plan -f dump.yaml --to v0.1.0-alpha.11 -o html --group-by team --reload-time 25m > plan.html
      grove-migrator plan --to v0.1.0-alpha.11 -n inference -l app=web -o yaml
      grove-migrator plan --detailed-exitcode --to v0.1.0-alpha.11    # 3 refused, 10 changes pending

    \b
    A dump, with every kind of Grove that the cluster has:
      kubectl get pods,$(kubectl api-resources --verbs=list -o name |
        grep 'grove.io$' | paste -sd, -) -A -o yaml > dump.yaml
    """,
    option("-f, --filename DUMP", f"Read {_DUMP} May be repeated.", "dumps", multiple=True),
    source("What the operator stores now; auto finds it for each set."),
    target(f"What the next operator expects. Without it: a line for each scheme that a release speaks. {_CANONICAL}"),
    output(
        *("table", "wide", "json", "yaml", "csv", "html"),
        default=False,
        meaning="A table, a wider one, data for scripts and sheets, or a page. Default: a table; on a terminal a tree.",
    ),
    option("--detailed-exitcode", "Exit with 3 on refusals or an empty selection, 10 on changes; needs --to."),
    option("--group-by LABEL", "With html: also totals for each value of this label of the PodCliqueSets."),
    duration("--reload-time", "With html: how long a recreated pod is assumed to be away, for the GPU-hours.", "10m"),
    *BINARIES,
    *CLUSTER,
)
def plan() -> None:
    """Show what a migration would change, what blocks it, and what the upgrade recreates without it.

    Nothing is written. The exit code is 0, with refusals too, unless --detailed-exitcode asks for more.
    """


@_command(
    "Migrate the stored hashes, or undo a migration.",
    """
      grove-migrator run --to v0.1.0-alpha.11 --dry-run=server
      grove-migrator run --to v0.1.0-alpha.11 --stop-operator
      grove-migrator run --to v0.1.0-alpha.11 --stop-operator --revert
      grove-migrator run -f dump.yaml --write migrated.yaml --to v0.1.0-alpha.11
    """,
    option("-f, --filename DUMP", f"Migrate {_DUMP}", "dump"),
    option(
        "--write OUT", "With -f: write the migrated dump to this file, in the form of the input; - is stdout.", "out"
    ),
    target("What the next operator expects."),
    source("What the operator stores now; auto finds it for each set."),
    one_of(
        ("none", "client", "server"),
        "--dry-run",
        meaning="client sends no write; server sends every patch with dryRun=All. Both refuse where the run would.",
    ),
    option("--stop-operator", "Scale the operator to zero first; without it a running operator blocks the run."),
    option("--skip-refused", "Leave refused sets as they are, and migrate the others."),
    option(
        "--allow GM-nnn",
        "Turn this refusal into a warning, if its code can be overridden; may be repeated.",
        multiple=True,
    ),
    duration("--wait-for-idle", "Wait this long for refusals to end, such as an update in flight."),
    duration("--max-downtime", "Refuse, and leave the operator running, if the downtime would be longer than this."),
    one_of(
        ("stop", "skip"),
        "--on-conflict",
        meaning="If a set changes during the run: put everything back and stop, or put that set back and go on.",
    ),
    duration("--timeout", "Give up waiting for others after this long; 0 for no limit."),
    option(
        "--concurrency N",
        "Send this many patches at a time (default 16).",
        type=click.IntRange(min=1),
    ),
    option("--revert", "Undo the run with the same --from and --to."),
    option("--yes", "Do not ask. A run asks on a terminal only, and never in a pod or in CI."),
    *OPERATOR,
    output("table", "json", meaning="Output format of the result."),
    *BINARIES,
    *CLUSTER,
)
def run() -> None:
    """Replace every stored hash of the old operator by the one that the next operator computes.

    A value is replaced only where it equals the old operator's hash of the current spec. A rerun finishes what
    a crash interrupted, and --revert undoes it. No pod is deleted or restarted.
    """


@_command(
    "Whether every stored hash is the target's.",
    """
      grove-migrator verify --to v0.1.0-alpha.11
      grove-migrator verify --to v0.1.0-alpha.11 --after-upgrade --settle 5m    # once the new operator runs
      grove-migrator verify -f migrated.yaml --to v0.1.0-alpha.11
    """,
    option("-f, --filename DUMP", f"Read {_DUMP}", "dump"),
    target("What every stored hash must be."),
    source("What was stored before. `--to canonical` needs it if no release speaks that layout."),
    duration("--settle", "Keep reading for at most this long while a problem may still settle by itself.", "0"),
    duration("--interval", "How long to wait between two readings.", "2s"),
    option(
        "--after-upgrade",
        "Also check that the target's operator runs and, by the record of the run, that no update has begun "
        "and no earlier pod is missing. The record is removed if all is well.",
    ),
    option("--close", "Remove the record of the run, and print what is given up with it."),
    option("--yes", "With --close: do not ask."),
    *OPERATOR,
    output("table", "json"),
    *BINARIES,
    *CLUSTER,
)
def verify() -> None:
    """Check that every stored hash is the target's; exit with 7 if one is not.

    Under OnDelete, hashes of older templates may remain where Grove keeps them on purpose.
    """


@_command(
    "Why two schemes give different hashes.",
    """
      grove-migrator explain demo -n default                  # against each scheme that a release speaks
      grove-migrator explain demo -n default --to v0.1.0-alpha.11
      grove-migrator explain -f sets.yaml --from legacy-1.34 --to legacy-1.35
      grove-migrator explain -f sets.yaml demo --to canonical
    """,
    click.Argument(["names"], metavar="[PCS]...", nargs=-1),
    option(
        "-f, --filename FILE",
        "Read PodCliqueSets from a file instead of a cluster, as `hash` does; - is stdin.",
        "path",
    ),
    source("The scheme to start from; auto takes the one whose generation hash the set stores."),
    target(f"The scheme to compare with. Without it: every other scheme that a release speaks. {_CANONICAL}"),
    output("table", "json", meaning="A small diff, or one JSON object on a line, for each set and scheme."),
    *BINARIES,
    *CLUSTER,
)
def explain() -> None:
    """Show which fields the newer structs added and which lists the canonical order moved.

    PCS is a name or namespace/name; without one, all PodCliqueSets are explained. Values of your templates are
    never shown.
    """


@_command(
    "Releases and the schemes that they speak.",
    """
      grove-migrator releases
      grove-migrator releases -o json
    """,
    output("table", "json"),
)
def releases() -> None:
    """List Grove's releases and the hash schemes that they speak.

    Two releases with the same scheme store the same hashes: between them there is nothing to migrate.
    """


@_command(
    "The hashes that an operator's own binary computes.",
    """
      crane pull --format=oci registry.example/grove-operator:v0.1.0-alpha.11 operator
      grove-migrator scheme operator
      grove-migrator scheme operator -o json > scheme.json
      grove-migrator plan --to-binary scheme.json
    """,
    click.Argument(["source"]),
    option("--image NAME", "The image to read, in an archive of several."),
    output("table", "json", meaning="A text for people, or the file that --to-binary and --from-binary take."),
)
def scheme() -> None:
    """Read from an operator's binary or image, SOURCE, which hashes the operator computes.

    SOURCE is an ELF file, an OCI layout (directory or archive), a docker archive, or a root file system (directory or
    tar). The layout of the structs is read exactly; the algorithm is recognised by its functions.
    """


@_command(
    "What a code means and what to do.",
    """
      grove-migrator guards
      grove-migrator guards GM-111
    """,
    click.Argument(["code"], required=False, metavar="[CODE]"),
)
def guards() -> None:
    """Explain a guard or a hazard: what it means, how to see it with kubectl, and what to do.

    Without a code: all codes with their titles, and which of them --allow accepts.
    """


@_command(
    "Whether your rights suffice for a plan or a run.",
    """
      grove-migrator check
      grove-migrator check plan -n inference
      grove-migrator check run -o json
    """,
    click.Argument(["what"], type=Choice(["plan", "run"]), default="run", metavar="[plan|run]"),
    output("table", "json"),
    *OPERATOR,
    *CLUSTER,
)
def check() -> None:
    """Ask the API server for every right that `plan` or `run` needs; nothing is written.

    The default is `run`, with the rights of --stop-operator. `check plan -n` asks for the rights to plan one namespace.
    The exit code is 1 if a right is missing that the command needs.
    """


@_command(
    "The version of grove-migrator.",
    """
      grove-migrator version
      grove-migrator version -o json
    """,
    output("table", "json"),
)
def version() -> None:
    """Print the version of grove-migrator and of the Python that runs it."""


@_command(
    "Completion for your shell.",
    """
      source <(grove-migrator completion bash)
      source <(grove-migrator completion zsh)
      grove-migrator completion fish > ~/.config/fish/completions/grove-migrator.fish
      grove-migrator completion kubectl > ~/bin/kubectl_complete-grove_migrate
    """,
    click.Argument(["shell"], type=Choice(["bash", "zsh", "fish", "kubectl"])),
)
def completion() -> None:
    """Print the script by which SHELL completes commands, flags, schemes, releases and contexts.

    bash must be 4.4 or newer. For `kubectl grove-migrate`, put the script for kubectl on PATH under the example's
    name, and make it executable.
    """
