"""The commands of docs/upgrade.md, run in the order in which it gives them, on a cluster in memory.

Helm is played: what it would do to the operator's Deployment is done. So the sections are walked as a reader walks
them, and every command of ours must succeed where the page says that it is to be run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import cli
from migrator.cli import wiring
from migrator.resources import DEPLOYMENTS, POD_CLIQUE_SETS, PODS
from tests.support.memory_store import MemoryStore, Request
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "upgrade.md").read_text()
EXAMPLE = ROOT / "examples" / "cluster.yaml"
OLD, NEW = "v0.1.0-alpha.9", "v0.1.0-alpha.11"
CONFIGURATION = """apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection: {enabled: true, leaseDuration: 15s, resourceName: grove-operator-leader-election}
"""
LABELS = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}


class Site:
    """A cluster with an operator, and whoever types the commands of the page."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "grove-system"}}
        items: list[dict[str, Any]] = yaml.safe_load(EXAMPLE.read_text())["items"]
        configuration = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "grove-operator-cm-1", "namespace": "grove-system"},
            "data": {"config.yaml": CONFIGURATION},
        }
        self.store = MemoryStore(namespace, configuration, *items)
        self.store.after.append(self._follow)
        self.install(OLD, 1)

    def install(self, release: str, replicas: int) -> None:
        """What Helm does to the Deployment, and the controllers to its pod."""
        containers = [{"name": "grove-operator", "image": f"example.test/grove-operator:{release}"}]
        volumes = [{"name": "operator-config", "configMap": {"name": "grove-operator-cm-1"}}]
        template = {"metadata": {"labels": LABELS}, "spec": {"containers": containers, "volumes": volumes}}
        self.store.put(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "grove-operator", "namespace": "grove-system", "labels": LABELS, "generation": 1},
                "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template},
                "status": {"observedGeneration": 1},
            }
        )
        self._control()
        if replicas:
            metadata = {"name": "grove-operator-x", "namespace": "grove-system", "labels": LABELS}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Running"}}
            self.store.put({**pod, "spec": template["spec"]})

    def _follow(self, request: Request) -> None:
        if request.resource == DEPLOYMENTS and request.subresource == "scale" and request.number:
            self._control()

    def _control(self) -> None:
        """What the Deployment controller does when the replicas have changed: no pod of before stays."""

        def observe(body: dict[str, Any]) -> None:
            body["status"]["observedGeneration"] = body["metadata"]["generation"]

        self.store.edit(DEPLOYMENTS, "grove-system", "grove-operator", observe)
        self.store.drop(PODS, "grove-system", "grove-operator-x")

    @property
    def replicas(self) -> int:
        """Of the operator's Deployment."""
        found: int = self.store.read(DEPLOYMENTS, "grove-system", "grove-operator")["spec"]["replicas"]
        return found

    def type(self, line: str) -> None:
        """Carry out one line of the page; fails where it is not understood or does not succeed."""
        if line.startswith("grove-migrator "):
            words = [str(self.directory / word) if word == "dump.yaml" else word for word in shlex.split(line)[1:]]
            assert cli.invoke(words) == 0, line
        elif line.startswith("kubectl get ") and line.endswith("> dump.yaml"):
            (self.directory / "dump.yaml").write_bytes(EXAMPLE.read_bytes())
        elif line.startswith("helm upgrade grove <old chart>"):
            self.install(OLD, int(line.rpartition("replicaCount=")[2]))
        elif line.startswith("helm upgrade grove <new chart>"):
            self.install(NEW, 1)
        elif line == "helm rollback grove":
            self.install(OLD, 1)
        else:
            pytest.fail(f"nobody knows how to play: {line}")

    @property
    def generations(self) -> list[str]:
        """What the sets' own hashes are: those of the example, or others."""
        return [item["status"]["currentGenerationHash"] for item in self.store.everything(POD_CLIQUE_SETS)]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site that the command line finds."""
    made = Site(tmp_path)
    monkeypatch.setattr(wiring, "connect", lambda *_, dry_run, **__: made.store.in_dry_run(dry_run))
    return made


def lines(section: str) -> Iterator[str]:
    """The commands in the code blocks of a section, up to the next heading."""
    body = re.split(r"(?m)^#+ ", PAGE.partition(f"# {section}\n")[2])[0]
    blocks = re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", body)
    assert blocks, section
    for block in blocks:
        yield from (line.strip() for line in block.splitlines())


def test_before(site: Site) -> None:
    """Looking disturbs nothing, with a cluster and with a dump."""
    before = site.generations
    for line in lines("Before"):
        site.type(line)
    assert site.generations == before
    assert site.replicas == 1


@pytest.mark.parametrize("section", ["By hand, in two Helm steps", "Let the run stop the operator"])
def test_there_and_back(site: Site, section: str) -> None:
    """Rehearsed, migrated, upgraded, verified; and later back, with the old hashes when the old operator returns."""
    old = site.generations
    for line in [*lines("A rehearsal"), *lines(section)]:
        site.type(line)
    new = site.generations
    assert not set(old) & set(new)
    for line in lines("After"):
        site.type(line)
    assert site.generations == new
    back = list(lines("Going back"))
    for line in back[back.index(next(line for line in back if "--revert" in line)) + 1 :]:
        site.type(line)
    assert site.generations == old


def test_back_before_the_new_operator_has_run(site: Site) -> None:
    """The first block of going back undoes a run, and brings the old operator back too."""
    old = site.generations
    site.type(next(iter(lines("Let the run stop the operator"))))
    assert site.replicas == 0
    assert site.generations != old
    site.type(next(line for line in lines("Going back") if "--revert" in line))
    assert site.generations == old
    assert site.replicas == 1
