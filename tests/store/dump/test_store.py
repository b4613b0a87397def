"""A file as a cluster: what can be read and patched in it, and what it cannot have."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import NotFound
from migrator.errors import TestFailed as FailedTest
from migrator.resources import CONFIG_MAPS, LEASES, POD_CLIQUE_SETS, POD_CLIQUES, PODS, Op
from migrator.store import DryRun
from tests.support.dumps import LABEL, OBJECTS, PCS, POD, read, regenerate, relabel, swap, written


def test_reading_what_is_there(tmp_path: Path) -> None:
    """Namespace and label selectors, one object by name, and what a dump cannot have."""
    other = {**PCS, "metadata": {"name": "other", "uid": "u3", "labels": {"app": "batch"}}}
    store = read(tmp_path, "\n".join(map(json.dumps, [*OBJECTS, other])))

    def name(item: dict[str, Any]) -> str:
        return str(item["metadata"]["name"])

    assert store.list(POD_CLIQUE_SETS, name) == ("demo", "other")
    assert store.list(POD_CLIQUE_SETS, name, namespace="default") == ("other",)
    assert store.list(POD_CLIQUE_SETS, name, label_selector="app in (web)") == ("demo",)
    assert store.list(PODS, name, label_selector="app!=web", metadata_only=True) == ("p",)
    assert store.get(POD_CLIQUE_SETS, "a", "demo") == PCS
    assert not store.is_cluster
    for absent in (
        lambda: store.get(PODS, "a", "q"),
        lambda: store.get(PODS, "b", "p"),
        lambda: store.get(LEASES, "a", "l"),
        lambda: store.get(CONFIG_MAPS, "a", "c"),
        lambda: store.list(LEASES, name),
        lambda: store.get(PODS, "a", "p", subresource="scale"),
        lambda: store.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}),
        lambda: store.delete(PODS, "a", "p", "u2"),
    ):
        with pytest.raises(NotFound):
            absent()


@pytest.mark.parametrize("labels", [{"app": ["web"]}, {"app": {}}, {"app": 1}])
def test_a_label_that_is_no_text_matches_nothing(tmp_path: Path, labels: dict[str, Any]) -> None:
    """A file may hold anything: what is listed is checked by its reader, and a selector does not fail."""
    store = read(tmp_path, json.dumps({**PCS, "metadata": {**PCS["metadata"], "labels": labels}}))
    for selector in ("app in (web)", "app=web", "app>0"):
        assert store.list(POD_CLIQUE_SETS, len, label_selector=selector) == ()
    assert len(store.list(POD_CLIQUE_SETS, len)) == 1


def test_a_patch_leaves_what_was_returned_before_as_it_was(tmp_path: Path) -> None:
    """Who holds an object sees no later change in it, even beside a number that keeps its spelling."""
    store = read(tmp_path, json.dumps({**PCS, "odd": 1.5}))
    before = store.get(POD_CLIQUE_SETS, "a", "demo")
    regenerate(store)
    assert before["status"] == PCS["status"]
    assert store.get(POD_CLIQUE_SETS, "a", "demo")["status"] == {"currentGenerationHash": "def6"}


def test_a_failed_test_changes_nothing(tmp_path: Path) -> None:
    """The patch is refused as a whole, in memory too."""
    store = read(tmp_path, json.dumps(POD))
    with pytest.raises(FailedTest):
        store.patch(PODS, "a", "p", [*swap(LABEL, "5678", "bcd"), Op("test", "/metadata/uid", "other")])
    assert store.get(PODS, "a", "p") == POD


@pytest.mark.parametrize("pod", [POD, {**POD, "metadata": {**POD["metadata"], "generation": 1.0}}])
@pytest.mark.parametrize("mode", [DryRun.CLIENT, DryRun.SERVER])
def test_a_dry_run_changes_nothing(tmp_path: Path, mode: DryRun, pod: dict[str, Any]) -> None:
    """Neither kind touches an object, odd numbers or not; the one that stands for the server's still tests."""
    store = read(tmp_path, json.dumps(pod).replace("1.0", "1e0"))
    before = deepcopy(store.get(PODS, "a", "p"))
    dry = store.in_dry_run(mode)
    dry.patch(PODS, "a", "p", swap(LABEL, "5678", "bcd"))
    assert dry.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}) == {"metadata": {"name": "c"}}
    dry.delete(PODS, "a", "p", "u2")
    assert store.get(PODS, "a", "p") == before
    assert (dry.dry_run, store.dry_run) == (mode, DryRun.NONE)
    if mode is DryRun.SERVER:
        with pytest.raises(FailedTest):
            dry.patch(PODS, "a", "p", swap(LABEL, "wrong", "bcd"))


def test_what_nothing_looks_at_is_not_kept(tmp_path: Path) -> None:
    """A pod's containers, a PodClique's pod spec but for hashes, managedFields; what is written is whole."""
    spec = {"containers": [{"image": "x" * 10_000, "name": "55fbb579647fbb4475c4"}]}
    clique = {"kind": "PodClique", "metadata": {"name": "c", "uid": "c"}, "spec": {"podSpec": spec, "replicas": 2}}
    pod = {**POD, "spec": spec, "status": {"phase": "Running", "podIP": "::1"}}
    pod["metadata"] = {**POD["metadata"], "managedFields": [{"manager": "x"}]}
    text = json.dumps({**PCS, **clique}) + json.dumps(pod)
    store = read(tmp_path, text)
    assert store.list(PODS, dict) == ({**POD, "status": {"phase": "Running"}},)
    (kept,) = store.list(POD_CLIQUES, dict)
    assert kept["spec"] == {"podSpec": {"containers": {"0": {"name": "55fbb579647fbb4475c4"}}}, "replicas": 2}
    relabel(store)
    expected = [{**PCS, **clique}, json.loads(json.dumps(pod).replace('"5678"', '"bcd"'))]
    assert json.loads(written(tmp_path, store))["items"] == expected
