"""The screens of a run: the description and the question before it begins, and the text at its end."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import click
from click.core import ParameterSource

from migrator.cli import connect
from migrator.errors import Declined, MigratorError
from migrator.render import summary
from migrator.render.findings import grouped, line
from migrator.render.text import printable
from migrator.resources import DEPLOYMENTS
from migrator.run.context import RunOptions, RunResult
from migrator.run.observation import Observation, pending
from migrator.run.operator import Operator
from migrator.store import DryRun, Store

#: Flags that the next command needs too, if they were given on the command line.
_HANDED_ON: Final = (
    *("--to", "--to-binary", "--kubeconfig", "--context"),
    *("--operator", "--target-image"),
)
_WIDTH: Final = 80
_LABEL: Final = 10
_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"


def can_ask(*, in_a_pod: bool) -> bool:
    """Whether somebody can be asked: stdin and stderr are terminals, and this is neither a pod nor CI."""
    return not in_a_pod and not os.environ.get("CI") and sys.stdin.isatty() and sys.stderr.isatty()


def describe(preview: Observation, options: RunOptions, mode: DryRun, where: tuple[str | None, str | None]) -> str:
    """What the run does, to what, and its findings; ``where`` is the cluster's address and the context."""
    cluster, context = where
    parts: dict[str, Iterable[str]] = {
        "cluster": [f"{cluster or 'unknown'}{f' (context {context})' if context else ''}"],
        "operator": [_described(preview.operator)],
        "sets": _scope(preview, options),
        "steps": _actions(preview, options, mode),
        "refused": map(line, grouped(summary.refusals_of(preview.plan))),
        "warning": map(line, grouped(summary.warnings_of(preview.plan))),
    }
    rows = ((label, number, text) for label, texts in parts.items() for number, text in enumerate(texts))
    return "".join(_row("" if number else label, printable(text)) for label, number, text in rows)


def findings_in(ahead: Observation) -> set[tuple[object, ...]]:
    """The described findings, with the keys by which the log compares them."""
    found = (*summary.refusals_of(ahead.plan), *summary.warnings_of(ahead.plan))
    return {(f.code, str(f.ref) if f.ref else None, f.field, f.message) for f in found}


def ask(question: str) -> None:
    """Ask on stderr; meanwhile a signal ends us at once. The answer no raises ``Declined``."""
    with connect.default_signals():
        try:
            answer = click.confirm(question, err=True)
        except click.Abort:
            click.echo(err=True)
            raise
    if not answer:
        raise Declined("Cancelled. Nothing was changed.")


@dataclass(frozen=True, slots=True)
class Ending:
    """The operator's state after a run, and the next commands."""

    operator: str
    commands: tuple[str, ...]

    def text(self, target: str) -> str:
        """The text for people; commands are not wrapped."""
        lines = [_row("operator", printable(self.operator))]
        if self.commands and self.commands[0].startswith("helm upgrade"):
            text = f"Install the operator of {printable(target)}; Helm restores its replicas. Then verify."
            lines.append(_row("next", text))
        elif self.commands:
            lines.append(f"{'next':<{_LABEL}}\n")
        return "".join(lines) + "".join(f"  {command}\n" for command in self.commands)


def ending(store: Store, result: RunResult, options: RunOptions) -> Ending:
    """The ending of a run on a cluster."""
    found = result.operator
    up = found is not None and found.live
    state = _described(found) + ("." if up else ". Nothing is reconciled until an operator runs again.")
    release, namespace = _release(store, found)
    where = f"-n {namespace}"
    if options.revert:
        return Ending(state, () if up else (f"helm rollback {release} {where}",))
    upgrade = f"helm upgrade {release} CHART {where} --version VERSION --reset-then-reuse-values"
    program = click.get_current_context().find_root().info_name
    verify = f"{program} verify {_handed_on()}--after-upgrade --wait 5m"
    upgraded = found is not None and up and options.is_target(found.image)
    return Ending(state, (verify,) if upgraded else (upgrade, verify))


def _described(found: Operator | None) -> str:
    return found.description if found is not None else "none was found"


def _scope(preview: Observation, options: RunOptions) -> Iterator[str]:
    plan = preview.plan
    if not options.revert:
        yield summary.headline(plan)
    trees = pending(plan)
    schemes = sorted({f"{tree.source or 'unknown'} to {tree.target}" for tree in trees})
    if trees:
        yield f"{len(trees):,} of {summary.count(len(plan.trees), 'set')}: {', '.join(schemes)}"


def _actions(preview: Observation, options: RunOptions, mode: DryRun) -> Iterator[str]:
    """What the run does, each line a sentence of its own: no line may read as if pods were deleted."""
    if mode is not DryRun.NONE:
        sent = " Every patch is sent with dryRun=All." if mode is DryRun.SERVER else ""
        yield f"This is a dry run: nothing is written.{sent}"
        return
    if not preview.writes:
        yield "Nothing is written."
        return
    if preview.continues:
        yield "Resume an earlier run that did not end."
    if options.stop_operator and preview.operator is not None and preview.operator.live:
        yield "Stop the operator, and leave it at zero replicas."
    changes = sum(len(tree.changes) for tree in preview.plan.trees)
    patches = summary.count(preview.patch_count, "patch", "patches")
    yield f"{'Restore' if options.revert else 'Replace'} {summary.count(changes, 'hash', 'hashes')} with {patches}."
    yield "Pods keep running: grove-migrator does not delete or restart any pod."


def _row(label: str, text: str) -> str:
    lines = textwrap.wrap(text, _WIDTH - _LABEL, break_long_words=False, break_on_hyphens=False)
    return f"{label:<{_LABEL}}" + f"\n{' ' * _LABEL}".join(lines) + "\n"


def _release(store: Store, found: Operator | None) -> tuple[str, str]:
    """The name and the namespace of the Helm release that the operator's Deployment belongs to."""
    annotations: dict[str, Any] = {}
    if found is not None and found.deployment:
        with suppress(MigratorError):
            deployment = store.get(DEPLOYMENTS, found.namespace, found.deployment)
            annotations = deployment["metadata"].get("annotations") or {}
    namespace = annotations.get(_RELEASE_NAMESPACE) or (found.namespace if found is not None else "NAMESPACE")
    return str(annotations.get(_RELEASE) or "RELEASE"), str(namespace)


def _handed_on() -> str:
    """The flags in ``_HANDED_ON`` that were given, each with a space behind it."""
    context = click.get_current_context()
    names = {flag: str(param.name) for param in context.command.params for flag in param.opts}
    given = (flag for flag in _HANDED_ON if context.get_parameter_source(names[flag]) is ParameterSource.COMMANDLINE)
    return "".join(f"{flag} {shlex.quote(str(context.params[names[flag]]))} " for flag in given)
