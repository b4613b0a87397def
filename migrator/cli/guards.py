"""``guards``: what a code means, and what to do about it."""

from __future__ import annotations

import pkgutil
import re

import click

from migrator.cli.options import command
from migrator.cli.output import write
from migrator.errors import UsageError, suggestion
from migrator.planning.guards import ALIKE, CATALOGUE
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.render.text import columns


@command(
    "guards",
    "Explain a code: what it means and what to do.",
    """
    grove-migrator guards
    grove-migrator guards GM-102
    """,
)
@click.argument("code", required=False, metavar="[CODE]")
def guards(*, code: str | None) -> None:
    """Explain the code of a guard or a known issue: what it means, what to do, and how to see it with kubectl.

    Without a code: all codes with their titles, and which of them `run --allow` accepts.
    """
    if code is None:
        rows = [(g.code, g.name, g.title, "yes" if g.overridable else "") for g in CATALOGUE.values()]
        rows += [(issue, "", title, "") for issue, title in ISSUE_TITLES.items()]
        write(columns(("CODE", "NAME", "WHAT IT IS ABOUT", "--allow"), sorted(rows)))
        return
    wanted = code.upper() if code.upper().startswith("GM-") else f"GM-{code}"
    known = sections()
    if wanted not in known:
        hint = suggestion(wanted, known, alike=ALIKE)
        raise UsageError(f"{code} is not a code; `guards` without a code lists them all.{hint}")
    write(known[wanted])


def sections() -> dict[str, str]:
    """The text for each code, as docs/guards.md has it, without the marks of bold text."""
    page = (pkgutil.get_data("migrator.cli", "guards.md") or b"").decode("utf-8")
    found = re.findall(r"(?ms)^### (GM-\d{3})\n(.*?)(?=^#+ |\Z)", page)
    return {code: f"{code}  {body.strip().replace('**', '')}\n" for code, body in found}
