"""Flags from the environment, as Click reads them, and what Click brings: the version and completion."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from migrator import __version__
from tests.support.command_line import DUMP, TO, Invoke, objects
from tests.support.memory_store import MemoryStore


def test_a_flag_can_be_a_variable_of_its_command(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """A flag on the command line wins; a variable that names a cluster does not contradict a file."""
    monkeypatch.setenv("GROVE_MIGRATOR_CONTEXT", "prod")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_TO", "v0.1.0-alpha.11")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_FROM", "legacy-1.34")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_OUTPUT", "json")
    document = invoke("plan", "-f", DUMP).json
    assert (document["from"], document["to"]) == ("legacy-1.34", "v0.1.0-alpha.11")
    assert invoke("plan", "-f", DUMP, "--to", "legacy-1.36").json["to"] == "legacy-1.36"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GROVE_MIGRATOR_PLAN_OUTPUT", "xml"),
        ("GROVE_MIGRATOR_LOG_FORMAT", "jsn"),
    ],
)
def test_a_wrong_value_names_its_variable(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """In a Job nobody would look for a flag that is not on the command line."""
    monkeypatch.setenv(variable, value)
    message = invoke("plan", "-f", DUMP, code=2).failure["message"]
    assert variable in message
    assert value in message


@pytest.mark.parametrize("typed", [("plan", "--nope"), ("nope",)])
def test_the_format_of_the_log_holds_for_flags_that_do_not_exist(
    typed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Whoever has chosen a format gets it for a mistyped command too."""
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "console")
    assert invoke(*typed, code=2).err.startswith("error: No such ")


def test_what_is_asked_for_once_has_no_variable(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """Left over in a shell, a variable for --revert would turn the next run into its opposite."""
    monkeypatch.setenv("GROVE_MIGRATOR_RUN_REVERT", "1")
    monkeypatch.setenv("GROVE_MIGRATOR_RUN_YES", "1")
    monkeypatch.setenv("GROVE_MIGRATOR_VERSION", "1.2.3")
    assert "Migrated 3 sets" in invoke("run", "-f", DUMP, "--write", "/dev/null", *TO).out


def test_the_next_command_repeats_the_flags_of_the_command_line_only(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """A variable holds for the command after a run too, which is printed without it."""
    monkeypatch.setenv("GROVE_MIGRATOR_CONTEXT", "prod")
    invoke.on(MemoryStore(*objects()))
    home = ("--operator", "grove-system/grove-operator")
    commands = invoke("run", *TO, *home, "-o", "json").json["next"]
    assert commands[-1] == f"grove-migrator verify --to {TO[1]} {' '.join(home)} --after-upgrade --wait 5m"


def test_the_version_is_printed(invoke: Invoke) -> None:
    """As Click prints it."""
    assert invoke("--version").out == f"grove-migrator, version {__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_clicks(
    shell: str, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The script asks our program by the variable that it answers to; a shell that is here takes the script."""
    monkeypatch.setenv("_GROVE_MIGRATOR_COMPLETE", f"{shell}_source")
    with pytest.raises(SystemExit):
        invoke()
    script = capsys.readouterr().out
    assert f"_GROVE_MIGRATOR_COMPLETE={shell}_complete" in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)
