"""Files that are written: whole or not at all."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrator.errors import OutputError
from migrator.resources import PODS
from migrator.stores.dump.store import DumpStore
from tests.store.dump.dumps import POD, RELABELLED, as_yaml, dump, read


@pytest.fixture
def store(tmp_path: Path) -> DumpStore:
    """A dump of one pod."""
    return read(tmp_path, json.dumps(POD))


def test_an_existing_file_is_replaced(tmp_path: Path, store: DumpStore) -> None:
    """The name leads to the new content, links are followed, and nothing is left beside it."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    store.write(str(link), ())
    assert link.is_symlink()
    assert json.loads(real.read_text())["items"] == [POD]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump", "link", "real"]


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_the_new_file_has_the_permissions_of_the_dump_from_its_first_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    """A dump holds secrets: nobody reads what is written who could not read the dump, not even who opens it early."""
    Path(dump(tmp_path, json.dumps(POD))).chmod(mode)
    early: list[int] = []
    change = os.fchmod
    monkeypatch.setattr(
        os, "fchmod", lambda file, new: (early.append(stat.S_IMODE(os.fstat(file).st_mode)), change(file, new))
    )
    mask = os.umask(0)
    try:
        DumpStore.read(str(tmp_path / "dump")).write(str(tmp_path / "out"), ())
    finally:
        os.umask(mask)
    assert (early, stat.S_IMODE((tmp_path / "out").stat().st_mode)) == ([0o600], mode)


@pytest.mark.parametrize(("before", "mode"), [(None, 0o640), (0o604, 0o604)])
def test_what_came_from_stdin_has_the_permissions_of_the_file_that_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None, mode: int
) -> None:
    """Or those of any new file."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(POD).encode())))
    if before is not None:
        (tmp_path / "out").touch()
        (tmp_path / "out").chmod(before)
    mask = os.umask(0o027)
    try:
        DumpStore.read("-").write(str(tmp_path / "out"), ())
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode


def test_input_and_output_may_be_the_same_file(tmp_path: Path) -> None:
    """In place, atomically; the next look at it finds what was written."""
    path = dump(tmp_path, as_yaml(POD))
    store = DumpStore.read(path)
    store.write(path, [RELABELLED])
    (found,) = DumpStore.read(path).list(PODS, dict)
    assert found["metadata"]["labels"] == {"grove.io/pod-template-hash": "8765"}


@pytest.mark.parametrize("place", ["missing/out", "dump/out", "."])
def test_a_place_that_cannot_be_written_to(tmp_path: Path, store: DumpStore, place: str) -> None:
    """No such directory, or a directory itself: one sentence, and exit code 1."""
    with pytest.raises(OutputError, match="cannot write to") as caught:
        store.write(str(tmp_path / place), ())
    assert caught.value.exit_code == 1


def test_a_failure_on_the_way_leaves_the_old_file(
    tmp_path: Path, store: DumpStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle of the write: OUT is what it was, and nothing is left beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    out = tmp_path / "out"
    out.write_text("before")
    with pytest.raises(OutputError, match="No space left"):
        store.write(str(out), [RELABELLED])
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump", "out"]


def test_a_device_is_written_to_as_it_is(tmp_path: Path, store: DumpStore) -> None:
    """A pipe cannot be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write(str(pipe), ())
    assert json.loads(os.read(reader, 65536))["items"] == [POD]
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
