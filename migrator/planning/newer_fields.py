"""The fields of pod specs that one API minor knows and another does not. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from migrator.hashing.spew import Struct, root


def newer_fields(spec: Mapping[str, Any], older: str, newer: str) -> tuple[str, ...]:
    """JSON Pointers to the fields that a PodCliqueSet's ``spec`` sets and only the minor ``newer`` knows.

    The spec must be one that could be hashed.
    """
    if older == newer:
        return ()
    unseen = set(_unknown_fields(spec, newer))
    return tuple(pointer for pointer in _unknown_fields(spec, older) if pointer not in unseen)


def _unknown_fields(spec: Mapping[str, Any], minor: str) -> Iterator[str]:
    known = root(minor).fields["spec"]
    for number, clique in enumerate((spec.get("template") or {}).get("cliques") or ()):
        pod_spec = (clique.get("spec") or {}).get("podSpec")
        yield from _unknown(pod_spec, known, f"/spec/template/cliques/{number}/spec/podSpec")


def _unknown(value: object, printer: object, pointer: str) -> Iterator[str]:
    while hasattr(printer, "element"):
        printer = printer.element
    if isinstance(value, dict) and isinstance(printer, Struct):
        fields = printer.fields
        for key, item in value.items():
            below = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if item is None:
                continue
            if key not in fields:
                yield below
            else:
                yield from _unknown(item, fields[key], below)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _unknown(item, printer, f"{pointer}/{number}")
