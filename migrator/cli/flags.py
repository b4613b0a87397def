"""What commands are declared with: their flags, in kubectl's spelling, and the types of these flags."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import cleandoc
from textwrap import indent
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from migrator import exact_json
from migrator.errors import UsageError
from migrator.hashing.schemes import all_schemes
from migrator.releases.table import releases

#: The one variable that stands for a flag. It is read before Click parses anything, because it also holds for errors
#: about that.
LOG_FORMAT: Final = "GROVE_MIGRATOR_LOG_FORMAT"
#: ``-h`` works everywhere.
CONTEXT_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"]}

#: Flags that the next command needs too, if they were given and it has them.
_REPEATED: Final = {
    *("--to", "--to-binary", "--from", "--filename", "--namespace"),
    *("--kubeconfig", "--context", "--operator", "--target-image"),
}
_F = TypeVar("_F", bound=Callable[..., Any])


def seconds(text: str) -> float:
    """A duration, in seconds, at most ``24h``: Go's, or plain seconds as client-go's ``ParseTimeout`` reads them."""
    is_plain = text.isascii() and text.replace(".", "", 1).isdecimal()
    found = float(text) if is_plain else exact_json.seconds(text)
    if found is None or found < 0:
        raise click.BadParameter(f"{text!r} is not a duration such as 15s, 1m30s or 0.")
    if found > 24 * 3600:
        raise click.BadParameter(f"{text!r} is longer than 24h.")
    return found


@dataclass(slots=True)
class Session:
    """The flags of every command, and what a person has seen.

    ``shown`` are findings: code, object, field and message. ``refusal`` has the details of the error that says one
    of them again.
    """

    verbose: bool = False
    refusal: Mapping[str, str] = field(default_factory=dict)
    shown: set[tuple[object, ...]] = field(default_factory=set)
    log_format: str = field(default_factory=lambda: os.environ.get(LOG_FORMAT, "auto"))


def session() -> Session:
    """The session of the running command."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Session)) or Session()


def command(name: str, summary: str, examples: str) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command: ``summary`` is its line in the list of commands, and its docstring is its help."""

    def declare(function: Callable[..., Any]) -> click.Command:
        epilog = f"\b\n    Examples:\n{indent(cleandoc(examples), ' ' * 6)}"
        return click.command(name, short_help=summary, epilog=epilog)(function)

    return declare


def not_empty(typed: str) -> str:
    """A text that is not empty: an empty path would be the current directory to Python."""
    if not typed:
        raise click.BadParameter("The value is empty: give one, or leave it out.")
    return typed


def _only(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:  # noqa: ANN401 - of any type
    """The value of a flag; of two Click would drop the first, so that one of two targets would be nobody's choice."""
    if len(values) > 1:
        ctx.fail(f"{param.opts[0]} is given more than once: give it once.")
    return next(iter(values), None)


def option(
    spelling: str,
    meaning: str,
    *name: str,
    multiple: bool = False,
    default: str | None = None,
    **more: Any,  # noqa: ANN401 - Click's
) -> Callable[[_F], _F]:
    """A flag as the help spells it: ``-f, --filename FILE`` has a value, ``--yes`` has none.

    The command receives it by its long spelling, or as ``name``.
    """
    *flags, last = spelling.replace(",", "").split()
    if last.startswith("-"):
        return click.option(*flags, last, *name, is_flag=True, help=meaning, **more)
    if not multiple:  # to Click it is, so that a second value is refused and not preferred
        more = {"callback": _only, "default": default and [default], "show_default": default is not None, **more}
    return click.option(*flags, *name, metavar=last, help=meaning, multiple=True, **{"type": not_empty, **more})


def together(*options: Callable[[Any], Any]) -> Callable[[_F], _F]:
    """Several flags as one decorator, in this order."""

    def decorate(function: _F) -> _F:
        for decorator in reversed(options):
            function = decorator(function)
        return function

    return decorate


def duration(flag: str, meaning: str, default: str | None = None) -> Callable[[_F], _F]:
    """A flag with a duration, in seconds."""
    return option(f"{flag} DURATION", meaning, type=seconds, default=default)


