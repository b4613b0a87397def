"""The table of library versions, against what is published and what the oracles link."""

from __future__ import annotations

import re

import pytest

from migrator.releases import program
from migrator.releases.program import API, MACHINERY
from testbed.oracle import HERE, MINORS
from tests.golden.add_versions import listed


@pytest.mark.parametrize("minor", MINORS)
def test_the_oracles_link_what_the_table_has(minor: str) -> None:
    """The checksums of each oracle's go.sum, with which all hashes are compared, are those of the table."""
    text = (HERE / f"v{minor}" / "go.sum").read_text(encoding="utf-8")
    for module in (API, MACHINERY):
        [(version, checksum)] = re.findall(rf"(?m)^{module} ([^/\s]+) (h1:\S+)$", text)
        assert program.libraries()[module][version] == (checksum, minor)


@pytest.mark.slow  # asks the module proxy
@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("module", [API, MACHINERY])
def test_every_published_version_was_compared(module: str, minor: str) -> None:
    """A patch version that was published since is compared before the next release of ours."""
    compared = {
        int(version.rpartition(".")[2]) for version, row in program.libraries()[module].items() if row[1] == minor
    }
    assert set(listed(module, minor)) <= compared, "run python -m tests.golden.add_versions"
