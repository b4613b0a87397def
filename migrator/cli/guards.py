"""``guards``: what a code means, and what to do about it."""

from __future__ import annotations

import pkgutil
import re

import click

from migrator.cli import output
from migrator.cli.options import log_options, suggestion


@click.command(
    short_help="What a code means and what to do.",
    epilog="""\b
    Examples:
      grove-migrator guards
      grove-migrator guards GM-111
    """,
)
@click.argument("code", required=False, metavar="[CODE]")
@log_options
def guards(code: str | None) -> None:
    """Explain a guard or a hazard: what it means, how to see it with kubectl, and what to do.

    Without a code: all codes with their titles, and which of them --allow accepts.
    """
    from migrator.errors import UsageError  # noqa: PLC0415 - --help needs none of it
    from migrator.planning.advisories import HAZARDS  # noqa: PLC0415
    from migrator.planning.guards import CATALOGUE  # noqa: PLC0415
    from migrator.render.text import columns  # noqa: PLC0415

    if code is None:
        rows = [(g.code, g.title, "yes" if g.overridable else "") for g in CATALOGUE.values()]
        rows += [(hazard, title, "") for hazard, title in HAZARDS.items()]
        output.write(columns(("CODE", "WHAT IT IS ABOUT", "--allow"), sorted(rows)))
        return
    wanted = code.upper() if code.upper().startswith("GM-") else f"GM-{code}"
    text = sections().get(wanted)
    if text is None:
        raise UsageError(
            f"{code} is not a code; `guards` without one lists them all.{suggestion(wanted, sections(), alike=0.82)}"
        )
    output.write(text)


def sections() -> dict[str, str]:
    """The text for each code, as docs/guards.md has it."""
    page = (pkgutil.get_data("migrator.cli", "guards.md") or b"").decode("utf-8")
    parts = re.split(r"(?m)^### (GM-\d{3})\n", page)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {code: f"{code}  {_plain(body)}\n" for code, body in found}


def _plain(body: str) -> str:
    """Markdown without its marks for bold text, up to the next heading."""
    return re.split(r"(?m)^#+ ", body)[0].strip().replace("**", "")
