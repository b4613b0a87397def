"""The image that the Dockerfile gives: what is in it, and that it plans without a network on a read-only root."""

from __future__ import annotations

import json

import pytest

from tests.e2e import images
from tests.support.commands import run
from tests.support.paths import ROOT

pytestmark = [pytest.mark.kind, pytest.mark.timeout(600)]

LARGEST = 55_000_000  # what we add to a base, in bytes
LOOK = """
import json, pathlib
files = [path for path in pathlib.Path("/opt/grove-migrator").rglob("*") if path.is_file() and not path.is_symlink()]
print(json.dumps({str(path): path.stat().st_size for path in files}))
"""
#: Of the client, what the tool never imports.
UNUSED = ("aiohttp", "multidict", "yarl", "frozenlist", "propcache", "kubernetes/aio", "kubernetes/client/api/")


def in_the_image(*arguments: str, entrypoint: str) -> str:
    """What a command prints in a container without a network, whose root is read-only."""
    alone = ("--rm", "--network=none", "--read-only", f"--volume={ROOT / 'examples'}:/examples:ro")
    return run("docker", "run", *alone, f"--entrypoint={entrypoint}", images.OURS, *arguments)


@pytest.mark.usefixtures("engine")
def test_the_image_is_small_and_compiled_and_plans_a_dump() -> None:
    """We add 55 MB at most, nothing unused, and the bytecode of each of our modules; a dump needs no network."""
    files = json.loads(in_the_image("-c", LOOK, entrypoint="python"))
    ours = [name for name in files if "site-packages/migrator/" in name]
    sources = [name for name in ours if name.endswith(".py")]
    assert sum(files.values()) <= LARGEST
    assert [name for name in files if any(f"site-packages/{unused}" in name for unused in UNUSED)] == []
    assert 0 < len(sources) == len([name for name in ours if name.endswith(".pyc")])
    planned = in_the_image(
        "plan", "-f", "/examples/cluster.yaml", "--to", "v0.1.0-alpha.11", entrypoint="grove-migrator"
    )
    assert "With the migration: none." in planned
