"""One cluster for all scenarios of the Job; without an engine the tests skip."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from testbed.kind import BUSYBOX
from tests.cluster.site import NEW, OLD
from tests.e2e import images
from tests.e2e.kind import Kind
from tests.e2e.scene import Scene
from tests.support.commands import docker_answers


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """Our image and busybox in an engine; skips where none answers."""
    if not docker_answers():
        pytest.skip("no Docker engine answers: make e2e")
    with images.prepared():
        yield


@pytest.fixture(scope="session")
def prepared(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:  # noqa: ARG001 - it only skips
    """The cluster, with CRDs, rights and policies, and the images of the stand-in operator."""
    with images.operators(OLD, NEW) as operators, Kind(tmp_path_factory.mktemp("kind")) as cluster:
        cluster.load([images.OURS, BUSYBOX, *operators])
        scene = Scene(cluster)
        scene.prepare()
        scene.grant()
        yield scene


@pytest.fixture
def scene(prepared: Scene, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """The cluster of the scenario before; if this one fails, what its Job said is printed."""
    before = request.session.testsfailed
    yield prepared
    if request.session.testsfailed != before:
        prepared.kind.failed = True
        sys.stdout.write(prepared.told())


@pytest.fixture
def helm(scene: Scene) -> Iterator[Scene]:
    """The cluster without anything of ours or an operator; afterwards what manifests/job.yaml grants is back."""
    scene.stop_operator()
    scene.clear()
    scene.uninstall()
    scene.withdraw()
    yield scene
    scene.clear()
    scene.uninstall()
    scene.grant()
