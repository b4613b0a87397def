"""Why two schemes give different hashes of the same template: a small diff of the two dumps. Pure.

Dumps print every field of every struct, set or not, so a field that only the newer structs have adds its text wherever
its struct appears. Values are never shown, because templates hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from migrator.errors import UsageError
from migrator.grove.objects import pod_spec_of
from migrator.hashing import layouts, schemes
from migrator.hashing.canonical import canonicalize
from migrator.hashing.layouts import Field
from migrator.hashing.podcliqueset import IN_ORDER, PodCliqueSetHashes, hash_pod_clique_set
from migrator.hashing.schemes import Scheme
from migrator.hashing.spew import ROOT, Types, types_of
from migrator.resources import pointer

#: How many places a line names.
_NAMED: Final = 3

Path = tuple[str | int, ...]

_MAP: Final = re.compile(r"map\[[^\]]*\](.+)")
_POSITION: Final = "\0position"  # no JSON key of any struct, so no sort looks at it


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that only one of the two dumps prints: ``text`` if it is unset, never a value.

    ``places`` are the structs that print it, ``set_in`` those of them in which the template sets it.
    """

    added: bool
    struct: str
    field: str
    after: str
    text: str
    places: tuple[str, ...]
    set_in: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A list that the canonical order sorts: the stored positions, in canonical order."""

    path: str
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CliqueExplanation:
    """Why one clique's pod-template hash differs, if it does."""

    name: str
    old: str
    new: str
    fields: tuple[FieldChange, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a PodCliqueSet's hashes differ.

    ``clique_order`` is the order of the cliques in the canonical dump, empty if it is the stored one. ``order_keys``:
    the canonical dump prints their names too (``CliqueStartupTypeInOrder``).
    """

    source: Scheme
    target: Scheme
    old: str
    new: str
    cliques: tuple[CliqueExplanation, ...]
    clique_order: tuple[int, ...]
    order_keys: bool


def source_of(pcs: Mapping[str, Any], what: str) -> Scheme:
    """The first scheme in the table that gives the set's stored generation hash.

    Raises :class:`~migrator.errors.UsageError` if none does: then ``--from`` must name one.
    """
    status = pcs.get("status")
    stored = status.get("currentGenerationHash") if isinstance(status, Mapping) else None
    if not stored:
        raise UsageError(f"{what} stores no generation hash; name its operator with --from")
    for scheme in schemes.spoken_schemes():
        if hash_pod_clique_set(pcs, scheme).generation_hash == stored:
            return scheme
    raise UsageError(f"{what} stores {stored}, which no known operator computes for it; name its operator with --from")


def explain(pcs: Mapping[str, Any], source: Scheme, target: Scheme) -> Explanation:
    """Compare the dumps of a set under two schemes. Raises :class:`~migrator.errors.DecodeError` as hashing does."""
    old, new = hash_pod_clique_set(pcs, source), hash_pod_clique_set(pcs, target)
    template = (pcs.get("spec") or {}).get("template") or {}
    cliques = template.get("cliques") or []
    mixed = source.algorithm != target.algorithm
    in_order = template.get("cliqueStartupType") == IN_ORDER
    order = tuple(sorted(range(len(cliques)), key=lambda number: str(cliques[number].get("name") or "")))
    sorts = mixed and not in_order and order != tuple(range(len(cliques)))
    return Explanation(
        source=source,
        target=target,
        old=old.generation_hash,
        new=new.generation_hash,
        cliques=tuple(_clique(clique, source, target, old, new) for clique in cliques),
        clique_order=order if sorts else (),
        order_keys=mixed and in_order,
    )


def field_changes(template: Mapping[str, Any], older: str, newer: str) -> tuple[FieldChange, ...]:
    """The fields that the dumps of a pod template under two minors do not share, in the order of printing."""
    found: dict[tuple[bool, str, str], list[tuple[str, bool]]] = {}
    for added, struct, field, path, is_set in _differences(ROOT, template, (), older, newer):
        found.setdefault((added, struct, field[0]), []).append((_shown(path), is_set))
    return tuple(
        _field_change(types_of(newer if added else older), struct, name, places, added=added)
        for (added, struct, name), places in found.items()
    )


def newer_fields(spec: Mapping[str, Any], older: str, newer: str) -> tuple[str, ...]:
    """JSON Pointers to the fields that a PodCliqueSet's ``spec`` sets and only the minor ``newer`` knows.

    The spec must be one that could be hashed.
    """
    return tuple(
        pointer("spec", "template", "cliques", number, "spec", "podSpec", *path, field[1])
        for number, clique in enumerate((spec.get("template") or {}).get("cliques") or ())
        for added, _, field, path, is_set in _differences("v1.PodSpec", pod_spec_of(clique), (), older, newer)
        if added and is_set
    )


def moves(pod_spec: Mapping[str, Any]) -> tuple[Move, ...]:
    """The lists of a pod spec that the canonical order changes."""
    return tuple(_moves(canonicalize(_tagged(pod_spec)), "podSpec"))


def _clique(
    clique: Mapping[str, Any], source: Scheme, target: Scheme, old: PodCliqueSetHashes, new: PodCliqueSetHashes
) -> CliqueExplanation:
    name, pod_spec = str(clique.get("name") or ""), pod_spec_of(clique)
    template = {"metadata": {key: clique.get(key) for key in ("labels", "annotations")}, "spec": pod_spec}
    return CliqueExplanation(
        name=name,
        old=old.pod_template_hashes[name],
        new=new.pod_template_hashes[name],
        fields=field_changes(template, source.minor, target.minor),
        moves=moves(pod_spec) if source.algorithm != target.algorithm else (),
    )


def _differences(
    kind: str,
    value: Any,  # noqa: ANN401 - any JSON value
    path: Path,
    older: str,
    newer: str,
) -> Iterator[tuple[bool, str, Field, Path, bool]]:
    """Every field that the dump of a value has under one minor only.

    Yields whether it is the newer, the struct, the field, the place of the struct, and whether the field is set.
    """
    for struct, item, below in _elements(kind, value, path):
        holder = item if isinstance(item, dict) else {}
        own, inner = _compared(older, newer, struct)
        yield from ((added, struct, field, below, holder.get(field[1]) is not None) for added, field in own)
        for key, child in inner:
            if key:
                yield from _differences(child, holder.get(key), (*below, key), older, newer)
            else:  # an embedded struct
                yield from _differences(child, item, below, older, newer)


@cache
def _compared(older: str, newer: str, struct: str) -> tuple[Sequence[tuple[bool, Field]], Sequence[tuple[str, str]]]:
    """The fields of a struct that only one minor has, and the keys and types below which the two minors differ."""
    old, new = layouts.load(older).get(struct, ""), layouts.load(newer).get(struct, "")
    if isinstance(old, str):
        return (), ()
    typed = [(key, child) for _, key, child in old if key is not None]
    inner = [(key, child) for key, child in typed if not layouts.alike(older, newer, child)]
    if isinstance(new, str):  # a struct that only one minor has stands below a field that only that minor has
        return (), inner
    removed, added = [field for field in old if field not in new], [field for field in new if field not in old]
    return [(False, field) for field in removed] + [(True, field) for field in added], inner


def _elements(kind: str, value: Any, path: Path) -> Iterator[tuple[str, Any, Path]]:  # noqa: ANN401
    """The values in a value of a Go type: itself, the one that it points to, or its elements."""
    if kind.startswith("*"):
        if isinstance(value, dict):
            yield kind[1:], value, path
    elif kind.startswith("[]"):
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _elements(kind[2:], item, (*path, number))
    elif match := _MAP.fullmatch(kind):
        for item in value.values() if isinstance(value, dict) else ():
            yield from _elements(match[1], item, (*path, "*"))  # keys are the user's, like values
    else:
        yield kind, value, path


def _shown(path: Path) -> str:
    """The place as a PodCliqueSet names it: ``podSpec`` for ``spec`` of Go's pod template."""
    first, *rest = path or ("",)
    steps = (f"[{step}]" if isinstance(step, int) or step == "*" else f".{step}" for step in rest)
    return "".join(("podSpec" if first == "spec" else str(first), *steps))


def _field_change(types: Types, struct: str, name: str, places: list[tuple[str, bool]], *, added: bool) -> FieldChange:
    fields = types.fields(struct)
    number = [field[0] for field in fields].index(name)
    kind = fields[number][2]
    unset = any(not is_set for _, is_set in places)
    return FieldChange(
        added=added,
        struct=struct,
        field=name,
        after=fields[number - 1][0] if number else "",
        text=f"{name}:({kind}){types.zero(kind) if unset else '…'}",
        places=tuple(path for path, _ in places),
        set_in=tuple(path for path, is_set in places if is_set),
    )


def _tagged(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy in which every object in a list carries its position, so that a sorted list shows where each was."""
    if isinstance(value, Mapping):
        return {key: _tagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [{**_tagged(i), _POSITION: n} if isinstance(i, Mapping) else i for n, i in enumerate(value)]
    return value


def _moves(value: Any, path: str) -> Iterator[Move]:  # noqa: ANN401 - any JSON value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _moves(item, f"{path}.{key}")
    elif isinstance(value, list):
        order = tuple(item[_POSITION] for item in value if isinstance(item, Mapping))
        if order != tuple(sorted(order)):
            yield Move(path, order)
        for item in value:
            if isinstance(item, Mapping):
                yield from _moves(item, f"{path}[{item[_POSITION]}]")


def as_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as a JSON object."""
    return {
        "from": explanation.source.name,
        "to": explanation.target.name,
        "generationHash": {"old": explanation.old, "new": explanation.new},
        "cliqueOrder": list(explanation.clique_order) or None,
        "orderKeys": explanation.order_keys,
        "cliques": [
            {
                "name": clique.name,
                "old": clique.old,
                "new": clique.new,
                "fields": [
                    {
                        "change": "added" if change.added else "removed",
                        "struct": change.struct,
                        "field": change.field,
                        "after": change.after,
                        "text": change.text,
                        "places": list(change.places),
                        "setIn": list(change.set_in),
                    }
                    for change in clique.fields
                ],
                "moves": [{"list": move.path, "canonicalOrder": list(move.order)} for move in clique.moves],
            }
            for clique in explanation.cliques
        ],
    }


def as_text(explanation: Explanation) -> str:
    """The explanation as a small diff: ``+`` and ``-`` for text in one dump only, ``~`` for a list that moves.

    Cliques that differ in the same way are grouped.
    """
    lines = [f"generation hash: {_hashes(explanation.old, explanation.new)}"]
    if explanation.clique_order:
        lines.append(f"  ~ cliques: the canonical order is {_order(explanation.clique_order)}")
    if explanation.order_keys:
        lines.append("  ~ cliques: the canonical dump prints the name of each before it (CliqueStartupTypeInOrder)")
    alike: dict[tuple[object, ...], list[CliqueExplanation]] = {}
    for clique in explanation.cliques:
        alike.setdefault((clique.fields, clique.moves, clique.old == clique.new), []).append(clique)
    for cliques in alike.values():
        lines += ["", *(f"clique {clique.name}: {_hashes(clique.old, clique.new)}" for clique in cliques)]
        lines += _difference(cliques[0], explanation)
    return "".join(f"{line}\n" for line in lines)


def _difference(clique: CliqueExplanation, explanation: Explanation) -> Iterator[str]:
    for change in clique.fields:
        yield f"  {'+' if change.added else '-'} {change.text}"
        yield f"      after {change.after} of {change.struct}, in {_places(change.places)}"
        if change.set_in:
            knows = explanation.target if change.added else explanation.source
            yield f"      set in {_places(change.set_in)}: only {knows.name} sees it"
    yield from (f"  ~ {move.path}: the canonical order is {_order(move.order)}" for move in clique.moves)


def _hashes(old: str, new: str) -> str:
    return f"{old} → {new}" if old != new else f"{old}, the same under both"


def _order(order: tuple[int, ...]) -> str:
    return ", ".join(map(str, order))


def _places(places: tuple[str, ...]) -> str:
    named = ", ".join(places[:_NAMED])
    return named if len(places) <= _NAMED else f"{named} and {len(places) - _NAMED} more"
