"""The command line as a whole: help, errors, exit codes, variables. Commands have tests of their own."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import click
import pytest
from click.shell_completion import ShellComplete

from migrator import cli
from migrator.cli import connect
from migrator.cli.flags import seconds
from migrator.cli.progress import Progress
from migrator.cli.stdout import as_json
from migrator.errors import EXIT_CODES, HALF_WAY, MAY_DIFFER, Forbidden, HalfWay
from migrator.releases.table import releases
from tests.support.command_line import DUMP, TO, Invoke
from tests.support.memory_site import NEW
from tests.support.memory_store import MemoryCluster
from tests.support.paths import ROOT
from tests.support.tables import table


def test_what_must_be_quick_imports_little() -> None:
    """Help and releases neither the Kubernetes client nor structlog, rich or YAML; the plan of a dump no client."""
    heavy = "{'kubernetes', 'structlog', 'rich', 'yaml', 'jsonpatch'}"
    code = (
        "import sys\nfrom migrator.cli import invoke\n"
        "codes = [invoke(typed.split()) for typed in ('--help', 'run --help', 'plan -h', 'releases')]\n"
        f"print(codes, {heavy} & set(sys.modules), file=sys.stderr)\n"
        f"print(invoke({['plan', '-f', str(DUMP)]}), 'kubernetes' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stderr == "[0, 0, 0, 0] set()\n0 False\n"


def test_the_help_says_what_each_exit_code_says(invoke: Invoke) -> None:
    """The sentences of errors.py, each behind its number."""
    said = " ".join(invoke("--help").out.partition("Exit codes:")[2].split())
    assert said == " ".join(f"{code} {text}" for code, text in EXIT_CODES.items())


def test_the_table_of_exit_codes_gives_the_advice_of_the_error() -> None:
    """upgrade.md has a row for each code, and for 6 the very words of the error."""
    rows = re.findall(r"(?m)^\| (\d+) \|.*\| (.*) \|$", (ROOT / "docs" / "upgrade.md").read_text(encoding="utf-8"))
    assert [int(code) for code, _ in rows] == list(EXIT_CODES)
    assert f"{MAY_DIFFER} {dict(rows)['6']}" == HALF_WAY


def test_every_command_has_help_for_every_option_and_examples() -> None:
    """No flag is left unexplained, and every command shows how it is used."""
    for command in cli.cli.commands.values():
        assert command.help
        assert "Examples:" in (command.epilog or ""), command.name
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name} {parameter.opts}"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["run"], "usage", "--to"),
        (["verify"], "usage", "--to is missing: name the release that you upgrade to, or give its program"),
        (["verify", "--to", "legacy-1.35", "--wait", "soon"], "usage", "'soon' is not a duration"),
        ([], "usage", "A command is missing"),
        (["plna"], "usage", "Did you mean 'plan'?"),
        (["version"], "usage", "No such command 'version'. Run `grove-migrator --version`."),
        (["plan", "--targte", "x"], "usage", "'--targte'. See `grove-migrator plan --help`."),
        (["plan", "--to", "x" * 5000], "unknown-scheme", f"'{'x' * 60}' is not a known release or scheme."),
        (["plan", "-o", "jsn"], "usage", "'jsn' is not one of 'table', 'json'"),
        (["run", "--to", "legacy-1.35", "--timeout", "99999h"], "usage", "'99999h' is longer than 24h."),
        (["run", "--to", "legacy-1.35", "--allow", "GM-2O1"], "usage", "no guard has this code or name. Run `grove-"),
        (["hash"], "usage", "Missing option '-f' / '--filename'. See `grove-migrator hash --help`."),
        (["guards", ""], "usage", "The value is empty: give one, or leave it out."),
        (["guards", "GM-1011"], "usage", "Unknown code GM-1011. Run `grove-migrator guards` to list all codes."),
        (["plan", "-f", "x.yaml", "--context", "prod"], "usage", "--context names a cluster"),
        (["run", "--to", "legacy-1.35", "--operator", "grove-system"], "usage", "give the operator's namespace"),
        (["scheme", ""], "usage", "'PROGRAM': The value is empty"),
        (["plan", "-f", "x.yaml", "--to", "legacy-1.35", "--group-by", "a"], "usage", "--group-by goes with -o html"),
        (["plan", "-f", "x.yaml", "-o", "html"], "usage", "html needs a target: give --to or --to-binary"),
        (["plan", "--to", "alpha.9", "--to=alpha.11"], "usage", "--to is given more than once: give it once"),
        (["plan", "-f", "x.yaml", "--detailed-exitcode"], "usage", "needs a target: give --to"),  # of which?
        (["plan", "-f", "x.yaml", "--to", ""], "usage", "'--to': The value is empty"),  # an unset variable
        (["plan", "dump.yaml"], "usage", "(dump.yaml). See `grove-migrator plan --help`."),
    ],
)
def test_wrong_usage_is_one_json_object_and_exit_2(args: list[str], code: str, said: str, invoke: Invoke) -> None:
    """Off a terminal even a mistyped flag is an error object, and nothing is asked of a cluster."""
    event = invoke(*args, code=2).failure
    assert event["level"] == "error"
    assert event["code"] == code
    assert event["exit_code"] == 2
    assert said in event["message"]
    assert "\n" not in event["message"]


@pytest.mark.parametrize(("command", "flag"), [("run", "--to"), ("verify", "--to"), ("plan", "--from")])
def test_a_shell_completes_releases_and_schemes(command: str, flag: str) -> None:
    """The newest release comes first, as most people go there."""
    typed = ShellComplete(cli.cli, {}, "grove-migrator", "").get_completions
    newest = [release.name for release in releases() if release.name.startswith("v0.1.0-alpha.1")][-1]
    assert next(one.value for one in typed([command, flag], "v0.1.0-alpha.1")) == newest
    assert [one.value for one in typed([command, flag], "legacy-1.35")] == ["legacy-1.35"]


def test_the_plugin_calls_itself_by_its_kubectl_name(invoke: Invoke) -> None:
    """As kubectl-grove_migrate the usage line is what a person types: kubectl grove-migrate."""
    printed = invoke("plan", "--help", program="kubectl-grove_migrate")
    assert printed.out.startswith("Usage: kubectl grove-migrate plan ")


def failing(error: BaseException) -> Callable[..., None]:

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@table(
    "error code reason said",
    ("Every MigratorError decides its exit code and its reason.", (HalfWay("of five sets"), 6, "half-way", "of five")),
    ("One that names none has those of its parent.", (Forbidden("no right"), 1, "not-authorised", "no right")),
    (
        "An unexpected exception is exit 1 with its place, but without its text, which may quote a template.",
        (KeyError("s3cret"), 1, "bug", "KeyError at test_cli.py:"),
    ),
    ("Ctrl-C while reading is one sentence.", (KeyboardInterrupt(), 1, "interrupted", "interrupted")),
)
def test_an_error_is_one_object_and_its_exit_code(
    error: BaseException, code: int, reason: str, said: str, *, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong, stderr has one object, and no traceback and no value of a template."""
    monkeypatch.setattr(connect, "connect", failing(error))
    event = invoke("plan", code=code).failure
    assert event["code"] == reason
    assert event["exit_code"] == code
    assert said in event["message"]
    assert "s3cret" not in event["message"]


