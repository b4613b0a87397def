"""Write a new version of ours wherever one stands: ``python -m scripts.set_version 1.2.0``, or ``1.2.0-rc1``.

That spelling is SemVer, which charts need, and Python reads it too: the wheel's file name has ``1.2.0rc1`` (PEP 440).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from migrator import __version__

ROOT: Final = Path(__file__).resolve().parent.parent

#: The files that name our version.
FILES: Final = (
    "migrator/__init__.py",
    ".github/ISSUE_TEMPLATE/bug.yml",
    "Dockerfile",
    "charts/grove-migrator/Chart.yaml",
    "examples/argo-cd/application.yaml",
    "examples/helm/dynamo/Chart.yaml",
    "examples/helm/grove/Chart.yaml",
    "manifests/job.yaml",
    "manifests/revert.yaml",
)
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+(-rc\d+)?")


def renamed(text: str, old: str, new: str) -> str:
    """The text with the new version for the old one; Grove's own versions begin with a v and stay."""
    return re.sub(rf"(?<![v\d.]){re.escape(old)}(?![-.\d])", new, text)


def main(arguments: list[str]) -> int:
    """Write every file."""
    if len(arguments) != 1 or not _VERSION.fullmatch(arguments[0]):
        sys.stderr.write("which version? python -m scripts.set_version 1.2.0, or 1.2.0-rc1\n")
        return 2
    [new] = arguments
    for name in FILES:
        path = ROOT / name
        path.write_text(renamed(path.read_text(encoding="utf-8"), __version__, new), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
