"""Put into the pages what the program says, between two marks: ``python -m scripts.readme``.

Into README.md the output of examples/demo.sh, and into docs/upgrade.md the schemes with their releases.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from migrator.hashing import schemes

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
UPGRADE: Final = ROOT / "docs" / "upgrade.md"
_MARKED: Final = re.compile(r"(<!-- demo: begin [^\n]*-->\n).*?(<!-- demo: end -->)", re.DOTALL)
_RELEASES: Final = re.compile(r"(<!-- releases: begin [^\n]*-->\n).*?(<!-- releases: end -->)", re.DOTALL)


def with_releases(text: str) -> str:
    """A page with the release table as it is: a row for each scheme that a build uses."""
    table = "\n| scheme | releases that use it |\n|---|---|\n"
    for scheme in schemes.released_schemes():
        table += f"| `{scheme}` | {', '.join(release.name for release in schemes.releases_with(scheme))} |\n"
    return _RELEASES.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def demo() -> str:
    """What the demo prints on stdout, with this Python and this source tree as its grove-migrator."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "grove-migrator"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m migrator "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        path = f"{directory}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [str(ROOT / "examples" / "demo.sh")],
            env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    return done.stdout


def main() -> None:
    """Write README.md and docs/upgrade.md; tests check that they are current."""
    UPGRADE.write_text(with_releases(UPGRADE.read_text(encoding="utf-8")), encoding="utf-8")
    shown, text = demo().strip(), README.read_text(encoding="utf-8")
    README.write_text(_MARKED.sub(lambda match: f"{match[1]}```\n{shown}\n```\n{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
