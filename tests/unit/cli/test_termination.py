"""What a pod leaves behind when its run is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.cli import connect, termination
from tests.support.command_line import DUMP, TO, Invoke
from tests.support.tables import table


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the environment names."""
    path = tmp_path / "termination-log"
    monkeypatch.setenv(termination.VARIABLE, str(path))
    return path


@table(
    "in_a_pod named written",
    ("Outside a pod nothing is written.", (False, None, None)),
    ("A process beside a ServiceAccount's namespace file is in a pod.", (True, None, "/dev/termination-log")),
    ("A file that is named is written outside a pod too.", (False, "told", "told")),
    ("An empty name switches it off.", (True, "", None)),
)
def test_only_a_pod_or_who_asks_gets_a_summary(
    named: str | None, written: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_a_pod: bool
) -> None:
    """The summary is in the file that the environment names, or in the one that Kubernetes reads."""
    namespace, files = tmp_path / "namespace", []
    if in_a_pod:
        namespace.write_text("grove-system")
    monkeypatch.setattr(connect, "_OWN_NAMESPACE", namespace)
    monkeypatch.setattr(Path, "write_bytes", lambda path, _: files.append(str(path)))
    monkeypatch.delenv(termination.VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(termination.VARIABLE, named)
    termination.write({"outcome": "done"})
    assert files == ([written] if written else [])


def test_a_run_leaves_what_it_did(left: Path, tmp_path: Path, invoke: Invoke) -> None:
    """After success the file tells directions, sets and patches."""
    invoke("run", "-f", DUMP, "--write", tmp_path / "out.yaml", *TO)
    done = {"outcome": "done", "exitCode": 0, "from": "auto", "to": "v0.1.0-alpha.11"}
    counts = {"podCliqueSets": 3, "patches": 51, "operatorReplicas": None, "operatorImage": None}
    assert json.loads(left.read_bytes()) == done | counts


def test_a_failed_run_leaves_its_reason(left: Path, invoke: Invoke) -> None:
    """After a failure the file tells exit code, reason and message, even before anything is read."""
    invoke("run", "-f", DUMP, "--dry-run=client", "--to", "v0.1.0-alpha.99", code=2)
    summary = json.loads(left.read_bytes())
    assert (summary["outcome"], summary["exitCode"], summary["code"]) == ("failed", 2, "unknown-scheme")
    assert "v0.1.0-alpha.99" in summary["message"]


def test_a_summary_that_cannot_be_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, invoke: Invoke
) -> None:
    """The run's exit code is its own, whether or not its summary found a place."""
    monkeypatch.setenv(termination.VARIABLE, str(tmp_path / "absent" / "file"))
    invoke("run", "-f", DUMP, "--dry-run=client", *TO)


@pytest.mark.parametrize("text", ["x" * 9000, "ü" * 3000, '"\\\n' * 3000, "x"], ids=["long", "wide", "quoted", "short"])
def test_a_summary_is_json_of_at_most_4096_bytes(text: str) -> None:
    """However long a message is and however its characters are spelt, what is left of it is valid JSON that fits."""
    encoded = termination.encode({"outcome": "failed", "exitCode": 1, "message": text})
    assert len(encoded) <= 4096
    summary = json.loads(encoded)
    assert summary["outcome"] == "failed"
    assert summary["message"] == text or summary["message"].endswith("...")
    assert text.startswith(summary["message"].removesuffix("..."))
