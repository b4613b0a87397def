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
from tests.support.tables import table


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


@table(
    "arguments",
    ("Our data.", (("releases",),)),
    ("Help, which Click prints.", (("--help",),)),
    ("Completion, which ends the process.", ((),)),
    ("A dry run has no other result than its output.", (("run", *TO, *HOME, "--dry-run"),)),
)
@pytest.mark.usefixtures("cluster")
def test_a_stdout_that_is_full_is_an_error(
    arguments: tuple[str, ...], invoke: Invoke, monkeypatch: pytest.MonkeyPatch, full: TextIO
) -> None:
    """Data for nobody is one, as with coreutils."""
    if not arguments:
        monkeypatch.setenv("_GROVE_MIGRATOR_COMPLETE", "bash_source")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        failure = invoke(*arguments, code=1).failure
    assert failure["code"] == "unwritable-output"
    assert "cannot write to stdout" in failure["message"]


def test_so_is_one_that_is_closed() -> None:
    """Its number must not become that of a socket, to which the data would go."""
    done = without(">&-", "releases")
    assert done.returncode == 1
    assert json.loads(done.stderr)["code"] == "unwritable-output"


@table(
    "arguments code",
    ("There is nothing to read.", (("plan", "-f", "-", *TO), "unreadable-input")),
    ("A run asks nobody.", (("run", *TO, "--kubeconfig", "/nowhere"), "usage")),
)
def test_a_closed_stdin_is_an_empty_one(
    arguments: tuple[str, ...], code: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon's commands may have none, which is ``None`` in Python."""
    monkeypatch.setattr(sys, "stdin", None)
    failure = invoke(*arguments, code=2).failure
    sys.stdin.close()
    assert failure["code"] == code


def test_a_closed_stderr_costs_only_the_log(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is printed without a log."""
    expected = invoke("plan", "-f", DUMP, *TO).out
    monkeypatch.setattr(sys, "stderr", None)
    found = invoke("plan", "-f", DUMP, *TO).out
    sys.stderr.close()
    assert found == expected


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
