"""Progress of long stages, on a terminal only: how long a stage takes, how many patches were sent, and the time left.

It is rich's own bar on stderr, and erased when the stage is over. Log lines appear above it. An error of the terminal
does not stop the run. Nothing is drawn into pipes, files or CI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from migrator.cli.log import Unbreakable


class Progress:
    """Stages, and how long they take; nothing if nobody watches.

    Somebody watches a terminal that can move its cursor, outside CI. ``stream`` is where log lines go, during a stage
    and outside it.
    """

    def __init__(self, stream: TextIO) -> None:
        watched = stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("CI")
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            _Left(),
            console=Console(file=cast("TextIO", Unbreakable(stream))),
            transient=True,
            redirect_stdout=False,  # stdout is data
            redirect_stderr=False,
            disable=not watched,
        )
        self.stream = cast("TextIO", _Above(self._bars)) if watched else stream

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Show a stage while it lasts."""
        self._bars.start()
        task = self._bars.add_task(name, total=None)
        try:
            yield
        finally:
            self._bars.refresh()  # what was shown last, too
            self._bars.remove_task(task)
            self._bars.stop()

    def show(self, stage: str, done: int, total: int) -> None:
        """What a run tells of itself; ``done`` of ``total`` patches make a bar."""
        text = f"{stage} {done:,} of {total:,}" if total else stage
        for task in self._bars.task_ids:
            self._bars.update(task, description=text, completed=done, total=total or None, refresh=0 < done == total)


class _Left(TimeRemainingColumn):
    """How long a stage with a known end still needs."""

    def render(self, task: Task) -> Text:
        """``0:00:07 left``; nothing before anything is known."""
        return Text(f"{super().render(task)} left" if task.time_remaining else "")


class _Above:
    """A terminal for log lines: each appears above the progress and is not wrapped."""

    def __init__(self, bars: Bars) -> None:
        self._console = bars.console
        self.isatty = bars.console.file.isatty

    def write(self, text: str) -> None:
        self._console.print(Text.from_ansi(text.removesuffix("\n")), soft_wrap=True)

    def flush(self) -> None:
        """Every line is flushed as it is written."""
