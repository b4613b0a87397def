"""The text that ``dump.ForHash`` prints for a JSON object that Go decoded into a layout.

k8s.io/apimachinery ``pkg/util/dump`` configures go-spew to print ``%#v`` on one line: every field of every
struct, zero or not, in declaration order. So most of the text is fixed. A type is compiled once into its fixed
text and the places between; printing walks only the fields that are set and jumps over the rest.

Decoding follows sigs.k8s.io/json: field names match exactly, unknown ones are ignored, null is absent, and an
empty list or map is not nil.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import Any, ClassVar, Final, TypeAlias

from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber
from migrator.hashing import quantity
from migrator.hashing.fnv import Fixed, Piece, clean, plain, recurring
from migrator.hashing.layouts import Field, Layout, load
from migrator.hashing.remembered import Printer, Remembered

ROOT: Final = "v1.PodTemplateSpec"

# The structs of which no two are alike are not remembered; what stands in them is.
_PARTED: Final = frozenset({ROOT, "v1.ObjectMeta", "v1.PodSpec", "v1.Container", "v1.EphemeralContainer"})

_LONG: Final = 64  # a string that is as long is worth a piece of its own
_PLANS: Final = 1 << 10  # so many combinations of set fields are prepared for each struct
_fixed: Final = cache(Fixed)  # layouts share the texts between fields, and so the sums of these texts

_INTEGER: Final = re.compile(r"u?int(\d*)")
_MAP: Final = re.compile(r"map\[([^\]]+)\](.+)")

Emit: TypeAlias = Callable[..., None]

#: For each set field its key, the text before it, and what prints it (nothing for strings); then the text at the end.
Plan: TypeAlias = tuple[Sequence[tuple[str, Fixed, Emit | None]], Fixed]


class _String:
    zero = ""

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        if type(value) is not str:
            raise mismatch(value, "string")
        if len(value) < _LONG:
            out.append(lead + value)
        else:
            out += (lead, recurring(value))


_STRING: Final = _String()


class _Scalar:
    """A type whose values are read to a short text."""

    def __init__(self, zero: str, read: Callable[[Any], str]) -> None:
        self.zero = zero
        self._read = read

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        out.append(lead + self._read(value))


def _bool(value: Any) -> str:  # noqa: ANN401
    if type(value) is not bool:
        raise mismatch(value, "bool")
    return "true" if value else "false"


def _integer(name: str, allowed: range, value: Any) -> str:  # noqa: ANN401
    """Go's integer; ``-0`` is zero, any other odd spelling is refused."""
    if isinstance(value, JSONNumber) and value.text == "-0":
        return "0"
    if type(value) is not int:
        raise mismatch(value, name)
    if value not in allowed:
        raise DecodeError(f"{value} does not fit into {name}")
    return str(value)


class Elements:
    """A pointer, list or map; its elements' printer is compiled at its first use."""

    zero = "<nil>"

    def __init__(self, compiled: Callable[[], Printer]) -> None:
        self._compiled = compiled

    @cached_property
    def element(self) -> Printer:
        """The printer of the elements."""
        return self._compiled()


class _Pointer(Elements):
    @property
    def emit(self) -> Emit:
        return self.element.emit  # the pointee prints no type of its own


class Slice(Elements):
    """A list."""

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        """Print every element."""
        if type(value) is not list:
            raise mismatch(value, "list")
        element, before = self.element, f"{lead}["
        try:
            for number, item in enumerate(value):  # noqa: B007 - the error has it
                if item is None:
                    out.append(recurring(before + element.zero))
                else:
                    element.emit(item, out, before)
                before = " "
        except DecodeError as error:
            raise _within(f"[{number}]", error) from None
        out.append("]" if value else f"{lead}[]")


class _Map(Elements):
    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        if type(value) is not dict:
            raise mismatch(value, "object")
        element, separator, previous = self.element, f"{lead}map[", None
        for key, name in sorted([(clean(name), name) for name in value]):
            if key == previous:
                raise DecodeError("two keys that are not UTF-8 are one key to Go", path=f".{key}")
            previous = key
            out.append(recurring(f"{separator}{key}:"))
            separator = " "
            item = value[name]
            try:
                if item is None:
                    out.append(element.zero)
                else:
                    element.emit(item, out)
            except DecodeError as error:
                raise _within(f".{key}", error) from None
        out.append("]" if value else f"{lead}map[]")


