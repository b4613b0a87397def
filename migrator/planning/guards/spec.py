"""Guards on a set's template: causes of hashes that differ from those of the spec that was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.model import Finding
from migrator.planning.guards.base import Case, refuse, warn
from migrator.planning.guards.causes import causes


def template(case: Case) -> Iterator[Finding]:
    """Causes of a PodClique's hash that differs from that of its template."""
    for cause in causes(case).values():
        yield cause.finding


def fields(case: Case) -> Iterator[Finding]:
    """A field that only one of the two struct layouts has is a real change of the template."""
    pcs = case.tree.pcs
    for pointer in case.unknown_fields:
        message = (
            f"{pcs.ref} sets {pointer}, which the {case.source.minor} structs of the running operator ignore and "
            f"the {case.target.minor} structs see: the upgrade really changes the pods, and rewriting hashes would "
            "hide that; remove the field before the upgrade and add it again afterwards"
        )
        yield refuse("GM-125", pcs.ref, pointer, message)
    for pointer in case.lost_fields:
        message = (
            f"{pcs.ref} sets {pointer}, which the {case.target.minor} structs ignore: its pods keep the effect of "
            "the field until they are recreated, and lack it from then on"
        )
        yield warn("GM-134", pcs.ref, pointer, message)


CHECKS: Final = (template, fields)
