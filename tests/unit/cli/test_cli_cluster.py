"""``plan`` of a dump, and ``plan``, ``run`` and ``verify`` on a cluster in memory."""

from __future__ import annotations

import re
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from migrator import __version__, cli
from migrator.cli import stdout
from migrator.errors import Forbidden
from migrator.kinds import HOLDERS, LEASES, POD_CLIQUE_SETS
from migrator.run.leases import OWN_LEASE
from tests.support.command_line import DUMP, HOME, TO, Invoke, installed, objects, written
from tests.support.memory_site import Site, end_at_a_pod
from tests.support.memory_store import MemoryCluster, Request
from tests.support.paths import ROOT


def with_a_refused_set() -> list[dict[str, Any]]:
    """The example with a set of an operator that keeps ControllerRevisions: it must not be migrated."""
    items = objects()
    next(item for item in items if item["metadata"]["name"] == "embedder")["status"]["currentRevision"] = "embedder-1"
    return items


@pytest.fixture
def refused(invoke: Invoke) -> MemoryCluster:
    return invoke.on(MemoryCluster(*with_a_refused_set()))


def test_plan_of_a_dump_as_json_is_the_contract(invoke: Invoke) -> None:
    """One object on stdout with what was asked, what changes and what is at stake; exit 0."""
    document = invoke("plan", "-f", DUMP, *TO, "-o", "json").json
    assert document["from"] == "auto"
    assert document["to"] == "v0.1.0-alpha.11"
    numbers = {"podCliqueSets": 3, "podCliques": 11, "podCliqueScalingGroups": 1, "pods": 25, "changes": 66}
    cost = {"podsRecreatedWithoutMigration": 25, "gpusRecreatedWithoutMigration": 134, "podsRecreatedWithMigration": 0}
    assert (numbers | cost).items() <= document["summary"].items()
    issues = [issue["id"] for issue in document["advisories"]]
    assert document["cluster"] == str(DUMP)
    assert document["version"] == __version__
    assert issues == ["GM-312"]
    assert {tree["name"]: (tree["pods"], tree["gpus"]) for tree in document["trees"]}["llama-70b"] == (14, 96)
    assert {(tree["from"], tree["to"], tree["state"]) for tree in document["trees"]} == {
        ("legacy-1.34", "legacy-1.35", "migrate")
    }


def test_plan_exits_0_whatever_it_finds_unless_asked(tmp_path: Path, invoke: Invoke) -> None:
    """Changes and refusals are not errors of `plan`; --detailed-exitcode makes them 10 and 3, 3 before 10."""
    store = invoke.on(MemoryCluster(*objects()))
    invoke("run", *TO, *HOME)
    done = written(tmp_path / "done.json", store.everything(*HOLDERS))
    refused = written(tmp_path / "refused.json", with_a_refused_set())
    for path, code in ((DUMP, 10), (refused, 3), (done, 0)):
        said = invoke("plan", "-f", path, *TO).out
        assert ("GM-120" in said) is (path == refused)
        assert ("next      grove-migrator run" in said) is (path == DUMP)
        invoke("plan", "-f", path, *TO, "--detailed-exitcode", code=code)


