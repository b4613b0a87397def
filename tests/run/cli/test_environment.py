"""Flags from the environment, and the small commands: version, completion."""

from __future__ import annotations

import json
import shutil
import subprocess

import click
import pytest

from migrator import __version__, cli
from migrator.cli.options import variables
from tests.support.paths import ROOT

DUMP = str(ROOT / "examples" / "cluster.yaml")
TO = ("--to", "v0.1.0-alpha.11")


def test_a_flag_can_be_a_variable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The target for every command, the format for one; a flag on the command line wins."""
    monkeypatch.setenv("GROVE_MIGRATOR_TO", "v0.1.0-alpha.11")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_OUTPUT", "json")
    assert cli.invoke(["plan", "-f", DUMP]) == 0
    assert json.loads(capsys.readouterr().out)["to"] == "v0.1.0-alpha.11"
    assert cli.invoke(["plan", "-f", DUMP, "--to", "legacy-1.36"]) == 0
    assert json.loads(capsys.readouterr().out)["to"] == "legacy-1.36"
    assert cli.invoke(["verify", "-f", DUMP]) == 7
    assert capsys.readouterr().out.startswith("problem: ")


def test_the_commands_own_variable_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """GROVE_MIGRATOR_PLAN_TO is for plan, whatever GROVE_MIGRATOR_TO says."""
    monkeypatch.setenv("GROVE_MIGRATOR_TO", "v0.1.0-alpha.9")
    monkeypatch.setenv("GROVE_MIGRATOR_PLAN_TO", "v0.1.0-alpha.11")
    assert cli.invoke(["plan", "-f", DUMP, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["to"] == "v0.1.0-alpha.11"


def test_a_cluster_in_the_environment_does_not_contradict_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose environment names a context can still read a dump."""
    monkeypatch.setenv("GROVE_MIGRATOR_CONTEXT", "prod")
    assert cli.invoke(["plan", "-f", DUMP, *TO]) == 0


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped value in the environment is a usage error like any other."""
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "jsn")
    assert cli.invoke(["version"]) == 2
    assert "Did you mean json?" in capsys.readouterr().err


def test_what_is_asked_for_once_has_no_variable() -> None:
    """Left over in a shell, these would turn the next run into its opposite; others are never for every command."""
    of_run = {next(o for o in p.opts if o.startswith("--")): p for p in cli.cli.commands["run"].params}
    found = {flag: variables("run", p) for flag, p in of_run.items() if isinstance(p, click.Option)}
    assert found["--revert"] == []
    assert found["--yes"] == ["GROVE_MIGRATOR_RUN_YES"]
    assert found["--lease-name"] == ["GROVE_MIGRATOR_RUN_LEASE_NAME", "GROVE_MIGRATOR_LEASE_NAME"]
    assert all(option.envvar == found[flag] for flag, option in of_run.items() if isinstance(option, click.Option))


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """As a line, as JSON, and as `--version` has it."""
    assert cli.invoke(["version"]) == 0
    assert capsys.readouterr().out.startswith(f"grove-migrator {__version__} (Python 3.")
    assert cli.invoke(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == __version__


@pytest.mark.parametrize(
    ("shell", "marks"),
    [
        ("bash", ["_GROVE_MIGRATOR_COMPLETE=bash_complete", "complete -o nosort -F"]),
        ("zsh", ["#compdef grove-migrator", "_GROVE_MIGRATOR_COMPLETE=zsh_complete"]),
        ("fish", ["_GROVE_MIGRATOR_COMPLETE=fish_complete"]),
        ("kubectl", ["COMP_CWORD=$#", "echo :4"]),
    ],
)
def test_completion_prints_what_the_shell_reads(
    shell: str, marks: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The script asks our program by the variable that it answers to; a shell that is here takes the script."""
    assert cli.invoke(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(mark in script for mark in marks), script
    program = shutil.which("sh" if shell == "kubectl" else shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)
