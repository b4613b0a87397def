"""``version``."""

from __future__ import annotations

import json
import platform

import click

from migrator import __version__
from migrator.cli import output
from migrator.cli.options import log_options, output_option


@click.command(
    short_help="The version of grove-migrator.",
    epilog="""\b
    Examples:
      grove-migrator version
      grove-migrator version -o json
    """,
)
@output_option("table", "json")
@log_options
def version(form: str) -> None:
    """Print the version of grove-migrator and of the Python that runs it."""
    if form == "json":
        output.write(json.dumps({"version": __version__, "python": platform.python_version()}) + "\n")
    else:
        output.write(f"grove-migrator {__version__} (Python {platform.python_version()})\n")
