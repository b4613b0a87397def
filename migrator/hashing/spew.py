"""What ``dump.ForHash`` prints for a JSON object that Go decoded into a layout.

k8s.io/apimachinery ``pkg/util/dump`` configures go-spew to print ``%#v`` on one line: every field of every
struct, zero or not, in declaration order. So most of the text is fixed. A type is compiled once into its fixed
text and the slots between; printing walks only the fields that are set and jumps over the rest.

Decoding follows sigs.k8s.io/json: field names match exactly, unknown ones are ignored, null is absent, and an
empty list or map is not nil.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, lru_cache, partial
from itertools import count
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber, dumps
from migrator.hashing import quantity
from migrator.hashing.fnv import Fixed, Joined, Piece, clean
from migrator.hashing.layouts import Field, Layout, load

ROOT: Final = "v1.PodTemplateSpec"
NIL: Final = "<nil>"

#: The structs of which no two are alike. What stands in them often is, and is remembered by its content.
_PARTED: Final = frozenset({ROOT, "v1.ObjectMeta", "v1.PodSpec", "v1.Container", "v1.EphemeralContainer"})

#: How many contents are remembered at least, and at most twice as many, each of up to so many bytes.
_CONTENTS: Final = 1 << 13
_CONTENT: Final = 1 << 12

#: Strings that are as long are remembered by themselves: how many of them, and up to which length.
_LONG, _LONG_AT_MOST = 64, 1 << 16
_LONG_ONES: Final = 1 << 8

#: How many combinations of fields are kept for each struct.
_PLANS: Final = 1 << 10

# The version without references: equal values have equal bytes, whoever else holds them.
_MARSHAL_VERSION: Final = 2

_SECOND: Final = timedelta(seconds=1)
_INTEGER: Final = re.compile(r"u?int(\d*)")
_MAP: Final = re.compile(r"map\[([^\]]+)\](.+)")

#: What stands before an element of a list: the bracket or a space.
_FIRST, _NEXT, _LAST = Fixed("["), Fixed(" "), Fixed("]")


class Printer(Protocol):
    """Prints values of one Go type: ``zero`` is the body of an absent one."""

    zero: str

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401 - any JSON value
        """Append the body of a value that is not null. Raises :class:`~migrator.errors.DecodeError`."""


class _String:
    zero = ""

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        if type(value) is not str:
            raise mismatch(value, "string")
        out.append(value if len(value) < _LONG or not value.isascii() else _long(value))


@lru_cache(maxsize=_LONG_ONES)
def _long(text: str) -> Piece:
    return Fixed(text)


_STRING: Final = _String()


class _Bool:
    zero = "false"

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        if type(value) is not bool:
            raise mismatch(value, "bool")
        out.append("true" if value else "false")


class _Integer:
    zero = "0"

    def __init__(self, name: str, bits: int, *, signed: bool) -> None:
        self._name = name
        self._least = -(1 << (bits - 1)) if signed else 0
        self._most = (1 << (bits - 1 if signed else bits)) - 1

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        out.append(str(self.read(value)))

    def read(self, value: Any) -> int:  # noqa: ANN401
        """Go's integer; ``-0`` is zero, any other odd spelling is refused."""
        if isinstance(value, JSONNumber) and value.text == "-0":
            return 0
        if type(value) is not int:
            raise mismatch(value, self._name)
        if not self._least <= value <= self._most:
            raise DecodeError(f"{value} does not fit into {self._name}")
        return value


class Elements:
    """A pointer, list or map, zero as nil; its elements' printer is compiled at its first use."""

    zero = NIL

    def __init__(self, compiled: Callable[[], Printer]) -> None:
        self._compiled = compiled

    @cached_property
    def element(self) -> Printer:
        """What prints the elements."""
        return self._compiled()


class _Pointer(Elements):
    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        self.element.emit(value, out)  # the pointee prints no type of its own


