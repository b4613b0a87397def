"""The end of .ci/run: what it prints of kind, and what makes it fail. Its commands are stood in for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from scripts import check_counts
from tests.support.paths import ROOT

CLOSING = "===== 3 passed in 0.01s ====="
SCENARIOS = "kind_scenarios"
MAKE = """\
#!/bin/sh
case $1 in
  test) cat "$SUITE" >> "$GROVE_MIGRATOR_COUNTS"; echo "%s" ;;
  e2e) cat "$KIND" >> "$GROVE_MIGRATOR_COUNTS"; echo containers; exit "$KIND_CODE" ;;
esac
"""
PYTHON = """\
#!/bin/sh
if [ "$2" = tests.e2e ]; then echo "$WHY"; [ -z "$WHY" ]; exit; fi
exec "%s" "$@"
"""


def ci(scratch: Path, *, why: str = "", scenarios: int = 99, code: int = 0) -> tuple[int, list[str]]:
    """The exit code and the output of .ci/run, where everything else passes, and kind does as told."""
    counts = check_counts.expanded(json.loads(check_counts.REQUIRED.read_text(encoding="utf-8")))
    counted = [json.dumps({"name": name, "n": n}) for name, n in counts.items() if name != SCENARIOS]
    (scratch / "suite").write_text("\n".join(counted) + "\n", encoding="utf-8")
    (scratch / "kind").write_text(json.dumps({"name": SCENARIOS, "n": scenarios}) + "\n", encoding="utf-8")
    programs = scratch / "bin"
    programs.mkdir()
    for name, text in (("make", MAKE % CLOSING), ("python", PYTHON % sys.executable)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "VENV": str(scratch),
        "SUITE": str(scratch / "suite"),
        "KIND": str(scratch / "kind"),
        "KIND_CODE": str(code),
        "WHY": why,
    }
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_what_ran_on_kind_is_counted(tmp_path: Path) -> None:
    """The last line is that of the main suite, and the one before has all counts."""
    code, [*_, counted, last] = ci(tmp_path, scenarios=99)
    assert (code, last) == (0, CLOSING)
    assert json.loads(counted)[SCENARIOS] == 99


def test_a_machine_without_kind_passes_and_says_why(tmp_path: Path) -> None:
    """The reason stands in the counts' line, and nothing was tried."""
    code, lines = ci(tmp_path, why="An engine of its own needs root.")
    assert (code, lines[-1]) == (0, CLOSING)
    assert json.loads(lines[-2])[SCENARIOS] == "cannot: An engine of its own needs root."
    assert "containers" not in lines


def test_a_failure_on_kind_is_said_and_decides_nothing(tmp_path: Path) -> None:
    """Where a scenario fails, the counts' line says so; the last line is what it always is."""
    code, [*_, counted, last] = ci(tmp_path, code=2)
    assert (code, last) == (0, CLOSING)
    assert json.loads(counted)[SCENARIOS].startswith("cannot: A scenario failed on kind")


def test_too_few_scenarios_fail(tmp_path: Path) -> None:
    """A suite that did nothing on kind has not passed."""
    assert ci(tmp_path, scenarios=1)[0] == 1