@pytest.mark.parametrize("place", ["migrator.cli.progress.Bars.stop", "migrator.cli.log.write_failure"])
def test_ctrl_c_after_a_run_that_is_half_way_is_still_6(
    place: str, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """While the error is on its way to the terminal nothing is less half-way: 1 would say that nothing has changed."""

    def pressed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("migrator.run.migration.run", failing(HalfWay("half-way")))
    invoke.on(MemoryCluster())
    monkeypatch.setattr(place, pressed)
    said = invoke("run", *TO, code=6).err
    assert ("half-way" in said) is place.endswith("stop")


def test_what_is_too_deep_to_be_walked_is_wrong_input(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the file, so it is no bug."""
    monkeypatch.setattr("migrator.run.preview.preview", failing(RecursionError()))
    assert "nested too deeply" in invoke("plan", "-f", DUMP, *TO, code=2).failure["message"]


def test_verbose_shows_the_traceback_of_a_bug(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """With -v the traceback of an unexpected error is printed."""
    monkeypatch.setattr(connect, "connect", failing(KeyError("key")))
    assert "Traceback" in invoke("plan", "-v", code=1).err


@pytest.fixture
def left() -> Iterator[TextIO]:
    """A pipe whose reader has left."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        yield pipe


def test_a_reader_that_leaves_is_no_traceback(left: TextIO) -> None:
    """`releases | head -1` ends silently."""
    typed = [sys.executable, "-m", "migrator", "releases"]
    done = subprocess.run(typed, cwd=ROOT, check=False, stdout=left, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.usefixtures("site")
def test_a_migration_that_is_done_is_done(left: TextIO, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if nobody reads its last line."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", left)
        assert invoke("run", "--to", NEW, "--stop-operator").last["event"] == "summary"


@table(
    "terminal arrow",
    ("A page that is written to a file is UTF-8.", (False, "→")),
    ("A terminal shows a question mark for what it lacks.", (True, "?")),
)
def test_an_ascii_locale_ends_no_command(
    arrow: str, *, terminal: bool, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page has an arrow in it."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    invoke("plan", "-f", DUMP, *TO, "-o", "html")
    assert f"legacy-1.34 {arrow} legacy-1.35".encode() in stream.buffer.getvalue()


def test_a_text_in_json_stays_readable() -> None:
    """Letters outside ASCII are not escaped, as in what kubectl prints."""
    assert as_json({"context": "grün"}, indent=None) == '{"context": "grün"}\n'


def test_durations_are_those_of_kubectl() -> None:
    """Kubectl's durations are Go durations and plain seconds; what Go refuses or runs backwards is refused."""
    values = {"0": 0.0, "15": 15.0, "1.5": 1.5, "15s": 15.0, "1m": 60.0, "1m30s": 90.0, "500ms": 0.5, "2h": 7200.0}
    values |= {"+5m": 300.0, ".5h": 1800.0, "1.h": 3600.0, "-0": 0.0}
    assert {text: seconds(text) for text in values} == values
    for text in ("", "soon", "-1s", "-1", "1 minute", "1e3", "s", "٣", "٣s", "1d", "1h x 5m", "24h1s"):
        with pytest.raises(click.BadParameter):
            seconds(text)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_a_run_to_stop_and_a_second_one_ends_it(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first sets the stop event; a closed terminal sends two. Afterwards the handler of before is back."""
    before, stop = signal.getsignal(number), threading.Event()
    received = []
    signal.signal(number, lambda *_: received.append("default"))
    try:
        with connect.stop_on(stop, number):
            os.kill(os.getpid(), number)
            assert stop.wait(5)
            assert received == []
            assert ("Ctrl-C" in capsys.readouterr().err) is (number == signal.SIGINT), "for somebody who pressed it"
            os.kill(os.getpid(), number)
            assert received == ([] if number == signal.SIGHUP else ["default"])
        received.clear()
        os.kill(os.getpid(), number)
        assert received == ["default"]
    finally:
        signal.signal(number, before)


def test_a_run_under_nohup_survives_its_terminal() -> None:
    """A SIGHUP that was ignored when the process began stays ignored."""
    before, stop = signal.signal(signal.SIGHUP, signal.SIG_IGN), threading.Event()
    try:
        with connect.stop_on(stop, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_every_process_has_an_identity_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two runs on one machine are told apart; the pod's namespace is read where Kubernetes puts it."""
    monkeypatch.setattr(connect, "_OWN_NAMESPACE", tmp_path / "namespace")
    first = connect.context(Progress(sys.stderr))
    (tmp_path / "namespace").write_text("grove-system\n")
    second = connect.context(Progress(sys.stderr))
    assert first.identity != second.identity
    assert first.namespace is None
    assert second.namespace == "grove-system"


def test_a_stop_ends_a_sleep_and_not_a_rest() -> None:
    """SIGTERM need not wait for a sleep; a write in doubt may still land, and is waited for all the same."""
    context = connect.context(Progress(sys.stderr))
    context.stop.set()
    started = time.monotonic()
    context.sleep(60.0)
    context.rest(0.05)
    assert time.monotonic() - started >= 0.05


# --- the environment, and what Click brings ---------------------------------------------------------------------------


def test_a_wrong_value_names_its_variable(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """In a Job nobody would look for a flag that is not on the command line."""
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "jsn")
    message = invoke("plan", "-f", DUMP, code=2).failure["message"]
    assert message.endswith("(from GROVE_MIGRATOR_LOG_FORMAT)")


@pytest.mark.parametrize("typed", [("plan", "--nope"), ("nope",)])
def test_the_format_of_the_log_holds_for_flags_that_do_not_exist(
    typed: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Whoever has chosen a format gets it for a mistyped command too."""
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "console")
    assert invoke(*typed, code=2).err.startswith("error: No such ")


def test_flags_have_no_variables(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """Left over in a shell, one would change what a command does that nobody has typed so."""
    expected = invoke("plan", "-f", DUMP).out
    for name in ("PLAN_TO", "PLAN_OUTPUT", "CONTEXT", "KUBECONFIG", "PLAN_DETAILED_EXITCODE"):
        monkeypatch.setenv(f"GROVE_MIGRATOR_{name}", "json")
    assert invoke("plan", "-f", DUMP).out == expected
