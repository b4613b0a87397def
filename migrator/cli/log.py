"""Structured logs: one event per line on stderr, for people on a terminal, as JSON for everything else.

An event has a constant name in snake_case, and keys. Names, fields, hashes and counts are logged, never parts of a pod
template: templates hold secrets.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from migrator.cli.flags import session
from migrator.errors import MigratorError
from migrator.words import printable, wrapped

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger, Processor

#: Events that people see with ``-v`` only: they repeat the progress or the last sentence, or there is one for each
#: object.
_ONLY_IF_VERBOSE: Final = {
    *("patched", "tree_written", "stage", "ending_run", "summary"),
    *("verify_failed", "verified", "noticed", "nothing_to_do"),
}


class Unbreakable:
    """A stream whose errors are ignored: a migration must not stop because nobody reads its log."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the stream's
        return getattr(self._stream, name)

    def write(self, text: str) -> None:
        """Write a text and flush it, as far as the stream takes it."""
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def flush(self) -> None:
        """Every text is flushed as it is written."""


def is_console(stream: TextIO, log_format: str) -> bool:
    """Whether a log of this format is for people."""
    return log_format == "console" or (log_format != "json" and stream.isatty())


def logger(
    stream: TextIO,
    *,
    log_format: str = "auto",
    verbose: bool = False,
    **bound: str,
) -> FilteringBoundLogger:
    """A logger of one line for each event; lines of JSON also have what is ``bound``."""
    import structlog

    to_people = is_console(stream, log_format)
    stamp = structlog.processors.TimeStamper(fmt="%H:%M:%SZ" if to_people else "iso", utc=True, key="ts")
    processors: list[Processor] = [structlog.processors.add_log_level, stamp]
    if to_people:
        # https://no-color.org
        colors = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        renderer = structlog.dev.ConsoleRenderer(0, colors=colors, timestamp_key="ts", pad_level=False)
        processors += [*([] if verbose else [_terse]), _for_people, renderer]
    else:
        processors += [_head_first, structlog.processors.JSONRenderer()]
    made: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(cast("TextIO", Unbreakable(stream))),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    ).bind(**({} if to_people else bound))
    return made


def write_failure(error: MigratorError, *, log_format: str | None = None) -> None:
    """Print on stderr why a command ends: a sentence for people, otherwise a JSON object.

    ``log_format`` is the session's; it must be given once the command has ended.
    """
    values = {"code": error.code, "exit_code": error.exit_code, "message": str(error), **error.details}
    _write("error", "failed", log_format or session().log_format, **values)


def write_warning(event: str, message: str) -> None:
    """Print a warning on stderr without a logger: for commands that are over at once."""
    _write("warning", event, session().log_format, message=message)


def _write(level: str, event: str, log_format: str, **values: object) -> None:
    if is_console(sys.stderr, log_format):
        first, *rest = str(values["message"]).splitlines() or [""]
        stop = "." if ". " in first and first[-1].isalnum() else ""  # the last of several sentences ends, too
        lines = [wrapped(f"{level}: {first}{stop}"), *(f"{printable(line)}\n" for line in rest)]
        Unbreakable(sys.stderr).write("".join(lines))
        return
    getattr(logger(sys.stderr, log_format="json"), level)(event, **values)


def _terse(_logger: object, _method: str, event: EventDict) -> EventDict:
    import structlog

    finding = tuple(event.get(key) for key in ("code", "object", "field", "message"))
    if event["event"] in _ONLY_IF_VERBOSE or finding in session().shown:
        raise structlog.DropEvent
    return event


def _head_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """The keys that every event has, before the others."""
    head = {key: event[key] for key in ("ts", "level", "event", "run_id") if key in event}
    return {**head, **event}


def _for_people(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Drop absent values, and escape control characters; JSON escapes them automatically."""
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in event.items() if value is not None
    }