class Slice(Elements):
    """A list."""

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        """Print every element."""
        if type(value) is not list:
            raise mismatch(value, "list")
        element, separator = self.element, _FIRST
        number = 0
        try:
            for number, item in enumerate(value):
                out.append(separator)
                separator = _NEXT
                if item is None:
                    out.append(element.zero)
                else:
                    element.emit(item, out)
        except DecodeError as error:
            raise _within(f"[{number}]", error) from None
        out.append(_LAST if value else "[]")


class _Map(Elements):
    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        if type(value) is not dict:
            raise mismatch(value, "object")
        element, separator = self.element, "map["
        for key, name in sorted([(clean(name), name) for name in value]):
            out.append(f"{separator}{key}:")
            separator = " "
            item = value[name]
            try:
                if item is None:
                    out.append(element.zero)
                else:
                    element.emit(item, out)
            except DecodeError as error:
                raise _within(f".{key}", error) from None
        out.append(_LAST if value else "map[]")


class Slot(NamedTuple):
    """Where one JSON field's value stands: the fixed text before it, and what prints it."""

    key: str
    before: str
    printer: Printer


class Struct:
    """A Go struct, embedded ones included: fixed text with a slot for each JSON field."""

    def __init__(self, name: str, fields: Sequence[Field], types: Types) -> None:
        self.name = name
        self.slots: list[Slot] = []
        self._tail = self._compile(fields, types, "")
        self._index = {slot.key: number for number, slot in enumerate(self.slots)}
        self._fixed: dict[tuple[int, int], Fixed] = {}
        self.zero = "".join(slot.before + slot.printer.zero for slot in self.slots) + self._tail
        self._plans: dict[tuple[str, ...], Plan] = {}

    @property
    def fields(self) -> Mapping[str, Printer]:
        """The printer of each JSON field that the struct knows."""
        return {slot.key: slot.printer for slot in self.slots}

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        """Print the fields that are set, and the fixed text around them."""
        if type(value) is not dict:
            raise mismatch(value, "object")
        keys = tuple(value)
        steps, end = self._plans.get(keys) or self._planned(keys)
        began, key = len(out), ""
        try:
            for key, before, emit in steps:
                item = value[key]
                if item is None:  # as good as absent
                    del out[began:]
                    self.emit({key: item for key, item in value.items() if item is not None}, out)
                    return
                out.append(before)
                if emit is None and type(item) is str and len(item) < _LONG:
                    out.append(item)
                else:
                    (emit or _STRING.emit)(item, out)
        except DecodeError as error:
            raise _within(f".{key}", error) from None
        out.append(end)

    def _planned(self, keys: tuple[str, ...]) -> Plan:
        """What to print for these fields, in Go's order, and the text after the last."""
        steps, last = [], -1
        for number in sorted([self._index[key] for key in keys if key in self._index]):
            slot = self.slots[number]
            emit = None if slot.printer is _STRING else slot.printer.emit
            steps.append((slot.key, self._between(last, number), emit))
            last = number
        plan = steps, self._between(last, len(self.slots))
        if len(self._plans) < _PLANS:
            self._plans[keys] = plan
        return plan

    def _between(self, last: int, number: int) -> Fixed:
        """Everything between two slots: what follows the first, unset fields, and what introduces the second."""
        fixed = self._fixed.get((last, number))
        if fixed is None:
            text = "".join([slot.before + slot.printer.zero for slot in self.slots[last + 1 : number]])
            text += self.slots[number].before if number < len(self.slots) else self._tail
            fixed = self._fixed[last, number] = Fixed(text)
        return fixed

    def _compile(self, fields: Sequence[Field], types: Types, pending: str) -> str:
        """Fill the slots; returns the fixed text after the last one."""
        pending += "{"
        for number, (go, key, kind) in enumerate(fields):
            pending += f"{' ' if number else ''}{go}:({kind})"
            if key == "":
                pending = self._compile(types.fields(kind), types, pending)
                continue
            printer = types.printer(kind, part=self.name in _PARTED)
            if key is None:
                pending += printer.zero
                continue
            self.slots.append(Slot(key, pending, printer))
            pending = ""
        return pending + "}"


