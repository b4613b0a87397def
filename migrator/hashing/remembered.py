"""Parts of pod templates that were met before, by their content.

The templates of a cluster are much alike: most variables, probes, mounts and volumes stand in many of them. What is
met once is printed, and costs little more than that; what is met again becomes one piece, whose sums are kept.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from migrator.hashing.fnv import Joined, Piece

#: How many contents are remembered at least, and at most twice as many, each of up to so many bytes.
_CONTENTS: Final = 1 << 13
_CONTENT: Final = 1 << 12

# The version without references: equal values have equal bytes, whoever else holds them.
_MARSHAL_VERSION: Final = 2


class Printer(Protocol):
    """Prints values of one Go type: ``zero`` is the body of an absent one."""

    zero: str

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401 - any JSON value
        """Append the body of a value that is not null. Raises :class:`~migrator.errors.DecodeError`."""


class Contents:
    """What was met lately: nothing when it was met once, then what it is printed as.

    There are two generations; what is not met during a whole one is forgotten. Only speed depends on it.
    """

    def __init__(self) -> None:
        self.young: dict[bytes, Sequence[Piece]] = {}
        self.old: dict[bytes, Sequence[Piece]] = {}


_MET: Final = Contents()


class Remembered:
    """A printer that prints a known value as one piece. ``number`` distinguishes it from all others."""

    def __init__(self, printer: Printer, number: int) -> None:
        self.zero = printer.zero
        self.element = printer
        self._number = number
        self._emit: Callable[[Any, list[Piece]], None] = printer.emit

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        """Append the body of a value that is not null. Raises as the printer does."""
        try:
            content = marshal.dumps((self._number, value), _MARSHAL_VERSION)
        except ValueError:  # a number that keeps its spelling has no bytes, nor has what is nested too deep
            content = b""
        if not 0 < len(content) <= _CONTENT:
            self._emit(value, out)
            return
        young = _MET.young
        known = young.get(content)
        if known is None:
            known = _MET.old.get(content)
            young[content] = known or ()
            if len(young) > _CONTENTS:
                _MET.old, _MET.young = young, {}
        if known:
            out += known
        elif known is None:
            self._emit(value, out)
        else:
            began = len(out)
            self._emit(value, out)
            young[content] = _as_one(out[began:])


def _as_one(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """One piece, if all of it is ASCII."""
    joined = Joined(pieces)
    return (joined,) if joined.text.isascii() else pieces
