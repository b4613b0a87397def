"""``plan``, ``run`` and ``verify`` from the command line: on a dump, and on a cluster in memory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from migrator import __version__, cli
from migrator.cli import log, wiring
from migrator.errors import NotAuthorised, Unreachable
from migrator.resources import POD_CLIQUE_SETS
from migrator.store import MAX_CONCURRENCY
from testbed import operator_installation as installation
from tests.support.memory_store import MemoryStore, Request
from tests.support.paths import ROOT

DUMP = ROOT / "examples" / "cluster.yaml"
TO = ("--to", "v0.1.0-alpha.11")
HASH = re.compile(r"\b[4-9bcdf]{10,20}\b")


def objects() -> list[dict[str, Any]]:
    """The objects of the example."""
    items: list[dict[str, Any]] = yaml.safe_load(DUMP.read_text(encoding="utf-8"))["items"]
    return items


def dump(path: Path, items: list[dict[str, Any]]) -> str:
    """Write objects as kubectl prints them."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2))
    return str(path)


def edited(path: Path, change: Callable[[dict[str, Any]], None], *, name: str = "embedder") -> str:
    """The example with one PodCliqueSet changed."""
    items = objects()
    change(next(item for item in items if item["kind"] == "PodCliqueSet" and item["metadata"]["name"] == name))
    return dump(path, items)


def revised(pcs: dict[str, Any]) -> None:
    """An operator with ControllerRevisions keeps the set: it must not be migrated."""
    pcs["status"]["currentRevision"] = "embedder-1"


def events(text: str) -> list[dict[str, Any]]:
    """JSON lines."""
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """The example as a cluster in memory, which the command line finds."""
    store = MemoryStore(*objects())
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: store.in_dry_run(dry_run))
    return store


def operator(*, replicas: int = 1) -> list[dict[str, Any]]:
    """An operator of the old release, with its pod."""
    image = installation.image("v0.1.0-alpha.9")
    return [installation.deployment(image, replicas=replicas, observed=True), installation.pod(image)]


