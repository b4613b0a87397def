"""Options that several commands share, with kubectl's spelling and meaning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import click
from click.core import ParameterSource

from migrator import durations
from migrator.errors import UsageError, suggestion

#: ``-h`` works everywhere, and help is as wide as a terminal usually is.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

#: The environment variables of flags begin like this; a flag on the command line wins.
PREFIX: Final = "GROVE_MIGRATOR"
#: A variable that was left over would change what the next command does, so these flags have none.
_WITHOUT_VARIABLE: Final = frozenset({"--help", "--revert", "--close"})
#: Flags with another meaning in each command, so their variables name the command.
_OF_ONE_COMMAND: Final = frozenset({"--output", "--filename", "--write", "--yes"})


class Choice(click.Choice):  # type: ignore[type-arg] # generic in newer Clicks only
    """A choice of words whose usage error suggests the nearest word."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        """The word; a usage error for any other."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}{suggestion(str(value), self.choices)}", param, ctx)


class Seconds(click.ParamType):  # type: ignore[type-arg] # generic in newer Clicks only
    """A duration, in seconds: ``15s``, ``1m30s``, ``0``, or a plain number of seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Parse what Go accepts, and plain seconds as client-go's ``clientcmd.ParseTimeout`` does."""
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
    """The flags of every command, and the findings that a person has already seen: code, object, field and message."""

    verbose: bool = False
    quiet: bool = False
    log_level: str | None = None
    log_format: str = "auto"
    shown: set[tuple[object, ...]] = field(default_factory=set)

    @property
    def level(self) -> str:
        """The lowest level that is logged: the named one, else that of -v or -q."""
        return self.log_level or ("debug" if self.verbose else "error" if self.quiet else "info")


def session() -> Session:
    """The session of the running command."""
    context = click.get_current_context(silent=True)
    return (context and context.find_object(Session)) or Session()


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """The cluster and the PodCliqueSets in it; ``request_timeout`` is in seconds, ``None`` for no limit."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    selector: str | None
    request_timeout: float | None


def option(spelling: str, meaning: str, *name: str, **more: Any) -> click.Option:  # noqa: ANN401 - Click's
    """A flag as the help spells it: ``-f, --filename FILE`` has a value, ``--yes`` has none.

    The command receives it by its long spelling, or as ``name``.
    """
    *flags, last = spelling.replace(",", "").split()
    if last.startswith("-"):
        return click.Option([*flags, last, *name], is_flag=True, help=meaning, **more)
    return click.Option([*flags, *name], metavar=last, help=meaning, **more)


def duration(flag: str, meaning: str, default: str | None = None) -> click.Option:
    """A flag with a duration, in seconds."""
    return click.Option([flag], type=Seconds(), default=default, show_default=default is not None, help=meaning)


def one_of(words: Sequence[str], *names: str, meaning: str, default: bool = True, **more: Any) -> click.Option:  # noqa: ANN401
    """A flag with one of these words. The first one is the default, unless ``default`` is false."""
    first = words[0] if default else None
    return click.Option(names, type=Choice(words), default=first, show_default=default, help=meaning, **more)


def output(*forms: str, meaning: str = "Output format.", default: bool = True) -> click.Option:
    """``-o``; the command receives it as ``form``."""
    return one_of(forms, "-o", "--output", "form", meaning=meaning, default=default)


def source(meaning: str) -> click.Option:
    """``--from``; the command receives it as ``source``."""
    more = {"default": "auto", "show_default": True, "shell_complete": complete_scheme}
    return option("--from SCHEME|RELEASE|auto", meaning, "source", **more)


def target(meaning: str) -> click.Option:
    """``--to``; the command receives it as ``target``, ``None`` without the flag."""
    return option("--to SCHEME|RELEASE|canonical", meaning, "target", shell_complete=complete_scheme)


def variables(command: str, option: click.Option) -> list[str]:
    """The environment variables of an option of a command; that of the command alone comes first."""
    flag = next(opt for opt in option.opts if opt.startswith("--"))
    if flag in _WITHOUT_VARIABLE:
        return []
    ending = flag.removeprefix("--").replace("-", "_").upper()
    own = f"{PREFIX}_{command.upper()}_{ending}"
    return [own] if flag in _OF_ONE_COMMAND else [own, f"{PREFIX}_{ending}"]


def complete_scheme(_ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the schemes and releases that begin like this, and what --to alone takes."""
    from migrator.hashing import schemes  # noqa: PLC0415 - only completion needs it

    names = [*(s.name for s in schemes.all_schemes()), *(r.name for r in schemes.releases())]
    names += [schemes.CANONICAL] if param.name == "target" else []
    return [name for name in names if name.startswith(incomplete)]


