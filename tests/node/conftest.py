"""One real node for all scenarios of a test process; without its namespaces the tests skip."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.manifests.site import Site
from tests.node import images, traces
from tests.node.cluster import Machine, Scene, ended


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
def prepared(machine: Machine) -> Scene:
    """The cluster with CRDs, rights and policies."""
    site = Site(machine.server, machine.server.client(), machine.directory / "site")
    site.prepare()
    return Scene(machine, site)


@pytest.fixture
def scene(prepared: Scene) -> Iterator[Scene]:
    """The cluster as an operator of alpha.9 leaves it, without any Job; prints afterwards how pods have ended."""
    prepared.begin()
    yield prepared
    for pod in prepared.pods():
        found = ended(pod)
        sys.stdout.write(f"{found.name}: {found.code} {found.reason} {sorted(found.conditions)} {found.message}\n")
    sys.stdout.write(f"failed: {[job['status'].get('failed', 0) for job in prepared.jobs()]}, {prepared.events()}\n")
