"""The command line: parse, wire, print. Nothing is decided here."""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

import click

from migrator import __version__
from migrator.cli import output
from migrator.cli.commands import COMMANDS
from migrator.cli.options import CONTEXT_SETTINGS, Session
from migrator.errors import MigratorError

PROGRAM: Final = "grove-migrator"
PLUGIN: Final = "kubectl-grove_migrate"

#: The exit code of a bug and of an interruption, which no error class describes.
EXIT_BUG: Final = 1


@click.group(
    commands=COMMANDS,
    context_settings=CONTEXT_SETTINGS,
    epilog="""\b
    Examples:
      grove-migrator plan                          # what an operator upgrade would recreate
      grove-migrator plan -f dump.yaml             # the same from a dump, without a cluster
      grove-migrator check run                     # whether your rights suffice for a run
      grove-migrator run --to v0.1.0-alpha.11      # migrate the stored hashes
      grove-migrator releases                      # the releases and schemes that are known

    \b
    Also a plugin of kubectl, with its flags (--context, -n, -A, -l, -o):
      kubectl grove-migrate plan -l app=web

    \b
    Each flag can be given as a variable: GROVE_MIGRATOR_CONTEXT, GROVE_MIGRATOR_TO,
    and for one command alone GROVE_MIGRATOR_PLAN_OUTPUT.

    \b
    Exit codes: 0 done or nothing to do, 1 cluster or bug, 2 usage or input, 3 refused,
    4 lost a race, 5 failed and reverted, 6 failed and not reverted, 7 not verified,
    10 changes pending (plan --detailed-exitcode).
    """,
)
@click.version_option(__version__, prog_name=PROGRAM)
def cli() -> None:
    """Rewrite the pod-template hashes that Grove stores, so that an operator upgrade recreates no pod."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit with the code of docs/upgrade.md."""
    code = invoke(args, program=os.path.basename(sys.argv[0]))  # noqa: PTH119 - pathlib would cost a tenth of --help
    gc.freeze()  # else Python looks for cycles among all objects once more before it ends
    sys.exit(code)


def invoke(args: Sequence[str] | None = None, *, program: str = PROGRAM) -> int:
    """Run the command line and return its exit code; what went wrong is on stderr."""
    _open_closed_streams()
    _speak_utf8()
    plugin = program.startswith("kubectl-")
    session = Session()
    try:
        try:
            code = cli.main(
                args=args,
                prog_name="kubectl grove-migrate" if plugin else PROGRAM,
                complete_var="_KUBECTL_GROVE_MIGRATE_COMPLETE" if plugin else None,
                standalone_mode=False,
                obj=session,
            )
        except OSError as error:
            if any(frame.f_code is click.echo.__code__ for frame, _ in traceback.walk_tb(error.__traceback__)):
                with output.guarded():  # help, version and completion are printed by Click
                    raise
            raise
        output.flush()
    except MigratorError as error:
        return _fail(error.code, error.exit_code, str(error), session, error.details)
    except click.ClickException as error:
        return _usage(error, session)
    except click.Abort:
        return _fail("interrupted", EXIT_BUG, "interrupted before anything was written", session)
    except output.ReaderGone:
        return EXIT_BUG
    except Exception as error:  # noqa: BLE001 - the last line of defence: a bug is one sentence, not a traceback
        if session.verbose:
            traceback.print_exc()
        return _fail("bug", EXIT_BUG, _bug(error), session)
    return code if isinstance(code, int) else 0


def _fail(code: str, exit_code: int, message: str, session: Session, details: Mapping[str, str] | None = None) -> int:
    from migrator.cli import log  # noqa: PLC0415 - a command that succeeds needs none of it

    log.write_failure(code, exit_code, message, form=session.log_format, details=details)
    return exit_code


def _usage(error: click.ClickException, session: Session) -> int:
    from migrator.cli import log  # noqa: PLC0415 - a command that succeeds needs none of it

    if log.is_console(sys.stderr, session.log_format):
        error.show()
        return error.exit_code
    missing = isinstance(error, click.exceptions.NoArgsIsHelpError)
    message = f"a command is missing; see {PROGRAM} --help" if missing else error.format_message()
    return _fail("usage", error.exit_code, message, session)


def _bug(error: Exception) -> str:
    # Not the exception's own text: it may quote a value of somebody's pod template.
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(where.filename)}:{where.lineno}"  # noqa: PTH119 - see main
    return f"this is a bug, please report it: {type(error).__name__} at {place} (-v shows the traceback)"


def _open_closed_streams() -> None:
    """Replace a standard stream that the caller has closed, which is ``None`` in Python, by /dev/null.

    Else the next socket would get its number. What replaces stdout cannot be written to, so lost data is an error.
    """
    for name, mode, flags in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))


def _speak_utf8() -> None:
    """Data is UTF-8 wherever it goes; a terminal keeps its own encoding, and shows ``?`` for what it lacks."""
    for stream in (sys.stdout, sys.stderr):
        if not isinstance(stream, io.TextIOWrapper):
            continue
        if stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
