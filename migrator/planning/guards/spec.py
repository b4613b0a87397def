"""Guards on a set's template: what makes its hashes differ from those of the spec that was read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from migrator.grove.model import Finding
from migrator.planning.guards.base import Context, refuse, warn
from migrator.planning.guards.causes import causes


def template(context: Context) -> Iterator[Finding]:
    """What makes the hash of a PodClique differ from that of its template."""
    for cause in causes(context).values():
        yield cause.finding


def fields(context: Context) -> Iterator[Finding]:
    """A field that only one of the two struct layouts has is a real change of the template."""
    pcs = context.tree.pcs
    for pointer in context.unknown_fields:
        yield refuse(
            "GM-125",
            pcs.ref,
            pointer,
            f"{pcs.ref} sets {pointer}, which the {context.source.minor} structs of the running operator ignore and "
            f"the {context.target.minor} structs see: the upgrade changes the pods for real, and rewriting hashes "
            "would hide that; remove the field before the upgrade and add it again afterwards",
        )
    for pointer in context.lost_fields:
        yield warn(
            "GM-134",
            pcs.ref,
            pointer,
            f"{pcs.ref} sets {pointer}, which the {context.target.minor} structs ignore: its pods keep what the "
            "field gave them until they are recreated, and get it no more afterwards",
        )


CHECKS: Final = (template, fields)
