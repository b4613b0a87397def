"""``plan``, ``run`` and ``verify`` from the command line: on a dump, and on a cluster in memory."""

from __future__ import annotations

import json
import re
import shlex
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import __version__, cli
from migrator.errors import Forbidden
from migrator.resources import LEASES, POD_CLIQUE_SETS, PODS
from migrator.run.leases import OWN_LEASE
from migrator.store import CONCURRENCY
from testbed import operator_installation as installation
from tests.support.command_line import DUMP, TO, Invoke, objects, written
from tests.support.memory_site import Site
from tests.support.memory_store import MemoryStore, Request

HASH = re.compile(r"\b[4-9bcdf]{10,20}\b")


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    """The example with a set of an operator that keeps ControllerRevisions: it must not be migrated."""
    items = objects()
    next(item for item in items if item["metadata"]["name"] == "embedder")["status"]["currentRevision"] = "embedder-1"
    return written(tmp_path / "refused.json", items)


def operator() -> list[dict[str, Any]]:
    """An operator of the old release, with its pod."""
    image = installation.image("v0.1.0-alpha.9")
    deployment = installation.deployment(image, replicas=1, observed=True)
    return [deployment, installation.config_map(), installation.pod(image)]


def test_plan_of_a_dump_as_json_is_the_contract(invoke: Invoke) -> None:
    """One object on stdout with what was asked, what changes and what is at stake; exit 0."""
    document = invoke("plan", "-f", DUMP, *TO, "-o", "json").json
    assert (document["from"], document["to"]) == ("auto", "v0.1.0-alpha.11")
    numbers = {"podCliqueSets": 3, "podCliques": 11, "podCliqueScalingGroups": 1, "pods": 25, "changes": 66}
    cost = {"podsRecreatedWithoutMigration": 25, "gpusRecreatedWithoutMigration": 134, "podsRecreatedWithMigration": 0}
    assert (numbers | cost).items() <= document["summary"].items()
    assert (document["cluster"], document["version"], document["advisories"]) == (str(DUMP), __version__, [])
    assert {tree["name"]: (tree["pods"], tree["gpus"]) for tree in document["trees"]}["llama-70b"] == (14, 96)
    assert {(tree["from"], tree["to"], tree["state"]) for tree in document["trees"]} == {
        ("legacy-1.34", "legacy-1.35", "migrate")
    }


def test_plan_exits_0_whatever_it_finds_unless_asked(tmp_path: Path, refused: Path, invoke: Invoke) -> None:
    """Changes and refusals are not errors of `plan`; --detailed-exitcode makes them 10 and 3, 3 before 10."""
    done = tmp_path / "done.yaml"
    invoke("run", "-f", DUMP, "--write", done, *TO)
    for path, code in ((DUMP, 10), (refused, 3), (done, 0)):
        assert ("GM-120" in invoke("plan", "-f", path, *TO).out) is (path == refused)
        invoke("plan", "-f", path, *TO, "--detailed-exitcode", code=code)


def test_plan_as_yaml_is_the_same_document(invoke: Invoke) -> None:
    """-o yaml is -o json in kubectl's other spelling, key by key and in the same order."""
    arguments = ("plan", "-f", DUMP, *TO, "-o")
    document = invoke(*arguments, "json").json
    spelt = yaml.safe_load(invoke(*arguments, "yaml").out)
    assert spelt.pop("time") >= document.pop("time")
    assert json.dumps(spelt) == json.dumps(document)


def test_plan_as_a_page_is_one_document(invoke: Invoke) -> None:
    """-o html is one self-contained file on stdout."""
    arguments = ("plan", "-f", DUMP, *TO, "-o", "html")
    page, other = invoke(*arguments).out, invoke(*arguments, "--group-by", "app").out
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert "at an assumed 100 a second" in page
    assert "by label app" in other


