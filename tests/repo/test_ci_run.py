"""The end of .ci/run: what it prints of kind, and what makes it fail. Its commands are stood in for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CLOSING = "===== 3 passed in 0.01s ====="
MAKE = """\
#!/bin/sh
case $1 in
  test) echo "%s"; exit "$TEST_CODE" ;;
  e2e) echo containers; exit "$KIND_CODE" ;;
esac
"""
PYTHON = """\
#!/bin/sh
if [ "$2" = tests.e2e ]; then echo "$WHY"; [ -z "$WHY" ]; exit; fi
exec "%s" "$@"
"""


def ci(scratch: Path, *, why: str = "", tests: int = 0, kind: int = 0) -> tuple[int, list[str]]:
    """The exit code and the output of .ci/run, where everything else passes, and kind does as told."""
    programs = scratch / "bin"
    programs.mkdir()
    for name, text in (("make", MAKE % CLOSING), ("python", PYTHON % sys.executable), ("chromium", "#!/bin/sh\n")):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "GROVE_OPERATORS_DIR"},
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VENV": str(scratch),
        "TEST_CODE": str(tests),
        "KIND_CODE": str(kind),
        "WHY": why,
    }
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({}, "containers"),
        ({"why": "An engine of its own needs root."}, "kind: not run: An engine of its own needs root."),
        ({"kind": 2}, "kind: a scenario failed; the lines of make e2e above have it"),
    ],
    ids=["it runs", "it cannot run", "a scenario fails"],
)
def test_what_became_of_kind_is_said(tmp_path: Path, machine: dict[str, str | int], said: str) -> None:
    """The last line is that of the main suite, and the one before tells of kind."""
    code, [*_, kind, last] = ci(tmp_path, **machine)  # type: ignore[arg-type]
    assert (code, kind, last) == (0, said, CLOSING)


def test_a_failing_suite_decides(tmp_path: Path) -> None:
    """Whatever kind would say, a test that fails ends CI."""
    code, lines = ci(tmp_path, tests=1)
    assert code != 0
    assert "containers" not in lines
