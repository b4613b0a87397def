"""``completion``: the script by which a shell completes commands, flags, schemes, releases and contexts."""

from __future__ import annotations

import click

from migrator.cli import output
from migrator.cli.options import Choice, log_options

#: kubectl calls this program with the typed words; the last one may be empty
#: (kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins). ``:4`` directs kubectl not to offer files.
KUBECTL = """#!/bin/sh
COMP_WORDS="grove-migrator $*" COMP_CWORD=$# _GROVE_MIGRATOR_COMPLETE=bash_complete grove-migrator |
  cut -d, -f2
echo :4
"""


@click.command(
    short_help="Completion for your shell.",
    epilog="""\b
    Examples:
      source <(grove-migrator completion bash)
      source <(grove-migrator completion zsh)
      grove-migrator completion fish > ~/.config/fish/completions/grove-migrator.fish
      grove-migrator completion kubectl > ~/bin/kubectl_complete-grove_migrate
    """,
)
@click.argument("shell", type=Choice(["bash", "zsh", "fish", "kubectl"]))
@log_options
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, flags, schemes, releases and contexts.

    bash must be 4.4 or newer. For `kubectl grove-migrate`, put the script for kubectl on PATH under the example's
    name, and make it executable.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - --help needs none of it

    if shell == "kubectl":
        output.write(KUBECTL)
        return
    made = get_completion_class(shell)
    if made is None:
        raise AssertionError(f"Click completes {shell}")
    script = made(context.find_root().command, {}, "grove-migrator", "_GROVE_MIGRATOR_COMPLETE")
    output.write(script.source() + "\n")