def test_the_record_is_looked_for_in_every_namespace(cluster: MemoryStore, invoke: Invoke) -> None:
    """Without an operator nothing tells where it is, so Leases of our name are listed."""
    seen = set()
    cluster.before.append(lambda request: seen.add((request.verb, request.resource.plural, request.namespace)))
    invoke("plan", *TO)
    assert ("list", "leases", "") in seen


@pytest.mark.parametrize("target", [TO, ()])
def test_what_may_not_be_read_beside_a_namespace_is_named(
    target: tuple[str, ...], cluster: MemoryStore, invoke: Invoke
) -> None:
    """With rights in one namespace -n plans it, and notes name what is not checked; without -n: exit 1."""

    def within(request: Request) -> None:
        if request.namespace != "search":
            raise Forbidden(f"{request.verb} {request.resource.plural}: HTTP 403 Forbidden")

    cluster.before.append(within)
    said = invoke("plan", *target, "-n", "search").out
    for code in ("GM-201", "GM-122", "GM-202", "GM-205"):
        assert f" {code}" in said.partition("unchecked")[2]
    assert "warning" not in said
    assert "plan that one with -n" in invoke("plan", *target, "-l", "team=search", code=1).err


def test_a_plan_of_a_selection_warns_of_the_other_sets(cluster: MemoryStore, invoke: Invoke) -> None:
    """What -n leaves out is recreated all the same, which a page says too."""
    assert cluster.is_cluster
    for namespace, said in (("search", "2 PodCliqueSets outside"), ("nowhere", "3 PodCliqueSets outside")):
        captured = invoke("plan", *TO, "-n", namespace)
        assert "warning   GM-201 Other sets need this migration too." in captured.out
        assert f"affects {said} the selection: the operator serves" in " ".join(captured.out.split())
        assert ("empty_selection" in captured.err) is (namespace == "nowhere")
        # A mistyped namespace must not look like nothing to do.
        invoke("plan", *TO, "-n", namespace, "--detailed-exitcode", code=3 if namespace == "nowhere" else 10)
        page = invoke("plan", *TO, "-n", namespace, "-o", "html").out
        assert f"affects {said} the selection: the operator serves" in page


def test_run_on_a_dump_changes_hashes_and_nothing_else(tmp_path: Path, invoke: Invoke) -> None:
    """With --write - stdout is the input's objects in their order, with other hashes, alone; and verify agrees."""
    out = tmp_path / "migrated.json"
    out.write_text(invoke("run", "-f", DUMP, "--write", "-", *TO).out)
    before, after = (json.dumps(yaml.safe_load(path.read_text()), indent=0).splitlines() for path in (DUMP, out))
    assert len(before) == len(after)
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 66
    assert [HASH.sub("#", line) for line in before] == [HASH.sub("#", line) for line in after]
    invoke("verify", "-f", out, *TO)
    invoke("verify", "-f", DUMP, *TO, code=7)


def test_the_way_back_gives_the_very_same_dump(tmp_path: Path, invoke: Invoke) -> None:
    """--revert with the same --from and --to restores every value; each run says what it did, and one more: nothing."""
    there, back = tmp_path / "there.json", tmp_path / "back.json"
    again = ("run", "-f", there, "--write", back, *TO)
    assert invoke("run", "-f", DUMP, "--write", there, *TO).out == "Migrated 3 sets with 51 patches.\n"
    assert invoke(*again, "--from", "v0.1.0-alpha.9", "--revert").out == "Reverted 3 sets with 51 patches.\n"
    assert yaml.safe_load(back.read_text()) == yaml.safe_load(DUMP.read_text())
    assert invoke(*again).out == "Nothing to do: no stored hash needs a change for v0.1.0-alpha.11.\n"


def test_a_refused_run_writes_no_file(tmp_path: Path, refused: Path, invoke: Invoke) -> None:
    """Exit 3, guard, object and field as data, and OUT stays what it was; one that cannot be written is an error, 1."""
    out = tmp_path / "out.json"
    out.write_text("precious")
    failed = invoke("run", "-f", refused, "--write", out, *TO, code=3).failure
    assert out.read_text() == "precious"
    assert (failed["code"], failed["exit_code"]) == ("refused", 3)
    assert failed["message"].startswith(f"{failed['guard']}: ")
    assert failed["guard"].startswith("GM-120")
    assert failed["object"] in failed["message"]
    assert failed["field"].startswith("/")
    missing = invoke("run", "-f", DUMP, "--write", tmp_path / "missing" / "out.yaml", *TO, code=1)
    assert missing.failure["code"] == "unwritable-output"


