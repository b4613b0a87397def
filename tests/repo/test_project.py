"""The project's own tools: what CI relies upon, and what is locked."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from migrator.hashing import layouts
from scripts import check_counts, lock
from tests.support import counts
from tests.support.paths import ROOT


def run_pytest(directory: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run a test file as CI does."""
    (directory / "test_it.py").write_text(f"import pytest\n{text}")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.plugins", "-c", "/dev/null", "-q", str(directory)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "text",
    [
        "def test_it():\n    pytest.skip('no Go')\n",
        "@pytest.mark.skipif(True, reason='no Go')\ndef test_it():\n    pass\n",
        "@pytest.fixture\ndef go():\n    pytest.skip('no Go')\ndef test_it(go):\n    pass\n",
        "pytest.skip('no Go', allow_module_level=True)\n",
    ],
    ids=["in a test", "by mark", "in a fixture", "a whole module"],
)
def test_in_ci_a_skip_is_a_failure(tmp_path: Path, text: str) -> None:
    """However a test skips, CI fails and prints the reason."""
    done = run_pytest(tmp_path, text)
    assert done.returncode != 0
    assert "in CI nothing may: Skipped: no Go" in done.stdout


def test_in_ci_passing_and_expected_failures_stay_what_they_are(tmp_path: Path) -> None:
    """The plugin minds skips only."""
    known = "@pytest.mark.xfail(reason='known')\ndef test_other(): assert 0\n"
    done = run_pytest(tmp_path, f"def test_it():\n    pass\n{known}")
    assert done.returncode == 0
    assert "1 passed, 1 xfailed" in done.stdout


def test_counts_add_up_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was recorded twice counts the sum, and the file keeps one line for each."""
    target = tmp_path / "counts.jsonl"
    monkeypatch.setenv("GROVE_MIGRATOR_COUNTS", str(target))
    for name, n in (("a", 2), ("b", 5), ("a", 3)):
        counts.record(name, n)
    assert check_counts.totals(target.read_text(encoding="utf-8")) == {"a": 5, "b": 5}


def test_nothing_is_counted_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without GROVE_MIGRATOR_COUNTS a test run leaves no file behind."""
    monkeypatch.delenv("GROVE_MIGRATOR_COUNTS", raising=False)
    monkeypatch.chdir(tmp_path)
    counts.record("a", 1)
    assert list(tmp_path.iterdir()) == []


def test_counts_below_what_is_required_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suite that did too little, or nothing, fails and prints by how much; counts of one name add up."""
    required, counted = tmp_path / "required.json", tmp_path / "counts.jsonl"
    required.write_text('{"vectors": 10, "pairs": 4}')
    monkeypatch.setattr(check_counts, "REQUIRED", required)
    counted.write_text('{"name": "vectors", "n": 6}\n{"name": "vectors", "n": 5}\n')
    assert check_counts.main(str(counted)) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"vectors": 11}
    assert captured.err == "check_counts: pairs: 0, but at least 4 are required\n"
    counted.write_text('{"name": "vectors", "n": 10}\n{"name": "pairs", "n": 4}\n')
    assert check_counts.main(str(counted)) == 0


def test_what_a_machine_cannot_count_is_printed_and_not_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reason stands in the counts' line in place of a number; without one the number is required."""
    required, counted = tmp_path / "required.json", tmp_path / "counts.jsonl"
    required.write_text('{"pairs": 4, "pods": 1}')
    counted.write_text('{"name": "pairs", "n": 4}\n')
    monkeypatch.setattr(check_counts, "REQUIRED", required)
    assert check_counts.main(str(counted)) == 1
    assert check_counts.main(str(counted), "pods=No root, PATH=/bin.") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"pairs": 4, "pods": "cannot: No root, PATH=/bin."}


def test_every_minor_is_required() -> None:
    """A name with {minor} in it is required of every minor that is shipped, previews too, and of nothing else."""
    found = check_counts.expanded({"vectors_{minor}": 10, "pairs": 4})
    assert found == {"pairs": 4, **{f"vectors_{minor}": 10 for minor in layouts.minors()}}
    assert {"vectors_1.37", "vectors_1.33"} < found.keys()


def test_what_is_required_is_recorded_somewhere() -> None:
    """Every name that CI requires is one that a test records, or CI could never pass."""
    required = json.loads(check_counts.REQUIRED.read_text(encoding="utf-8"))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    assert required
    for name in required:
        family, minor = re.match(r"(\w+?)(_\{minor\})?$", name).groups("")  # type: ignore[union-attr]
        assert re.search(rf"record\(\s*f?\"{family}(?:{re.escape(minor)})?\"", sources), name


def test_the_locks_hold_every_dependency_by_hash_and_name_no_place() -> None:
    """requirements/*.txt cover pyproject.toml, pin every file by hash, and do not name where it came from."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    wanted = {
        "runtime.txt": project["project"]["dependencies"],
        "build.txt": list(lock.group(groups, "build")),
        "dev.txt": [*project["project"]["dependencies"], *lock.group(groups, "dev")],
    }
    assert {path.name for path in lock.REQUIREMENTS.iterdir()} == set(wanted)
    for name, requirements in wanted.items():
        text = (lock.REQUIREMENTS / name).read_text(encoding="utf-8")
        pinned = re.findall(r"^([a-z0-9._-]+)==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
        assert len(pinned) == len(re.findall(r"^\S+==", text, re.MULTILINE))
        asked = {re.split(r"[<>=~!]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
        assert asked <= set(pinned), name
        assert not re.search(r"https?:|--(?:extra-)?index|find-links|trusted-host", text)


def test_every_dependency_says_why_it_is_there() -> None:
    """A runtime dependency has its reason beside it in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text.partition("\ndependencies = [")[2].partition("\n]")[0]
    assert all(re.search(r"\",\s+# \S", line) for line in block.strip().splitlines())


def test_the_oldest_click_has_what_the_command_line_asks_for() -> None:
    """Click has had ``NoArgsIsHelpError`` since 8.2: without it a mistyped flag off a terminal ends in a traceback."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [oldest] = (one.partition(">=")[2] for one in project["project"]["dependencies"] if one.startswith("click>="))
    assert tuple(map(int, oldest.split("."))) >= (8, 2)
