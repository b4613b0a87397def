"""The layout of ``v1.PodTemplateSpec`` from a program's own type data, in the form of ``hashing.layouts``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from migrator.errors import InputError
from migrator.hashing.layouts import Field, Layout, load, minors
from migrator.operators.gotypes import GoType, GoTypes, StructField, composed

_ROOT: Final = ("v1.PodTemplateSpec", "k8s.io/api/core/v1")
#: Types that decode themselves from JSON. The printer has its own code for them, so their layout must be a known one.
_CUSTOM: Final = {
    "resource.Quantity": "k8s.io/apimachinery/pkg/api/resource",
    "intstr.IntOrString": "k8s.io/apimachinery/pkg/util/intstr",
    "v1.Time": "k8s.io/apimachinery/pkg/apis/meta/v1",
    "v1.FieldsV1": "k8s.io/apimachinery/pkg/apis/meta/v1",
    "time.Time": "time",
    "big.Int": "math/big",
    "inf.Dec": "gopkg.in/inf.v0",
    "resource.infDecAmount": "k8s.io/apimachinery/pkg/api/resource",
}
_DECODERS: Final = frozenset({"UnmarshalJSON", "UnmarshalText", "UnmarshalJSONFrom"})
_TAG: Final = re.compile(r'\s*([^\s":]+):"([^"\\]*)"')


def read(types: GoTypes) -> Layout:
    """Every type reachable from the pod template; raises :class:`~migrator.errors.InputError` for an unknown one."""
    root = types.named(*_ROOT)
    if root is None:
        raise InputError("it has no type v1.PodTemplateSpec of k8s.io/api/core/v1, so it is not a Grove operator")
    found: dict[str, tuple[Field, ...] | str] = {}
    seen: dict[str, int] = {}
    custom: set[str] = set()
    waiting = [root.address]
    while waiting:
        one = types.at(waiting.pop())
        if one.named and "." in one.text:
            if seen.setdefault(one.text, one.address) != one.address:
                raise InputError(f"two types print as {one.text}; such a layout cannot be hashed here")
            if one.text in found:
                continue
            if _decodes_itself(types, one):
                custom.add(one.text)
            found[one.text] = _definition(types, one, own=one.text in custom)
        elif one.kind == "struct":
            raise InputError(f"a struct without a name, {one.text}; such a layout cannot be hashed here")
        waiting += [*one.parts, *(field.type for field in one.fields)]
    _demand_known(found, custom)
    return found


def differences(old: Layout, new: Layout) -> Iterator[str]:
    """The differences of two layouts, one sentence for each type or field."""
    for name in sorted({*old, *new}):
        before, after = _described(name, old), _described(name, new)
        if not before or not after:
            yield f"{name} is {'gone' if before else 'new'}"
            continue
        for field, text in after.items():
            if field not in before:
                yield f"{field} is new ({text})"
            elif before[field] != text:
                yield f"{field} is {text}; it was {before[field]}"
        yield from (f"{field} is gone" for field in before if field not in after)
        if [one for one in before if one in after] != [one for one in after if one in before]:
            yield f"{name} has its fields in another order"


def _described(name: str, layout: Layout) -> dict[str, str]:
    """The description of a type, and of each of its fields; none for an unknown type."""
    definition = layout.get(name, ())
    if isinstance(definition, str):
        return {name: definition}
    fields = {f"{name}.{field}": f"{kind}, JSON {key}" for field, key, kind in definition}
    return {name: "a struct", **fields} if name in layout else {}


def nearest(layout: Layout) -> str:
    """The newest of the shipped minors with the fewest differences."""
    return min(reversed(minors()), key=lambda minor: len(list(differences(load(minor), layout))))


def _decodes_itself(types: GoTypes, one: GoType) -> bool:
    package, methods = types.methods(one.address)
    if not methods & _DECODERS:
        return False
    if _CUSTOM.get(one.text) != package:
        raise InputError(f"{package}.{one.text} decodes itself from JSON in a way that is not known here")
    return True


def _definition(types: GoTypes, one: GoType, *, own: bool) -> tuple[Field, ...] | str:
    if one.kind != "struct":
        return composed(one.kind, [types.at(part).text for part in one.parts])
    return tuple(
        (field.name.text, None if own else _json_name(types, field), types.at(field.type).text) for field in one.fields
    )


def _json_name(types: GoTypes, field: StructField) -> str | None:
    """A field's name in encoding/json: empty for an inlined struct, ``None`` for a field that JSON never fills."""
    tags = dict(_TAG.findall(field.name.tag))
    if field.name.tag and not re.fullmatch(f"(?:{_TAG.pattern})+\\s*", field.name.tag):
        raise InputError(f"the tag of {field.name.text} cannot be read: {field.name.tag}")
    if "json" not in tags and field.name.exported:
        raise InputError(f"the field {field.name.text} has no JSON name, and all of k8s.io/api have one; get it again")
    tag = tags.get("json", "")
    if tag == "-":
        return None
    name = tag.partition(",")[0]
    if field.name.embedded and not name and types.at(field.type).kind == "struct":
        return ""
    return (name or field.name.text) if field.name.exported else None


def _demand_known(found: Mapping[str, tuple[Field, ...] | str], custom: set[str]) -> None:
    """Demand that the types with own code in the printer are exactly those of the newest shipped minor."""
    newest = load(minors()[-1])
    lost = sorted(_CUSTOM.keys() & found.keys() - custom)
    if lost:
        raise InputError(f"{lost[0]} does not decode itself from JSON any more; such values cannot be hashed here")
    for name in sorted(custom):
        waiting, done = [name], set()
        while waiting:
            one = waiting.pop()
            definition = found.get(one)
            if one in done or definition is None:
                continue
            done.add(one)
            if definition != newest.get(one):
                what = f"{one}, a part of {name}, is laid out in another way"
                raise InputError(f"{what}; its values cannot be hashed here")
            kinds = [definition] if isinstance(definition, str) else [kind for _, _, kind in definition]
            waiting += [re.sub(r"^(?:\*|\[\]|map\[\w+\])+", "", kind) for kind in kinds]
