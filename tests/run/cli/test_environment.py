"""Flags from the environment, and the small commands: version, completion."""

from __future__ import annotations

import shutil
import subprocess

import click
import pytest

from migrator import __version__, cli
from migrator.cli.options import variables
from tests.support.command_line import DUMP, TO, Invoke, objects
from tests.support.memory_store import MemoryStore


def test_a_flag_can_be_a_variable(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """The target for every command, the format for one; a flag on the command line wins."""
    monkeypatch.setenv("GROVE_MIGRATOR_TO", "v0.1.0-alpha.11")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_OUTPUT", "json")
    assert invoke("plan", "-f", DUMP).json["to"] == "v0.1.0-alpha.11"
    assert invoke("plan", "-f", DUMP, "--to", "legacy-1.36").json["to"] == "legacy-1.36"
    assert invoke("verify", "-f", DUMP, code=7).out.startswith("problem: ")


def test_the_next_command_repeats_the_flags_of_the_command_line_only(
    monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """A variable holds for the command after a run too, which is printed without it."""
    monkeypatch.setenv("GROVE_MIGRATOR_OPERATOR_NAMESPACE", "grove-system")
    invoke.on(MemoryStore(*objects()))
    commands = invoke("run", *TO, "-o", "json").json["next"]
    assert commands[-1] == f"grove-migrator verify --to {TO[1]} --after-upgrade --settle 5m"


def test_the_commands_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """GROVE_MIGRATOR_PLAN_TO is for plan, whatever GROVE_MIGRATOR_TO says; a context there contradicts no file."""
    monkeypatch.setenv("GROVE_MIGRATOR_CONTEXT", "prod")
    monkeypatch.setenv("GROVE_MIGRATOR_TO", "v0.1.0-alpha.9")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_TO", "v0.1.0-alpha.11")
    assert invoke("plan", "-f", DUMP, "-o", "json").json["to"] == "v0.1.0-alpha.11"


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """A mistyped value in the environment is a usage error like any other."""
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "jsn")
    assert "Did you mean json?" in invoke("version", code=2).err


def test_what_is_asked_for_once_has_no_variable() -> None:
    """Left over in a shell, these would turn the next run into its opposite; others are never for every command."""
    of_run = {next(o for o in p.opts if o.startswith("--")): p for p in cli.cli.commands["run"].params}
    found = {flag: variables("run", p) for flag, p in of_run.items() if isinstance(p, click.Option)}
    assert found["--revert"] == []
    assert found["--yes"] == ["GROVE_MIGRATOR_RUN_YES"]
    assert found["--lease-name"] == ["GROVE_MIGRATOR_RUN_LEASE_NAME", "GROVE_MIGRATOR_LEASE_NAME"]
    assert all(option.envvar == found[flag] for flag, option in of_run.items() if isinstance(option, click.Option))


def test_the_version_is_printed(invoke: Invoke) -> None:
    """As a line, as JSON, and as `--version` has it."""
    assert invoke("version").out.startswith(f"grove-migrator {__version__} (Python 3.")
    assert invoke("version", "-o", "json").json["version"] == __version__


@pytest.mark.parametrize(
    ("shell", "marks"),
    [
        ("bash", ["_GROVE_MIGRATOR_COMPLETE=bash_complete", "complete -o nosort -F"]),
        ("zsh", ["#compdef grove-migrator", "_GROVE_MIGRATOR_COMPLETE=zsh_complete"]),
        ("fish", ["_GROVE_MIGRATOR_COMPLETE=fish_complete"]),
        ("kubectl", ["COMP_CWORD=$#", "echo :4"]),
    ],
)
def test_completion_prints_what_the_shell_reads(shell: str, marks: list[str], invoke: Invoke) -> None:
    """The script asks our program by the variable that it answers to; a shell that is here takes the script."""
    script = invoke("completion", shell).out
    assert all(mark in script for mark in marks), script
    program = shutil.which("sh" if shell == "kubectl" else shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)