@pytest.mark.parametrize("target", [TO, ()])
def test_what_may_not_be_read_beside_a_namespace_is_named(
    target: tuple[str, ...], cluster: MemoryCluster, invoke: Invoke
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
    assert "plan that one with -n" in invoke("plan", *target, code=1).err


def test_a_plan_of_a_selection_warns_of_the_other_sets(cluster: MemoryCluster, invoke: Invoke) -> None:
    """What -n leaves out is recreated all the same, which a page says too."""
    assert cluster.is_cluster
    for namespace, said in (("search", "2 PodCliqueSets in other"), ("nowhere", "3 PodCliqueSets in other")):
        captured = invoke("plan", *TO, "-n", namespace)
        assert "warning   GM-201 Other sets need this migration too." in captured.out
        assert f"affects {said} namespaces: the operator serves" in " ".join(captured.out.split())
        assert ("Namespace nowhere has no PodCliqueSet" in captured.err) is (namespace == "nowhere")
        # A mistyped namespace must not look like nothing to do.
        invoke("plan", *TO, "-n", namespace, "--detailed-exitcode", code=3 if namespace == "nowhere" else 10)
        page = invoke("plan", *TO, "-n", namespace, "-o", "html").out
        assert f"affects {said} namespaces: the operator serves" in page


@pytest.mark.usefixtures("cluster")
def test_each_run_says_what_it_did(invoke: Invoke) -> None:
    """There, once more, and back with the same --from and --to."""
    said = [
        invoke("run", *TO, *HOME, *more).out.partition("\n")[0] for more in ((), (), ("--from", "alpha.9", "--revert"))
    ]
    assert said == [
        "Migrated 3 sets with 51 patches.",
        "Nothing to do: no stored hash needs a change for v0.1.0-alpha.11.",
        "Reverted 3 sets with 51 patches.",
    ]


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_refused_run_writes_nothing(dry: tuple[str, ...], refused: MemoryCluster, invoke: Invoke) -> None:
    """Exit 3, with guard, object and field as data; a dry run is refused where the run would be."""
    failed = invoke("run", *TO, *HOME, *dry, code=3).failure
    assert refused.writes() == []
    assert failed["code"] == "refused"
    assert failed["exit_code"] == 3
    assert failed["message"].startswith(f"{failed['guard']}: ")
    assert failed["guard"].startswith("GM-120")
    assert failed["object"] in failed["message"]
    assert failed["field"].startswith("/")


@pytest.mark.usefixtures("refused")
@pytest.mark.parametrize("output", ["table", "html"])
def test_the_command_that_skips_refused_sets_has_the_flags_of_the_plan(output: str, invoke: Invoke) -> None:
    """Whoever pastes it must not migrate the cluster of the current context, or from another source."""
    given = (*TO, "--from", "v0.1.0-alpha.8", "--context", "blue")
    command = f"grove-migrator run {' '.join(given)} --stop-operator --skip-refused"
    assert command in re.sub(r"<[^>]*>", "", invoke("plan", *given, "-o", output).out)


@pytest.mark.usefixtures("refused")
def test_a_run_tells_what_skipped_sets_cost(invoke: Invoke) -> None:
    """With --skip-refused nobody reads that all is done while the upgrade still recreates the pods of a refused set."""
    cost = "1 refused set was skipped: the upgrade recreates 6 pods with 6 GPUs."
    for done in ("Migrated 2 sets with 40 patches.", "Nothing was migrated."):
        said = invoke("run", "--skip-refused", *TO, *HOME).out
        assert " ".join(said.split()).startswith(f"{done} {cost}")


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_run_that_would_skip_every_set_is_refused(dry: tuple[str, ...], site: Site, invoke: Invoke) -> None:
    """Nothing is migrated by it, so --skip-refused is no success, and no upgrade is named as the next step."""
    for raw in site.store.everything(POD_CLIQUE_SETS):
        where = raw["metadata"]["namespace"], raw["metadata"]["name"]
        site.store.edit(POD_CLIQUE_SETS, *where, lambda body: body["status"].update(currentRevision="x-1"))
    failed = invoke("run", *TO, "--stop-operator", "--skip-refused", *dry, code=3).failure
    assert "--skip-refused would leave nothing to migrate" in failed["message"]
    assert site.replicas == 1


@pytest.mark.parametrize(("names", "said"), [(2, "and 1 more refusal; "), (3, "and 2 more refusals; ")])
def test_a_refused_run_counts_the_other_refusals_and_names_what_lists_them(
    names: int, said: str, invoke: Invoke
) -> None:
    """A plan of the target: the first look names what all targets have in common, or nothing beside a run half-way."""
    items = objects()
    for item in [item for item in items if item["kind"] == "PodCliqueSet"][:names]:
        item["status"]["currentRevision"] = "x-1"
    invoke.on(MemoryCluster(*items))
    message = invoke("run", "--dry-run", *TO, *HOME, code=3).message
    (command,) = re.findall(rf"\({said}`([^`]*)` lists them all", message)
    listed = invoke(*shlex.split(command)[1:], "-o", "json").json["refusals"]
    assert [one["code"] for one in listed] == ["GM-120"] * names


@pytest.mark.usefixtures("cluster")
def test_the_summary_is_the_last_event_and_counts_what_was_done(invoke: Invoke) -> None:
    """The last line alone is enough: outcome and counts; every line has the same run_id."""
    logged = invoke("run", *TO, *HOME).events
    assert len({event["run_id"] for event in logged}) == 1
    summary = logged[-1]
    assert summary["event"] == "summary"
    assert summary["outcome"] == "done"
    assert summary["exit_code"] == 0
    assert summary["trees"] == 3
    assert summary["patches"] == 51


@pytest.mark.usefixtures("cluster")
def test_a_signal_after_the_end_of_a_run_does_not_change_its_exit_code(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the result is printed nothing is left to be stopped."""
    seen = []
    monkeypatch.setattr(stdout, "write", lambda *_: seen.append(signal.getsignal(signal.SIGTERM)))
    invoke("run", *TO, *HOME)
    assert seen[0] == signal.SIG_IGN


@pytest.mark.usefixtures("cluster")
def test_the_page_has_the_keys_of_run_and_verify(invoke: Invoke) -> None:
    """Whoever writes a script finds all keys of both in one place, and no key that is gone."""
    page = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8")
    named = re.findall(r"`(\w+)(?:\[\])?`", page.partition("## JSON of run and verify")[2].partition("\n## ")[0])
    ran = invoke("run", "--dry-run", "-o", "json", *TO, *HOME).json
    verified = invoke("verify", *TO, "-o", "json", code=7).json
    assert named == [*ran, *verified, *verified["problems"][0]]


def test_a_command_without_a_set_says_so_and_a_run_names_the_upgrade(invoke: Invoke) -> None:
    """On the wrong cluster nobody reads that all is migrated; beside the old operator the next step is its upgrade."""
    invoke.on(MemoryCluster(*installed("v0.1.0-alpha.9")))
    printed = invoke("run", *TO)
    assert printed.out.startswith("Nothing to do: no PodCliqueSet was found. Is this the right cluster?\n")
    assert "helm upgrade" in printed.out
    (event,) = (event for event in printed.events if event["event"] == "summary")
    assert event["operator"][:10] == "Deployment", "stdout may be lost"
    assert event["next"][1][:12] == "helm upgrade", "stdout may be lost"
    assert invoke("verify", *TO).out == "Nothing to verify: no PodCliqueSet was found. Is this the right cluster?\n"
    undone = invoke("run", *TO, "--from", "v0.1.0-alpha.9", "--revert").out
    assert undone.startswith("Nothing to revert: no stored hash comes from this migration.\n")


@pytest.mark.usefixtures("cluster")
def test_the_last_lines_of_verify_say_what_is_wrong_and_what_is_next(invoke: Invoke) -> None:
    """A Job's log may be all that there is: its text is for people, and an alert reads the JSON lines."""
    summary, failed = invoke("verify", *TO, code=7).events[-2:]
    assert (summary["event"], summary["exit_code"], summary["problems"]) == ("summary", 7, 66)
    assert summary["next"] == ["grove-migrator run --to v0.1.0-alpha.11 --stop-operator"]
    assert failed["object"] in summary["first"][0]


def test_verify_names_the_run_that_keeps_the_other_pods(invoke: Invoke) -> None:
    """Beside a new operator that replaces pods, nobody looks for the one command that ends this."""
    invoke.on(MemoryCluster(*objects(), *installed("v0.1.0-alpha.11")))
    summary = invoke("verify", *TO, "--after-upgrade", code=7).events[-2]
    assert summary["next"] == ["grove-migrator run --to v0.1.0-alpha.11 --allow GM-102 --stop-operator"]


@pytest.mark.usefixtures("cluster")
def test_verify_names_every_value_that_is_not_the_targets(invoke: Invoke) -> None:
    """Exit 7, one problem per value, as lines or as JSON."""
    captured = invoke("verify", *TO, "-o", "json", code=7)
    problems = captured.json["problems"]
    assert len(problems) == 66
    assert captured.last["code"] == "verification-failed"
    logged = [event["event"] for event in captured.events]
    assert "verify_failed" in logged
    assert "verified" not in logged
    lines = invoke("verify", *TO, code=7).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "3 sets are not migrated to v0.1.0-alpha.11 yet."
    assert sum("problem " in line for line in lines) == 3
    assert lines[-2:] == [
        "          And 63 more: -o json lists all.",
        "next      grove-migrator run --to v0.1.0-alpha.11 --stop-operator",
    ]


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize(("source", "revert"), [(("--from", "v0.1.0-alpha.8"), ()), ((), ("--revert",))])
def test_plan_names_the_command_that_finishes_a_run(
    source: tuple[str, ...], revert: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """With the direction and the source of the run that did not end, whose command it is; typed, it finishes it."""
    run = ("run", *source, *TO, "--stop-operator")
    if revert:
        invoke(*run)
    end_at_a_pod(site.store)
    invoke(*run, *revert, code=6)
    said = invoke("plan").out
    origin = f"from {source[1]} " if source else ""
    story = f"The {'revert of the run' if revert else 'run'} {origin}to v0.1.0-alpha.11"
    assert re.search(rf"{story} that began at .* UTC did not end, and may have written\.", " ".join(said.split()))
    words = shlex.split(said.splitlines()[-1])
    assert words == ["next", "grove-migrator", "run", *source, *TO, *revert, "--stop-operator"]
    targets = invoke("plan", "-o", "json").json["targets"]
    objected = {one["scheme"] for one in targets if "GM-205" in {found["code"] for found in one["warnings"]}}
    assert objected
    assert "legacy-1.35" not in objected, "it is the run's own target"
    other = invoke("plan", "--to", "legacy-1.36", "-o", "json").json["warnings"]
    (remedy,) = {one["remedy"] for one in other if one["code"] == "GM-205"}
    assert remedy.startswith(f"finish it with `{' '.join(words[1:])}`")
    invoke(*words[2:])
    assert "did not end" not in invoke("plan").out


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("target", [TO, ()])
def test_plan_does_not_believe_that_every_recorded_set_is_gone(
    target: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """After a run that is half-way, a cluster without its sets is an error of `plan`, as it is of `run`."""
    end_at_a_pod(site.store)
    invoke("run", *TO, "--stop-operator", code=6)
    for raw in site.store.everything(POD_CLIQUE_SETS):
        site.store.drop(POD_CLIQUE_SETS, raw["metadata"]["namespace"], raw["metadata"]["name"])
    said = "a run did not end, and no PodCliqueSet was read; if all of them were deleted on purpose, first delete the"
    assert said in invoke("run", *TO, "--stop-operator", code=6).failure["message"]
    assert said in invoke("plan", *target, code=1).failure["message"]
    invoke("plan", *target, "-n", "search")  # they may be elsewhere


def test_a_verification_says_what_it_compared(site: Site, invoke: Invoke) -> None:
    """With the record of the run the promise in numbers; without one, that only values and operators were checked."""
    invoke("run", *TO, "--stop-operator")
    site.install(TO[1])
    plain, first = (invoke("verify", *TO, *more).out for more in ((), ("--after-upgrade",)))
    plain = plain.partition("note ")[0]
    done = "The operator is ready: the upgrade is complete."
    assert " ".join(first.split()) == " ".join(
        f"{plain}pods 19 of 19 pods are older than the migration. {done}".split()
    )
    counts = invoke("verify", *TO, "--after-upgrade", "-o", "json").json
    assert (counts["podsOlderThanMigration"], counts["podsYoungerThanMigration"]) == (19, 0)
    site.store.drop(LEASES, "grove-system", OWN_LEASE)
    note = "No record tells when the run was: only values and operators were\n          checked."
    assert invoke("verify", *TO, "--after-upgrade").out == f"{plain}note      {note}\n"


def test_every_command_that_is_printed_can_be_typed(tmp_path: Path, invoke: Invoke) -> None:
    """A next step has known commands and flags, and no placeholder, whatever it is printed by."""
    texts = [
        invoke("plan", "-f", DUMP).out,
        invoke("plan", "-f", DUMP, *TO).out,
        invoke("plan", "-f", written(tmp_path / "refused.json", with_a_refused_set()), *TO).out,
    ]
    invoke.on(MemoryCluster(*objects(), *installed("v0.1.0-alpha.9")))
    texts += [invoke("plan", "--context", "a lab", *TO).out, invoke("verify", *TO, code=7).out]
    found = [command for text in texts for command in re.findall(r"(?m)(?<=^next      )grove-migrator .*$", text)]
    found += [command for text in texts for command in re.findall(r"`(grove-migrator [^`]*)`", " ".join(text.split()))]
    assert len(found) > 3
    for command in found:
        program, name, *words = shlex.split(command)
        assert program == "grove-migrator"
        cli.cli.commands[name].make_context(name, words, **cli.cli.context_settings)
