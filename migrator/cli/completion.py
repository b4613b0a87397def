"""``completion``: the script by which a shell completes commands, flags, schemes, releases and contexts."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

from migrator.cli import output

#: kubectl calls this program with the typed words; the last one may be empty
#: (kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins). ``:4`` directs kubectl not to offer files.
KUBECTL: Final = """#!/bin/sh
COMP_WORDS="grove-migrator $*" COMP_CWORD=$# _GROVE_MIGRATOR_COMPLETE=bash_complete grove-migrator |
  cut -d, -f2
echo :4
"""


def main(*, shell: str) -> None:
    """Print the script for this shell."""
    if shell == "kubectl":
        output.write(KUBECTL)
        return
    made = get_completion_class(shell)
    if made is None:
        raise AssertionError(f"Click completes {shell}")
    root = click.get_current_context().find_root().command
    output.write(made(root, {}, "grove-migrator", "_GROVE_MIGRATOR_COMPLETE").source() + "\n")
