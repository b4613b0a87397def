"""In CI a test that skips has failed: a suite that did nothing must not pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("def test_it():\n    pytest.skip('no Go')\n", False),
        ("pytest.skip('no Go', allow_module_level=True)\n", False),
        ("@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert 0\n", True),
    ],
    ids=["a test", "a whole module", "an expected failure"],
)
def test_a_skip_is_a_failure(tmp_path: Path, text: str, *, passes: bool) -> None:
    """However a test skips, CI fails and prints the reason; the plugin minds nothing else."""
    (tmp_path / "test_it.py").write_text(f"import pytest\n{text}")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.plugins", "-c", "/dev/null", "-q", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is passes
    assert ("in CI nothing may: Skipped: no Go" in done.stdout) is not passes
