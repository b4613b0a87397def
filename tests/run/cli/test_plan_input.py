"""What ``plan`` is given: several files, none that is meant, a part of one; and what it prints."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import cli
from migrator.cli import wiring
from migrator.cli.guards import sections
from migrator.planning.advisories import HAZARDS
from migrator.planning.guards import CATALOGUE
from migrator.render.summary import CSV_COLUMNS
from migrator.resources import POD_CLIQUE_SETS
from testbed import operator_installation as installation
from testbed.trees import as_list
from tests.support.memory_store import MemoryStore
from tests.support.paths import ROOT

DUMP = ROOT / "examples" / "cluster.yaml"
TO = ["--to", "v0.1.0-alpha.11"]


def objects() -> list[dict[str, Any]]:
    """The example's objects."""
    found: list[dict[str, Any]] = yaml.safe_load(DUMP.read_text(encoding="utf-8"))["items"]
    return found


def failure(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The error object on stderr; stdout is empty."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (event,) = (event for line in captured.err.splitlines() if (event := json.loads(line)).get("event") == "failed")
    found: dict[str, Any] = event
    return found


def document(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """What ``plan -o json`` prints."""
    assert cli.invoke(["plan", *args, "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_several_files_are_read_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One file for each kind is one dump; the last one does not win."""
    flags = []
    for kind in sorted({item["kind"] for item in objects()}):
        path = tmp_path / f"{kind}.json"
        path.write_text(json.dumps(as_list([item for item in objects() if item["kind"] == kind])))
        flags += ["-f", str(path)]
    together = document(capsys, *flags, *TO)
    assert together["summary"] == document(capsys, "-f", str(DUMP), *TO)["summary"]
    assert cli.invoke(["plan", "-f", str(DUMP), "-f", str(DUMP), *TO]) == 2
    assert "is in it twice" in failure(capsys)["message"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (as_list([]), "dump.json has no PodCliqueSet and no other object"),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}, "but 1 Deployment;"),
        (
            as_list([{"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"s{n}"}} for n in range(2)]),
            "but 2 Services;",
        ),
        ({**as_list(objects()), "metadata": {"continue": "abc"}}, "is one page of a longer list (40 objects"),
    ],
)
def test_input_that_is_not_what_was_meant_is_exit_2(
    body: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file without a set, or with a part of a list, is named for what it is, and the command to dump with."""
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(body))
    for command in (["plan", *TO], ["plan"], ["run", "--dry-run=client", *TO], ["verify", *TO]):
        assert cli.invoke([*command, "-f", str(path)]) == 2
        message = failure(capsys)["message"]
        assert said in message
        assert "dump again" in message or "kubectl api-resources" in message


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[[MemoryStore], None]:
    """Lets the command line find a cluster."""
    return lambda store: monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: store.in_dry_run(dry_run))


def test_an_api_server_without_grove_is_not_an_all_clear(
    cluster: Callable[[MemoryStore], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the CRDs it is the wrong cluster, or too early: 2; with them and without sets there is nothing to do."""
    cluster(MemoryStore(without=[POD_CLIQUE_SETS]))
    assert cli.invoke(["plan", *TO]) == 2
    assert "does not know podcliquesets.grove.io" in failure(capsys)["message"]
    cluster(MemoryStore())
    assert cli.invoke(["plan", *TO]) == 0
    assert cli.invoke(["plan"]) == 0
    assert capsys.readouterr().out.count("nothing to do: no PodCliqueSets") == 2


def test_without_a_target_every_scheme_gets_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has what a plan has for each target; the table has one line each and names no build that nobody runs."""
    found = document(capsys, "-f", str(DUMP))
    assert [target["scheme"] for target in found["targets"]] == ["legacy-1.33", "legacy-1.34", "legacy-1.35"]
    assert [target["summary"]["podsRecreatedWithoutMigration"] for target in found["targets"]] == [25, 0, 25]
    assert list(found) == ["from", "targets", "cluster", "time", "version"]
    keys = ["scheme", "releases", "running", "summary", "refusals", "warnings", "advisories"]
    assert {tuple(target) for target in found["targets"]} == {tuple(keys)}
    assert cli.invoke(["plan", "-f", str(DUMP)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[2].split()[:2] == ["TARGET", "RELEASES"]
    assert "canonical" not in text


def test_an_exit_code_is_about_one_target(capsys: pytest.CaptureFixture[str]) -> None:
    """Changes that are pending to one release are not pending to another, so --detailed-exitcode needs --to."""
    assert cli.invoke(["plan", "-f", str(DUMP), "--detailed-exitcode"]) == 2
    assert "needs a target: give --to" in failure(capsys)["message"]


def test_an_empty_target_is_not_a_target(capsys: pytest.CaptureFixture[str]) -> None:
    """--to "$RELEASE" with an unset variable names no release: it is an error, not a plan for another one."""
    assert cli.invoke(["plan", "-f", str(DUMP), "--detailed-exitcode", "--to", ""]) == 2
    assert failure(capsys)["code"] == "unknown-scheme"


def test_without_a_target_the_page_has_a_row_for_each_scheme(
    cluster: Callable[[MemoryStore], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What the table says, with names escaped; a cluster without sets says so."""
    items = objects()
    pcs = next(item for item in items if item["kind"] == "PodCliqueSet")
    pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": "enabled"}
    cluster(MemoryStore(*items, *installed("v0.1.0-alpha.8")))
    assert cli.invoke(["plan", "-o", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert page.count("<tr><td>") == 3
    assert "legacy-1.34, the operator that runs now" in page
    assert page.count('>25</td><td data-is="GPUs" class="figure">134</td>') == 2
    assert "Automatic MNNVL ends" in page
    cluster(MemoryStore())
    assert cli.invoke(["plan", "-o", "html"]) == 0
    assert "Nothing to do: no PodCliqueSets" in capsys.readouterr().out


def installed(release: str, *, replicas: int = 1) -> list[dict[str, Any]]:
    """An operator's Deployment."""
    return [installation.deployment(installation.image(release), replicas=replicas, observed=True)]


def test_the_running_operators_row_is_marked(
    cluster: Callable[[MemoryStore], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """On a cluster the image of the operator says what runs."""
    cluster(MemoryStore(*objects(), *installed("v0.1.0-alpha.9")))
    found = document(capsys)
    assert [target["running"] for target in found["targets"]] == [False, True, False]
    assert cli.invoke(["plan"]) == 0
    assert "legacy-1.34 *" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run=client", "--stop-operator", "--lease-name=x"]])
def test_who_comes_from_where_is_read_off_the_operator_that_runs(
    command: list[str], cluster: Callable[[MemoryStore], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its release decides which hazards concern the upgrade; an operator that is stopped decides nothing."""
    items = objects()
    pcs = next(item for item in items if item["kind"] == "PodCliqueSet")
    pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": "enabled"}

    def hazards(release: str, replicas: int) -> list[str]:
        cluster(MemoryStore(*items, *installed(release, replicas=replicas)))
        assert cli.invoke([*command, *TO, "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        return [advice["message"] for advice in found.get("plan", found)["advisories"]]

    assert hazards("v0.1.0-alpha.9", 1) == []
    (sure,) = hazards("v0.1.0-alpha.8", 1)
    assert "if you come from" not in sure
    (open_,) = hazards("v0.1.0-alpha.11", 0)
    assert "if you come from v0.1.0-alpha.8 or older" in open_


def test_an_unread_release_is_exit_0_with_its_hazards(capsys: pytest.CaptureFixture[str]) -> None:
    """Its hashes are not guessed: no summary and no sets, one warning; a run is refused with the way out."""
    found = document(capsys, "-f", str(DUMP), "--to", "v0.1.0-alpha.13")
    assert (found["summary"], found["trees"], found["refusals"]) == ({}, [], [])
    assert [warning["code"] for warning in found["warnings"]] == ["GM-310"]
    assert cli.invoke(["plan", "-f", str(DUMP), "--to", "v0.1.0-alpha.13"]) == 0
    capsys.readouterr()
    assert cli.invoke(["run", "-f", str(DUMP), "--dry-run=client", "--to", "v0.1.0-alpha.13"]) == 2
    assert failure(capsys)["code"] == "unread-release"


def test_a_sheet_has_one_row_for_each_set(capsys: pytest.CaptureFixture[str]) -> None:
    """-o csv is for sheets: the columns of the contract, a row for each set, and for each target without --to."""
    assert cli.invoke(["plan", "-f", str(DUMP), *TO, "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert list(rows[0]) == list(CSV_COLUMNS)
    assert ",".join(CSV_COLUMNS) == "namespace,name,from,to,state,changes,pods,runningPods,gpus,refusals,warnings"
    assert [(row["name"], row["pods"], row["gpus"]) for row in rows] == [
        ("llama-70b", "14", "96"),
        ("embedder", "6", "6"),
        ("nightly-eval", "5", "32"),
    ]
    assert cli.invoke(["plan", "-f", str(DUMP), "-o", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 3 * 3


def test_wide_is_the_table_with_more_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """-o table is the table even on a terminal; -o wide adds running pods and warnings."""
    for form, columns in (("table", "CHANGES   PODS   GPUS"), ("wide", "CHANGES   PODS   RUNNING   GPUS")):
        assert cli.invoke(["plan", "-f", str(DUMP), *TO, "-o", form]) == 0
        assert columns in capsys.readouterr().out


def test_every_code_is_explained_offline(capsys: pytest.CaptureFixture[str]) -> None:
    """`guards` lists all codes, and explains each in the words of docs/guards.md; an unknown one is 2."""
    assert cli.invoke(["guards"]) == 0
    listed = capsys.readouterr().out
    assert all(code in listed for code in (*CATALOGUE, *HAZARDS))
    for code in (*CATALOGUE, *HAZARDS):
        assert cli.invoke(["guards", code.lower()]) == 0
        assert capsys.readouterr().out == sections()[code]
    assert cli.invoke(["guards", "301"]) == 0
    assert "A member at zero ends its gang." in capsys.readouterr().out
    assert cli.invoke(["guards", "GM-999"]) == 2
    assert "is not a code" in failure(capsys)["message"]


def test_the_page_and_the_packaged_text_are_one() -> None:
    """docs/guards.md is a copy of what the command prints from: cp migrator/cli/guards.md docs/."""
    packaged = resources.files("migrator.cli") / "guards.md"
    assert (ROOT / "docs" / "guards.md").read_bytes() == packaged.read_bytes()