class Struct:
    """A Go struct, embedded ones included: fixed text with a place for each JSON field."""

    def __init__(self, name: str, fields: Sequence[Field], types: Types) -> None:
        self.name = name
        #: The printer of each JSON field that the struct knows, in Go's order, and the fixed text before each.
        self.fields: dict[str, Printer] = {}
        self._before: list[str] = []
        self._tail = self._compile(fields, types, "")
        self._numbers = {key: number for number, key in enumerate(self.fields)}
        self._zeros = [printer.zero for printer in self.fields.values()]
        self.zero = self._text(-1, len(self._zeros))
        self._plans: dict[tuple[str, ...], Plan] = {}

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        """Print the fields that are set, and the fixed text around them."""
        if type(value) is not dict:
            raise mismatch(value, "object")
        keys = (lead, *value)
        steps, end = self._plans.get(keys) or self._planned(keys)
        began, key = len(out), ""
        try:
            for key, before, emit in steps:
                item = value[key]
                if item is None:
                    break
                out.append(before)
                if emit is None and type(item) is str and len(item) < _LONG:
                    out.append(item)
                else:
                    (emit or _STRING.emit)(item, out)
            else:
                out.append(end)
                return
        except DecodeError as error:
            raise _within(f".{key}", error) from None
        del out[began:]  # null is as good as absent
        self.emit({key: item for key, item in value.items() if item is not None}, out, lead)

    def _planned(self, keys: tuple[str, ...]) -> Plan:
        """What to print for these fields, in Go's order, and the text after the last; the lead is before them."""
        steps: list[tuple[str, Fixed, Emit | None]] = []
        lead, last = keys[0], -1
        for number, key in sorted([(self._numbers[key], key) for key in keys[1:] if key in self._numbers]):
            emit = self.fields[key].emit
            steps.append((key, _fixed(lead + self._text(last, number)), None if emit == _STRING.emit else emit))
            lead, last = "", number
        plan = steps, _fixed(lead + self._text(last, len(self._zeros)))
        if len(self._plans) < _PLANS:
            self._plans[keys] = plan
        return plan

    def _text(self, last: int, number: int) -> str:
        """The text between two fields: those that are not set, and what introduces the second or ends the struct."""
        unset = [self._before[at] + self._zeros[at] for at in range(last + 1, number)]
        return "".join(unset) + (self._before[number] if number < len(self._before) else self._tail)

    def _compile(self, fields: Sequence[Field], types: Types, pending: str) -> str:
        """Fill in the fields; returns the fixed text after the last one."""
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
            self.fields[key] = printer
            self._before.append(pending)
            pending = ""
        return pending + "}"


class _Quantity:
    zero = plain(quantity.Quantity().pieces())

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        if type(value) not in {str, int, JSONNumber}:
            raise mismatch(value, "quantity")
        out += (lead, *_quantity(str(value))) if lead else _quantity(str(value))


@lru_cache(maxsize=1 << 10)
def _quantity(text: str) -> tuple[Piece, ...]:
    return quantity.parse(text).pieces()


class _IntOrString:
    zero = "{Type:(intstr.Type)0 IntVal:(int32)0 StrVal:(string)}"
    _read = partial(_integer, "int32", range(-(1 << 31), 1 << 31))
    _no_string = Fixed(" StrVal:(string)}")

    def emit(self, value: Any, out: list[Piece], lead: str = "") -> None:  # noqa: ANN401
        if type(value) is str:
            out += (recurring(f"{lead}{{Type:(intstr.Type)1 IntVal:(int32)0 StrVal:(string)"), value, "}")
        else:
            out += (recurring(f"{lead}{{Type:(intstr.Type)0 IntVal:(int32)"), self._read(value), self._no_string)


def _refuse(why: str, _value: object) -> str:
    raise DecodeError(why)


