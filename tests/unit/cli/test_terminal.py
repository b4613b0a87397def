"""A run in a real terminal: what it shows, asks and says at the end; and no text is wider than 80 columns."""

from __future__ import annotations

import re
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from migrator.errors import Forbidden, NotAuthorised, Unreachable
from migrator.kinds import DEPLOYMENTS, POD_CLIQUE_SETS, Resource
from migrator.planning.crds import TOPOLOGY_KINDS, application, removal
from migrator.run.record import Record
from migrator.words import WIDTH
from tests.support.command_line import DUMP, HOME, TO, Invoke, objects
from tests.support.kubeconfigs import kubeconfig, plugin
from tests.support.memory_site import NEW, OLD, Site
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table
from tests.support.terminal import QUESTION, Shown, Watched, show

RUN = ("run", "--to", NEW, "--stop-operator")
CLASH = "\nissue     GM-312 Two CRDs claim one short name.\n"
BEFORE = """\
cluster   https://lab.test (context lab)
operator  Deployment grove-system/grove-operator, 1 replica of
          example.test/grove-operator:v0.1.0-alpha.8.
steps     Stop the operator. It stays at zero replicas until you upgrade.
          Replace 61 hashes with 43 patches: under a minute at 100 a second.
          Pods keep running: grove-migrator does not delete or restart any pod.
          To undo this, run the same command with `--revert`.
"""
AFTER = f"""\
Migrated 3 sets with 43 patches.
operator  Deployment grove-system/grove-operator, 0 replicas of
          example.test/grove-operator:v0.1.0-alpha.8. Until an operator runs,
          Grove does not create, scale or replace pods. Do not start this
          release again: it recreates every pod that has a new hash.
next      {removal(TOPOLOGY_KINDS[0])}
          {application("v0.1.0-alpha.12-rc1")}
          helm upgrade my-grove "$CHART" -n grove-system --version v0.1.0-alpha.12-rc1 --reset-then-reuse-values
          grove-migrator verify --to {NEW} --after-upgrade --wait 5m
undo      grove-migrator run --to {NEW} --stop-operator --revert
"""