def test_plan_of_a_dump_as_json_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    """One object on stdout with what was asked, what changes and what is at stake; exit 0."""
    assert cli.invoke(["plan", "-f", str(DUMP), *TO, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["from"], document["to"]) == ("auto", "v0.1.0-alpha.11")
    assert document["summary"] == {
        "podCliqueSets": 3,
        "podCliques": 11,
        "podCliqueScalingGroups": 1,
        "pods": 25,
        "changes": 66,
        "refusals": 0,
        "warnings": 3,
        "podsRecreatedWithoutMigration": 25,
        "gpusRecreatedWithoutMigration": 134,
        "podsRecreatedWithMigration": 0,
        "gpusRecreatedWithMigration": 0,
    }
    assert (document["cluster"], document["version"], document["advisories"]) == (str(DUMP), __version__, [])
    assert {tree["name"]: (tree["pods"], tree["gpus"]) for tree in document["trees"]}["llama-70b"] == (14, 96)
    assert {(tree["from"], tree["to"], tree["state"]) for tree in document["trees"]} == {
        ("legacy-1.34", "legacy-1.35", "migrate")
    }


def test_plan_exits_0_whatever_it_finds_unless_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Changes and refusals are not errors of `plan`; --detailed-exitcode makes them 10 and 3, 3 before 10."""
    refused = edited(tmp_path / "refused.json", revised)
    done = str(tmp_path / "done.yaml")
    assert cli.invoke(["run", "-f", str(DUMP), "--write", done, *TO]) == 0
    for path, code in ((str(DUMP), 10), (refused, 3), (done, 0)):
        assert cli.invoke(["plan", "-f", path, *TO]) == 0
        assert cli.invoke(["plan", "-f", path, *TO, "--detailed-exitcode"]) == code
    assert "GM-120" in capsys.readouterr().out


def test_a_canonical_target_says_who_speaks_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A user who asks for canonical reads that no release uses it."""
    assert cli.invoke(["plan", "-f", str(DUMP), "--to", "canonical"]) == 0
    captured = capsys.readouterr()
    assert "canonical-1.34" in captured.out
    assert "pull request #566" in captured.out
    assert captured.err == ""
    for command in (["plan", "--to", "canonical", "-o", "json"], ["explain", "--to", "canonical"]):
        assert cli.invoke([*command, "-f", str(DUMP)]) == 0
        (event,) = events(capsys.readouterr().err)
        assert (event["level"], event["event"]) == ("warning", "canonical_target")


def test_plan_as_yaml_is_the_same_document(capsys: pytest.CaptureFixture[str]) -> None:
    """-o yaml is -o json in kubectl's other spelling, key by key and in the same order."""
    arguments = ["plan", "-f", str(DUMP), *TO, "-o"]
    assert cli.invoke([*arguments, "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert cli.invoke([*arguments, "yaml"]) == 0
    spelt = yaml.safe_load(capsys.readouterr().out)
    assert spelt.pop("time") >= document.pop("time")
    assert json.dumps(spelt) == json.dumps(document)


def test_plan_as_a_page_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """-o html is one self-contained file on stdout."""
    assert cli.invoke(["plan", "-f", str(DUMP), *TO, "-o", "html"]) == 0
    page = capsys.readouterr().out
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "is away for 10 min" in page  # as --help says
    more = ["--reload-time", "25m", "--group-by", "app"]
    assert cli.invoke(["plan", "-f", str(DUMP), *TO, "-o", "html", *more]) == 0
    page = capsys.readouterr().out
    assert "is away for 25 min" in page
    assert "by label app" in page


def test_a_page_of_a_cluster_names_its_operator(cluster: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Namespace, Deployment, replicas and image of the operator that runs are on top."""
    for item in operator():
        cluster.put(item)
    assert cli.invoke(["plan", *TO, "-o", "html"]) == 0
    found = re.search(r"<dt>Operator now</dt><dd>(.*?)</dd>", capsys.readouterr().out)
    assert found
    assert re.fullmatch(r"Deployment grove-system/grove-operator, \d+ replicas? of \S+", found[1])


def test_plan_reports_a_live_operator_and_disturbs_nothing(
    cluster: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a cluster the running operator is a warning of the plan, and nothing is written."""
    for item in operator():
        cluster.put(item)
    assert cli.invoke(["plan", *TO, "-o", "json", "--detailed-exitcode"]) == 10
    document = json.loads(capsys.readouterr().out)
    assert [(w["code"], w["kind"], w["name"]) for w in document["warnings"]] == [
        ("GM-122", None, None),  # its Lease is not known: no configuration is mounted
        ("GM-122", "Pod", "grove-operator-x"),
    ]
    assert cluster.writes() == []


def test_a_selection_narrows_the_plan_and_refuses_the_run(
    cluster: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """-n and -l narrow what is listed, never what is counted; a run that leaves others behind is refused."""
    assert cli.invoke(["plan", *TO, "-n", "search", "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [tree["name"] for tree in document["trees"]] == ["embedder"]
    assert document["summary"]["podsRecreatedWithoutMigration"] == 25
    assert document["refusals"] == []
    assert "GM-201" in {warning["code"] for warning in document["warnings"]}
    stopped = ["--operator-namespace", "grove-system", "--lease-name", "lease"]
    assert cli.invoke(["run", *TO, "-l", "team=inference", *stopped]) == 3
    assert cluster.writes(POD_CLIQUE_SETS) == []


@pytest.mark.parametrize("target", [TO, ()])
def test_what_may_not_be_read_beside_a_namespace_is_named(
    target: tuple[str, ...], cluster: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """With rights in one namespace -n plans it, and a remark and warnings name what is not seen; without -n: exit 1."""

    def within(request: Request) -> None:
        if request.namespace != "search":
            raise NotAuthorised(f"{request.verb} {request.resource.plural}: HTTP 403 Forbidden")

    cluster.before.append(within)
    assert cli.invoke(["plan", *target, "-n", "search"]) == 0
    said = capsys.readouterr().out
    assert "note: only namespace search may be read" in said
    assert "warning: GM-201" not in said
    for code in ("GM-122", "GM-202", "GM-205"):
        assert (f"warning: {code} not checked: " in said) is bool(target)
    assert cli.invoke(["plan", *target, "-l", "team=search"]) == 1
    assert "-n plans one namespace with the rights in it" in capsys.readouterr().err


def test_a_selection_is_a_remark_of_a_plan(cluster: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    """What -n leaves out refuses a run: a plan notes that, on a page too, and warns of nothing."""
    assert cluster.is_cluster
    for namespace, said in (("search", "2 PodCliqueSets outside"), ("nowhere", "3 PodCliqueSets outside")):
        assert cli.invoke(["plan", *TO, "-n", namespace]) == 0
        captured = capsys.readouterr()
        assert f"note: {said} the selection also need this migration" in captured.out
        assert "GM-201" not in captured.out.replace("--allow GM-201", "")
        assert ("empty_selection" in captured.err) is (namespace == "nowhere")
        assert cli.invoke(["plan", *TO, "-n", namespace, "-o", "html"]) == 0
        page = capsys.readouterr().out
        assert f"{said} the selection also need this migration" in page
        assert "GM-201" not in page.replace("--allow GM-201", "")


def test_check_asks_for_each_right(cluster: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that does not answer such questions is an error, and not a yes."""
    assert cluster.is_cluster
    assert cli.invoke(["check"]) == 1
    assert events(capsys.readouterr().err)[-1]["code"] in {"api-error", "not-found"}


def test_run_on_a_dump_changes_hashes_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """OUT has the input's form and order: line by line the same but for hashes; and verify agrees."""
    out = tmp_path / "migrated.yaml"
    assert cli.invoke(["run", "-f", str(DUMP), "--write", str(out), *TO]) == 0
    captured = capsys.readouterr()
    assert captured.out == "migrated 3 sets with 51 patches\n"
    before, after = (path.read_text(encoding="utf-8").splitlines() for path in (DUMP, out))
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 66
    assert [HASH.sub("#", line) for line in before] == [HASH.sub("#", line) for line in after]
    assert cli.invoke(["verify", "-f", str(out), *TO]) == 0
    assert cli.invoke(["verify", "-f", str(DUMP), *TO]) == 7


def test_the_way_back_gives_the_very_same_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--revert with the same --from and --to restores every byte; each run says what it did, and one more: nothing."""
    there, back = tmp_path / "there.yaml", tmp_path / "back.yaml"
    assert cli.invoke(["run", "-f", str(DUMP), "--write", str(there), *TO]) == 0
    again = ["run", "-f", str(there), "--write", str(back), *TO, "--from", "v0.1.0-alpha.9", "--revert"]
    assert cli.invoke(again) == 0
    assert back.read_bytes() == DUMP.read_bytes()
    assert cli.invoke(["run", "-f", str(there), "--write", str(back), *TO]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "migrated 3 sets with 51 patches",
        "put back 3 sets with 51 patches",
        "nothing to do: every value is already as it must be",
    ]


def test_write_to_stdout_is_the_dump_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """With --write - standard output is the migrated dump and nothing else."""
    assert cli.invoke(["run", "-f", str(DUMP), "--write", "-", *TO]) == 0
    assert len(yaml.safe_load(capsys.readouterr().out)["items"]) == len(objects())


def test_a_refused_run_writes_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, the guard's code in the error object, and OUT stays what it was."""
    refused = edited(tmp_path / "refused.json", revised)
    out = tmp_path / "out.json"
    out.write_text("precious")
    assert cli.invoke(["run", "-f", refused, "--write", str(out), *TO]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert out.read_text() == "precious"
    failed = next(event for event in events(captured.err) if event["event"] == "failed")
    assert (failed["code"], failed["exit_code"]) == ("refused", 3)
    assert "GM-120" in failed["message"]


def test_an_out_that_cannot_be_written_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A directory that does not exist is exit 1 with a sentence, before any claim of success."""
    out = tmp_path / "missing" / "out.yaml"
    assert cli.invoke(["run", "-f", str(DUMP), "--write", str(out), *TO]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert events(captured.err)[-1]["code"] == "unwritable-output"


@pytest.mark.parametrize("mode", ["client", "server"])
def test_a_dry_run_on_a_dump_shows_the_plan_and_writes_nothing(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dry run needs no --write, and leaves no file even with it; it exits 3 where the run would."""
    out = tmp_path / "out.yaml"
    assert cli.invoke(["run", "-f", str(DUMP), f"--dry-run={mode}", "--write", str(out), *TO]) == 0
    assert "dry run: nothing was written" in capsys.readouterr().out
    assert not out.exists()
    refused = edited(tmp_path / "refused.json", revised)
    assert cli.invoke(["run", "-f", refused, f"--dry-run={mode}", *TO]) == 3


def test_the_summary_is_the_last_event_and_counts_what_was_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last line alone is enough: it has outcome, counts and seconds; every line has the same run_id."""
    assert cli.invoke(["run", "-f", str(DUMP), "--write", str(tmp_path / "out.yaml"), *TO]) == 0
    logged = events(capsys.readouterr().err)
    assert len({event["run_id"] for event in logged}) == 1
    summary = logged[-1]
    assert (summary["event"], summary["outcome"], summary["exit_code"]) == ("summary", "done", 0)
    assert (summary["trees"], summary["patches"], summary["changes"]) == (3, 51, 66)
    assert "execute" in summary["seconds"]


def test_a_failed_run_ends_with_its_summary_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error object is there, and the last line still is the summary, with the same code."""
    refused = edited(tmp_path / "refused.json", revised)
    assert cli.invoke(["run", "-f", refused, "--dry-run=client", *TO]) == 3
    summary = events(capsys.readouterr().err)[-1]
    assert (summary["event"], summary["outcome"], summary["code"], summary["exit_code"]) == (
        "summary",
        "failed",
        "refused",
        3,
    )


def test_run_as_json_has_the_plan_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    """-o json of a run is one object: what was done, how long it took, and the plan."""
    assert cli.invoke(["run", "-f", str(DUMP), "--dry-run=client", "-o", "json", *TO]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["dryRun", "trees", "patches", "seconds", "operator", "next", "plan"]
    assert document["plan"]["summary"]["changes"] == 66


def test_verify_names_every_value_that_is_not_the_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 7, one problem per value, as lines or as JSON."""
    assert cli.invoke(["verify", "-f", str(DUMP), *TO, "-o", "json"]) == 7
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert len(document["problems"]) == 66
    assert list(document["problems"][0]) == ["kind", "namespace", "name", "field", "message"]
    assert events(captured.err)[-1]["code"] == "verification-failed"
    assert cli.invoke(["verify", "-f", str(DUMP), *TO]) == 7
    assert len(capsys.readouterr().out.splitlines()) == 66


def test_nothing_to_do_is_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A cluster without PodCliqueSets: nothing to do."""
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: MemoryStore().in_dry_run(dry_run))
    for command in (["run", "--dry-run=client"], ["verify"]):
        assert cli.invoke([*command, *TO]) == 0
    assert "nothing to do: no PodCliqueSets" in capsys.readouterr().out


def test_an_incomplete_dump_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pods that a dump lacks may exist in the cluster: exit 2."""
    path = dump(tmp_path / "d.json", [item for item in objects() if item["kind"] != "Pod"])
    assert cli.invoke(["plan", "-f", path, *TO]) == 2
    assert events(capsys.readouterr().err)[-1]["code"] == "incomplete-dump"


def test_a_cluster_that_does_not_answer_is_exit_1(cluster: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    """An outage is an error, never "no pods"."""

    def outage(_: object) -> None:
        raise Unreachable("no answer from https://example.test within 15 s")

    cluster.before.append(outage)
    for command in (["plan"], ["run"], ["verify"], ["explain"]):
        assert cli.invoke([*command, *TO]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert any(event.get("code") == "unreachable" for event in events(captured.err))


def test_explain_reads_a_cluster(cluster: MemoryStore, capsys: pytest.CaptureFixture[str]) -> None:
    """Without -f the set is read from the cluster."""
    assert cli.invoke(["explain", "search/embedder", *TO]) == 0
    assert capsys.readouterr().out.startswith("PodCliqueSet search/embedder: legacy-1.34 → legacy-1.35\n")
    assert cluster.writes() == []


def test_a_mistyped_set_is_answered_with_one_that_there_is(
    cluster: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has to look up the name of a set."""
    assert cli.invoke(["explain", "embeder", *TO]) == 2
    assert cluster.writes() == []
    assert "PodCliqueSet embeder does not exist. Did you mean embedder?" in capsys.readouterr().err


def test_explain_on_a_terminal_is_coloured_like_a_diff(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the newer structs add is green, where the terminal has colours; the words are the same."""
    arguments = ["explain", "-f", str(DUMP), "search/embedder", *TO]
    assert cli.invoke(arguments) == 0
    plain = capsys.readouterr().out
    monkeypatch.setattr(log, "wants_colour", lambda _stream: True)
    assert cli.invoke(arguments) == 0
    coloured = capsys.readouterr().out
    assert "\x1b[32m  + WorkloadRef:(*v1.WorkloadReference)<nil>\x1b[0m\n" in coloured
    assert click.unstyle(coloured) == plain


def test_the_exit_code_survives_a_reader_that_left(tmp_path: Path) -> None:
    """A migration that is done is done, even if nobody reads its last line."""
    reading, writing = os.pipe()
    os.close(reading)
    out = tmp_path / "out.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "migrator", "run", "-f", str(DUMP), "--write", str(out), *TO],
        cwd=DUMP.parents[1],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 0
    assert out.exists()
    assert events(done.stderr)[-1]["event"] == "summary"


@pytest.mark.parametrize(("flags", "expected"), [((), MAX_CONCURRENCY), (("--concurrency", "3"), 3)])
def test_the_limit_of_patches_under_way_reaches_the_store(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], expected: int
) -> None:
    """``--concurrency`` is what a stream of patches is given; a dry run on the server is sent as the run would be."""
    given: list[int] = []

    class Watched(MemoryStore):
        def patches(self, take: Any, *, concurrency: int) -> Any:
            given.append(concurrency)
            return super().patches(take, concurrency=concurrency)

    store = Watched(*objects(), *operator())
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: store.in_dry_run(dry_run))
    lease = ("--lease-name", "grove-operator-leader-election")
    assert cli.invoke(["run", *TO, "--dry-run=server", "--stop-operator", *lease, *flags]) == 0
    assert given == [expected]
