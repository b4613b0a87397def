"""Logs and progress: one line for an event, for people or for machines, and a bar for somebody who watches."""

from __future__ import annotations

import io
import json
import re
import sys
import time

import click
import pytest

from migrator.cli import log, progress
from migrator.cli.flags import Session
from migrator.errors import Refused
from tests.support.command_line import TO, Invoke
from tests.support.tables import table
from tests.support.terminal import Watched as Terminal


def test_off_a_terminal_every_event_is_one_json_object() -> None:
    """A pipe gets JSON lines that begin with ts, level, event and run_id, whatever else they hold."""
    stream = io.StringIO()
    logger = log.logger(stream, run_id="r1")
    logger.info("patched", name="demo", kind="Pod")
    logger.warning("odd", where=io, name="a\udc80", count=2**70)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert list(first) == ["ts", "level", "event", "run_id", "name", "kind"]
    assert first["level"] == "info"
    assert first["event"] == "patched"
    assert first["run_id"] == "r1"
    assert first["name"] == "demo"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", first["ts"])
    assert second["level"] == "warning"
    assert second["name"] == "a\udc80"
    assert second["count"] == 2**70


def test_a_terminal_gets_plain_lines_and_obeys_nothing_that_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time says that it is UTC; neither run_id nor absent values are in it; no escape sequence is sent."""
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    log.logger(stream, run_id="r").info("lease_held", name="a\x1b[2Jb", field=None)
    assert re.fullmatch(r"\d\d:\d\d:\d\dZ \[info\] lease_held name=a\\x1b\[2Jb\n", stream.getvalue())


@pytest.mark.parametrize(
    ("environ", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_follows_no_color_and_term(
    environ: dict[str, str], *, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Colour is for terminals, unless NO_COLOR is set and not empty, or the terminal is dumb."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        log.logger(stream, log_format="console").info("said")
    assert ("\x1b" in terminal.getvalue()) == coloured
    assert "\x1b" not in pipe.getvalue()


@pytest.mark.parametrize("shown", [True, False])
def test_people_read_a_few_lines_whatever_the_number_of_pods(*, shown: bool) -> None:
    """500 pods that are patched are no line for people, nor is what a screen has shown or will show; JSON has all."""
    person, machine = Terminal(), io.StringIO()
    told = {("GM-112", f"Pod a/{number}", None, "so") for number in range(499)} if shown else set()
    with click.Context(click.Command("run"), obj=Session(shown=told)):
        for stream in (person, machine):
            logger = log.logger(stream)
            for number in range(500):
                logger.warning("guard_warning", code="GM-112", object=f"Pod a/{number}", field=None, message="so")
                logger.info("patched", kind="Pod", name=f"{number}")
            logger.info("stage", stage="write")
            for last in ("summary", "verify_failed", "verified", "noticed"):
                logger.info(last)
    assert len(person.getvalue().splitlines()) == (1 if shown else 500)
    assert len(machine.getvalue().splitlines()) == 1005


@pytest.mark.parametrize(
    ("form", "terminal", "console"),
    [("auto", True, True), ("auto", False, False), ("json", True, False), ("console", False, True)],
)
def test_the_format_can_be_chosen(form: str, *, terminal: bool, console: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Auto goes by the stream; console and json are what they say; a failure is a sentence or an object alike."""
    stream = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.logger(stream, log_format=form).warning("odd")
    log.write_failure(Refused("\x07no", guard="GM-101"), log_format=form)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("{") is not console
    if console:
        assert second == "error: GM-101: \\x07no"
    else:
        failed = {"level": "error", "event": "failed", "code": "refused", "exit_code": 3, "message": "GM-101: \x07no"}
        assert failed.items() <= json.loads(second).items()


# --- progress of long stages: on a terminal that somebody watches, and nowhere else -----------------------------------


class Gone(Terminal):
    """A terminal whose window was closed."""

    def write(self, _: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.fixture(autouse=True)
def _watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody watches: this is not CI, and the terminal is a good one."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("CI", raising=False)


@table(
    "stream environ",
    ("A pipe or a file is not watched.", (io.StringIO(), {})),
    ("A dumb terminal cannot move its cursor.", (Terminal(), {"TERM": "dumb"})),
    ("A log of CI is read afterwards.", (Terminal(), {"CI": "true"})),
)
def test_nobody_watching_costs_nothing(
    stream: io.StringIO, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the log's stream is the very stream, and nothing is written."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    shown = progress.Progress(stream)
    with shown.stage("reading"):
        shown.show("patching", 1, 2)
        assert shown.stream is stream
    assert stream.getvalue() == ""


def test_a_stage_is_gone_when_it_is_over() -> None:
    """The cursor comes back, and the line is erased."""
    stream = Terminal()
    shown = progress.Progress(stream)
    with shown.stage("reading"):
        pass
    assert "reading" in stream.getvalue()
    assert stream.getvalue().rstrip("\r").endswith("\x1b[2K\x1b[?25h")


def test_a_stage_with_a_known_end_shows_the_time_that_is_left() -> None:
    """Once the speed is known, and never for one whose end is not."""
    stream = Terminal()
    shown = progress.Progress(stream)
    with shown.stage("migrating"):
        for done in (0, 400, 800):
            shown.show("patching", done, 1200)
            time.sleep(0.02)
    shown = progress.Progress(stream)
    with shown.stage("reading"):
        pass
    assert re.search(r"800 of 1,200 [^\r]*0:00:01 left", re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()))
    assert "left" not in stream.getvalue().partition("reading")[2]


def test_log_lines_appear_whole_above_the_progress() -> None:
    """A line is not broken to the terminal's width and not mixed with a bar: it can be copied."""
    stream, line = Terminal(), "warning: " + "x" * 300
    shown = progress.Progress(stream)
    with shown.stage("reading"):
        shown.stream.write(f"{line}\n")
    assert f"{line}\n" in stream.getvalue()
    shown.stream.write("afterwards\n")
    assert stream.getvalue().endswith("afterwards\n")


def test_a_stream_that_goes_away_stops_nothing() -> None:
    """Whatever becomes of the window, the pipe or the disk, the run goes on."""
    closed = io.StringIO()
    closed.close()
    shown = progress.Progress(Gone())
    with shown.stage("reading"):
        shown.stream.write("a line\n")
    for stream in (Gone(), closed):
        log.logger(stream, log_format="json").info("patched")


@pytest.mark.usefixtures("site")
def test_a_finding_is_logged_once(invoke: Invoke) -> None:
    """A run judges the sets again behind the fence, and logs then what is new."""
    events = invoke("run", *TO, "--stop-operator").events
    told = [(one["code"], one["object"], one["field"]) for one in events if one["event"] == "guard_warning"]
    assert len(told) == len(set(told)) > 0