def test_a_run_tells_what_skipped_sets_cost(tmp_path: Path, refused: Path, invoke: Invoke) -> None:
    """With --skip-refused nobody reads that all is done while the upgrade still recreates the pods of a refused set."""
    cost = "1 refused set was skipped: the upgrade recreates 6 pods with 6 GPUs."
    out = tmp_path / "out.json"
    first = invoke("run", "-f", refused, "--write", out, "--skip-refused", *TO).out
    assert " ".join(first.split()) == f"Migrated 2 sets with 40 patches. {cost}"
    again = invoke("run", "-f", out, "--write", tmp_path / "again.json", "--skip-refused", *TO).out
    assert " ".join(again.split()) == f"Nothing was migrated. {cost}"


@pytest.mark.parametrize(("names", "said"), [(2, "(and 1 more refusal; "), (3, "(and 2 more refusals; ")])
def test_a_refused_run_counts_the_other_refusals(names: int, said: str, tmp_path: Path, invoke: Invoke) -> None:
    """One is named, and the others are counted as a person would."""
    items = objects()
    for item in [item for item in items if item["kind"] == "PodCliqueSet"][:names]:
        item["status"]["currentRevision"] = "x-1"
    path = written(tmp_path / "refused.json", items)
    assert said in invoke("run", "-f", path, "--dry-run", *TO, code=3).message


def test_a_dry_run_on_a_dump_shows_the_plan_and_writes_nothing(tmp_path: Path, refused: Path, invoke: Invoke) -> None:
    """A dry run needs no --write, and leaves no file even with it; it exits 3 where the run would."""
    out = tmp_path / "out.yaml"
    assert "Dry run: nothing was written" in invoke("run", "-f", DUMP, "--dry-run", "--write", out, *TO).out
    assert not out.exists()
    assert "Dry run: nothing was written" in invoke("run", "-f", DUMP, "--dry-run", "--write", "-", *TO).out
    invoke("run", "-f", refused, "--dry-run", *TO, code=3)


def test_the_summary_is_the_last_event_and_counts_what_was_done(tmp_path: Path, refused: Path, invoke: Invoke) -> None:
    """The last line alone is enough: outcome and counts; every line has the same run_id. A failure is one event."""
    logged = invoke("run", "-f", DUMP, "--write", tmp_path / "out.yaml", *TO).events
    assert len({event["run_id"] for event in logged}) == 1
    summary = logged[-1]
    assert (summary["event"], summary["outcome"], summary["exit_code"]) == ("summary", "done", 0)
    assert (summary["trees"], summary["patches"]) == (3, 51)
    assert "snapshot" in summary["seconds"]
    failed = invoke("run", "-f", refused, "--dry-run=client", *TO, code=3).last
    assert {"event": "failed", "code": "refused", "exit_code": 3}.items() <= failed.items()


def test_run_as_json_has_the_plan_in_it(invoke: Invoke) -> None:
    """-o json of a run is one object: what was done, how long it took, and the plan."""
    document = invoke("run", "-f", DUMP, "--dry-run=client", "-o", "json", *TO).json
    assert list(document) == ["dryRun", "trees", "patches", "seconds", "operator", "next", "plan"]
    assert document["plan"]["summary"]["changes"] == 66


