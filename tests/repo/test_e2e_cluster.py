"""The kind tests as far as they can be checked without kind: commands, the Job, and the sets that they run."""

from __future__ import annotations

import copy
import difflib
import inspect
from pathlib import Path
from typing import Any

import pytest

from migrator import __version__
from migrator.hashing import podcliqueset, schemes
from testbed.controlplane import crds
from testbed.controlplane.client import Object
from tests.support.paths import ROOT
from tests.upgrade import samples
from tests.upgrade.builds import BUILDS, Build
from tests.upgrade.cluster import Cluster
from tests.upgrade.kind import pods
from tests.upgrade.kind.charts import Charts
from tests.upgrade.kind.cluster import KindCluster, build_image, manifest
from tests.upgrade.kind.commands import CommandError, lacking, lacking_charts
from tests.upgrade.lab import Lab
from tests.upgrade.matrix import ON_KIND, Pair

ALPHA_3, ALPHA_9 = BUILDS["v0.1.0-alpha.3"], BUILDS["v0.1.0-alpha.9"]


class Recorder:
    """Notes command lines instead of running them; those that begin with ``failing`` fail."""

    def __init__(self, *failing: str, answer: str = "") -> None:
        self.commands: list[tuple[str, ...]] = []
        self._failing, self._answer = failing, answer

    def __call__(self, *argv: str) -> str:
        """Note one command line."""
        self.commands.append(argv)
        if self._failing and argv[: len(self._failing)] == self._failing:
            raise CommandError("it failed")
        return self._answer


@pytest.mark.parametrize("cluster", [Lab, KindCluster])
def test_a_cluster_can_do_what_the_bodies_ask(cluster: type[Any]) -> None:
    """Each abstract method is there and takes every argument that the bodies may give it, by the same name."""
    asked = {name: getattr(Cluster, name) for name in Cluster.__abstractmethods__}
    assert {"install", "tool", "ended", "create_set"} <= asked.keys()
    for name, wanted in asked.items():
        own, parameters = (inspect.signature(found).parameters for found in (getattr(cluster, name), wanted))
        for key, parameter in parameters.items():
            assert (own[key].kind, own[key].default) == (parameter.kind, parameter.default), name
        assert all(own[added].default is not inspect.Parameter.empty for added in own.keys() - parameters.keys()), name


