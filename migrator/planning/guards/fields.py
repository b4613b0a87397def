"""Guards on fields that a PodCliqueSet sets and that only one of the two operators knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
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
    for path, minor in differing_fields(pcs.cliques, source, target):
        if minor == target:
            message = (
                f"sets {path}: the running operator (k8s.io/api {source}) ignores the field, and the next one "
                f"({target}) knows it, so the upgrade really changes the pods and a migration would hide that"
            )
            yield OF_TARGET.found(pcs.ref, path, message)
        else:
            message = (
                f"sets {path}, which the next operator (k8s.io/api {target}) ignores: its pods keep the "
                "effect of the field until they are recreated, and new pods lack it"
            )
            yield OF_SOURCE.found(pcs.ref, path, message)


def differing_fields(cliques: Iterable[Mapping[str, Any]], one: str, other: str) -> Iterator[tuple[str, str]]:
    """The fields that a template's ``cliques`` set and only one of two minors knows: JSON Pointer, and that minor.

    They must be ones that could be hashed.
    """
    for number, clique in enumerate(cliques):
        for path, minor in _differing("v1.PodSpec", pod_spec_of(clique), (), (one, other)):
            yield pointer("spec", "template", "cliques", number, "spec", "podSpec", *path), minor


def _differing(kind: str, value: Any, path: Path, minors: tuple[str, str]) -> Iterator[tuple[Path, str]]:  # noqa: ANN401 - any JSON value
    """The path of every field that a value of a Go type sets and only one minor has, and that minor."""
    kind = kind.removeprefix("*")
    if kind.startswith("[]"):
        for number, item in enumerate(value or ()):
            yield from _differing(kind[2:], item, (*path, number), minors)
    elif match := _MAP.fullmatch(kind):
        for item in (value or {}).values():
            yield from _differing(match[1], item, (*path, "*"), minors)  # keys are the user's, like values
    elif isinstance(value, dict):
        for key, child, minor in _unlike(kind, *minors):
            if key == "":  # an embedded struct
                yield from _differing(child, value, path, minors)
            elif minor is None:
                yield from _differing(child, value.get(key), (*path, key), minors)
            elif value.get(key) is not None:
                yield (*path, key), minor


@cache
def _unlike(struct: str, one: str, other: str) -> Sequence[tuple[str, str, str | None]]:
    """The fields of a struct that differ, or lead to one that does: JSON name and Go type.

    The third value is the minor that alone has it; ``None`` for a field of both, and for an embedded struct.
    """
    before, after = (layouts.load(minor).get(struct, ()) for minor in (one, other))
    if isinstance(before, str) or isinstance(after, str):
        return ()
    found = list[tuple[str, str, str | None]]()
    for field in dict.fromkeys((*after, *before)):
        _, key, child = field
        is_shared = field in before and field in after
        owner = one if field in before else other
        if key is not None and not (is_shared and layouts.alike(one, other, child)):
            found.append((key, child, None if is_shared else owner))
    return found


GUARDS: Final[tuple[base.Guard, ...]] = (OF_TARGET, OF_SOURCE, UNHASHABLE)
CHECKS: Final = (fields,)
