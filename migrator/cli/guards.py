"""``guards``: what a code means, and what to do about it."""

from __future__ import annotations

import pkgutil
import re
import textwrap
from typing import Final

import click

from migrator.cli.options import command
from migrator.cli.output import write
from migrator.errors import UsageError, suggestion
from migrator.planning.guards import ALIKE, CATALOGUE
from migrator.planning.known_issues import ISSUE_TITLES
from migrator.render.text import WIDTH, row

_NO_BREAK: Final = "\0"


@command(
    "guards",
    "Explain a code: what it means and what to do.",
    """
    grove-migrator guards
    grove-migrator guards GM-101 GM-102
    """,
)
@click.argument("codes", nargs=-1, metavar="[CODE]...")
def guards(*, codes: tuple[str, ...]) -> None:
    """Explain the code of a guard or a known issue: what it means, what to do, and how to see it with kubectl.

    Without a code: all codes with their titles and names, and which of them `run --allow` accepts.
    """
    if not codes:
        found = {g.code: f"{g.title} ({g.name}{', --allow' if g.overridable else ''})" for g in CATALOGUE.values()}
        write("".join(row(code, title) for code, title in sorted({**found, **ISSUE_TITLES}.items())))
        return
    texts = sections()
    named = {guard.name: guard.code for guard in CATALOGUE.values()}
    wanted = [named.get(code.lower()) or f"GM-{code.upper().removeprefix('GM-')}" for code in codes]
    for code, typed in zip(wanted, codes, strict=True):
        if code not in texts:
            hint = suggestion(code, texts, alike=ALIKE)
            raise UsageError(f"Unknown code {typed}. Run `grove-migrator guards` to list all codes.{hint}")
    write("\n".join(_filled(texts[code]) for code in wanted))


def _filled(text: str) -> str:
    """The text at 80 columns; what stands between backticks, such as a command, is not broken."""
    lines = []
    for line in text.splitlines():
        whole = re.sub(r"`[^`]+`", lambda span: span[0].replace(" ", _NO_BREAK), line)
        indent = "  " if line.startswith("- ") else ""
        filled = textwrap.fill(whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        lines.append(filled.replace(_NO_BREAK, " "))
    return "".join(f"{line}\n" for line in lines)


def sections() -> dict[str, str]:
    """The text for each code, as docs/guards.md has it, without the marks of bold text."""
    page = (pkgutil.get_data("migrator.cli", "guards.md") or b"").decode("utf-8")
    found = re.findall(r"(?ms)^### (GM-\d{3})\n(.*?)(?=^#+ |\Z)", page)
    return {code: f"{code}  {body.strip().replace('**', '')}\n" for code, body in found}