def output_format(words: Sequence[str], meaning: str = "Output format.") -> Callable[[_F], _F]:
    """``-o``, whose first word is the default."""
    return option(f"-o, --output [{'|'.join(words)}]", meaning, type=click.Choice(words), default=words[0])


def names(_ctx: click.Context, _param: click.Parameter, typed: str) -> list[str]:
    """What a shell completes: the newest release first, then the schemes."""
    known = (*(one.name for one in reversed(releases())), *(one.name for one in all_schemes()))
    return [name for name in known if name.startswith(typed)]


#: ``--from``, which Python cannot call a parameter: the command receives it as ``source``.
SOURCE: Final = option(
    "--from SCHEME|RELEASE|auto",
    "What the operator stores now; auto finds it for each set.",
    "source",
    default="auto",
    shell_complete=names,
)


def target(meaning: str) -> Callable[[_F], _F]:
    """``--to``."""
    return option("--to SCHEME|RELEASE", meaning, shell_complete=names)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:  # noqa: ANN401 - of a flag or a text
    value = _only(ctx, param, value) if isinstance(value, tuple) else value
    if value:
        setattr(ctx.ensure_object(Session), str(param.name), value)


#: What is asked for before errors about other flags are printed; the session remembers it.
_REMEMBERED: Final[dict[str, Any]] = {"is_eager": True, "expose_value": False, "callback": _remember}

TO_BINARY: Final = option("--to-binary FILE", "Read what the next operator expects from its program file.")

#: The flags of a command that asks a cluster: kubectl's, and those of its log.
CLUSTER: Final = together(
    option(
        "--kubeconfig FILE",
        "Path to the kubeconfig file. Default: $KUBECONFIG, ~/.kube/config, then in-cluster configuration.",
    ),
    option("--context NAME", "The kubeconfig context to use."),
    option("-v, --verbose", "Show each patch and each stage, and a traceback if there is a bug.", **_REMEMBERED),
    option(
        "--log-format auto|console|json",
        "Format of stderr: auto is console on a terminal and JSON lines otherwise.",
        type=click.Choice(["auto", "console", "json"]),
        envvar=LOG_FORMAT,
        **_REMEMBERED,
    ),
)


#: The flags about the operator.
OPERATOR: Final = together(
    option("--operator NAMESPACE/NAME", "The operator's Deployment. Default: found by its labels."),
    option("--target-image IMAGE", "The next operator's image, if its tag does not name a release."),
)


def _is_typed(param: click.Parameter, ctx: click.Context) -> bool:
    return ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE


def given(*names: str) -> list[str]:
    """Those of these parameters of the running command that were typed, by their long spellings."""
    ctx = click.get_current_context()
    typed = (param for param in ctx.command.params if param.name in names and _is_typed(param, ctx))
    return [max(param.opts, key=len) for param in typed]


def refuse_flags(reason: str, *names: str) -> None:
    """Raise ``UsageError`` if one of these parameters was given."""
    for flag in given(*names):
        raise UsageError(f"{flag} {reason}")


def next_command(name: str, *flags: str, again: bool = False) -> str:
    """A command of ours with these flags, and those of this command that it needs too.

    ``again``: it is this command with all of its flags, as the run that a dry run has tried.
    """
    context = click.get_current_context()
    root = context.find_root()
    known = {flag for param in root.command.commands[name].params for flag in param.opts}  # type: ignore[attr-defined]
    repeated = (known - {"--dry-run"} if again else known & _REPEATED) - set(flags)
    if "--to" in flags:
        repeated -= {"--to-binary", "--target-image"}  # of this command's own target
    words = [root.info_name or "grove-migrator", name]
    for param in context.command.params:
        value = context.params.get(str(param.name))
        if _is_typed(param, context) and param.expose_value and not repeated.isdisjoint(param.opts):
            for text in value if isinstance(value, tuple) else (value,):
                words += [param.opts[0]] if text is True else [param.opts[0], shlex.quote(str(text))]
    return " ".join([*words, *map(shlex.quote, flags)])
