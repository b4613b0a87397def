"""Parts of pod templates that were met before, by their content.

The templates of a cluster are much alike: most variables, probes, mounts and volumes stand in many of them. A part
that is met for the first time is only printed. From the second time on it is one piece, whose sums are kept.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from migrator.exact_json import WITHOUT_REFERENCES
from migrator.hashing.fnv import Fixed, Piece, plain

_CONTENTS: Final = 1 << 13  # so many are remembered at least, and at most twice as many
_CONTENT: Final = 1 << 12  # bytes of one content that is remembered

#: What was met lately, by content, in two generations, the young one first: nothing when met once, then its text.
#: What is not met during a whole generation is forgotten. Only speed depends on it.
_GENERATIONS: Final[list[dict[bytes, Sequence[Piece]]]] = [{}, {}]


class Printer(Protocol):
    """Prints values of one Go type: ``zero`` is the body of an absent one."""

    zero: str

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401 - any JSON value
        """Append ``lead`` and the body of a value that is not null; raises :class:`~migrator.errors.DecodeError`."""


class Remembered:
    """A printer that prints a known value as one piece. ``number`` distinguishes it from all others."""

    def __init__(self, printer: Printer, number: int) -> None:
        self.zero = printer.zero
        self.element = printer
        self._number = number
        self._emit: Callable[[Any, list[Piece], str], None] = printer.emit

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        """Append the body of a value that is not null. Raises as the printer does."""
        try:
            content = marshal.dumps((self._number, lead, value), WITHOUT_REFERENCES)
        except ValueError:  # a number that keeps its spelling has no bytes, nor has what is nested too deep
            self._emit(value, out, lead)
            return
        known = _GENERATIONS[0].get(content)
        if known:
            out += known
            return
        if len(content) > _CONTENT:
            self._emit(value, out, lead)
            return
        known = _GENERATIONS[1].get(content) if known is None else ()
        if known:
            out += known
        else:
            began = len(out)
            self._emit(value, out, lead)
            if known is not None:
                known = _as_one(out[began:])
        if len(_GENERATIONS[0]) >= _CONTENTS:
            _GENERATIONS[:] = {}, _GENERATIONS[0]
        _GENERATIONS[0][content] = known or ()


def _as_one(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """One piece, if all of it is ASCII."""
    return (Fixed(*pieces),) if plain(pieces).isascii() else pieces