def complete_context(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the contexts of the kubeconfig that begin like this; none where it cannot be read."""
    import yaml  # noqa: PLC0415 - only completion needs it

    from migrator.stores.kube.kubeconfig import Kubeconfig  # noqa: PLC0415

    try:
        known = Kubeconfig.read(ctx.params.get("kubeconfig")).contexts
    except (UsageError, OSError, ValueError, yaml.YAMLError, AttributeError, KeyError, TypeError):
        return []
    return [name for name in known if name.startswith(incomplete)]


def _remember(ctx: click.Context, param: click.Parameter, value: bool | str | None) -> None:  # noqa: FBT001
    session = ctx.ensure_object(Session)
    if value:
        setattr(session, str(param.name), value)
    if session.verbose and session.quiet:
        raise click.UsageError("-v and -q contradict each other: leave one of them out", ctx)


_REMEMBERED: Final[dict[str, Any]] = {"expose_value": False, "callback": _remember}

#: The flags of every command; the session remembers them.
LOG: Final = (
    option(
        "-v, --verbose",
        "Show debug events, on a terminal a line for each patch, and a traceback if there is a bug.",
        **_REMEMBERED,
    ),
    option("-q, --quiet", "Show errors only, and no progress.", **_REMEMBERED),
    one_of(
        ("debug", "info", "warning", "error"),
        "--log-level",
        meaning="The lowest level that is logged; default: info, with -v debug, with -q error.",
        default=False,
        **_REMEMBERED,
    ),
    one_of(
        ("auto", "console", "json"),
        "--log-format",
        meaning="The format of stderr; default: auto, which is console on a terminal and JSON lines elsewhere.",
        default=False,
        **_REMEMBERED,
    ),
)

_BINARY: Final = "Read what {} from its own binary, its image in a file, or a scheme.json."
BINARIES: Final = (
    option("--to-binary BINARY|IMAGE|scheme.json", _BINARY.format("the next operator expects")),
    option("--from-binary BINARY|IMAGE|scheme.json", _BINARY.format("the operator stores now")),
)

#: The flags about the operator.
OPERATOR: Final = (
    option("--operator-namespace NAMESPACE", "The operator's namespace; default: found by its labels."),
    option("--operator-deployment NAME", "The operator's Deployment; default: found by its labels."),
    option("--lease-name NAME", "The operator's Lease; default: read from its configuration."),
    option("--target-image IMAGE", "The next operator's image, if its tag does not name a release."),
)

#: The flags of kubectl.
CLUSTER: Final = (
    option(
        "--kubeconfig FILE",
        "Path to the kubeconfig file; default: $KUBECONFIG, ~/.kube/config, then in-cluster configuration.",
    ),
    option("--context NAME", "The kubeconfig context to use.", shell_complete=complete_context),
    option("-n, --namespace NAME", "Only PodCliqueSets in this namespace."),
    option("-A, --all-namespaces", "PodCliqueSets in all namespaces (the default)."),
    option("-l, --selector SELECTOR", "Only PodCliqueSets with these labels, for instance app=web,tier!=cache."),
    duration(
        "--request-timeout",
        "How long to wait for the answer to one request, such as 15s or 1m; 0 for no limit.",
        "15s",  # kubectl has no limit by default, but a Job must not wait forever
    ),
)


def _refuse(ctx: click.Context, names: Iterable[str], message: str) -> None:
    """Raise ``UsageError`` with the flag in the message if one of these was given on the command line."""
    for name in names:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise UsageError(message.format(f"--{name.replace('_', '-')}"))


def arguments(ctx: click.Context) -> dict[str, Any]:
    """The parameters of a command, with the flags about the cluster and about the operator as one value each.

    Raises ``UsageError`` for an empty value, for a file together with a cluster, and for flags of a page without one;
    a variable that names a cluster or is about pages does not contradict the rest.
    """
    given = dict(ctx.params)
    for param in ctx.command.params:
        value, spelling = given.get(str(param.name)), max(param.opts, key=len)
        if isinstance(param, click.Argument):
            spelling = param.make_metavar(ctx).strip("[].")
        # An empty path is the current directory to Python; --from and --to know their names themselves.
        if "" in (value if isinstance(value, tuple) else (value,)) and spelling not in {"--from", "--to"}:
            raise UsageError(f"{spelling} is empty: give a value, or leave it out")
    if "kubeconfig" in given:
        namespace = None if given.pop("all_namespaces") else given["namespace"]  # kubectl: -A wins
        timeout = given["request_timeout"] or None
        given |= {"namespace": namespace, "request_timeout": timeout}
        if given.get("close") or given.get("after_upgrade"):
            alone = "--close and --after-upgrade do not go with {}: the record is of the whole cluster"
            _refuse(ctx, ("namespace", "selector"), alone)
            given |= {"namespace": None, "selector": None}  # from the environment
        given["cluster"] = ClusterFlags(**{field.name: given.pop(field.name) for field in fields(ClusterFlags)})
        if any(map(given.get, ("dump", "dumps", "path"))):
            _refuse(ctx, ("context", "kubeconfig"), "-f reads a file and {} names a cluster: leave one of them out")
        if given["form"] != "html":
            _refuse(ctx, ("group_by", "reload_time"), "{} goes with -o html")
        if not any(map(given.get, ("target", "to_binary"))):
            _refuse(ctx, ("group_by",), "{} needs a target: give --to")
    if "lease_name" in given:
        from migrator.run.operator import OperatorFlags  # noqa: PLC0415 - --help needs none of it

        names = ("operator_namespace", "operator_deployment", "lease_name")
        given["operator"] = OperatorFlags(*(given.pop(name) for name in names))
    return given
