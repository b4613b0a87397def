"""Building Go programs: a cache that notices changed sources, and one clear reason where it fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.go_programs import GoProgram, GoProgramError, cache_directory, go


@pytest.fixture
def hello(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoProgram]:
    """A small program, an empty cache, and no Go on PATH but an old one: the one of the wheel builds it."""
    monkeypatch.setenv("GROVE_MIGRATOR_CACHE", str(tmp_path / "cache"))
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.25.9\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    source = tmp_path / "hello"
    source.mkdir()
    (source / "go.mod").write_text("module hello\n\ngo 1.24.0\n")
    (source / "main.go").write_text("package main\n\nfunc main() {}\n")
    go.cache_clear()
    yield GoProgram("hello", source)
    go.cache_clear()


def test_a_build_is_cached_until_its_sources_change(hello: GoProgram) -> None:
    """The second request returns the first one's file; other sources, or other flags, are another program."""
    built = hello.binary()
    stamp = built.stat().st_mtime_ns
    assert built.parent == cache_directory() / "go"
    assert (hello.binary(), built.stat().st_mtime_ns) == (built, stamp)
    assert GoProgram("hello", hello.directory, ldflags="-s").binary() != built
    (hello.directory / "main.go").write_text("package main\n\nfunc main() { println() }\n")
    assert hello.binary() != built


def test_a_build_that_fails_says_why(hello: GoProgram) -> None:
    """The failure of the test holds the compiler's own words, and nothing is cached."""
    (hello.directory / "main.go").write_text("package main\n\nfunc main() { missing() }\n")
    with pytest.raises(GoProgramError, match="undefined: missing"):
        hello.binary()
    assert not list(cache_directory().glob("go/hello-*"))
