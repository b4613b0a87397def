"""The project's own tools: what CI relies upon, and what is locked."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from scripts import lock
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
