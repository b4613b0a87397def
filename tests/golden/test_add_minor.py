"""Adding an API minor with one command."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.go_programs import go
from testbed.oracle import HERE, MINORS, NEWEST
from tests.golden import add_minor


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