#: A time and a set of fields are refused where they are set; a live object never holds one in a pod template.
_CUSTOM: Final[Mapping[str, Printer]] = {
    "string": _STRING,
    "bool": _Scalar("false", _bool),
    "resource.Quantity": _Quantity(),
    "intstr.IntOrString": _IntOrString(),
    "v1.Time": _Scalar(
        "{Time:(time.Time){wall:(uint64)0 ext:(int64)0 loc:(*time.Location)<nil>}}",
        partial(_refuse, "an operator hashes the time zone of its own process with a time, which is not known here"),
    ),
    "v1.FieldsV1": _Scalar(
        "{Raw:([]uint8)<nil>}",
        partial(_refuse, "an operator hashes the bytes of this value as they were written, which are not known here"),
    ),
}


class Types:
    """The printers of one layout. Types that are the same in two layouts, all the way down, share one."""

    _shared: ClassVar[dict[object, Printer]] = {}
    _signatures: ClassVar[dict[object, int]] = {}

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._known: dict[str, int] = {}

    def printer(self, kind: str, *, part: bool = False) -> Printer:
        """The printer of a Go type, compiled at its first use; ``part`` for what stands in a struct that has parts."""
        signature = self.signature(kind), part
        if signature not in self._shared:
            self._shared[signature] = self._compile(kind, part=part)
        return self._shared[signature]

    def fields(self, kind: str) -> Sequence[Field]:
        """The fields of a struct."""
        if isinstance(fields := self.layout[kind], str):
            raise TypeError(f"{kind} is not a struct")
        return fields

    def _compile(self, kind: str, *, part: bool) -> Printer:  # noqa: PLR0911 - one return for each kind of type
        if kind in _CUSTOM:
            return _CUSTOM[kind]
        definition = self.layout.get(kind)
        if isinstance(definition, str):
            return self.printer(definition, part=part)
        if definition is not None:
            struct = Struct(kind, definition, self)
            return Remembered(struct, self.signature(kind)) if part and kind not in _PARTED else struct
        if kind.startswith("*"):
            return _Pointer(partial(self.printer, kind[1:], part=part))
        if kind.startswith("[]"):
            return Slice(partial(self.printer, kind[2:], part=part))
        if match := _MAP.fullmatch(kind):
            return _Map(partial(self.printer, match[2]))
        if match := _INTEGER.fullmatch(kind):
            half = 1 << int(match[1] or 64) - 1
            return _Scalar("0", partial(_integer, kind, range(2 * half) if kind[0] == "u" else range(-half, half)))
        raise TypeError(f"the layout has no type {kind}")

    def signature(self, kind: str) -> int:
        """A number that two types share only if they print alike all the way down."""
        if kind not in self._known:
            parts: tuple[object, ...] = (kind,)
            definition = self.layout.get(kind, ())
            if match := _MAP.fullmatch(kind):
                parts += (self.signature(match[2]),)
            elif kind.startswith(("*", "[]")):
                parts += (self.signature(kind.removeprefix("*").removeprefix("[]")),)
            elif isinstance(definition, str):
                parts += (self.signature(definition),)
            else:
                parts += tuple((go, key, self.signature(child)) for go, key, child in definition)
            self._known[kind] = self._signatures.setdefault(parts, len(self._signatures))
        return self._known[kind]


@cache
def types_of(minor: str) -> Types:
    """The printers of an API minor's layout."""
    return Types(load(minor))


@cache
def root(minor: str) -> Struct:
    """The printer of ``v1.PodTemplateSpec`` in the layout of an API minor."""
    printer = types_of(minor).printer(ROOT)
    if not isinstance(printer, Struct):
        raise TypeError(f"{ROOT} is not a struct in the layout of {minor}")
    return printer


def _within(step: str, error: DecodeError) -> DecodeError:
    return DecodeError(error.message, path=f"{step}{error.path}")


def mismatch(value: object, wanted: str) -> DecodeError:
    """The error for a value of another JSON type than Go wants; without the value, because templates hold secrets."""
    kinds: Mapping[type, str] = {str: "a string", bool: "a boolean", dict: "an object", list: "a list"}
    return DecodeError(f"{kinds.get(type(value), 'a number')} is not of type {wanted}")
