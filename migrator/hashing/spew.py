"""The text that ``dump.ForHash`` prints for a JSON object that Go decoded into a layout.

k8s.io/apimachinery ``pkg/util/dump`` configures go-spew to print ``%#v`` on one line: every field of every
struct, zero or not, in declaration order. So most of the text is fixed: for each combination of fields that are set, a
struct keeps the texts between them.

Decoding follows sigs.k8s.io/json: field names match exactly, unknown ones are ignored, null is absent, and an
empty list or map is not nil.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber
from migrator.hashing import fnv, layouts, quantity

ROOT: Final = "v1.PodTemplateSpec"

_COMBINATIONS: Final = 1 << 10  # how many combinations of set fields are kept for each struct
_INTEGER: Final = re.compile(r"int(\d+)")
_MAP: Final = re.compile(r"map\[([^\]]+)\](.+)")
_INT32: Final = range(-(1 << 31), 1 << 31)
_NIL: Final = "<nil>"

_fixed: Final = cache(fnv.Fixed)  # structs and layouts share texts
_OPEN, _BLANK, _CLOSE, _BRACE = map(_fixed, "[ ]}")
_IS_STRING: Final = fnv.Fixed("{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)")
_IS_INTEGER: Final = fnv.Fixed("{Type:(intstr.Type)0 IntVal:(int32)")
_NO_STRING: Final = fnv.Fixed(" StrVal:(string)}")

#: Appends the text of a value other than null; raises :class:`~migrator.errors.DecodeError` if Go would not decode it.
Emit: TypeAlias = Callable[[Any, list[fnv.Piece]], None]

#: For each field that is set its key, the text before it, and what prints it; then the text at the end.
Plan: TypeAlias = tuple[Sequence[tuple[str, fnv.Fixed, Emit]], fnv.Fixed]


class Printer(NamedTuple):
    """Prints values of one Go type: ``zero`` is the text of an absent one."""

    zero: str
    emit: Emit


@cache
def types_of(minor: str) -> Types:
    """The printers of an API minor's layout."""
    return Types(layouts.load(minor))


class Types:
    """The printers of one layout."""

    def __init__(self, layout: layouts.Layout) -> None:
        self._layout = layout
        self._printers: dict[str, Printer] = {}

    def printer(self, kind: str) -> Printer:
        """The printer of a Go type, compiled at its first use."""
        if kind not in self._printers:
            self._printers[kind] = self._compile(kind)
        return self._printers[kind]

    def fields(self, kind: str) -> Sequence[layouts.Field]:
        """The fields of a struct."""
        return cast("Sequence[layouts.Field]", self._layout[kind])

    def _compile(self, kind: str) -> Printer:
        if kind in _BASIC:
            return _BASIC[kind]
        if kind in self._layout:
            definition = self._layout[kind]
            return self.printer(definition) if isinstance(definition, str) else _Struct(definition, self).printer()
        if kind.startswith("*"):
            return Printer(_NIL, self.printer(kind[1:]).emit)  # the pointee prints no type
        if kind.startswith("[]"):
            return Printer(_NIL, partial(_list, self.printer(kind[2:])))
        if match := _MAP.fullmatch(kind):
            return Printer(_NIL, partial(_map, self.printer(match[2])))
        if match := _INTEGER.fullmatch(kind):
            half = 1 << int(match[1]) - 1
            return Printer("0", partial(_integer, kind, range(-half, half)))
        raise TypeError(f"the layout has no type {kind}")


