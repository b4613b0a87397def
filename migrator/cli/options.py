"""Options that several commands share, with kubectl's spelling and meaning."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from migrator import durations
from migrator.errors import UsageError

if TYPE_CHECKING:
    from migrator.run.operator import Flags

Decorator = Callable[[Any], Any]

#: ``-h`` works everywhere, and help is as wide as a terminal usually is.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

#: kubectl has no limit by default, but a Job must not wait forever.
DEFAULT_REQUEST_TIMEOUT = "15s"


class Choice(click.Choice):  # type: ignore[type-arg] # generic in newer Clicks only
    """A choice of words whose usage error suggests the nearest word."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The word; a usage error for any other."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}{suggestion(str(value), self.choices)}", param, ctx)


def suggestion(typed: str, known: Iterable[str], *, alike: float = 0.6) -> str:
    """`` Did you mean ...?``; empty if no known word resembles the typed one.

    ``alike`` is the least resemblance, from 0 to 1. Codes resemble each other anyway and need more.
    """
    close = difflib.get_close_matches(typed, tuple(known), 1, alike)
    return f" Did you mean {close[0]}?" if close else ""


class Seconds(click.ParamType):  # type: ignore[type-arg] # generic in newer Clicks only
    """A duration, in seconds: ``15s``, ``1m30s``, ``0``, or a plain number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Parse what Go accepts, and plain seconds as client-go's ``clientcmd.ParseTimeout`` does."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        try:
            seconds = float(text) if text.isascii() and text.replace(".", "", 1).isdecimal() else durations.parse(text)
        except ValueError:
            self.fail(f"{text!r} is not a duration such as 15s, 1m30s or 0", param, ctx)
        if seconds < 0:
            self.fail(f"{text!r} is negative", param, ctx)
        return seconds


@dataclass(slots=True)
class Session:
    """The state of one invocation outside its command.

    ``target_digests`` are those of the next operator's image, if known. ``shown`` holds the findings that a person
    has already seen: code, object, field and message.
    """

    verbose: bool = False
    quiet: bool = False
    log_level: str | None = None
    log_format: str = "auto"
    target_digests: frozenset[str] = frozenset()
    shown: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def level(self) -> str:
        """The lowest level that is logged: the named one, else that of -v or -q."""
        return self.log_level or ("debug" if self.verbose else "error" if self.quiet else "info")


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster and the PodCliqueSets in it; ``request_timeout`` is in seconds, ``None`` for no limit."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    selector: str | None
    request_timeout: float | None


@dataclass(frozen=True, slots=True)
class OperatorFlags:
    """The flags about the running operator and the next one."""

    operator_namespace: str | None
    operator_deployment: str | None
    lease_name: str | None
    target_image: str | None

    def of_run(self) -> Flags:
        """The flags by which a run finds the operator."""
        from migrator.run.operator import Flags  # noqa: PLC0415 - --help needs none of it

        return Flags(self.operator_namespace, self.operator_deployment, self.lease_name)


def log_options(command: Any) -> Any:  # noqa: ANN401 - a function that Click knows
    """``-v``, ``-q``, ``--log-level`` and ``--log-format``, which the session remembers."""

    def remember(ctx: click.Context, param: click.Parameter, value: bool | str | None) -> None:  # noqa: FBT001
        session = ctx.ensure_object(Session)
        if value:
            setattr(session, str(param.name), value)
        if session.verbose and session.quiet:
            raise click.UsageError("-v and -q contradict each other: leave one of them out", ctx)

    hidden: dict[str, Any] = {"expose_value": False, "callback": remember}
    options = (
        click.option(
            "-v",
            "--verbose",
            is_flag=True,
            help="Show debug events, on a terminal a line for each patch, and a traceback if there is a bug.",
            **hidden,
        ),
        click.option("-q", "--quiet", is_flag=True, help="Show errors only, and no progress.", **hidden),
        click.option(
            "--log-level",
            type=Choice(["debug", "info", "warning", "error"]),
            help="The lowest level that is logged; default: info, with -v debug, with -q error.",
            **hidden,
        ),
        click.option(
            "--log-format",
            type=Choice(["auto", "console", "json"]),
            help="The format of stderr; default: auto, which is console on a terminal and JSON lines elsewhere.",
            **hidden,
        ),
    )
    return _all(options, command)


def file_option(name: str, meaning: str, *, metavar: str = "DUMP", **more: Any) -> Decorator:  # noqa: ANN401 - Click's
    """``-f``, a file in place of a cluster; the command receives it as ``name``."""
    return click.option("-f", "--filename", name, metavar=metavar, help=meaning, **more)


def output_option(*forms: str, default: str | None = "table", meaning: str = "Output format.") -> Decorator:
    """``-o``; the command receives it as ``form``, ``None`` without the flag and without a default."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=Choice(list(forms)),
        default=default,
        show_default=default is not None,
        help=meaning,
    )


