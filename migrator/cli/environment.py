"""Environment variables: each flag has one, and flags on the command line win.

``GROVE_MIGRATOR_<FLAG>`` is for every command that has the flag, ``GROVE_MIGRATOR_<COMMAND>_<FLAG>`` for one command.
"""

from __future__ import annotations

from typing import Final

import click

PREFIX: Final = "GROVE_MIGRATOR"

#: Flags without a variable. One that was left over in an environment would change what the next command does.
_NONE: Final = frozenset({"--help", "--revert", "--close"})
#: Flags that mean something else with each command, so that the variable must name the command.
_OF_ONE: Final = frozenset({"--output", "--filename", "--write", "--yes"})


def variables(command: str, option: click.Option) -> list[str]:
    """The variables of an option of a command."""
    flag = next(opt for opt in option.opts if opt.startswith("--"))
    if flag in _NONE:
        return []
    ending = flag.removeprefix("--").replace("-", "_").upper()
    own = f"{PREFIX}_{command.upper()}_{ending}"
    return [own] if flag in _OF_ONE else [own, f"{PREFIX}_{ending}"]
