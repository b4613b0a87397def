"""Progress of long stages: on a terminal that somebody watches, and nowhere else."""

from __future__ import annotations

import io
import re

import pytest

from migrator.cli import log, progress
from tests.support.command_line import DUMP, TO, Invoke
from tests.support.tables import table
from tests.support.terminal import Watched as Terminal
from tests.support.terminal import show


class Gone(Terminal):
    """A terminal whose window was closed."""

    def write(self, _: str) -> int:
        """Nobody is there any more."""
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
    with progress.Progress(stream) as shown, shown.stage("reading"):
        shown.count(None, "info", {"event": "patched"})
        assert shown.stream is stream
    assert stream.getvalue() == ""


def test_a_stage_is_gone_when_it_is_over() -> None:
    """The cursor comes back, and the line is erased."""
    stream = Terminal()
    with progress.Progress(stream) as shown, shown.stage("reading"):
        pass
    assert "reading" in stream.getvalue()
    assert stream.getvalue().rstrip("\r").endswith("\x1b[2K\x1b[?25h")


@pytest.mark.parametrize(
    ("expected", "more", "said"),
    [(0, {}, "patches sent 8"), (9, {"dry_run": "server"}, "patches tried 8 of 9"), (5, {}, "patches sent 8")],
)
def test_patches_are_counted_in_the_log(expected: int, more: dict[str, str], said: str) -> None:
    """The stage becomes their bar, whether people read the events or not. A wrong number is not printed."""
    stream = Terminal()
    with progress.Progress(stream) as shown, shown.stage("migrating"):
        shown.expected = expected
        logger = log.logger(shown.stream, first=[shown.count])
        for number in range(8):
            logger.info("patched", name=f"pod-{number}", **more)
            logger.info("tree_written")
    assert re.search(rf" {said} +\u2501", re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()))


def test_log_lines_appear_whole_above_the_progress() -> None:
    """A line is not broken to the terminal's width and not mixed with a bar: it can be copied."""
    stream, line = Terminal(), "warning: " + "x" * 300
    with progress.Progress(stream) as shown, shown.stage("reading"):
        shown.stream.write(f"{line}\n")
    assert f"{line}\n" in stream.getvalue()
    shown.stream.write("afterwards\n")
    assert stream.getvalue().endswith("afterwards\n")


def test_a_terminal_that_goes_away_stops_nothing() -> None:
    """Whatever becomes of the window, the run goes on."""
    with progress.Progress(Gone()) as shown, shown.stage("reading"):
        shown.stream.write("a line\n")


@pytest.mark.parametrize(("command", "code"), [("plan", 0), ("verify", 7), ("run --dry-run", 0)])
def test_a_command_shows_progress_on_stderr_and_data_on_stdout(command: str, code: int, invoke: Invoke) -> None:
    """With stderr on a terminal stdout is what it is without one, byte for byte, and so is the exit code."""
    typed = [*command.split(), "-f", str(DUMP), *TO]
    shown = show("migrator", typed, piped=True)
    assert (shown.code, shown.data) == (code, invoke(*typed, code=code).out)
    assert "\x1b[?25l" in shown.raw, "the bar was drawn"


def test_names_of_files_are_no_markup() -> None:
    """A file may be called what it likes."""
    stream = Terminal()
    with progress.Progress(stream) as shown, shown.stage("migrating [bold]x[/nonsense].yaml"):
        pass
    assert "[bold]x[/nonsense].yaml" in stream.getvalue()
