"""Files that are written: whole or not at all, and only what can be changed in place."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from migrator.errors import OutputError
from migrator.resources import PODS, Op
from migrator.stores.dump import file as dumpfile
from migrator.stores.dump.store import DumpStore
from tests.support.dumps import LABEL, POD, as_yaml, dump, read, relabel, swap


@pytest.fixture
def store(tmp_path: Path) -> DumpStore:
    """A dump of one pod."""
    return read(tmp_path, json.dumps(POD))


def is_refused(store: DumpStore, folder: Path, message: str) -> None:
    """Check that writing fails with that message, leaves OUT as it was, and leaves nothing beside it."""
    out = folder / "out"
    out.write_text("before")
    with pytest.raises(OutputError, match=message):
        store.write(str(out))
    assert out.read_text() == "before"
    assert sorted(path.name for path in folder.iterdir()) == ["dump", "out"]


@pytest.mark.parametrize(
    "text",
    [
        as_yaml(POD).replace("'5678'", "&x '5678'"),
        as_yaml(POD).replace("'5678'", "!!str 5678"),
        as_yaml(POD).replace("'5678'", "|-\n        5678"),
        as_yaml(POD)
        .replace("hash: '5678'", "hash: *x")
        .replace("  labels:", "  annotations: {x: &x '5678'}\n  labels:"),
    ],
)
def test_what_cannot_be_changed_in_place_is_not_written(tmp_path: Path, text: str) -> None:
    """A value that is shared, tagged or a block is refused rather than guessed at, and OUT stays as it was."""
    store = read(tmp_path, text)
    relabel(store)
    is_refused(store, tmp_path, "cannot be changed in place")


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_nothing_is_printed_of_what_cannot_be_changed_in_place(
    tmp_path: Path, compress: Callable[[bytes], bytes], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Neither a part of it nor an empty gzip file, which would look like a whole one."""
    store = read(tmp_path, compress(as_yaml(POD).replace("'5678'", "!!str 5678").encode()))
    relabel(store)
    with pytest.raises(OutputError, match="cannot be changed in place"):
        store.write("-")
    assert capsysbinary.readouterr().out == b""


@pytest.mark.parametrize(
    "op", [Op("replace", "/metadata/labels/new", "x"), Op("replace", "/spec", 5), Op("replace", LABEL, None)]
)
def test_only_strings_are_replaced(tmp_path: Path, store: DumpStore, op: Op) -> None:
    """A change that no plan makes cannot be made in a file, and the others of its patch are not made."""
    with pytest.raises(OutputError, match="only strings can be replaced"):
        store.patch(PODS, "a", "p", [*swap(LABEL, "5678", "bcd"), op])
    store.write(str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == json.dumps(POD)


def test_a_file_that_changes_while_it_is_read_is_not_written(tmp_path: Path, store: DumpStore) -> None:
    """It is read again to be written, and places in another text mean nothing."""
    relabel(store)
    dump(tmp_path, json.dumps({**POD, "more": 1}))
    is_refused(store, tmp_path, "changed while it was read")


def test_an_existing_file_is_replaced_with_its_permissions(tmp_path: Path, store: DumpStore) -> None:
    """The name leads to the new content, links are followed, permissions stay, and nothing is left beside it."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    store.write(str(link))
    assert link.is_symlink()
    assert json.loads(real.read_text()) == POD
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump", "link", "real"]


def test_nobody_else_may_open_the_new_file_before_it_has_the_permissions_of_the_old(
    tmp_path: Path, store: DumpStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dump holds secrets: who opens it early would read what is written later."""
    (tmp_path / "out").touch(0o600)
    early: list[int] = []
    monkeypatch.setattr(os, "fchmod", lambda number, _mode: early.append(stat.S_IMODE(os.fstat(number).st_mode)))
    mask = os.umask(0)
    try:
        store.write(str(tmp_path / "out"))
    finally:
        os.umask(mask)
    assert early == [0o600]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path, store: DumpStore) -> None:
    """Not those of a temporary file."""
    mask = os.umask(0o027)
    try:
        store.write(str(tmp_path / "out"))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_input_and_output_may_be_the_same_file(tmp_path: Path) -> None:
    """In place, atomically."""
    path = dump(tmp_path, as_yaml(POD))
    store = DumpStore.read(path)
    relabel(store)
    store.write(path)
    assert Path(path).read_text() == as_yaml(POD).replace("'5678'", "bcd")


@pytest.mark.parametrize("place", ["missing/out", "dump/out", "."])
def test_a_place_that_cannot_be_written_to(tmp_path: Path, store: DumpStore, place: str) -> None:
    """No such directory, or a directory itself: one sentence, and exit code 1."""
    with pytest.raises(OutputError, match="cannot write to") as caught:
        store.write(str(tmp_path / place))
    assert caught.value.exit_code == 1


def test_a_failure_on_the_way_leaves_the_old_file(
    tmp_path: Path, store: DumpStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk in the middle of the write: OUT is what it was, and nothing is left beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dumpfile.os, "fsync", full)
    is_refused(store, tmp_path, "No space left")


def test_a_device_is_written_to_as_it_is(tmp_path: Path, store: DumpStore) -> None:
    """A pipe cannot be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    store.write(str(pipe))
    assert json.loads(os.read(reader, 65536)) == POD
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
