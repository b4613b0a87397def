"""Logs: one line per event, for people or for machines, and never in the way."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator

import pytest
import structlog

from migrator.cli import log
from tests.support.terminal import Watched as Terminal


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Give back structlog as it was, whatever a test configures."""
    yield
    structlog.reset_defaults()


def test_off_a_terminal_every_event_is_one_json_object() -> None:
    """A pipe gets JSON lines that begin with ts, level, event and run_id, whatever else is bound."""
    stream = io.StringIO()
    logger = log.configure(stream, run_id="r1")
    logger.info("patched", name="demo", kind="Pod")
    logger.warning("other")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert list(first) == ["ts", "level", "event", "run_id", "name", "kind"]
    assert (first["level"], first["event"], first["run_id"], first["name"]) == ("info", "patched", "r1", "demo")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", first["ts"])
    assert second["level"] == "warning"


def test_loggers_of_modules_go_to_the_same_stream_with_the_run_id() -> None:
    """A module that asks structlog for a logger writes where the run writes, never to stdout."""
    stream = io.StringIO()
    logger = structlog.get_logger("some.module")
    log.configure(stream, run_id="r2")
    logger.info("said")
    assert json.loads(stream.getvalue())["run_id"] == "r2"


def test_debug_events_need_verbose() -> None:
    """Debug events appear with verbose only."""
    quiet, loud = io.StringIO(), io.StringIO()
    log.configure(quiet, run_id="r").debug("detail")
    log.configure(loud, run_id="r", level="debug").debug("detail")
    assert quiet.getvalue() == ""
    assert json.loads(loud.getvalue())["event"] == "detail"


def test_a_terminal_gets_console_style_without_escapes_when_colour_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR gives plain text on a terminal, and no JSON."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    log.configure(stream, run_id="r").info("lease_held", name="demo")
    assert "\x1b" not in stream.getvalue()
    assert "lease_held" in stream.getvalue()
    assert "name=demo" in stream.getvalue()


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_follows_no_color_and_term(environ: dict[str, str], wanted: bool) -> None:  # noqa: FBT001
    """Colour is for terminals, unless NO_COLOR is set and not empty, or the terminal is dumb."""
    assert log.wants_colour(Terminal(), environ) is wanted
    assert log.wants_colour(io.StringIO(), environ) is False


def test_a_terminal_obeys_nothing_that_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """An escape sequence in a value is shown, not sent."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    log.configure(stream, run_id="r").info("found", name="a\x1b[2Jb")
    assert "\x1b" not in stream.getvalue()
    assert r"\x1b[2Jb" in stream.getvalue()


def test_long_texts_are_cut() -> None:
    """A server's message that quotes a whole object is cut, and says how long it was."""
    stream = io.StringIO()
    log.configure(stream, run_id="r").info("rejected", message="x" * 5000)
    message = json.loads(stream.getvalue())["message"]
    assert len(message) < 1100
    assert message.endswith("(5000 characters)")


def test_a_log_without_reader_stops_nothing() -> None:
    """A closed or full stderr is ignored: a migration must not stop half-way because of its log."""

    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    log.configure(Gone(), run_id="r").info("patched")
    closed = io.StringIO()
    closed.close()
    log.write_line(closed, "line")


def test_a_failure_is_an_object_off_a_terminal_and_a_sentence_on_one() -> None:
    """What ends a command has code, exit_code and message for machines, one sentence for people."""
    machine, person = io.StringIO(), Terminal()
    log.write_failure("refused", 3, "GM-101: no", stream=machine)
    log.write_failure("refused", 3, "GM-101: \x07no", stream=person)
    event = json.loads(machine.getvalue())
    assert (event["level"], event["code"], event["exit_code"], event["message"]) == (
        "error",
        "refused",
        3,
        "GM-101: no",
    )
    assert person.getvalue() == "error: GM-101: \\x07no\n"


def test_values_that_json_lacks_become_text() -> None:
    """Whatever is passed to a log call, the line stays JSON."""
    stream = io.StringIO()
    log.configure(stream, run_id="r").info("odd", names={"b", "a"}, where=io)
    event = json.loads(stream.getvalue())
    assert event["names"] == ["a", "b"]
    assert "io" in event["where"]


def test_values_that_a_fast_printer_refuses_are_printed_too() -> None:
    """Half of a surrogate pair or a very large number in what a server says loses no line, and stops nothing."""
    stream = io.StringIO()
    log.configure(stream, run_id="r").info("odd", name="a\udc80", count=2**70)
    event = json.loads(stream.getvalue())
    assert (event["name"], event["count"]) == ("a\udc80", 2**70)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", event["ts"])


def test_people_read_a_few_lines_whatever_the_number_of_pods() -> None:
    """5,000 pods that are patched, each with a warning in two readings, are four lines of console log; JSON has all."""
    person, machine = Terminal(), io.StringIO()
    for stream in (person, machine):
        logger = log.configure(stream, run_id="r")
        for _ in range(2):
            for number in range(5000):
                logger.warning("warning", code="GM-112", object=f"Pod a/{number}", field=None, message="it says so")
        for number in range(5000):
            logger.info("patched", kind="Pod", name=f"{number}")
        logger.info("stage_finished", stage="execute", seconds=1.0)
        logger.info("summary", outcome="done")
    lines = person.getvalue().splitlines()
    assert len(lines) == 4
    assert "More findings have this code: see `plan`." in lines[-1]
    assert len(machine.getvalue().splitlines()) == 15002


def test_at_debug_people_read_everything() -> None:
    """A line each, as a program would."""
    stream = Terminal()
    logger = log.configure(stream, run_id="r", level="debug")
    for number in range(10):
        logger.info("patched", kind="Pod", name=f"{number}")
        logger.warning("warning", code="GM-112", message="the same")
    assert len(stream.getvalue().splitlines()) == 20


def test_what_was_shown_is_not_shown_again() -> None:
    """A finding that stood above the question is not repeated; another one of the same code is new."""
    stream = Terminal()
    logger = log.configure(stream, run_id="r", shown={("GM-112", "Pod a/b", None, "old")})
    logger.warning("warning", code="GM-112", object="Pod a/b", field=None, message="old")
    logger.warning("warning", code="GM-112", object="Pod a/b", field=None, message="new")
    assert [line.count("new") for line in stream.getvalue().splitlines()] == [1]


@pytest.mark.parametrize(
    ("form", "terminal", "console"),
    [("auto", True, True), ("auto", False, False), ("json", True, False), ("console", False, True)],
)
def test_the_format_can_be_chosen(form: str, terminal: bool, console: bool) -> None:  # noqa: FBT001
    """Auto goes by the stream; console and json are what they say, wherever that goes."""
    stream = Terminal() if terminal else io.StringIO()
    log.configure(stream, run_id="r", log_format=form).warning("odd")
    log.write_failure("refused", 3, "GM-101: no", stream=stream, log_format=form)
    assert [line.startswith("{") for line in stream.getvalue().splitlines()] == [not console] * 2
    assert "\x1b" not in stream.getvalue() or terminal


def test_a_level_leaves_out_what_is_below() -> None:
    """Of an info, a warning and an error the level says which are written."""
    stream = io.StringIO()
    logger = log.configure(stream, run_id="r", level="error")
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("said")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["error"]
