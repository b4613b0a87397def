"""Guards on fields that a PodCliqueSet sets and that only one of the two operators knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from migrator.errors import DecodeError
from migrator.grove.objects import Ref, pod_spec_of
from migrator.hashing import layouts
from migrator.kinds import pointer
from migrator.planning.guards import base
from migrator.planning.model import Finding

_MAP: Final = re.compile(r"map\[[^\]]*\](.+)")

Path = tuple[str | int, ...]

OF_TARGET: Final = base.Guard(
    "GM-125",
    "field-of-target",
    "The template has fields that only the target operator knows",
    "remove the field before the upgrade and add it again afterwards",
)
UNHASHABLE: Final = base.Guard(
    "GM-139",
    "not-hashable",
    "The template cannot be hashed",
    "correct the field, or leave this set out with --skip-refused: the upgrade recreates its pods",
)
OF_SOURCE: Final = base.Guard(
    "GM-134", "field-of-source", "The template has fields that the target operator does not know", warns=True
)


def not_hashable(ref: Ref, error: DecodeError) -> Finding:
    """A template that Go would not decode, or of which no hash can be computed here; other sets are not affected."""
    return UNHASHABLE.found(ref, pointer(*error.steps), f"has a template that cannot be hashed: {error}")


def fields(facts: base.SetFacts) -> Iterator[Finding]:
    """A field that only one of the two struct layouts has is a real change of the template."""
    pcs, source, target = facts.tree.pcs, facts.pair.source.scheme.minor, facts.pair.target.scheme.minor
    for path in newer_fields(pcs.spec, source, target):
        message = (
            f"sets {path}: the running operator (k8s.io/api {source}) ignores the field, and the next one "
            f"({target}) knows it, so the upgrade really changes the pods and a migration would hide that"
        )
        yield OF_TARGET.found(pcs.ref, path, message)
    for path in newer_fields(pcs.spec, target, source):
        message = (
            f"sets {path}, which the next operator (k8s.io/api {target}) ignores: its pods keep the "
            "effect of the field until they are recreated, and new pods lack it"
        )
        yield OF_SOURCE.found(pcs.ref, path, message)


def newer_fields(spec: Mapping[str, Any], older: str, newer: str) -> tuple[str, ...]:
    """JSON Pointers to the fields that a PodCliqueSet's ``spec`` sets and only the minor ``newer`` knows.

    The spec must be one that could be hashed. ``newer_fields(pcs.spec, "1.34", "1.35")`` is what an operator built with
    k8s.io/api 0.34 ignores.
    """
    return tuple(
        pointer("spec", "template", "cliques", number, "spec", "podSpec", *path)
        for number, clique in enumerate((spec.get("template") or {}).get("cliques") or ())
        for path in _added("v1.PodSpec", pod_spec_of(clique), (), older, newer)
    )


def _added(kind: str, value: Any, path: Path, older: str, newer: str) -> Iterator[Path]:  # noqa: ANN401 - any JSON value
    """The path of every field that a value of a Go type sets and only the newer minor has."""
    kind = kind.removeprefix("*")
    if value is None or layouts.alike(older, newer, kind):
        return
    if kind.startswith("[]"):
        for number, item in enumerate(value if isinstance(value, list) else ()):
            yield from _added(kind[2:], item, (*path, number), older, newer)
    elif match := _MAP.fullmatch(kind):
        for item in value.values() if isinstance(value, dict) else ():
            yield from _added(match[1], item, (*path, "*"), older, newer)  # keys are the user's, like values
    else:
        yield from _added_to_struct(kind, value if isinstance(value, dict) else {}, path, older, newer)


def _added_to_struct(struct: str, value: Mapping[str, Any], path: Path, older: str, newer: str) -> Iterator[Path]:
    before, after = layouts.load(older).get(struct, ()), layouts.load(newer).get(struct, ())
    if isinstance(before, str) or isinstance(after, str):
        return
    for field in after:
        _, key, child = field
        if key == "":  # an embedded struct
            yield from _added(child, value, path, older, newer)
        elif key and field in before:
            yield from _added(child, value.get(key), (*path, key), older, newer)
        elif key and value.get(key) is not None:
            yield (*path, key)


GUARDS: Final[tuple[base.Guard, ...]] = (OF_TARGET, OF_SOURCE, UNHASHABLE)
CHECKS: Final = (fields,)