class Terminal:
    """Types commands at the example of Dynamo, in this process; what they show must fit."""

    def __init__(self, site: Site, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site, self._invoke, self._monkeypatch = site, invoke, monkeypatch
        monkeypatch.delenv("CI", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("NO_COLOR", "1")

    def type(self, *arguments: str, answer: str = "", code: int = 0) -> Shown:
        """Type a command, and the answer to its question."""
        screen = Watched()
        with self._monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", Watched(answer))
            patch.setattr(sys, "stderr", screen)
            data = self._invoke(*arguments, code=code).out
        shown = Shown(screen.getvalue(), data)
        assert too_long(shown.text) == []
        return shown


@pytest.fixture
def terminal(site: Site, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(site, invoke, monkeypatch)


def test_a_run_shows_where_and_what_and_asks() -> None:
    """In a real terminal: the plan, the cluster and the steps come first; a yes migrates, and then comes what is next.

    A run does not read what is in the way of the next CRDs, and cannot fail for it; it is shown all the same.
    """
    shown = show("tests.support.memory_site", *RUN, answer="y\n").text
    assert too_long(shown) == []
    assert "total: 3 sets " in shown.partition(BEFORE)[0]
    assert CLASH in shown.partition(BEFORE)[0]
    assert "Migrate? [y/N]: y" in shown
    assert shown.endswith(AFTER.rstrip())


@table(
    "answer said",
    ("A no.", ("n\n", "Cancelled. Nothing was changed.")),
    ("Silence.", ("\n", "Cancelled. Nothing was changed.")),
    ("Ctrl-D at the question.", ("", "interrupted before anything was written")),
)
def test_a_no_touches_nothing(terminal: Terminal, answer: str, said: str) -> None:
    """Whatever is not a yes leaves the cluster as it is."""
    shown = terminal.type(*RUN, answer=answer, code=1)
    assert shown.lines[-1].endswith(f"error: {said}")
    assert terminal.site.store.writes() == []
    assert terminal.site.replicas == 1


@pytest.mark.usefixtures("somebody")
def test_beside_a_record_of_nothing_written_nothing_is_said_of_sets(site: Site, invoke: Invoke) -> None:
    """A run was killed before its first write, of a source that was not certain: its revert only closes the record."""
    site.record(Record("run", "1", "auto", NEW, datetime(2026, 2, 1, tzinfo=UTC)))
    printed = invoke(*RUN, "--revert", "--yes")
    assert printed.err.startswith("cluster   https://lab.test")
    assert "no PodCliqueSet" not in printed.err + printed.out
    site.record(Record("run", "1", "auto", NEW, datetime(2026, 2, 1, tzinfo=UTC)))
    said = " ".join(invoke("plan").out.split())
    assert "78 GPUs. Run the next command, or add `--revert`." in said, "the operator runs, and may"


@pytest.mark.usefixtures("somebody")
def test_a_revert_says_that_it_starts_the_old_operator(site: Site, invoke: Invoke) -> None:
    """It starts what the run has stopped; a second revert has nothing to say of sets that are there."""
    invoke(*RUN, "--yes")
    first, second = (invoke(*RUN, "--revert", "--yes").err for _ in range(2))
    assert "\nsteps     Start the operator again when the revert ends.\n" in first
    assert "GM-312" not in first, "it is of the upgrade"
    assert site.replicas == 1
    assert "No PodCliqueSet" not in second
    assert "no PodCliqueSet" not in second


@pytest.mark.usefixtures("somebody")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_question_ends_the_run(
    number: signal.Signals, site: Site, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    """Later a first signal only asks a run to stop. At the question it is what it was before."""
    before, seen = signal.getsignal(number), []

    def answer(_: str) -> str:
        seen.append(signal.getsignal(number))
        raise KeyboardInterrupt

    monkeypatch.setattr(click.termui, "visible_prompt_func", answer)
    assert invoke(*RUN, code=1).last["code"] == "interrupted"
    assert seen == [before]
    assert site.store.writes() == []
    assert site.replicas == 1


@table(
    "error more code said",
    ("Nobody knows what an earlier run has left.", (Unreachable("HTTP 503"), (), 6, "keep the operator at zero")),
    ("A dry run leaves nothing.", (Unreachable("HTTP 503"), ("--dry-run",), 1, "HTTP 503")),
    ("Nothing was written without credentials.", (NotAuthorised("HTTP 401"), (), 1, "a run of yours")),
    ("Nor without permission, and whose is missing is said.", (Forbidden("HTTP 403"), (), 1, "migrator: HTTP 403. ")),
)
@pytest.mark.usefixtures("somebody")
def test_what_the_screen_cannot_read_is_not_known(
    error: Exception, more: tuple[str, ...], code: int, said: str, *, site: Site, invoke: Invoke
) -> None:
    """Before the question a failure to read ends as it does without one."""
    site.store.fail(error, times=99, verb="list")
    assert said in invoke(*RUN, *more, code=code).last["message"]
    assert site.store.writes() == []


def test_nothing_is_drawn_over_the_prompt_of_a_credential_plugin(tmp_path: Path) -> None:
    """It asks for a login on stderr before the first stage, and whoever types sees the question."""
    user = plugin(tmp_path / "plugin.py", "import sys, time; sys.stderr.write('code: '); time.sleep(0.3); sys.exit(1)")
    shown = show("migrator", "plan", "--kubeconfig", kubeconfig(tmp_path / "config", user=user))
    assert shown.raw.partition("error:")[0] == "code: "


def test_in_ci_nobody_is_asked(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run goes on, also in a terminal."""
    monkeypatch.setenv("CI", "true")
    assert QUESTION not in terminal.type(*RUN).text
    assert terminal.site.replicas == 0


@pytest.mark.usefixtures("site")
def test_without_a_terminal_nobody_is_asked(invoke: Invoke) -> None:
    """As in a Job: a run goes on, and its log is what it always was."""
    captured = invoke(*RUN)
    assert captured.out == AFTER
    logged = [event["event"] for event in captured.events]
    assert logged.count("patched") == 43
    assert logged[0] == "stage"
    assert logged[-1] == "summary"


@pytest.mark.parametrize("more", [(), ("--allow", "GM-102"), ("--dry-run",)], ids=" ".join)
def test_what_writes_nothing_is_shown_and_not_asked(more: tuple[str, ...], terminal: Terminal) -> None:
    """A live operator that nobody stops, or its dry run: there is nothing to say yes to, and what is next is last."""
    shown = terminal.type("run", "--to", NEW, *more, code=3)
    assert "refused   GM-122 An operator is running." in shown.text
    assert shown.text.count("GM-122") == 1, "it is told once"
    assert "Pod grove-system/grove-operator-x: belongs to the operator, which starts" in " ".join(shown.text.split())
    end = "" if "--dry-run" in more else ". Nothing is changed."
    assert shown.lines[-1] == f"error: The run is refused, as shown above{end}"
    assert shown.lines[-2] == f"next      {' '.join(['grove-migrator', *RUN[:-1], *more, RUN[-1]])}"
    assert QUESTION not in shown.text


@pytest.mark.usefixtures("site", "somebody")
def test_nothing_to_do_is_said_once(invoke: Invoke) -> None:
    """Whoever may be asked sees which cluster it was, and what is next."""
    invoke(*RUN, "--yes")
    printed = invoke(*RUN)
    assert printed.out.startswith(f"Nothing to do: no stored hash needs a change for {NEW}.\noperator  ")
    assert "Do not start this" in printed.out
    shown = [line for line in printed.err.splitlines() if not line.startswith("{")]
    assert shown == ["cluster   https://lab.test (context lab)"]


@pytest.mark.usefixtures("site")
def test_a_dry_run_of_a_revert_of_nothing_says_what_the_run_says(invoke: Invoke) -> None:
    """There are sets, and none has anything to revert."""
    said = "Nothing to revert: no stored hash comes from this migration.\n"
    assert invoke(*RUN, "--revert", "--dry-run").out == said


def test_a_revert_of_nothing_is_four_lines(terminal: Terminal) -> None:
    """All that a person reads: no table, no step and no log line."""
    assert terminal.type(*RUN, "--revert").lines == [
        "cluster   https://lab.test (context lab)",
        "Nothing to revert: no stored hash comes from this migration.",
        "operator  Deployment grove-system/grove-operator, 1 replica of",
        f"          example.test/grove-operator:{OLD}.",
    ]


@table(
    "revision kind codes",
    ("A set is refused too.", ({"currentRevision": "x-1"}, None, "GM-120, GM-122")),
    ("The operator has no Deployment.", ({}, DEPLOYMENTS, "GM-122")),
)
@pytest.mark.usefixtures("somebody")
def test_stop_operator_is_next_only_if_it_is_enough(
    revision: dict[str, str], kind: Resource | None, codes: str, site: Site, invoke: Invoke
) -> None:
    """Whoever types the next command is not refused again."""
    site.store.edit(POD_CLIQUE_SETS, "search", "embedder", lambda body: body["status"].update(revision))
    if kind is not None:
        site.store.drop(kind, "grove-system", "grove-operator")
    wanted = f"next      docs/guards.md has the causes and fixes of {codes}."
    assert wanted in invoke(*RUN[:-1], code=3).err


@pytest.mark.usefixtures("somebody")
def test_the_command_that_skips_refused_sets_has_all_flags_of_the_run(site: Site, invoke: Invoke) -> None:
    """Whoever pastes it is not refused for what was allowed."""
    site.store.edit(POD_CLIQUE_SETS, "search", "embedder", lambda body: body["status"].update(currentRevision="x-1"))
    command = f"`grove-migrator run --to {NEW} --allow GM-102 --stop-operator --skip-refused`"
    assert command in invoke(*RUN, "--allow", "GM-102", code=3).err


def test_a_revert_is_asked_in_its_own_words(upgraded: Site, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever undoes an upgrade reads nothing of the next one, nor that to undo this takes another command."""
    shown = Terminal(upgraded, invoke, monkeypatch).type(*RUN, "--revert", answer="n\n", code=1).text
    steps = "Stop the operator. It stays at zero replicas until the old operator is started again. Restore 61 hashes "
    assert steps in " ".join(shown.split())
    assert "To undo this" not in shown
    assert "\nRevert? [y/N]: " in shown


def test_a_dry_run_says_so_and_does_not_ask(terminal: Terminal) -> None:
    """Its plan is shown once, and behind it what was proved; the summary of the log says it too."""
    shown = terminal.type(*RUN, "--dry-run", "-v")
    assert shown.text.count("Without the migration") == 1
    assert CLASH in shown.text
    assert shown.text.count("steps") == 0
    assert "Dry run: The API server accepts all 43 patches" in shown.text
    assert "dry_run=True" in next(line for line in shown.lines if " summary " in line)
    assert QUESTION not in shown.text
    assert terminal.site.store.writes() == []


def test_yes_shows_and_does_not_ask(terminal: Terminal) -> None:
    """The same is shown, and the run goes on; patches are one line, which is drawn over with how many are sent."""
    shown = terminal.type(*RUN, "--yes")
    assert BEFORE in shown.text
    assert QUESTION not in shown.text
    assert "patching 43 of 43 \u2501\u2501" in shown.raw.replace("  ", " ").replace("\x1b[0m", "")
    assert "patched" not in shown.text
    assert shown.data == AFTER


def test_verbose_shows_each_patch(terminal: Terminal) -> None:
    """Each has its line, and so have the stages."""
    shown = terminal.type(*RUN, "--yes", "-v")
    assert sum(" patched " in line for line in shown.lines) == 43
    assert any(" stage " in line for line in shown.lines)


# --- 80 columns, unless a line is one thing that is copied whole; JSON and the log are data, and never wrapped --------


LOG = re.compile(r"\d\d:\d\d:\d\dZ \[")


def too_long(text: str) -> list[str]:
    """The lines that are too long, except log lines, commands, and lines of one word."""
    found = []
    for line in text.splitlines():
        words = re.sub(r"`[^`]*`\S*", "command", line.strip()).removeprefix("next").strip()
        copied = " " not in words or re.match(r"(grove-migrator|helm|kubectl|CRDS=\S+) ", words)
        if len(line) > WIDTH and not copied and not LOG.match(line):
            found.append(line)
    return found


@table(
    "arguments code",
    ("The first look.", (("plan", "-f", DUMP), 0)),
    ("A plan.", (("plan", "-f", DUMP, *TO), 0)),
    ("A target that is not known.", (("plan", "-f", DUMP, "--to", "v0.1.0-alpha.13"), 2)),
    ("A dry run.", (("run", *TO, *HOME, "--dry-run"), 0)),
    ("A failed verification.", (("verify", *TO), 7)),
    ("Releases.", (("releases",), 0)),
    ("Codes.", (("guards",), 0)),
    ("No file.", (("plan", "-f", "missing/" + "x" * 60, *TO), 2)),
    ("No program.", (("scheme", DUMP), 2)),
    ("Flags that contradict each other.", (("plan", "-f", DUMP, "--context", "x"), 2)),
    *(
        (f"{name} --help", ((*name.split(), "--help"), 0))
        for name in ("", "plan", "run", "verify", "hash", "scheme", "releases", "guards")
    ),
)
def test_a_text_in_a_pipe_fits(
    arguments: tuple[str | Path, ...], code: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command and every kind of error."""
    invoke.on(MemoryCluster(*objects()))
    monkeypatch.setenv("GROVE_MIGRATOR_LOG_FORMAT", "console")
    printed = invoke(*arguments, code=code)
    assert printed.out + printed.err
    assert too_long(printed.out + printed.err) == []


def test_refusals_fit(invoke: Invoke) -> None:
    """A foreign value on every pod, with names as long as Kubernetes permits; and the text of every code."""
    items = objects()
    for item in items:
        if item["kind"] == "Pod":
            item["metadata"]["labels"]["grove.io/pod-template-hash"] = "4445566677788899"
            item["metadata"]["name"] = (item["metadata"]["name"] + "-" + "x" * 200)[:200]
    invoke.on(MemoryCluster(*items))
    for arguments, code in ((("plan",), 0), (("verify",), 7), (("run", "--dry-run", *HOME), 3)):
        printed = invoke(*arguments, *TO, "--log-format", "console", code=code)
        assert too_long(printed.out + printed.err) == []
    codes = re.findall(r"GM-\d{3}", invoke("guards").out)
    assert too_long(invoke("guards", *codes).out) == []
