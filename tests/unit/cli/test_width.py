"""80 columns: no line of a text is longer, on a terminal and in a pipe, unless it is one thing that is copied whole.

Lines of JSON and of the log are data: they are never wrapped.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from migrator.render.text import WIDTH
from tests.support.command_line import DUMP, TO, Invoke, objects, written
from tests.support.memory_site import NEW
from tests.support.paths import ROOT
from tests.support.tables import table
from tests.support.terminal import show

SCHEME = ROOT / "examples" / "scheme.json"
LOG = re.compile(r"\d\d:\d\d:\d\d \[")


def too_long(text: str) -> list[str]:
    """The lines that are too long, except log lines, commands, and lines of one word."""
    found = []
    for line in text.splitlines():
        words = re.sub(r"`[^`]*`\S*", "command", line.strip()).removeprefix("next").strip()
        copied = " " not in words or re.match(r"(grove-migrator|helm|kubectl) ", words)
        if len(line) > WIDTH and not copied and not LOG.match(line):
            found.append(line)
    return found


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """The example with a foreign value on every pod, and with names as long as Kubernetes permits."""
    items = objects()
    for item in items:
        if item["kind"] == "Pod":
            item["metadata"]["labels"]["grove.io/pod-template-hash"] = "4445566677788899"
            item["metadata"]["name"] = (item["metadata"]["name"] + "-" + "x" * 200)[:200]
    return written(tmp_path / "refused.json", items)


def console(invoke: Invoke, *arguments: str | Path, code: int = 0) -> str:
    """What a command prints as text into pipes."""
    printed = invoke(*arguments, "--log-format", "console", code=code)
    return printed.out + printed.err


@table(
    "arguments code",
    ("The first look.", (("plan", "-f", DUMP), 0)),
    ("A plan.", (("plan", "-f", DUMP, *TO), 0)),
    ("A target that was not read.", (("plan", "-f", DUMP, "--to", "dynamo-1.5"), 0)),
    ("A dry run.", (("run", "-f", DUMP, *TO, "--dry-run"), 0)),
    ("A failed verification.", (("verify", "-f", DUMP, *TO), 7)),
    ("An operator's file.", (("scheme", SCHEME), 0)),
    ("Releases.", (("releases",), 0)),
    ("Codes.", (("guards",), 0)),
    ("No file.", (("plan", "-f", "missing/" + "x" * 60, *TO), 2)),
    ("No program.", (("scheme", DUMP), 2)),
    ("A target that nobody knows.", (("plan", "-f", DUMP, "--to", "v0.1.0-alpha.99"), 2)),
    ("Flags that contradict each other.", (("run", "-f", DUMP, *TO, "--dry-run=server"), 2)),
    *(
        (f"{name} --help", ((*name.split(), "--help"), 0))
        for name in ("", "plan", "run", "verify", "hash", "scheme", "releases", "guards")
    ),
)
def test_a_text_in_a_pipe_fits(arguments: tuple[str | Path, ...], code: int, invoke: Invoke) -> None:
    """Every command and every kind of error."""
    log = () if "--help" in arguments else ("--log-format", "console")
    printed = invoke(*arguments, *log, code=code)
    assert printed.out + printed.err
    assert too_long(printed.out + printed.err) == []


def test_refusals_fit(refused: Path, invoke: Invoke) -> None:
    """Whatever the names, and the text of every code too."""
    for arguments, code in ((("plan",), 0), (("verify",), 7), (("run", "--dry-run"), 3)):
        assert too_long(console(invoke, *arguments, "-f", refused, *TO, code=code)) == []
    codes = re.findall(r"GM-\d{3}", invoke("guards").out)
    assert too_long(invoke("guards", *codes).out) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--to", NEW),
        ("run", "--to", NEW),
        ("run", "--to", NEW, "--stop-operator", "--yes"),
        ("run",),
    ],
)
def test_a_text_on_a_terminal_fits(arguments: tuple[str, ...]) -> None:
    """The first look, a plan, a refusal, a run and an error on a cluster, on a terminal of 80 columns."""
    shown = show("tests.support.memory_site", arguments)
    assert shown.lines
    assert too_long(shown.text) == []
