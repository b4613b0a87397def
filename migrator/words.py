"""Text for terminals and logs: wrapped at 80 columns, aligned, and without control characters."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Final

#: No line of text is longer, but for a command, a path or a name that must be copied whole.
WIDTH: Final = 80
#: The width of the label in front of a row.
LABEL: Final = 10
#: The spaces between two columns of a table.
GAP: Final = 3
#: Stands for a space at which a line is not broken; no printable text has it.
_NO_BREAK: Final = "\0"
_IN_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._:/@+\[\]-]")
#: What `run` and `verify` say of a cluster without sets.
NO_SETS: Final = "no PodCliqueSet was found. Is this the right cluster?"


def sentence(text: str) -> str:
    """The text as a sentence: with a capital in front and a full stop behind it, unless a command ends it."""
    return text if not text else f"{text[0].upper()}{text[1:]}{'' if text[-1] in '.?!`' else '.'}"


def wrapped(text: str) -> str:
    """A text as one paragraph."""
    return filled(text) + "\n"


def row(label: str, text: str, *, indent: int = 0) -> str:
    """A label, and a text beside it that is ``indent`` columns further in from its second line on."""
    return filled(text, f"{label} ".ljust(LABEL), " " * (LABEL + indent)) + "\n"


def rows(label: str, texts: Iterable[str], line: Callable[[str, str], str] = row) -> str:
    """A row for each text, the label in front of the first one."""
    return "".join(line("" if number else label, text) for number, text in enumerate(texts))


def command_rows(label: str, commands: Iterable[str]) -> str:
    """A row for each command, in one line, so that it can be copied whole."""
    return rows(label, commands, lambda label, command: f"{label} ".ljust(LABEL) + printable(command) + "\n")


def filled(text: str, first: str = "", rest: str = "") -> str:
    """The text in lines that begin with ``first`` and ``rest``; a command between backticks stays whole."""
    whole = re.sub(r"`[^`]+`", lambda span: span[0].replace(" ", _NO_BREAK), printable(text))
    lines = textwrap.fill(
        whole, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(_NO_BREAK, " ")


def columns(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> str:
    """A table: aligned, three spaces apart, nothing cut off; columns with these headers hold ``numbers``.

    A first cell for which the other columns leave no room has a line of its own, above the rest of its row.
    """
    table = [tuple(map(printable, cells)) for cells in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    room = WIDTH - sum(widths[1:]) - GAP * len(widths[1:])
    widths[0] = max((len(first) for first, *_ in table if len(first) <= room), default=0)
    lines = list[str]()
    for first, *others in table:
        lines += [first] if len(first) > room else []
        cells = ("" if len(first) > room else first, *others)
        lines.append(
            (" " * GAP).join(
                cell.rjust(width) if title in numbers else cell.ljust(width)
                for cell, width, title in zip(cells, widths, header, strict=True)
            )
        )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def readable(pointer: str) -> str:
    """A text whose JSON Pointers have no escapes: ``/metadata/labels/grove.io/podclique is ...``."""
    return pointer.replace("~1", "/").replace("~0", "~")


def as_name(text: str) -> str:
    """The text with ``?`` for what no name and no image has: anybody may have written it, as a command to paste."""
    return _IN_NO_NAME.sub("?", text)


def printable(text: str) -> str:
    """The text with control characters escaped, because names and messages may come from anybody's files."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    if character.isascii():
        return character.encode("unicode_escape").decode("ascii")
    return " " if character.isspace() else f"\\u{ord(character):04x}"


def first_of(texts: Sequence[str], limit: int) -> str:
    """The first ``limit`` texts in one line, and how many more there are."""
    more = [f"and {len(texts) - limit} more"] if len(texts) > limit else []
    return "; ".join([*texts[:limit], *more])


def duration(seconds: float) -> str:
    """``under a minute``, ``about 1 minute``, ``about 4 minutes``."""
    return f"about {count(math.ceil(seconds / 60), 'minute')}" if seconds // 60 else "under a minute"


def count(number: int, noun: str, plural: str = "") -> str:
    """``0 pods``, ``1 pod``, ``3,296 GPUs``, ``2 patches``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
