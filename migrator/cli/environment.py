"""Environment variables: each flag has one, and flags on the command line win.

``GROVE_MIGRATOR_<FLAG>`` is for every command that has the flag, ``GROVE_MIGRATOR_<COMMAND>_<FLAG>`` for one command.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

PREFIX: Final = "GROVE_MIGRATOR"

#: Flags without a variable. One that was left over in an environment would change what the next command does.
_NONE: Final = frozenset({"--help", "--revert", "--close"})
#: Flags that mean something else with each command, so that the variable must name the command.
_OF_ONE: Final = frozenset({"--output", "--filename", "--write", "--yes"})


def read_variables(commands: Mapping[str, click.Command]) -> None:
    """Let every option of these commands be given by its variables; the command's own comes first."""
    for name, command in commands.items():
        for option in command.params:
            if isinstance(option, click.Option):
                option.envvar = variables(name, option)


def variables(command: str, option: click.Option) -> list[str]:
    """The variables of an option of a command."""
    flag = next(opt for opt in option.opts if opt.startswith("--"))
    if flag in _NONE:
        return []
    ending = flag.removeprefix("--").replace("-", "_").upper()
    own = f"{PREFIX}_{command.upper()}_{ending}"
    return [own] if flag in _OF_ONE else [own, f"{PREFIX}_{ending}"]
