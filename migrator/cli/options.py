"""Options that several commands share, with kubectl's spelling and meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from migrator import durations

Command = TypeVar("Command", bound=Callable[..., Any])

#: ``-h`` works everywhere, and help is as wide as a terminal usually is.
CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

#: kubectl has no limit by default, but a Job must not wait forever.
DEFAULT_REQUEST_TIMEOUT = "15s"


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
    """What one invocation remembers outside its command.

    Whether to show tracebacks and debug events, and the digests of the next operator's image, if they are known.
    """

    verbose: bool = False
    target_digests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterFlags:
    """Which cluster, and which PodCliqueSets in it; ``request_timeout`` is in seconds, ``None`` for no limit."""

    kubeconfig: str | None
    context: str | None
    namespace: str | None
    selector: str | None
    request_timeout: float | None


def verbose_option(command: Command) -> Command:
    """``-v``: debug events, and the traceback of a bug."""

    def remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - Click's signature
        if value:
            ctx.ensure_object(Session).verbose = True

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        expose_value=False,
        callback=remember,
        help="Show debug events, and a traceback if there is a bug.",
    )(command)


def cluster_options(command: Command) -> Command:
    """The flags of kubectl; the command receives them as one :class:`ClusterFlags` named ``cluster``."""

    @functools.wraps(command)
    def wrapped(
        *,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        all_namespaces: bool,
        selector: str | None,
        request_timeout: float,
        **rest: Any,  # noqa: ANN401 - the command's own parameters
    ) -> Any:  # noqa: ANN401 - whatever the command returns
        flags = ClusterFlags(
            kubeconfig=kubeconfig,
            context=context,
            namespace=None if all_namespaces else namespace,  # kubectl: -A wins
            selector=selector,
            request_timeout=request_timeout or None,
        )
        return command(cluster=flags, **rest)

    options = (
        click.option(
            "--kubeconfig",
            metavar="FILE",
            help="Path to the kubeconfig file; default: $KUBECONFIG, ~/.kube/config, then in-cluster configuration.",
        ),
        click.option("--context", metavar="NAME", help="The kubeconfig context to use."),
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
            default=DEFAULT_REQUEST_TIMEOUT,
            show_default=True,
            help="How long to wait for the answer to one request, such as 15s or 1m; 0 for no limit.",
        ),
    )
    decorated: Any = wrapped
    for option in reversed(options):
        decorated = option(decorated)
    result: Command = decorated
    return result


def complete_scheme(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Shell completion: the schemes and releases that begin like this."""
    from migrator.hashing import schemes  # noqa: PLC0415 - only completion needs it

    names = [*(s.name for s in schemes.all_schemes()), *(r.name for r in schemes.releases()), "canonical"]
    return [name for name in names if name.startswith(incomplete)]
