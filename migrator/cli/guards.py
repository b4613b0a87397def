"""``guards``: what a code means, and what to do about it."""

from __future__ import annotations

import pkgutil
import re

from migrator.cli import output
from migrator.errors import UsageError, suggestion
from migrator.planning.advisories import HAZARDS
from migrator.planning.guards import ALIKE, CATALOGUE
from migrator.render.text import columns


def main(*, code: str | None) -> None:
    """Print the section of a code, or all codes."""
    if code is None:
        rows = [(g.code, g.title, "yes" if g.overridable else "") for g in CATALOGUE.values()]
        rows += [(hazard, title, "") for hazard, title in HAZARDS.items()]
        output.write(columns(("CODE", "WHAT IT IS ABOUT", "--allow"), sorted(rows)))
        return
    wanted = code.upper() if code.upper().startswith("GM-") else f"GM-{code}"
    known = sections()
    if wanted not in known:
        hint = suggestion(wanted, known, alike=ALIKE)
        raise UsageError(f"{code} is not a code; `guards` without a code lists them all.{hint}")
    output.write(known[wanted])


def sections() -> dict[str, str]:
    """The text for each code, as docs/guards.md has it, without the marks of bold text."""
    page = (pkgutil.get_data("migrator.cli", "guards.md") or b"").decode("utf-8")
    found = re.findall(r"(?ms)^### (GM-\d{3})\n(.*?)(?=^#+ |\Z)", page)
    return {code: f"{code}  {body.strip().replace('**', '')}\n" for code, body in found}
