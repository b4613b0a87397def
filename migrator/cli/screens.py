"""The screens of a run: the description and the question before it begins, and the text at its end."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

import click
from click.core import ParameterSource

from migrator.errors import LostRace, MigratorError
from migrator.render.text import printable

if TYPE_CHECKING:
    from migrator.run.context import RunOptions, RunResult
    from migrator.run.observation import Observation
    from migrator.run.operator import Operator
    from migrator.store import DryRun, Store

#: Flags that the next command needs too, if they were given on the command line.
_HANDED_ON: Final = (
    *("--to", "--to-binary", "--kubeconfig", "--context", "--request-timeout"),
    *("--operator-namespace", "--operator-deployment", "--lease-name", "--target-image"),
)
_WIDTH: Final = 80
_LABEL: Final = 10
_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"


def somebody_answers(*, in_a_pod: bool) -> bool:
    """Whether somebody can be asked: stdin and stderr are terminals, and this is neither a pod nor CI."""
    return not in_a_pod and not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def describe(ahead: Observation, options: RunOptions, mode: DryRun, *, cluster: str | None, context: str | None) -> str:
    """The cluster, the operator, the sets, what the run will do, and its findings: one block of text."""
    named = f" (context {context})" if context else ""
    parts = [
        ("cluster", f"{cluster or 'unknown'}{named}"),
        ("operator", _described(ahead.operator)),
        *(("sets", line) for line in _sets(ahead, options)),
        *(("will", line) for line in _will(ahead, options, mode)),
        *_findings(ahead),
    ]
    labels = ["", *(label for label, _ in parts)]
    rows = zip(labels, parts, strict=False)
    return "".join(_row("" if label == before else label, printable(text)) for before, (label, text) in rows)


def findings_in(ahead: Observation) -> set[tuple[object, ...]]:
    """The described findings, with the keys by which the log compares them."""
    plans = ahead.plan.trees
    found = (*ahead.plan.findings, *(finding for tree in plans for finding in tree.findings))
    return {(f.code, str(f.ref) if f.ref else None, f.field, f.message) for f in found}


def ask(question: str) -> None:
    """Ask on stderr; meanwhile a signal ends us at once. Raises :class:`~migrator.errors.LostRace` for a no."""
    from migrator.cli import wiring  # noqa: PLC0415 - --help needs none of it

    with wiring.at_once(signal.SIGINT, signal.SIGTERM):
        try:
            answer = click.confirm(question, err=True)
        except click.Abort:
            click.echo(err=True)
            raise
    if not answer:
        raise LostRace("declined: nothing was touched")


@dataclass(frozen=True, slots=True)
class Ending:
    """The operator's state after a run, and the next commands."""

    operator: str
    commands: tuple[str, ...]

    def text(self, target: str) -> str:
        """The text for people; commands are not wrapped."""
        lines = [_row("operator", printable(self.operator))]
        if self.commands and self.commands[0].startswith("helm upgrade"):
            said = f"install the operator of {printable(target)}; its replicas come back with it. Then verify."
            lines.append(_row("next", said))
        elif self.commands:
            lines.append(f"{'next':<{_LABEL}}\n")
        return "".join(lines) + "".join(f"  {command}\n" for command in self.commands)


def ending(store: Store, result: RunResult, options: RunOptions) -> Ending:
    """The ending of a run on a cluster."""
    found = result.operator
    up = found is not None and found.live
    state = _described(found) + ("" if up else "; nothing is reconciled until an operator runs again")
    release, namespace = _release(store, found)
    where = f"-n {namespace}"
    if options.revert:
        return Ending(state, () if up else (f"helm rollback {release} {where}",))
    upgrade = f"helm upgrade {release} CHART {where} --version VERSION --reset-then-reuse-values"
    verify = f"{_program()} verify {_handed_on()}--after-upgrade --settle 5m"
    return Ending(state, (verify,) if up else (upgrade, verify))


