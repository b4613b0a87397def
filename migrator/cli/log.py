"""Structured logs: one event per line on stderr, for people on a terminal, as JSON for everything else.

An event has a constant name in snake_case, and keys. Names, fields, hashes and counts are logged, never parts of a pod
template: templates hold secrets.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from migrator.cli.options import session
from migrator.render.text import printable, wrapped

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger

#: The longest text of an event: an API server's message may quote a whole object, which a log must not hold.
MAX_TEXT: Final = 1000

#: Events that people see at the debug level only: they repeat the progress or the last sentence, or there is one for
#: each object.
_ONLY_AT_DEBUG: Final = frozenset(
    {
        "patched",
        "tree_written",
        "retrying_after_conflict",
        "stage_started",
        "stage_finished",
        "operator",
        "summary",
    }
)
#: How many findings of one code are shown to people; `plan` groups all of them.
_FINDINGS: Final = 3


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


def write_line(stream: TextIO, line: str) -> None:
    """Write one line and flush it."""
    Unbreakable(stream).write(line + "\n")


def wants_colour(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether a stream is a terminal that may be coloured (https://no-color.org, ``TERM=dumb``)."""
    environ = os.environ if environ is None else environ
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def is_console(stream: TextIO, log_format: str) -> bool:
    """Whether a log of this format is for people."""
    return log_format == "console" or (log_format == "auto" and stream.isatty())


def configure(
    stream: TextIO,
    *,
    run_id: str,
    level: str = "info",
    log_format: str = "auto",
    shown: set[tuple[object, ...]] | None = None,
) -> FilteringBoundLogger:
    """Log every event of at least ``level`` to ``stream`` with ``run_id``; returns the logger.

    Findings in ``shown`` (code, object, field and message) are not shown to people again.
    """
    import logging

    import structlog

    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")
    processors: list[Any] = [structlog.processors.add_log_level, stamp, _shorten]
    if is_console(stream, log_format):
        if level != "debug":
            processors.insert(0, _Terse(set() if shown is None else shown))
        processors += [_for_people, structlog.dev.ConsoleRenderer(colors=wants_colour(stream), timestamp_key="ts")]
    else:
        processors.insert(0, lambda _logger, _method, event: {**event, "run_id": run_id})
        processors += [_head_first, structlog.processors.JSONRenderer(default=_plain)]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", Unbreakable(stream))),
        cache_logger_on_first_use=False,
    )
    bound: FilteringBoundLogger = structlog.get_logger().bind()  # else each event would bind it anew
    return bound


def write_failure(
    code: str,
    exit_code: int,
    message: str,
    *,
    stream: TextIO | None = None,
    log_format: str = "",
    details: Mapping[str, str] | None = None,
) -> None:
    """Print on stderr why a command ends with this exit code: a sentence for people, else a JSON object.

    ``details`` are those of a :class:`~migrator.errors.MigratorError`.
    """
    values = {"code": code, "exit_code": exit_code, "message": message, **(details or {})}
    _write("error", "failed", values, stream, log_format)


def write_warning(event: str, message: str) -> None:
    """Print a warning on stderr without a logger: for commands that are over at once."""
    _write("warning", event, {"message": message})


def _write(
    level: str, event: str, values: Mapping[str, Any], stream: TextIO | None = None, log_format: str = ""
) -> None:
    stream, log_format = stream or sys.stderr, log_format or session().log_format
    if is_console(stream, log_format):
        first, *details = str(values["message"]).splitlines() or [""]
        Unbreakable(stream).write(wrapped(f"{level}: {first}") + "".join(f"{printable(line)}\n" for line in details))
        return
    import structlog

    line: EventDict = {**values, "event": event, "level": level}
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts")(None, level, line)
    write_line(stream, str(structlog.processors.JSONRenderer(default=_plain)(None, level, _head_first(None, "", line))))


class _Terse:
    """Drops the events in ``_ONLY_AT_DEBUG``, repeated findings, and all but a few findings of one code."""

    def __init__(self, seen: set[tuple[object, ...]]) -> None:
        self._seen = seen
        self._shown: Counter[object] = Counter()

    def __call__(self, _logger: object, _method: str, event: EventDict) -> EventDict:
        import structlog

        if event["event"] in _ONLY_AT_DEBUG:
            raise structlog.DropEvent
        code = event.get("code")
        if code is None:
            return event
        finding = (code, event.get("object"), event.get("field"), event.get("message"))
        if finding in self._seen or self._shown[code] > _FINDINGS:
            raise structlog.DropEvent
        self._seen.add(finding)
        self._shown[code] += 1
        if self._shown[code] > _FINDINGS:
            return {"event": event["event"], "code": code, "message": "More findings have this code: see `plan`."}
        return event


def _shorten(_logger: object, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > MAX_TEXT:
            event[key] = f"{value[:MAX_TEXT]}... ({len(value)} characters)"
    return event


def _head_first(_logger: object, _method: str, event: EventDict) -> EventDict:
    """The keys that every event has, before the others."""
    head = {key: event[key] for key in ("ts", "level", "event", "run_id") if key in event}
    return {**head, **event}


def _for_people(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Drop absent values and the date, and escape control characters; JSON escapes them automatically."""
    event["ts"] = event["ts"].partition("T")[2][:8]
    return {
        key: printable(value) if isinstance(value, str) else value for key, value in event.items() if value is not None
    }


def _plain(value: object) -> object:
    """The JSON value of an argument of a log call: a list for a set, else its text."""
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)