class Remembered(Elements):
    """Prints what it has printed before as one piece."""

    _numbers: ClassVar[Iterator[int]] = count()

    def __init__(self, printer: Printer) -> None:
        super().__init__(lambda: printer)
        self.zero = printer.zero
        self._number = next(self._numbers)
        self._emit = printer.emit

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        """Print a value as a whole, or as ever if its content has no bytes (a number that keeps its spelling)."""
        try:
            content = _content((self._number, value), _MARSHAL_VERSION)
        except ValueError:
            self._emit(value, out)
            return
        known = _RECENT.young.get(content)
        if known is None:
            known = _RECENT.old.get(content)
            _RECENT.keep(content, known or ())
        if known:
            out += known
        elif known is None:
            self._emit(value, out)
        else:
            began = len(out)
            self._emit(value, out)
            _RECENT.keep(content, _joined(out[began:]))


def _joined(pieces: list[Piece]) -> Sequence[Piece]:
    """One piece, if all is ASCII."""
    return (Joined(pieces),) if all([type(piece) is not str or piece.isascii() for piece in pieces]) else tuple(pieces)


class _Recent:
    """What was met lately, by its content: nothing the first time, then what it was printed as.

    In two generations: what was not met during a whole one is forgotten.
    """

    def __init__(self) -> None:
        self.young: dict[bytes, Sequence[Piece]] = {}
        self.old: dict[bytes, Sequence[Piece]] = {}

    def keep(self, content: bytes, printed: Sequence[Piece]) -> None:
        """Remember it."""
        if len(content) <= _CONTENT:
            self.young[content] = printed
            if len(self.young) > _CONTENTS:
                self.old, self.young = self.young, {}


_RECENT: Final = _Recent()
_content = marshal.dumps


class _Quantity:
    zero = quantity.Quantity().dump()

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        if type(value) not in {str, int, JSONNumber}:
            raise mismatch(value, "quantity")
        out += _quantity(str(value))


@lru_cache(maxsize=1 << 10)
def _quantity(text: str) -> tuple[Piece, ...]:
    return quantity.parse(text).pieces()


class _IntOrString:
    zero = "{Type:(intstr.Type)0 IntVal:(int32)0 StrVal:(string)}"
    _int32: ClassVar[_Integer] = _Integer("int32", 32, signed=True)
    _text: Final = Fixed("{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)")
    _number: Final = Fixed("{Type:(intstr.Type)0 IntVal:(int32)")
    _end: Final = Fixed(" StrVal:(string)}")

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        if type(value) is str:
            out += (self._text, value, "}")
        else:
            out += (self._number, str(self._int32.read(value)), self._end)


class _Time:
    """metav1.Time, printed as a process in UTC prints it; a live object never holds one in a pod template."""

    zero = "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}"
    _utc: Final = (
        "{name:(string)UTC zone:([]time.zone)<nil> tx:([]time.zoneTrans)<nil> extend:(string) "
        "cacheStart:(int64)0 cacheEnd:(int64)0 cacheZone:(*time.zone)<nil>}"
    )
    _syntax: Final = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:\d\d)"
    _year_one: Final = datetime(1, 1, 1, tzinfo=UTC)

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        match = re.fullmatch(self._syntax, value, re.ASCII) if type(value) is str else None
        try:
            moment = datetime.fromisoformat(match[1] + match[3]) if match else None
        except ValueError:
            moment = None
        if match is None or moment is None:
            raise DecodeError(f"{_short(value)} is no RFC 3339 time")
        nanoseconds = int((match[2] or "").ljust(9, "0")[:9])
        seconds = (moment - self._year_one) // _SECOND
        out.append(
                f"{{Time:(time.Time){{wall:(uint64){nanoseconds} ext:(int64){seconds} "
                f"loc:(*time.Location){self._utc}}}}}"
        )


class _Fields:
    """metav1.FieldsV1: the value's JSON bytes, here in compact form."""

    zero = "{Raw:([]uint8)<nil>}"

    def emit(self, value: Any, out: list[Piece]) -> None:  # noqa: ANN401
        raw = " ".join(str(byte) for byte in dumps(value).encode("utf-8", "replace"))
        out.append(f"{{Raw:([]uint8)[{raw}]}}")