def _described(found: Operator | None) -> str:
    return found.description if found is not None else "none was found"


def _sets(ahead: Observation, options: RunOptions) -> Iterator[str]:
    from migrator.render import summary  # noqa: PLC0415 - --help needs none of it
    from migrator.run.observation import pending  # noqa: PLC0415

    plan = ahead.plan
    if not options.revert:
        yield summary.headline(plan)
    trees = pending(plan)
    ways = sorted({f"{tree.source or 'unknown'} to {tree.target}" for tree in trees})
    if trees:
        yield f"{len(trees):,} of {summary.count(len(plan.trees), 'set')}: {', '.join(ways)}"


def _will(ahead: Observation, options: RunOptions, mode: DryRun) -> Iterator[str]:
    from migrator.render import summary  # noqa: PLC0415 - --help needs none of it
    from migrator.store import DryRun  # noqa: PLC0415

    if mode is not DryRun.NONE:
        sent = ": every patch is sent with dryRun=All" if mode is DryRun.SERVER else ""
        yield f"write nothing, because this is a dry run{sent}"
        return
    if not ahead.writes:
        yield "write nothing"
        return
    if ahead.continues:
        yield "go on with an earlier run that did not end"
    if options.stop_operator and ahead.operator is not None and ahead.operator.live:
        yield "stop the operator, and leave it at zero replicas"
    changes = sum(len(tree.changes) for tree in ahead.plan.trees)
    patches = summary.count(len(ahead.patches), "patch", "patches")
    yield f"{'put back' if options.revert else 'rewrite'} {summary.count(changes, 'hash', 'hashes')} with {patches}"
    yield "delete and restart no pod"


def _findings(ahead: Observation) -> Iterator[tuple[str, str]]:
    from migrator.render import summary  # noqa: PLC0415 - --help needs none of it
    from migrator.render.findings import grouped, line  # noqa: PLC0415

    for label, findings in (("refused", summary.refusals_of(ahead.plan)), ("warning", summary.warnings_of(ahead.plan))):
        for group in grouped(findings):
            yield label, line(group)


def _row(label: str, text: str) -> str:
    indent = " " * _LABEL
    lines = textwrap.wrap(text, _WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False) or [""]
    return f"{label:<{_LABEL}}" + f"\n{indent}".join(lines) + "\n"


def _release(store: Store, found: Operator | None) -> tuple[str, str]:
    """The name and the namespace of the Helm release that the operator's Deployment belongs to."""
    from migrator.resources import DEPLOYMENTS  # noqa: PLC0415 - --help needs none of it

    metadata: dict[str, Any] = {}
    if found is not None and found.deployment:
        try:
            metadata = store.get(DEPLOYMENTS, found.namespace, found.deployment)["metadata"]
        except MigratorError:
            metadata = {}
    annotations = metadata.get("annotations") or {}
    namespace = annotations.get(_RELEASE_NAMESPACE) or (found.namespace if found is not None else "NAMESPACE")
    return str(annotations.get(_RELEASE) or "RELEASE"), str(namespace)


def _program() -> str:
    return str(click.get_current_context().find_root().info_name)


def _handed_on() -> str:
    """The flags in ``_HANDED_ON`` that were given, each with a space behind it."""
    context = click.get_current_context()
    given = []
    for option in context.command.params:
        flag = next((opt for opt in option.opts if opt in _HANDED_ON), None)
        if flag and context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE:
            given.append((_HANDED_ON.index(flag), flag, str(context.params[str(option.name)])))
    return "".join(f"{flag} {shlex.quote(value)} " for _, flag, value in sorted(given))


def write(text: str, stream: TextIO) -> None:
    """Print on a terminal; if it has gone away, nothing is printed and nothing fails."""
    from migrator.cli.log import LineWriter  # noqa: PLC0415 - --help needs none of it

    LineWriter(stream).write(text.removesuffix("\n"))