def test_a_command_without_a_set_says_so_and_a_run_names_the_upgrade(invoke: Invoke) -> None:
    """On the wrong cluster nobody reads that all is migrated; beside the old operator the next step is its upgrade."""
    invoke.on(MemoryStore(*operator()))
    printed = invoke("run", *TO)
    assert printed.out.startswith("Nothing to do: no PodCliqueSet was found. Is this the right cluster?\n")
    assert "helm upgrade" in printed.out
    (event,) = (event for event in printed.events if event["event"] == "summary")
    assert (event["operator"][:10], event["next"][1][:12]) == ("Deployment", "helm upgrade"), "stdout may be lost"
    assert invoke("verify", *TO).out == "Nothing to verify: no PodCliqueSet was found. Is this the right cluster?\n"
    undone = invoke("run", *TO, "--from", "v0.1.0-alpha.9", "--revert").out
    assert undone.startswith("Nothing to revert: no stored hash comes from this migration.\n")


def test_verify_names_every_value_that_is_not_the_targets(invoke: Invoke) -> None:
    """Exit 7, one problem per value, as lines or as JSON."""
    captured = invoke("verify", "-f", DUMP, *TO, "-o", "json", code=7)
    problems = captured.json["problems"]
    assert len(problems) == 66
    assert list(problems[0]) == ["kind", "namespace", "name", "field", "message"]
    assert captured.last["code"] == "verification-failed"
    logged = [event["event"] for event in captured.events]
    assert "verify_failed" in logged
    assert "verified" not in logged
    lines = invoke("verify", "-f", DUMP, *TO, code=7).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "          And 56 more: -o json lists all." in lines
    assert lines[-2:] == [
        "note      3 sets not migrated to v0.1.0-alpha.11 yet.",
        "next      grove-migrator run --to v0.1.0-alpha.11 --stop-operator",
    ]


def end_at_a_pod(store: MemoryStore) -> None:
    """Ask the next run to end once it writes to a pod."""
    sent = list[Request]()

    def end(request: Request) -> None:
        if request.writes and request.resource == PODS and not sent:
            sent.append(request)
            handler = signal.getsignal(signal.SIGTERM)
            signal.pthread_kill(int(threading.main_thread().ident or 0), signal.SIGTERM)
            for _ in range(5000):  # until the main thread has heard it; the next set could be done before
                if signal.getsignal(signal.SIGTERM) is not handler:
                    break
                time.sleep(0.001)

    store.before.append(end)


@pytest.mark.parametrize("source", [(), ("--from", "v0.1.0-alpha.8")])
@pytest.mark.parametrize("revert", [(), ("--revert",)])
def test_plan_names_the_command_that_finishes_a_run(
    source: tuple[str, ...], revert: tuple[str, ...], invoke: Invoke
) -> None:
    """With the direction and the source of the run that did not end, whose command it is; typed, it finishes it."""
    store = invoke.on(Site().store)
    run = ("run", *source, *TO, "--stop-operator", "--concurrency", "1")
    if revert:
        invoke(*run)
    end_at_a_pod(store)
    invoke(*run, *revert, code=6)
    said = invoke("plan").out
    story = "A revert of the migration from" if revert else "A run from"
    assert f"{story} {source[1] if source else 'auto'} to v0.1.0-alpha.11 did not end." in " ".join(said.split())
    words = shlex.split(said.splitlines()[-1])
    assert words == ["next", "grove-migrator", "run", *source, *TO, *revert, "--stop-operator"]
    targets = invoke("plan", "-o", "json").json["targets"]
    objected = {one["scheme"] for one in targets if "GM-205" in {found["code"] for found in one["warnings"]}}
    assert objected
    assert "legacy-1.35" not in objected, "it is the run's own target"
    other = invoke("plan", "--to", "legacy-1.36", "-o", "json").json["warnings"]
    (remedy,) = {one["remedy"] for one in other if one["code"] == "GM-205"}
    assert remedy.startswith(f"finish it with `{' '.join(words[2:])}`")
    invoke(*words[2:])
    assert "did not end" not in invoke("plan").out