@pytest.mark.parametrize("failing", [("kind", "create"), ("kind", "load"), ("kubectl",)])
def test_a_cluster_that_does_not_come_up_is_deleted(tmp_path: Path, failing: tuple[str, ...]) -> None:
    """Whatever fails on the way, the last command deletes the cluster that the first one began to create."""
    recorder = Recorder(*failing)
    cluster = KindCluster(tmp_path, "grove-migrator:x", run=recorder)
    with pytest.raises(CommandError), cluster:
        pass
    named = ("--name", cluster.name, "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert recorder.commands[0] == ("kind", "create", "cluster", *named, "--wait", "5m")
    assert recorder.commands[-1] == ("kind", "delete", "cluster", *named)


def test_two_clusters_have_two_names(tmp_path: Path) -> None:
    """Runs beside each other never share a cluster, nor delete each other's."""
    assert len({KindCluster(tmp_path, "x", run=Recorder()).name for _ in range(10)}) == 10


def test_the_image_is_built_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Base images and package sources of the environment reach the build by name, and others do not."""
    for name in ("BUILD_BASE", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RUNTIME_BASE", "mirror.example/python:3.13")
    recorder = Recorder()
    build_image("grove-migrator:x", run=recorder)
    assert recorder.commands == [
        ("docker", "build", "--tag", "grove-migrator:x", "--build-arg=RUNTIME_BASE", str(ROOT))
    ]


@pytest.mark.parametrize(
    ("build", "chart"),
    [(ALPHA_3, "oci://ghcr.io/nvidia/grove/grove-charts"), (ALPHA_9, "oci://ghcr.io/ai-dynamo/grove/grove-charts")],
    ids=lambda found: getattr(found, "name", None),
)
def test_a_release_is_installed_from_where_it_was_published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: Build, chart: str
) -> None:
    """Its chart's CRDs come first, server-side, then the chart without them, and then it is waited for."""
    happened: list[object] = []
    monkeypatch.setattr(crds, "put", lambda _client, found: happened.append(found))
    monkeypatch.setattr(KindCluster, "wait_for_operator", lambda _cluster, found: happened.append(found))
    recorder = Recorder(answer="---\nkind: CustomResourceDefinition\n---\n")
    cluster = KindCluster(tmp_path, "grove-migrator:x", run=recorder)
    cluster.client = None  # type: ignore[assignment] # put is not the real one
    cluster.install(build)
    assert happened == [[{"kind": "CustomResourceDefinition"}], build]
    show, install = recorder.commands
    assert show == ("helm", "show", "crds", chart, "--version", build.name)
    assert install[:7] == ("helm", "upgrade", "--install", "grove", chart, "--version", build.name)
    assert "--skip-crds" in install
    assert install[install.index("--namespace") + 1] == "grove-system"
    assert install[install.index("--kubeconfig") + 1] == str(tmp_path / "kubeconfig")


def test_what_has_no_chart_is_not_installed(tmp_path: Path) -> None:
    """A build that is not a release is refused by name before anything is run."""
    recorder = Recorder()
    with pytest.raises(ValueError, match="is not a release of Grove"):
        KindCluster(tmp_path, "x", run=recorder).install(BUILDS["v0.1.0-alpha.3-k8s-1.34"])
    assert recorder.commands == []


def test_the_job_is_the_manifest_with_another_image_and_target() -> None:
    """Two lines differ from manifests/job.yaml: the image, and --to."""
    before = (ROOT / "manifests" / "job.yaml").read_text(encoding="utf-8").splitlines()
    after = manifest("grove-migrator:e2e-1", "v0.1.0-alpha.9").splitlines()
    changed = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    assert [f"{line[0]} {line[2:].strip()}" for line in changed] == [
        f"- image: grove-migrator:{__version__}",
        "+ image: grove-migrator:e2e-1",
        "- - --to=v0.1.0-alpha.11",
        "+ - --to=v0.1.0-alpha.9",
    ]


@pytest.mark.parametrize("more", [(), ("--stop-operator", "--concurrency", "8")])
def test_a_run_with_flags_that_the_job_has_not_is_refused(tmp_path: Path, more: tuple[str, ...]) -> None:
    """No test can believe that the Job ran with flags that it did not have."""
    recorder = Recorder()
    with pytest.raises(ValueError, match="--to RELEASE --stop-operator"):
        KindCluster(tmp_path, "x", run=recorder).tool("run", "--to", ALPHA_9.name, *more)
    assert recorder.commands == []


def test_an_engine_that_does_not_answer_is_named() -> None:
    """The engine is asked before a cluster is created."""
    found = [lacking(run=run, which=lambda _: "/bin/it") for run in (Recorder("docker"), Recorder())]
    assert found == ["no Docker engine answers: it failed", None]


def test_a_chart_that_cannot_be_had_skips_only_what_needs_it() -> None:
    """Charts are asked for by the pair: those of others do not matter."""
    failing = Recorder("helm", "show", "chart", *Charts().reference(ALPHA_3.name))
    assert lacking_charts([ALPHA_3.name, ALPHA_9.name], run=failing) == "Grove's charts cannot be had: it failed"
    assert lacking_charts([ALPHA_9.name], run=failing) is None


def test_missing_programs_are_named_and_nothing_is_run() -> None:
    """Without the programs no command is tried."""
    recorder = Recorder()
    found = lacking(run=recorder, which=lambda program: None if program in {"kind", "helm"} else program)
    assert found == "not on PATH: kind, helm"
    assert recorder.commands == []


@pytest.mark.parametrize("pcs", samples.all_sets(on_delete=True), ids=lambda pcs: pcs["metadata"]["name"])
def test_a_small_set_is_the_same_set_for_the_operator(pcs: Object) -> None:
    """Only image, command, resources and probe of containers are exchanged, no GPU is left, and the sample stays."""
    before, small = _without_exchanged(pcs), pods.small(pcs)
    assert _without_exchanged(small) == before
    assert _without_exchanged(pcs) == before
    for container in _containers(small):
        assert (container["image"], container["command"]) == (pods.IMAGE, list(pods.COMMAND))
        assert set(container.get("resources", {}).get("limits", {})) <= {"memory", "cpu"}
        assert container.get("readinessProbe", {}).get("httpGet", pods.HEALTH) == pods.HEALTH


@pytest.mark.parametrize("pair", ON_KIND, ids=lambda pair: pair.name)
def test_each_small_set_hashes_otherwise_after_the_upgrade(pair: Pair) -> None:
    """The upgrade without the tool has something to recreate in every set, and both ends of it are releases."""
    source, target = pair.builds
    assert source.release
    assert target.release
    for pcs in samples.all_sets(on_delete=source.on_delete):
        small = pods.small(pcs)
        old, new = (podcliqueset.hash_pod_clique_set(small, schemes.resolve(build.name)) for build in pair.builds)
        assert not set(old.pod_template_hashes.items()) & set(new.pod_template_hashes.items())


def _containers(pcs: Object) -> list[Object]:
    cliques = pcs["spec"]["template"]["cliques"]
    return [container for clique in cliques for container in clique["spec"]["podSpec"]["containers"]]


def _without_exchanged(pcs: Object) -> Object:
    found = copy.deepcopy(pcs)
    for container in _containers(found):
        for name in ("image", "command", "resources", "readinessProbe"):
            container.pop(name, None)
    return found
