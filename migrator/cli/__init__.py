"""The command line: parse, wire, print. Nothing is decided here."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, cast

import click
from click.core import ParameterSource

from migrator import __version__, errors
from migrator.cli import flags, log, stdout
from migrator.words import filled

PROGRAM: Final = "grove-migrator"
PLUGIN: Final = "kubectl-grove_migrate"

#: The module of each command, in the order of an upgrade.
_MODULES: Final = {
    "plan": "plan",
    "run": "run",
    "verify": "verify",
    "hash": "hashes",
    "scheme": "offline",
    "releases": "offline",
    "guards": "offline",
}


class _Commands(Mapping[str, click.Command]):
    """The commands by their names, each imported when it is asked for: that is most of the time of a short one."""

    def __getitem__(self, name: str) -> click.Command:
        found = vars(import_module(f"migrator.cli.{_MODULES[name]}")).values()
        return next(one for one in found if isinstance(one, click.Command) and one.name == name)

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _InOrder(click.Group):
    """Commands in the order of an upgrade, not of the alphabet."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named; other programs have commands where this one has flags."""
        if args[0] in {"help", "version"}:
            raise click.UsageError(f"No such command {args[0]!r}. Run `{ctx.command_path} --{args[0]}`.")
        return super().resolve_command(ctx, args)


def _exit_codes() -> str:
    """A paragraph for each exit code, as the help shows it."""
    texts = (filled(text, f"      {code:<4}", " " * 10) for code, text in errors.EXIT_CODES.items())
    return "\n".join(texts)


@click.group(
    cls=_InOrder,
    commands=cast("dict[str, click.Command]", _Commands()),
    context_settings=flags.CONTEXT_SETTINGS,
    epilog=f"""\b
    Examples:
      grove-migrator plan                        # what an upgrade would restart
      grove-migrator plan -f dump.yaml           # the same without a cluster
      grove-migrator run --to v0.1.0-alpha.11 --stop-operator

    \b
    It is also a kubectl plugin:
      kubectl grove-migrate plan -n inference

    \b
    Variables: KUBECONFIG, and {flags.LOG_FORMAT} for --log-format.

    \b
    Exit codes:
{_exit_codes()}
    """,
)
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Upgrade the Grove operator without restarting pods.

    grove-migrator replaces the pod-template hashes that the old operator has stored by those of the next one. It never
    deletes or restarts a pod.
    """


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of docs/upgrade.md.

    Until a run begins, SIGTERM is what Ctrl-C is: the first process of a container would ignore it otherwise.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(invoke(args, program=Path(sys.argv[0]).name))


def invoke(args: Sequence[str] | None = None, *, program: str = PROGRAM) -> int:
    """Run the command line and return its exit code; what went wrong is on stderr."""
    stdout.prepare()
    session = flags.Session()
    try:
        try:
            code = cli.main(
                args=args,
                prog_name="kubectl grove-migrate" if program == PLUGIN else PROGRAM,
                standalone_mode=False,
                obj=session,
            )
        finally:
            stdout.write()  # help, version and completion are printed by Click: if that has failed, so does this
    except errors.MigratorError as error:
        return _fail(error, session)
    except click.UsageError as error:
        return _usage(error, session)
    except click.Abort as error:
        return _fail(_half_way_before(error) or errors.Interrupted("interrupted before anything was written"), session)
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug is one sentence, not a traceback
        if session.verbose:
            traceback.print_exc()
        return _fail(errors.bug(error), session)
    return code if isinstance(code, int) else 0


def _fail(error: errors.MigratorError, session: flags.Session) -> int:
    """Print an error, and return its exit code."""
    is_shown = bool(session.refusal) and error.details == session.refusal
    if is_shown and isinstance(error, errors.Refused) and log.is_console(sys.stderr, session.log_format):
        error = errors.Refused("The run is refused, as shown above").ending(error.result)
    with suppress(KeyboardInterrupt):  # the exit code is true, whether its sentence is read or not
        log.write_failure(error, log_format=session.log_format)
    return error.exit_code


def _half_way_before(error: BaseException | None) -> errors.HalfWay | None:
    """The ``HalfWay`` that was on its way here when Ctrl-C was pressed."""
    while error is not None and not isinstance(error, errors.HalfWay):
        error = error.__context__
    return error


def _usage(error: click.UsageError, session: flags.Session) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        if not log.is_console(sys.stderr, session.log_format):
            return _fail(errors.UsageError(f"A command is missing: see {PROGRAM} --help."), session)
        error.show()
        return error.exit_code
    message, context = error.format_message(), error.ctx
    is_missing = isinstance(error, click.MissingParameter)
    if isinstance(error, click.BadParameter) and not is_missing and context is not None and error.param is not None:
        source = context.get_parameter_source(str(error.param.name))
        message += f" (from {error.param.envvar})" if source is ParameterSource.ENVIRONMENT else ""
    elif context is not None and "Did you mean" not in message:
        message = f"{message.removesuffix('.')}. See `{context.command_path} --help`."
    return _fail(errors.UsageError(message.replace("\n", " ")), session)
