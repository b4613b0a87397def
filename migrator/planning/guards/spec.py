"""Guards on a set's template: causes of hashes that differ from those of the spec that was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.model import Finding
from migrator.planning.explain import newer_fields
from migrator.planning.guards.base import Case, refuse, warn
from migrator.planning.guards.causes import causes


def template(case: Case) -> Iterator[Finding]:
    """Causes of a PodClique's hash that differs from that of its template."""
    for cause in causes(case).values():
        yield cause.finding


def fields(case: Case) -> Iterator[Finding]:
    """A field that only one of the two struct layouts has is a real change of the template."""
    pcs, source, target = case.tree.pcs, case.source.minor, case.target.minor
    for pointer in newer_fields(pcs.spec, source, target):
        message = (
            f"{pcs.ref} sets {pointer}: the running operator (Kubernetes {source}) ignores the field, and the next one "
            f"({target}) knows it, so the upgrade really changes the pods and a migration would hide that; remove the "
            "field before the upgrade and add it again afterwards"
        )
        yield refuse("GM-125", pcs.ref, pointer, message)
    for pointer in newer_fields(pcs.spec, target, source):
        message = (
            f"{pcs.ref} sets {pointer}, which the next operator (Kubernetes {target}) ignores: its pods keep the "
            "effect of the field until they are recreated, and new pods lack it"
        )
        yield warn("GM-134", pcs.ref, pointer, message)


CHECKS: Final = (template, fields)
