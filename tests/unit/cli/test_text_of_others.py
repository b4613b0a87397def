"""Text of others in our sentences: what a cluster, a record or a file holds is neither a command nor a control code."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from migrator.run.context import RunOptions
from migrator.run.operator import Operator
from migrator.run.record import Record, State
from migrator.run.seen import unplanned
from testbed import operator_installation as installation
from tests.support.builders import options_of
from tests.support.command_line import TO, Invoke, objects, written
from tests.support.memory_site import NEW, OLD, Site

EVIL = "grove'; touch $(id) `id` #"
#: What clears the screen, rings, starts a sequence in eight bits, or reads backwards.
BAD = ("\x1b", "\r", "\x07", "\x9b", "\x7f", "\x85", "\u202e")
CODES = "x\x1b[2J\n\r\x07\x9b\x7f\x85\u202e"


def installed(site: Site, image: str, replicas: int, name: str = EVIL) -> None:
    """Install an operator by a Helm release of that name."""
    deployment = installation.deployment(image, replicas=replicas, observed=True)
    deployment["metadata"]["annotations"] = {f"meta.helm.sh/release-{part}": name for part in ("name", "namespace")}
    site.store.put(deployment)


@pytest.fixture
def site(invoke: Invoke) -> Site:
    """The example, whose operator's Helm release has a name that Helm would not accept."""
    found = Site()
    installed(found, installation.image(OLD), 1)
    invoke.on(found.store)
    return found


def words_of(line: str, command: str) -> list[str]:
    return shlex.split(line[line.index(command) :])


def test_the_upgrade_that_is_printed_runs_nothing_else(site: Site, invoke: Invoke) -> None:
    """The release's name and namespace are annotations, which anybody with a role for Deployments can set."""
    lines = json.loads(invoke("run", *TO, "--stop-operator", "-o", "json").out)["next"]
    assert site.replicas == 0
    words = next(words_of(line, "helm upgrade") for line in lines if "helm upgrade" in line)
    assert words[2] == EVIL
    assert words[5] == EVIL


def test_the_rollback_that_is_printed_runs_nothing_else(site: Site, invoke: Invoke) -> None:
    """The same after a revert."""
    invoke("run", *TO, "--stop-operator")
    installed(site, installation.image(NEW), 0)
    look, go = json.loads(invoke("run", *TO, "--stop-operator", "--revert", "-o", "json").out)["next"]
    assert words_of(look, "helm history")[2:5] == [EVIL, "-n", EVIL]
    assert words_of(go, "helm rollback")[2:6] == [EVIL, "$REVISION", "-n", EVIL]


def test_the_command_that_starts_an_operator_runs_nothing_else() -> None:
    """A Deployment's name is checked by the API server alone."""
    found = Operator(EVIL, EVIL, 0, "image", (), None)
    assert shlex.split(found.start_command)[2:5] == [f"deployment/{EVIL}", "-n", EVIL]


def test_the_flags_of_a_record_are_words_of_the_shell() -> None:
    """Whoever may write the record chooses its target."""
    started = datetime(2026, 1, 1, tzinfo=UTC)
    run = Record("id", "1.0", "auto", EVIL, started, State.WRITING)
    seen = replace(unplanned(RunOptions(options_of(target="legacy-1.35"))), record=run)
    (remedy,) = (finding.remedy for finding in seen.findings() if finding.code == "GM-205")
    assert words_of(remedy.replace("`, or", " , or", 1), "run --to")[2] == EVIL


def test_no_control_code_of_a_cluster_is_printed(site: Site, invoke: Invoke) -> None:
    """The API server accepts them in the name of an image."""
    installed(site, CODES, 1, name=CODES)
    verify = ("verify", *TO, "--after-upgrade", "--log-format", "console")
    commands = (("plan",), ("plan", *TO), ("run", *TO, "--stop-operator", "--log-format", "console"), verify)
    said = ""
    for command in commands:
        printed = invoke(*command, code=(0, 7))
        said += printed.out + printed.err
    assert "x\\x1b[2J" in said
    assert not [code for code in BAD if code in said]


@pytest.mark.parametrize("target", [TO, ()], ids=["plan", "first look"])
@pytest.mark.parametrize("form", ["table", "json", "html"])
def test_no_control_code_of_a_dump_is_printed(
    form: str, target: tuple[str, ...], tmp_path: Path, invoke: Invoke
) -> None:
    """Names, labels, hashes and images of every object, as a table, as data and as a page."""

    def marked(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: marked(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [marked(item, key) for item in value]
        return f"{value}{CODES}" if key in {"name", "currentGenerationHash"} else value

    path = written(tmp_path / "dump.json", [{**item, "metadata": marked(item["metadata"])} for item in objects()])
    printed = invoke("plan", "-f", path, *target, "-o", form, code=2 if form == "html" and not target else 0)
    said = printed.out + printed.err
    assert said
    obeyed = BAD[:-1] if form == "json" else BAD  # a JSON string may have any letter
    assert not [code for code in obeyed if code in said]
