"""What ``plan`` is given: several files, none that is meant, a part of one; and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migrator.kinds import POD_CLIQUE_SETS
from migrator.planning.guards import CATALOGUE
from migrator.planning.known_issues import KNOWN_ISSUES
from migrator.releases.table import releases
from testbed.trees import as_list
from tests.support.command_line import DUMP, MANIFESTS, TO, Invoke, installed, objects, written
from tests.support.memory_store import MemoryCluster


def test_a_manifest_is_named_with_its_file(invoke: Invoke) -> None:
    """An object that never was in a cluster has no uid: the file, the namespace and the name say which it is."""
    message = invoke("plan", "-f", MANIFESTS, *TO, code=2).failure["message"]
    assert message.startswith(f"{MANIFESTS}: PodCliqueSet inference/llama-70b has no metadata.uid")


@pytest.mark.parametrize("target", [(), TO], ids=["first look", "target"])
def test_a_limit_that_is_no_quantity_is_named(target: tuple[str, ...], tmp_path: Path, invoke: Invoke) -> None:
    """The set and, in its plan, the path; all other sets are planned."""
    items = objects()
    pcs = next(item for item in items if item["kind"] == "PodCliqueSet")
    (container,) = pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
    container["resources"] = {"limits": {"nvidia.com/gpu": "many"}}
    said = " ".join(invoke("plan", "-f", written(tmp_path / "dump", items), *target).out.split())
    assert "GM-139 The template cannot be hashed" in said
    assert "PodCliqueSet inference/llama-70b" in said
    at = "spec.template.cliques[0].spec.podSpec.containers[0].resources.limits.nvidia.com/gpu"
    assert (f"{at}: the text there is no quantity" in said) is bool(target)


def test_several_files_are_read_together(tmp_path: Path, invoke: Invoke) -> None:
    """One file for each kind is one dump; the last one does not win."""
    flags: list[str | Path] = []
    for kind in sorted({item["kind"] for item in objects()}):
        flags += ["-f", written(tmp_path / kind, [item for item in objects() if item["kind"] == kind])]
    together = invoke("plan", *flags, *TO, "-o", "json").json
    assert together["summary"] == invoke("plan", "-f", DUMP, *TO, "-o", "json").json["summary"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (as_list([]), "dump.json has no PodCliqueSet;"),
        ({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}}, "has no PodCliqueSet;"),
        ({**as_list(objects()), "metadata": {"continue": "abc"}}, "is one page of a longer list (metadata"),
    ],
)
def test_input_that_is_not_what_was_meant_is_exit_2(
    body: dict[str, Any], said: str, tmp_path: Path, invoke: Invoke
) -> None:
    """A file without a set, or with a part of a list, is named for what it is, and the command to dump with."""
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(body))
    for command in (["plan", *TO], ["plan"]):
        message = invoke(*command, "-f", path, code=2).failure["message"]
        assert said in message
        assert "dump again" in message or "kubectl api-resources" in message


def test_a_set_that_go_cannot_decode_is_refused_in_the_words_of_hash(tmp_path: Path, invoke: Invoke) -> None:
    """A count that is not an integer is in no hash, and the operator could not read the set all the same."""
    items = objects()
    next(item for item in items if item["kind"] == "PodCliqueSet")["spec"]["replicas"] = "one"
    dump = written(tmp_path / "dump.json", items)
    said = "spec.replicas: it is not an int32"
    (refusal,) = invoke("plan", *TO, "-f", dump, "-o", "json").json["refusals"]
    assert (refusal["code"], refusal["name"], refusal["field"]) == ("GM-139", "llama-70b", "/spec/replicas")
    assert said in refusal["message"]
    assert said in invoke("hash", "-f", dump, code=2).message


BREACHED = {"type": "MinAvailableBreached", "status": []}


@pytest.mark.parametrize("status", [{"currentGenerationHash": {}}, {"conditions": [BREACHED]}], ids=str)
def test_a_status_of_the_wrong_shape_is_no_bug(status: dict[str, Any], tmp_path: Path, invoke: Invoke) -> None:
    """An API server's schema refuses it; what a file holds instead of a hash or a word counts as none."""
    items = objects()
    for item in items:
        if item["kind"] in {"PodCliqueSet", "PodClique"}:
            item["status"] |= {"scheduledReplicas": 0} | status
    invoke("plan", "-f", written(tmp_path / "dump.json", items), *TO)


def test_an_api_server_without_grove_is_not_an_all_clear(invoke: Invoke) -> None:
    """Without the CRDs it is the wrong cluster, or too early: 2; with them and without sets there is nothing to do."""
    invoke.on(MemoryCluster(without=[POD_CLIQUE_SETS]))
    assert "does not know podcliquesets.grove.io" in invoke("plan", *TO, code=2).failure["message"]
    invoke.on(MemoryCluster())
    for command in (["plan", *TO], ["plan"], ["plan", *TO, "-o", "html"], ["run", "--dry-run", *TO]):
        assert "Nothing to do: no PodCliqueSet was found or selected" in invoke(*command).out
    invoke("verify", *TO)


