"""Put the real output of examples/demo.sh into README.md, between its two marks: ``python -m scripts.readme``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
README: Final = ROOT / "README.md"
_MARKED: Final = re.compile(r"(<!-- demo: begin [^\n]*-->\n).*?(<!-- demo: end -->)", re.DOTALL)


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
    """Write README.md; a test checks that it is current."""
    shown, text = demo().strip(), README.read_text(encoding="utf-8")
    README.write_text(_MARKED.sub(lambda match: f"{match[1]}```\n{shown}\n```\n{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
