"""Standard streams that are closed or full: the exit code stays that of the cluster, and nothing is called a bug."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from tests.support.command_line import DUMP, HOME, TO, Invoke
from tests.support.memory_store import MemoryCluster
from tests.support.paths import ROOT


@pytest.fixture
def full() -> Iterator[TextIO]:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as stream:
        yield stream


def without(descriptors: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process in which the shell has closed streams, for instance ``<&- >&-``."""
    command = ["sh", "-c", f'exec "$@" {descriptors}', "sh", sys.executable, "-m", "migrator", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("cluster")
def test_a_finished_run_ends_with_0_though_its_result_cannot_be_printed(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, full: TextIO
) -> None:
    """1 means that nothing was written, and then the old operator would be started on new hashes."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        events = invoke("run", *TO, *HOME).events
    invoke("verify", *TO)
    assert [(e["level"], e["message"]) for e in events if e["event"] == "unwritable_output"] == [
        ("warning", "cannot write to stdout: No space left on device")
    ]
    assert events[-1]["event"] == "summary"
    assert events[-1]["outcome"] == "done"


def test_a_finished_run_ends_with_0_though_what_is_next_cannot_be_told(
    invoke: Invoke, cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for an answer that nobody foresaw, once every set is migrated."""

    def odd(_group: str) -> dict[str, str]:
        raise TypeError("string indices must be integers")

    monkeypatch.setattr(cluster, "short_names", odd)
    events = invoke("run", *TO, *HOME).events
    assert "this is a bug" in next(e["message"] for e in events if e["event"] == "untold_ending")
    assert events[-1]["outcome"] == "done"


@pytest.mark.usefixtures("cluster")
def test_a_dry_run_whose_result_cannot_be_printed_fails(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, full: TextIO
) -> None:
    """A dry run has no other result than its output."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        failure = invoke("run", *TO, *HOME, "--dry-run", code=1).failure
    assert failure["code"] == "unwritable-output"
    assert "cannot write to stdout" in failure["message"]


def test_a_closed_stdin_is_an_empty_one() -> None:
    """A daemon's commands may have no stdin: `-f -` then finds nothing, and a run asks nobody."""
    done = without("<&-", "plan", "-f", "-", *TO)
    assert done.returncode == 2
    assert json.loads(done.stderr)["code"] == "unreadable-input"
    done = without("<&-", "run", *TO, "--kubeconfig", "/nowhere")
    assert done.returncode == 2
    assert json.loads(done.stderr.splitlines()[0])["code"] == "usage"


@pytest.mark.parametrize("arguments", [("releases",), ("--help",), ("run", "--help"), ("--version",), ()], ids=" ".join)
@pytest.mark.parametrize("stream", [">&-", ">/dev/full"])
def test_a_stdout_that_is_closed_or_full_is_an_error(
    arguments: tuple[str, ...], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data for nobody is an error, as with coreutils, also where Click prints it: help, version and completion."""
    if not arguments:
        monkeypatch.setenv("_GROVE_MIGRATOR_COMPLETE", "bash_source")
    done = without(stream, *arguments)
    assert done.returncode == 1
    assert json.loads(done.stderr)["code"] == "unwritable-output"


def test_a_closed_stderr_costs_only_the_log(invoke: Invoke) -> None:
    """The result is printed without a log."""
    done = without("2>&-", "plan", "-f", DUMP, *TO)
    assert done.returncode == 0
    assert done.stdout == invoke("plan", "-f", DUMP, *TO).out


def test_waiting_for_a_file_ends_at_the_first_signal(tmp_path: Path) -> None:
    """While a dump is read nothing is under way that would have to be finished: SIGTERM is what Ctrl-C is."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    typed = [sys.executable, "-m", "migrator", "plan", "-f", fifo, *TO]
    process = subprocess.Popen(typed, cwd=ROOT, stderr=subprocess.PIPE)
    with fifo.open("wb"):  # waits until it is read
        process.terminate()
        _, said = process.communicate()
    assert process.returncode == 1
    assert json.loads(said)["code"] == "interrupted"


def test_ctrl_c_while_modules_are_imported_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing takes a moment in which nothing can be said yet; the exit code is that of any other Ctrl-C."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    done = without("", "--help")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == ""