_CUSTOM: Final[Mapping[str, Printer]] = {
    "resource.Quantity": _Quantity(),
    "intstr.IntOrString": _IntOrString(),
    "v1.Time": _Time(),
    "v1.FieldsV1": _Fields(),
}


class Types:
    """The printers of one layout. Types that are the same in two layouts, all the way down, share one."""

    _shared: ClassVar[dict[object, Printer]] = {}
    _signatures: ClassVar[dict[object, int]] = {}

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._printers: dict[tuple[str, bool], Printer] = {}
        self._known: dict[str, int] = {}

    def printer(self, kind: str, *, part: bool = False) -> Printer:
        """The printer of a Go type, compiled at its first use; ``part`` for what stands in a struct that has parts."""
        printer = self._printers.get((kind, part))
        if printer is None:
            signature = (self._signature(kind), part)
            printer = self._shared.get(signature)
            if printer is None:
                printer = self._shared[signature] = self._compile(kind, part=part)
            self._printers[kind, part] = printer
        return printer

    def fields(self, kind: str) -> Sequence[Field]:
        """The fields of a struct."""
        fields = self._layout[kind]
        if isinstance(fields, str):
            raise TypeError(f"{kind} is no struct")
        return fields

    def _compile(self, kind: str, *, part: bool) -> Printer:  # noqa: PLR0911 - one return for each kind of type
        printer = _CUSTOM.get(kind)
        definition = self._layout.get(kind)
        if printer is not None:
            return printer
        if isinstance(definition, str):
            return self.printer(definition, part=part)
        if definition is not None:
            struct = Struct(kind, definition, self)
            return Remembered(struct) if part and kind not in _PARTED else struct
        if kind.startswith("*"):
            return _Pointer(partial(self.printer, kind[1:], part=part))
        if kind.startswith("[]"):
            return Slice(partial(self.printer, kind[2:], part=part))
        if match := _MAP.fullmatch(kind):
            return _Map(partial(self.printer, match[2]))
        return _basic(kind)

    def _signature(self, kind: str) -> int:
        """A number that two types share only if they print alike all the way down."""
        known = self._known.get(kind)
        if known is None:
            parts: tuple[object, ...] = (kind,)
            definition = self._layout.get(kind)
            if match := _MAP.fullmatch(kind):
                parts += (self._signature(match[2]),)
            elif kind.startswith(("*", "[]")):
                parts += (self._signature(kind.removeprefix("*").removeprefix("[]")),)
            elif isinstance(definition, str):
                parts += (self._signature(definition),)
            elif definition is not None:
                parts += tuple((go, key, self._signature(child)) for go, key, child in definition)
            known = self._known[kind] = self._signatures.setdefault(parts, len(self._signatures))
        return known


def _basic(kind: str) -> Printer:
    if kind == "string":
        return _STRING
    if kind == "bool":
        return _Bool()
    if match := _INTEGER.fullmatch(kind):
        return _Integer(kind, int(match[1] or 64), signed=not kind.startswith("u"))
    raise TypeError(f"the layout has no type {kind}")


@cache
def root(minor: str) -> Struct:
    """What prints ``v1.PodTemplateSpec`` in the layout of an API minor."""
    printer = Types(load(minor)).printer(ROOT)
    if not isinstance(printer, Struct):
        raise TypeError(f"{ROOT} is no struct in the layout of {minor}")
    return printer


def _within(step: str, error: DecodeError) -> DecodeError:
    return DecodeError(error.message, path=f"{step}{error.path}")


def mismatch(value: object, wanted: str) -> DecodeError:
    """The error for a value of another JSON type than Go wants."""
    return DecodeError(f"{_short(value)} is not of type {wanted}")


def _short(value: object) -> str:
    """The kind of a value, never the value itself: pod templates hold secrets."""
    kinds: Mapping[type, str] = {str: "a string", bool: "a boolean", int: "a number", dict: "an object", list: "a list"}
    return kinds.get(type(value), "a number")
