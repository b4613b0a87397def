"""The image that the Dockerfile gives: what is in it, and that it plans without network on a read-only root."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator

import pytest

from tests.node import images
from tests.node.cluster import Machine
from tests.support.paths import ROOT

pytestmark = [pytest.mark.node, pytest.mark.timeout(600)]

#: What we add to a base, in bytes; the published slim base has 125 MB.
LARGEST = 55_000_000
UNUSED = ("aiohttp", "multidict", "yarl", "frozenlist", "propcache", "kubernetes/aio", "kubernetes/client/api/")


@pytest.fixture(scope="module")
def added(namespaces: None) -> Iterator[tarfile.TarFile]:  # noqa: ARG001 - it only skips
    """The last layer: what the Dockerfile puts upon its base."""
    with tarfile.open(images.ours()) as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        [image] = json.load(manifest)
        layers = [archive.extractfile(name) for name in image["Layers"]]
        assert layers[-1] is not None
        with tarfile.open(fileobj=io.BytesIO(layers[-1].read())) as layer:
            yield layer


def test_what_we_add_is_small_and_used(added: tarfile.TarFile) -> None:
    """At most 55 MB beside the base, and nothing of the client that the tool never imports."""
    names = [entry.name for entry in added]
    assert sum(entry.size for entry in added) <= LARGEST
    assert any("site-packages/migrator/" in name for name in names)
    assert [name for name in names if any(f"site-packages/{unused}" in name for unused in UNUSED)] == []


def test_every_module_is_compiled(added: tarfile.TarFile) -> None:
    """The bytecode of each of our modules is in the image, because nothing can be written beside it later."""
    names = [entry.name for entry in added if "site-packages/migrator/" in entry.name]
    sources = [name for name in names if name.endswith(".py")]
    assert 0 < len(sources) == len([name for name in names if name.endswith(".pyc")])


def test_a_dump_is_planned_without_network_on_a_read_only_root(machine: Machine) -> None:
    """IMAGE plan -f - reads standard input and prints the plan."""
    image, command = f"docker.io/library/{images.OURS}", "grove-migrator plan -f - --to v0.1.0-alpha.11"
    printed = machine.node.run_image(image, command, stdin=ROOT / "examples" / "cluster.yaml")
    assert "would be recreated; with it: 0" in printed