def test_without_a_target_every_scheme_gets_a_row(invoke: Invoke) -> None:
    """JSON has what a plan has for each target; the table has one line each and names no build that nobody runs."""
    found = invoke("plan", "-f", DUMP, "-o", "json").json
    assert [target["scheme"] for target in found["targets"]] == ["legacy-1.33", "legacy-1.34", "legacy-1.35"]
    assert [target["summary"]["podsRecreatedWithoutMigration"] for target in found["targets"]] == [25, 0, 25]
    planned = invoke("plan", "-f", DUMP, *TO, "-o", "json").json
    assert found["apiVersion"] == planned["apiVersion"] == "grove-migrator/v1"
    assert found["outlook"]["podCliqueSets"] == 3
    assert found["outlook"]["pods"] == 25
    assert found["outlook"]["gpus"] == 134
    lines = invoke("plan", "-f", DUMP).out.splitlines()
    assert lines[2] == "sets      3 PodCliqueSets, 25 pods, 134 GPUs."
    newest = [release.name for release in releases() if not release.from_main][-1]
    assert f"v0.1.0-alpha.10 to {newest} 25 134 0" in [" ".join(line.split()) for line in lines]
    assert lines[-1] == f"next      grove-migrator plan -f {DUMP} --to {newest}"
    lines = invoke("plan", "-f", DUMP, "-n", "inference").out.splitlines()
    assert lines[-1] == f"next      grove-migrator plan -f {DUMP} -n inference --to {newest}"


def test_the_running_operators_row_is_marked(invoke: Invoke) -> None:
    """On a cluster the image of the operator says what runs."""
    invoke.on(MemoryCluster(*objects(), *installed("v0.1.0-alpha.9")))
    found = invoke("plan", "-o", "json").json
    assert [target["running"] for target in found["targets"]] == [False, True, False]
    out = invoke("plan").out
    assert "Grove v0.1.0-alpha.9." in out, "Dynamo brings no such release"
    assert "Not shown, as they are not newer: v0.1.0-alpha.1 to v0.1.0-alpha.9.\n" in out
    invoke.on(MemoryCluster(*objects(), *installed("v0.1.0-alpha.4")))
    assert "Not shown, as they are not newer: v0.1.0-alpha.1 to v0.1.0-alpha.4.\n" in invoke("plan").out
    invoke.on(MemoryCluster(*objects(), *installed("v0.1.0-alpha.6")))
    assert "          Grove v0.1.0-alpha.6 (Dynamo 1.0).\n" in invoke("plan").out


@pytest.mark.parametrize("command", [["plan"], ["run", "--dry-run", "--stop-operator"]])
def test_who_comes_from_where_is_read_off_the_operator_that_runs(command: list[str], invoke: Invoke) -> None:
    """Its release decides which known issues concern the upgrade; an operator that is stopped decides nothing."""
    items = objects()
    pcs = next(item for item in items if item["kind"] == "PodCliqueSet")
    pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": "enabled"}

    def issues(release: str, replicas: int) -> list[str]:
        invoke.on(MemoryCluster(*items, *installed(release, replicas=replicas)))
        found = invoke(*command, *TO, "-o", "json").json
        return [advice["message"] for advice in found.get("plan", found)["advisories"]]

    assert issues("v0.1.0-alpha.9", 1) == []
    (sure,) = issues("v0.1.0-alpha.8", 1)
    assert "if the old release is" not in sure
    (open_,) = issues("v0.1.0-alpha.11", 0)
    assert "if the old release is v0.1.0-alpha.8 or older" in open_


def test_a_scheme_may_be_that_of_a_release_that_nobody_has_read(invoke: Invoke, tmp_path: Path) -> None:
    """Whoever names the newest scheme for such a release sees the known issues that public threads name for it."""
    items = objects()
    for item in items:
        if item["kind"] == "Pod":
            item["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "x"}
    advised = {}
    for target in ("legacy-1.34", "legacy-1.35", "legacy-1.37", "v0.1.0-alpha.12-rc1"):
        found = invoke("plan", "-f", written(tmp_path / "dump.json", items), "--to", target, "-o", "json").json
        advised[target] = {one["message"].partition("(if")[2] for one in found["advisories"] if one["id"] == "GM-304"}
    condition = " the new release is v0.1.0-alpha.12 to v0.1.0-alpha.13)"
    assert advised["legacy-1.35"] == {condition}
    assert advised["legacy-1.37"] == {condition}
    assert advised["legacy-1.34"] == advised["v0.1.0-alpha.12-rc1"] == set()


def test_every_code_is_explained_offline(invoke: Invoke) -> None:
    """`guards` lists all codes with what refuses, and explains each by its entry; an unknown one is 2."""
    listed = invoke("guards").out
    assert "(unknown-place: refuses)" in listed
    assert "(other-sets: warns)" in listed
    assert "Unknown code GM-999" in invoke("guards", "GM-999", code=2).failure["message"]
    for code, entry in {**CATALOGUE, **KNOWN_ISSUES}.items():
        assert code in listed
        said = " ".join(invoke("guards", code.lower()).out.split())
        assert said.startswith(f"{code} {entry.title}.")
        assert entry.remedy[1:] in said
        assert ("--allow" in said) is getattr(entry, "overridable", False)
    assert "A member below its minimum ends its gang." in invoke("guards", "update-in-flight", "301").out


def test_a_label_that_no_set_has_is_named(invoke: Invoke) -> None:
    """A mistyped --group-by is a page that looks right, with one group in which everything is."""
    page = ("plan", "-f", DUMP, *TO, "-o", "html", "--group-by")
    (warned,) = invoke(*page, "taem").events
    assert warned["event"] == "unknown_label"
    assert warned["message"] == "No PodCliqueSet has the label taem (--group-by)."
    items = objects()
    label = next(iter(next(item for item in items if item["kind"] == "PodCliqueSet")["metadata"]["labels"]))
    printed = invoke(*page, label)
    assert f"by label {label}" in printed.out
    assert printed.err == ""
