"""The options of a plan. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.grove.objects import PodCliqueSet
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme
from migrator.releases.table import Named, named

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The user's options.

    ``source`` is ``None`` if each set tells it (``--from auto``). ``allow`` has codes as
    :func:`~migrator.planning.guards.allowed_codes` gives them.
    """

    target: Named
    source: Named | None = None
    allow: frozenset[str] = frozenset()
    skip_refused: bool = False
    namespace: str | None = None  # of the sets that are meant; all without one

    @property
    def candidates(self) -> tuple[Scheme, ...]:
        """The schemes that the stored values may have, besides the target's."""
        return schemes.all_schemes() if self.source is None else (self.source.scheme,)

    def selects(self, pcs: PodCliqueSet) -> bool:
        """Whether the set is meant."""
        return self.namespace in {None, pcs.ref.namespace}


def source_of(text: str) -> Named | None:
    """What ``--from`` names; raises :class:`~migrator.errors.UnknownScheme` for a name that is not known."""
    return None if text == AUTO else named(text)
