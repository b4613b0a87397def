"""Adding an API minor with one command."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.go_programs import go
from testbed.oracle import HERE, MINORS, NEWEST
from tests.golden import add_minor


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The oracles without the newest."""
    for name in ("shared", *(f"v{minor}" for minor in MINORS[:-1])):
        shutil.copytree(HERE / name, tmp_path / name)
    return tmp_path


@pytest.mark.slow
def test_the_newest_minor_can_be_made_anew(copy: Path) -> None:
    """One call makes of the second newest oracle the newest, as it is checked in but for its patch release."""
    made = add_minor.add(NEWEST, newest=MINORS[-2], directory=copy)
    assert made == copy / f"v{NEWEST}"
    version = NEWEST.removesuffix("-preview").replace("1.", "v0.", 1)
    assert f"k8s.io/api {version}." in (made / "go.mod").read_text()
    printed = subprocess.run([go(), "run", ".", "layout"], cwd=made, capture_output=True, check=True).stdout
    checked_in = subprocess.run([go(), "run", ".", "layout"], cwd=HERE / f"v{NEWEST}", capture_output=True, check=True)
    assert printed == checked_in.stdout


@pytest.mark.parametrize(
    ("minor", "why"), [(MINORS[0], "exists"), *((one, "is not a minor of Kubernetes") for one in ("2.1", "1.37.0"))]
)
def test_what_cannot_be_added_is_refused_by_name(copy: Path, minor: str, why: str) -> None:
    """A minor that has an oracle, or what does not look like a minor; nothing is touched."""
    before = sorted(copy.rglob("*"))
    with pytest.raises(add_minor.CannotAddError, match=why):
        add_minor.add(minor, newest=MINORS[1], directory=copy)
    assert sorted(copy.rglob("*")) == before


def test_a_minor_without_modules_leaves_nothing(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the modules cannot be had the new directory goes again, and Go's own words say why."""
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(add_minor.CannotAddError, match=r"go get k8s\.io/api@v0\.99"):
        add_minor.add("1.99", newest=MINORS[-2], directory=copy)
    assert not (copy / "v1.99").exists()
