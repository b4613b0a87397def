"""What is generated and checked in is what the oracles say today, and what is published."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from migrator.releases.program import API, MACHINERY, libraries
from testbed.go_programs import go
from testbed.oracle import HERE, MINORS, NEWEST
from tests.golden import add_minor, layouts, regenerate
from tests.golden.add_versions import listed
from tests.golden.vectors import vectors


@pytest.mark.differential
def test_layouts_are_current() -> None:
    """Every layout file has the text that the oracles print, and there is no other file beside them."""
    expected = layouts.rendered()
    found = {path: path.read_text(encoding="utf-8") for path in layouts.LAYOUTS.glob("*.json")}
    assert found == expected, "run python -m tests.golden.regenerate"


@pytest.mark.differential
@pytest.mark.parametrize("path", [vectors.TEMPLATES, vectors.POD_CLIQUE_SETS], ids=lambda path: path.name)
def test_golden_vectors_are_current(path: Path) -> None:
    """The oracles of today make every golden input and hash again, to the byte."""
    assert gzip.decompress(path.read_bytes()) == regenerate.golden(path), "run python -m tests.golden.regenerate"


@pytest.mark.parametrize("minor", MINORS)
def test_the_oracles_link_what_the_table_has(minor: str) -> None:
    """The checksums of each oracle's go.sum, with which all hashes are compared, are those of the table."""
    text = (HERE / f"v{minor}" / "go.sum").read_text(encoding="utf-8")
    for module in (API, MACHINERY):
        [(version, checksum)] = re.findall(rf"(?m)^{module} ([^/\s]+) (h1:\S+)$", text)
        assert libraries()[module][version] == (checksum, minor)


@pytest.mark.slow  # asks the module proxy
@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("module", [API, MACHINERY])
def test_every_published_version_was_compared(module: str, minor: str) -> None:
    """A patch version that was published since is compared before the next release of ours."""
    compared = {int(version.rpartition(".")[2]) for version, row in libraries()[module].items() if row[1] == minor}
    assert set(listed(module, minor)) <= compared, "run python -m tests.golden.add_versions"


@pytest.mark.slow
def test_the_newest_minor_can_be_made_anew(tmp_path: Path) -> None:
    """One call makes of the second newest oracle the newest, as it is checked in."""
    for name in ("shared", *(f"v{minor}" for minor in MINORS[:-1])):
        shutil.copytree(HERE / name, tmp_path / name)
    checked_in = HERE / f"v{NEWEST}"
    [version] = re.findall(r"k8s\.io/api (\S+)", (checked_in / "go.mod").read_text())
    made = add_minor.add(NEWEST, version, newest=MINORS[-2], directory=tmp_path)
    ours, theirs = (
        subprocess.run([go(), "run", ".", "layout"], cwd=directory, capture_output=True, check=True).stdout
        for directory in (made, checked_in)
    )
    assert ours == theirs
