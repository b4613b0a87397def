"""resource.Quantity as Go parses it, cached string included.

Follows ``ParseQuantity`` of k8s.io/apimachinery ``pkg/api/resource/quantity.go`` (one logic in 0.33 to 0.37):
the *text* decides the struct, so ``1``, ``1.0`` and ``1000m`` are three different dumps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from migrator.errors import DecodeError
from migrator.hashing import fnv

DECIMAL_SI: Final = "DecimalSI"
BINARY_SI: Final = "BinarySI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_SUFFIXES: Final = {
    **{
        suffix: (10, power, DECIMAL_SI)
        for suffix, power in zip(("", *"numkMGTPE"), (0, -9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{letter}i": (2, 10 * power, BINARY_SI) for power, letter in enumerate("KMGTPE", start=1)},
}
_SYNTAX: Final = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)

#: Go parses the token as it stands in the JSON: it trims white space, but not if that is escaped.
SPACES: Final = "a quantity with white space around it: whether Go trims or refuses it depends on how it was escaped"

_DECIMAL_DIGITS: Final = 18  # what surely fits an int64
_BINARY_DIGITS: Final = 14
_NANO: Final = 9
_MAX_INT64: Final = (1 << 63) - 1
_WORD: Final = 1 << 64
_DIGITS_AT_MOST: Final = 100_000  # Go would compute for hours; nobody means it
_NONE: Final = "the text there is no quantity"
_TEXT_AT_MOST: Final = 4000  # below CPython's own limit for str to int; Go has none
_AMOUNT: Final = fnv.Fixed("{i:(resource.int64Amount){value:(int64)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """The fields of the Go struct. ``unscaled`` is set only where the big decimal is (``d.Dec``)."""

    value: int = 0
    scale: int = 0
    text: str = ""
    format: str = ""
    unscaled: int | None = None
    decimal_scale: int = 0

    def pieces(self) -> tuple[fnv.Piece, ...]:
        """The struct's body as spew prints it, without its type."""
        amount = f" scale:(resource.Scale){self.scale}}} d:(resource.infDecAmount){{Dec:(*inf.Dec){self._dec()}}}"
        form = fnv.recurring(f" Format:(resource.Format){self.format}}}")
        return _AMOUNT, str(self.value), fnv.recurring(f"{amount} s:(string)"), self.text, form

    def _dec(self) -> str:
        if self.unscaled is None:
            return "<nil>"
        rest, words = abs(self.unscaled), []
        while rest:
            rest, word = divmod(rest, _WORD)
            words.append(str(word))
        absolute = f"[{' '.join(words)}]" if words else "<nil>"
        number = f"{{neg:(bool){'true' if self.unscaled < 0 else 'false'} abs:(big.nat){absolute}}}"
        return f"{{unscaled:(big.Int){number} scale:(inf.Scale){self.decimal_scale}}}"


def parse(token: str) -> Quantity:
    """Parse a quantity. Raises :class:`~migrator.errors.DecodeError` where Go does, and never quotes a value."""
    text = token.strip(" ")
    if text != text.strip():
        raise DecodeError(SPACES)
    if not text:
        raise DecodeError("a quantity must not be empty")
    if text == "0":
        return Quantity(text="0", format=DECIMAL_SI)
    if len(text) > _TEXT_AT_MOST:
        raise DecodeError(f"a quantity of more than {_TEXT_AT_MOST} characters")
    match = _SYNTAX.fullmatch(text)
    if match is None:
        raise DecodeError(_NONE)
    sign, zeros, number, fraction, suffix = match.groups(default="")
    base, exponent, form = _suffix(suffix)
    digits, places = (number or "0") + fraction, len(fraction)
    fast = _fast(digits, places, base, exponent)
    if fast is not None:
        value, scale, canonical = fast
        return Quantity(-value if sign == "-" else value, scale, text if canonical else "", form)
    if not (zeros or number or fraction):
        raise DecodeError(_NONE)
    return _slow(digits, places, base, exponent, form, negative=sign == "-")


def _suffix(suffix: str) -> tuple[int, int, str]:
    known = _SUFFIXES.get(suffix)
    if known is not None:
        return known
    if suffix[:1] in {"e", "E"} and suffix[1:].removeprefix("+").removeprefix("-").isdigit():
        exponent = int(suffix[1:])
        if -(1 << 63) <= exponent <= _MAX_INT64:
            return 10, (exponent + (1 << 31)) % (1 << 32) - (1 << 31), DECIMAL_EXPONENT  # int32(n)
    raise DecodeError(f"{_NONE}: its suffix is unknown (n, u, m, k, M, G, T, P, E, Ki to Ei, or an exponent)")


def _fast(digits: str, places: int, base: int, exponent: int) -> tuple[int, int, bool] | None:
    """(value, scale, whether the text is kept), or ``None`` where an int64 may not hold it."""
    if base == 10:  # noqa: PLR2004 - the number system
        scale = exponent - places
        if len(digits) > _DECIMAL_DIGITS or scale < -_NANO:
            return None
        return int(digits), scale, scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"
    if places or len(digits) > _BINARY_DIGITS - exponent * 3 // 10:
        return None
    return int(digits) << exponent, 0, exponent % 10 == 0 and int(digits) & 7 != 0


def _slow(digits: str, places: int, base: int, exponent: int, form: str, *, negative: bool) -> Quantity:
    """The big decimal: rounded away from zero at nano, binary values capped at what an int64 holds."""
    unscaled, scale = int(digits), places
    if base == 10:  # noqa: PLR2004 - the number system
        scale -= exponent
    else:
        unscaled <<= exponent
    if not unscaled:
        return Quantity(format=form, unscaled=0, decimal_scale=scale)
    rounded = _round_up(unscaled, scale)
    decimal_scale = _NANO
    if base == 2:  # noqa: PLR2004 - the number system
        if rounded > _MAX_INT64 * 10**_NANO:
            rounded, decimal_scale = _MAX_INT64, 0
        elif rounded < 10**_NANO:
            form = DECIMAL_SI
    return Quantity(format=form, unscaled=-rounded if negative else rounded, decimal_scale=decimal_scale)


def _round_up(unscaled: int, scale: int) -> int:
    if scale <= _NANO:
        if _NANO - scale > _DIGITS_AT_MOST:
            raise DecodeError("a quantity of more than a hundred thousand digits")
        return unscaled * int(10 ** (_NANO - scale))
    if scale - _NANO > len(str(unscaled)):
        return 1
    return -(-unscaled // int(10 ** (scale - _NANO)))
