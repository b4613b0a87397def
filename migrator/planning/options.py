"""The options of a plan, and the schemes that they stand for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from migrator.grove.objects import PodCliqueSet
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme

AUTO: Final = "auto"

NOTHING_SELECTED: Final = "there is no PodCliqueSet in this namespace (-n)"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The user's options.

    ``source`` is ``auto``, a scheme or a release; ``target`` is a scheme or a release. ``allow`` has codes as
    :func:`~migrator.planning.guards.base.allowed_codes` gives them. With ``for_display``, for ``plan``, a rule that
    forbids a run but not the migration of a set only warns.
    """

    source: str = AUTO
    target: str = ""
    allow: frozenset[str] = frozenset()
    skip_refused: bool = False
    namespace: str | None = None  # of the sets that are meant; all without one
    for_display: bool = False

    def selects(self, pcs: PodCliqueSet) -> bool:
        """Whether the set is meant."""
        return self.namespace in {None, pcs.ref.namespace}


@dataclass(frozen=True, slots=True)
class Direction:
    """The schemes that the options stand for."""

    candidates: tuple[Scheme, ...]
    target: Scheme


def direction_of(options: PlanOptions) -> Direction:
    """Resolve ``--from`` and ``--to``.

    Raises :class:`~migrator.errors.UsageError` for an unknown name.
    """
    return Direction(candidates_of(options.source), schemes.resolve(options.target))


def candidates_of(source: str) -> tuple[Scheme, ...]:
    """The schemes that ``--from`` stands for; raises as :func:`direction_of` does."""
    return schemes.all_schemes() if source == AUTO else (schemes.resolve(source),)
