"""Text for terminals and logs: aligned columns, and escaped control characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as kubectl prints one: aligned, three spaces apart, nothing cut off."""
    table = [tuple(map(printable, row)) for row in (header, *rows)]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return "\n".join(lines) + "\n"


def printable(text: str) -> str:
    """The text with control characters escaped, because names and messages may come from anybody's files."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if character.isascii():
        return character.encode("unicode_escape").decode("ascii")
    return " " if character.isspace() else f"\\u{ord(character):04x}"
