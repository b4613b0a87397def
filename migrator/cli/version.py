"""``version``."""

from __future__ import annotations

import platform

from migrator import __version__
from migrator.cli import output


def main(*, form: str) -> None:
    """Print our version and Python's."""
    if form == "json":
        output.write(output.as_json({"version": __version__, "python": platform.python_version()}, indent=None))
    else:
        output.write(f"grove-migrator {__version__} (Python {platform.python_version()})\n")