@pytest.mark.parametrize("target", [TO, ()])
def test_plan_does_not_believe_that_every_recorded_set_is_gone(target: tuple[str, ...], invoke: Invoke) -> None:
    """After a run that is half-way, a cluster without its sets is an error of `plan`, as it is of `run`."""
    store = invoke.on(Site().store)
    end_at_a_pod(store)
    invoke("run", *TO, "--stop-operator", "--concurrency", "1", code=6)
    for raw in store.everything(POD_CLIQUE_SETS):
        store.drop(POD_CLIQUE_SETS, raw["metadata"]["namespace"], raw["metadata"]["name"])
    said = "a run did not end, and no PodCliqueSet was read; if all of them were deleted on purpose"
    assert said in invoke("run", *TO, "--stop-operator", code=6).failure["message"]
    assert said in invoke("plan", *target, code=1).failure["message"]


def test_a_signal_ends_a_run_between_two_sets_and_a_rerun_finishes_it(cluster: MemoryStore, invoke: Invoke) -> None:
    """The sets that are begun are finished: 6, and nothing is lost; afterwards the signal is what it was."""
    before = signal.getsignal(signal.SIGTERM)
    end_at_a_pod(cluster)
    run = ("run", *TO, "--operator", "grove-system/grove-operator")
    assert "the run was asked to end" in invoke(*run, "--concurrency", "1", code=6).failure["message"]
    assert signal.getsignal(signal.SIGTERM) == before
    assert "Migrated 2 sets" in invoke(*run).out
    invoke("verify", *TO)


def test_a_verification_says_what_it_compared(invoke: Invoke) -> None:
    """With the record of the run the promise in numbers; without one, that only values and operators were checked."""
    site = Site()
    invoke.on(site.store)
    invoke("run", *TO, "--stop-operator")
    site.install(TO[1], 1)
    plain, first = (invoke("verify", *TO, *more).out for more in ((), ("--after-upgrade",)))
    assert first == f"{plain}pods      19 of 19 pods are older than the migration.\n"
    site.store.drop(LEASES, "grove-system", OWN_LEASE)
    note = "No record tells when the run was: only values and operators were\n          checked."
    assert invoke("verify", *TO, "--after-upgrade").out == f"{plain}note      {note}\n"


@pytest.mark.parametrize(("flags", "expected"), [((), CONCURRENCY), (("--concurrency", "3"), 3)])
def test_so_many_patches_are_under_way_at_a_time(invoke: Invoke, flags: tuple[str, ...], expected: int) -> None:
    """``--concurrency`` of them; a dry run on the server is sent as the run would be."""
    under_way, most, lock, met = 0, 0, threading.Lock(), threading.Event()

    class Slow(MemoryStore):
        def patch(self, *given: Any, **more: Any) -> Any:
            nonlocal under_way, most
            if threading.current_thread() is threading.main_thread():  # proofs are sent one by one
                return super().patch(*given, **more)
            with lock:
                under_way += 1
                most = max(most, under_way)
            if most == expected:
                met.set()
            met.wait(20)
            with lock:
                under_way -= 1
            return super().patch(*given, **more)

    invoke.on(Slow(*objects(), *operator()))
    invoke("run", *TO, "--dry-run=server", "--stop-operator", *flags)
    assert most == expected


def test_every_command_that_is_printed_can_be_typed(refused: Path, invoke: Invoke) -> None:
    """A next step has known commands and flags, and no placeholder, whatever it is printed by."""
    texts = [
        invoke("plan", "-f", DUMP).out,
        invoke("plan", "-f", DUMP, *TO).out,
        invoke("plan", "-f", refused, *TO).out,
        invoke("verify", "-f", DUMP, *TO, code=7).out,
    ]
    invoke.on(MemoryStore(*objects(), *operator()))
    texts.append(invoke("plan", "--context", "a lab", *TO).out)
    found = [command for text in texts for command in re.findall(r"(?m)(?<=^next      )grove-migrator .*$", text)]
    found += [command for text in texts for command in re.findall(r"`(grove-migrator [^`]*)`", " ".join(text.split()))]
    assert len(found) > 4
    for command in found:
        program, name, *words = shlex.split(command)
        assert program == "grove-migrator"
        cli.cli.commands[name].make_context(name, words, **cli.cli.context_settings)
