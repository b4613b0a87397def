"""One real node for all scenarios of a test process; without its namespaces the tests skip."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import asdict

import pytest

from tests.cluster.manifests.site import Site
from tests.node import images, scenarios, traces
from tests.node.cluster import Machine, Scene, ended
from tests.support import counts


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skips where nobody has made namespaces for a node."""
    if traces.VARIABLE not in os.environ:
        pytest.skip("a real node lives in namespaces of its own: make node-test")


@pytest.fixture(scope="session")
def machine(namespaces: None) -> Iterator[Machine]:  # noqa: ARG001 - it only skips
    """The cluster."""
    with Machine([images.ours()]) as started:
        yield started


@pytest.fixture(scope="session")
def prepared(machine: Machine) -> Iterator[Scene]:
    """The cluster with CRDs, rights and policies."""
    site = Site(machine.server, machine.server.client(), machine.directory / "site")
    site.prepare()
    site.grant()
    scene = Scene(machine, site)
    with scene.watched():
        yield scene


@pytest.fixture
def recorded(prepared: Scene, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The cluster of the scenario before; what this one has shown is recorded if it passes, and printed if not."""
    before = request.session.testsfailed
    yield prepared
    row = prepared.row(str(request.function.__doc__).partition(":")[0])
    if request.session.testsfailed == before:
        counts.record("node_scenarios", 1)
        counts.keep(scenarios.VARIABLE, request.node.name, asdict(row))
        return
    sys.stdout.write(f"{row}\n")
    for pod in prepared.pods():
        sys.stdout.write(f"{ended(pod)}\n{prepared.log(pod['metadata']['name'])}\n")


@pytest.fixture
def scene(recorded: Scene) -> Scene:
    """The cluster as an operator of alpha.9 leaves it, without any Job."""
    recorded.begin()
    return recorded