class _Struct:
    """A Go struct, embedded ones included: fixed text with a place for each JSON field."""

    def __init__(self, fields: Sequence[layouts.Field], types: Types) -> None:
        self._types = types
        #: For each JSON field, in Go's order, its number and type, the fixed text before it, and its zero.
        self._fields: dict[str | None, tuple[int, str]] = {}
        self._before: list[str] = []
        self._zeros: list[str] = []
        self._before.append(self._compile(fields, ""))
        self._plans: dict[tuple[str, ...], Plan] = {}

    def printer(self) -> Printer:
        """The printer of the struct, whose zero has no field set."""
        return Printer(self._text(-1, len(self._zeros)), self._emit)

    def _emit(self, value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401 - any JSON value
        if type(value) is not dict:
            raise mismatch(value, "object")
        keys = tuple(value)
        fields, end = self._plans.get(keys) or self._plan(keys)
        began, key = len(out), ""
        try:
            for key, before, emit in fields:
                item = value[key]
                if item is None:
                    break
                out.append(before)
                if emit is _string and type(item) is str:
                    out.append(item)  # what a call would do; most fields are strings
                else:
                    emit(item, out)
            else:
                out.append(end)
                return
        except DecodeError as error:
            raise error.within(key) from None
        del out[began:]  # null is as good as absent
        self._emit({key: item for key, item in value.items() if item is not None}, out)

    def _plan(self, keys: tuple[str, ...]) -> Plan:
        """What to print if these fields are set, in Go's order."""
        fields: list[tuple[str, fnv.Fixed, Emit]] = []
        last = -1
        for number, kind, key in sorted((*self._fields[key], key) for key in keys if key in self._fields):
            fields.append((key, _fixed(self._text(last, number)), self._types.printer(kind).emit))
            last = number
        plan = fields, _fixed(self._text(last, len(self._zeros)))
        if len(self._plans) < _COMBINATIONS:
            self._plans[keys] = plan
        return plan

    def _text(self, last: int, number: int) -> str:
        """The text between two fields: those that are not set, and what introduces the second or ends the struct."""
        unset = [self._before[at] + self._zeros[at] for at in range(last + 1, number)]
        return "".join(unset) + self._before[number]

    def _compile(self, fields: Sequence[layouts.Field], pending: str) -> str:
        """Fill in the fields; returns the fixed text after the last one."""
        pending += "{"
        for number, (go, key, kind) in enumerate(fields):
            pending += f"{' ' if number else ''}{go}:({kind})"
            if key == "":  # an embedded struct
                pending = self._compile(self._types.fields(kind), pending)
            else:  # without a JSON name it is never set
                self._fields[key] = len(self._before), kind
                self._before.append(pending)
                self._zeros.append(self._types.printer(kind).zero)
                pending = ""
        return pending + "}"


def _list(element: Printer, value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) is not list:
        raise mismatch(value, "list")
    zero, emit = element
    try:
        for number, item in enumerate(value):
            out.append(_BLANK if number else _OPEN)
            if item is None:
                out.append(_fixed(zero))
            else:
                emit(item, out)
    except DecodeError as error:
        raise error.within(number) from None
    out.append(_CLOSE if value else "[]")


def _map(element: Printer, value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) is not dict:
        raise mismatch(value, "object")
    zero, emit = element
    separator, previous = "map[", None
    for key, name in sorted([(fnv.clean(name), name) for name in value]):
        if key == previous:
            raise DecodeError("two keys that are not UTF-8 are one key to Go", key)
        out.append(fnv.recurring(f"{separator}{key}:"))
        separator, previous = " ", key
        try:
            if value[name] is None:
                out.append(zero)
            else:
                emit(value[name], out)
        except DecodeError as error:
            raise error.within(key) from None
    out.append(_CLOSE if value else "map[]")


def _string(value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) is not str:
        raise mismatch(value, "string")
    out.append(value)


def _bool(value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) is not bool:
        raise mismatch(value, "bool")
    out.append("true" if value else "false")


def _integer(name: str, allowed: range, value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    """Go's integer; ``-0`` is zero, any other odd spelling is refused."""
    if isinstance(value, JSONNumber) and value.text == "-0":
        value = 0
    if type(value) is not int:
        raise mismatch(value, name)
    if value not in allowed:
        raise DecodeError(f"the number does not fit into {name}")
    out.append(str(value))


def _int_or_string(value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) is str:
        out += (_IS_STRING, value, _BRACE)
    else:
        out.append(_IS_INTEGER)
        _integer("int32", _INT32, value, out)
        out.append(_NO_STRING)


def _quantity(value: Any, out: list[fnv.Piece]) -> None:  # noqa: ANN401
    if type(value) not in {str, int, JSONNumber}:
        raise mismatch(value, "quantity")
    out += _quantity_pieces(str(value))


@lru_cache(maxsize=1 << 10)
def _quantity_pieces(text: str) -> tuple[fnv.Piece, ...]:
    return quantity.parse(text).pieces()


def _refuse(why: str, _value: object, _out: object) -> None:
    raise DecodeError(why)


#: ``Time`` and ``FieldsV1`` are refused if they are set: a live object never has one in a pod template.
_BASIC: Final[Mapping[str, Printer]] = {
    "string": Printer("", _string),
    "bool": Printer("false", _bool),
    "resource.Quantity": Printer(
        "{i:(resource.int64Amount){value:(int64)0 scale:(resource.Scale)0} "
        "d:(resource.infDecAmount){Dec:(*inf.Dec)<nil>} s:(string) Format:(resource.Format)}",
        _quantity,
    ),
    "intstr.IntOrString": Printer("{Type:(intstr.Type)0 IntVal:(int32)0 StrVal:(string)}", _int_or_string),
    "v1.Time": Printer(
        "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}",
        partial(_refuse, "an operator hashes the time zone of its own process with a time, which is not known here"),
    ),
    "v1.FieldsV1": Printer(
        "{Raw:([]uint8)<nil>}",
        partial(_refuse, "an operator hashes the bytes of this value as they were written, which are not known here"),
    ),
}


def mismatch(value: object, wanted: str) -> DecodeError:
    """The error for a value of another JSON type than Go wants; without the value, because templates hold secrets."""
    kinds: Mapping[type, str] = {str: "a string", bool: "a boolean", dict: "an object", list: "a list"}
    return DecodeError(f"{kinds.get(type(value), 'a number')} is not of type {wanted}")
