"""Building the oracle: a cache that notices changed sources, and one clear reason where Go is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import build, client


def test_without_go_the_reason_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Go gets an error that names Go, and a test on it is skipped for that reason."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(build.OracleUnavailableError, match="found no go command"):
        build.oracle_binary("1.35")
    with pytest.raises(pytest.skip.Exception, match="found no go command"):
        client.require("1.35")


def test_in_ci_a_missing_go_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI=true a suite that cannot ask the oracle fails instead of skipping."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="required in CI"):
        client.require("1.35")


def test_an_unknown_minor_is_refused() -> None:
    """A minor without an oracle is refused with the known ones listed."""
    with pytest.raises(build.OracleUnavailableError, match=r"no oracle for k8s.io/api 1.20; there is one for 1.33, "):
        build.oracle_binary("1.20")


def test_a_build_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request for a minor returns the first one's file, from the directory that was configured."""
    client.require("1.35")
    monkeypatch.setenv("GROVE_MIGRATOR_CACHE", str(tmp_path))
    built = build.oracle_binary("1.35")
    stamp = built.stat().st_mtime_ns
    assert tmp_path in built.parents
    assert build.oracle_binary("1.35") == built
    assert built.stat().st_mtime_ns == stamp


def test_lines_keep_their_bytes_and_never_break() -> None:
    """A question is one line with the input's own bytes; input with a raw newline is refused."""
    assert client.line('a"b', "input", b'{"x":1.0}') == b'{"id":"a\\"b","input":{"x":1.0}}'
    with pytest.raises(ValueError, match="raw newline"):
        client.line("x", "input", b"{\n}")