def source_option(meaning: str) -> Decorator:
    """``--from``; the command receives it as ``source``."""
    return click.option(
        "--from",
        "source",
        default="auto",
        show_default=True,
        metavar="SCHEME|RELEASE|auto",
        shell_complete=complete_scheme,
        help=meaning,
    )


def target_option(meaning: str) -> Decorator:
    """``--to``; the command receives it as ``target``, ``None`` without the flag."""
    return click.option(
        "--to", "target", metavar="SCHEME|RELEASE|canonical", shell_complete=complete_scheme, help=meaning
    )


def operator_options(command: Any) -> Any:  # noqa: ANN401 - a function that Click knows
    """The flags about the operator; the command receives them as one :class:`OperatorFlags` named ``operator``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **given: Any) -> Any:  # noqa: ANN401 - the command's own
        flags = OperatorFlags(**{flag.name: given.pop(flag.name) for flag in fields(OperatorFlags)})
        return command(*args, operator=flags, **given)

    options = (
        click.option(
            "--operator-namespace", metavar="NAMESPACE", help="The operator's namespace; default: found by its labels."
        ),
        click.option(
            "--operator-deployment", metavar="NAME", help="The operator's Deployment; default: found by its labels."
        ),
        click.option(
            "--lease-name", metavar="NAME", help="The operator's Lease; default: read from its configuration."
        ),
        click.option(
            "--target-image",
            metavar="IMAGE",
            help="The next operator's image, if its tag does not name a release.",
        ),
    )
    return _all(options, wrapped)


def cluster_options(command: Any) -> Any:  # noqa: ANN401 - a function that Click knows
    """The flags of kubectl; the command receives them as one :class:`ClusterFlags` named ``cluster``."""

    @functools.wraps(command)
    def wrapped(*args: Any, all_namespaces: bool, **given: Any) -> Any:  # noqa: ANN401 - the command's own
        flags = ClusterFlags(**{flag.name: given.pop(flag.name) for flag in fields(ClusterFlags)})
        if all_namespaces:  # kubectl: -A wins
            flags = replace(flags, namespace=None)
        _check_one_source(given)
        return command(*args, cluster=flags, **given)

    options = (
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="Path to the kubeconfig file; default: $KUBECONFIG, ~/.kube/config, then in-cluster configuration.",
        ),
        click.option(
            "--context", metavar="NAME", shell_complete=complete_context, help="The kubeconfig context to use."
        ),
        click.option("-n", "--namespace", metavar="NAME", help="Only PodCliqueSets in this namespace."),
        click.option("-A", "--all-namespaces", is_flag=True, help="PodCliqueSets in all namespaces (the default)."),
        click.option(
            "-l",
            "--selector",
            metavar="SELECTOR",
            help="Only PodCliqueSets with these labels, for instance app=web,tier!=cache.",
        ),
        click.option(
            "--request-timeout",
            type=Seconds(),
            callback=lambda _context, _option, seconds: seconds or None,
            default=DEFAULT_REQUEST_TIMEOUT,
            show_default=True,
            help="How long to wait for the answer to one request, such as 15s or 1m; 0 for no limit.",
        ),
    )
    return _all(options, wrapped)


def reads_files(given: Mapping[str, Any]) -> bool:
    """Whether a command's parameters name files in place of a cluster."""
    return any(given.get(name) for name in ("dump", "dumps", "path"))


def _check_one_source(given: Mapping[str, Any]) -> None:
    """Refuse a file together with a cluster. A variable that names a cluster does not contradict a file."""
    if not reads_files(given):
        return
    context = click.get_current_context()
    for name in ("context", "kubeconfig"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(f"-f reads a file and --{name} names a cluster: leave one of them out")


def _all(options: Sequence[Decorator], command: Any) -> Any:  # noqa: ANN401 - a function that Click knows
    """The command with these options, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def complete_scheme(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the schemes and releases that begin like this."""
    from migrator.hashing import schemes  # noqa: PLC0415 - only completion needs it

    names = [*(s.name for s in schemes.all_schemes()), *(r.name for r in schemes.releases()), "canonical"]
    return [name for name in names if name.startswith(incomplete)]


def complete_context(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the contexts of the kubeconfig that begin like this; none where it cannot be read."""
    import yaml  # noqa: PLC0415 - only completion needs it

    from migrator.stores.kube import contexts  # noqa: PLC0415

    try:
        known = contexts.names(contexts.files(ctx.params.get("kubeconfig")))
    except (UsageError, OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return []
    return [name for name in known if name.startswith(incomplete)]
