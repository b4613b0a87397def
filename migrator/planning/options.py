"""What the user asks of a plan, and the schemes that it stands for. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from migrator.errors import UsageError
from migrator.grove.model import PodCliqueSet
from migrator.hashing import schemes
from migrator.hashing.schemes import CANONICAL, Scheme
from migrator.planning import guards
from migrator.selectors import matches_labels

AUTO: Final = "auto"

#: How much a mistyped code must be like a real one to be taken for it, from 0 to 1.
_ALIKE: Final = 0.82

#: How long the operator is expected to be away, where nobody says: the Job's own deadline.
DEFAULT_DOWNTIME: Final = 600.0


@dataclass(frozen=True, slots=True)
class Selection:
    """PodCliqueSets of one namespace, or with certain labels; all of them by default."""

    namespace: str | None = None
    selector: str | None = None

    def matches(self, pcs: PodCliqueSet) -> bool:
        """Whether the set is meant. Raises :class:`~migrator.errors.UsageError` for a bad selector."""
        if self.namespace is not None and pcs.ref.namespace != self.namespace:
            return False
        return matches_labels(self.selector, pcs.labels)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the user asks for.

    ``source`` is ``auto``, a scheme or a release; ``target`` is ``canonical``, a scheme or a release.
    ``downtime`` is in seconds. ``describes`` is set where nothing is to be written (``plan``): what forbids a run
    of these options, and not a migration of the sets, is then a warning.
    """

    source: str = AUTO
    target: str = CANONICAL
    allow: frozenset[str] = frozenset()
    skip_refused: bool = False
    selection: Selection = field(default_factory=Selection)
    downtime: float = DEFAULT_DOWNTIME
    describes: bool = False


@dataclass(frozen=True, slots=True)
class Direction:
    """The schemes that the options stand for."""

    candidates: tuple[Scheme, ...]
    target_of: Callable[[Scheme], Scheme]


def direction(options: PlanOptions) -> Direction:
    """Resolve ``--from`` and ``--to``.

    Raises :class:`~migrator.errors.UnknownScheme` for a name that the table lacks, and
    :class:`~migrator.errors.UsageError` for a release that can be hashed but not migrated.
    """
    if options.source == AUTO:
        candidates = schemes.spoken_schemes()
    elif options.source == CANONICAL:
        raise UsageError(
            "--from takes a scheme or a release; `canonical` is for --to; give for instance canonical-1.34"
        )
    else:
        candidates = (_scheme(options.source, "--from"),)
    if options.target == CANONICAL:
        return Direction(candidates, schemes.canonical_over)
    target = _scheme(options.target, "--to")
    return Direction(candidates, lambda _source: target)


def check_allowed(codes: Iterable[str]) -> None:
    """Raise :class:`~migrator.errors.UsageError` for a code that ``--allow`` does not accept."""
    for code in codes:
        if code not in guards.CATALOGUE:
            close = difflib.get_close_matches(code, guards.CATALOGUE, 1, _ALIKE)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise UsageError(f"--allow {code}: a guard with this code does not exist; `guards` lists them.{hint}")
        if not guards.overridable(code):
            accepted = ", ".join(sorted(c for c in guards.CATALOGUE if guards.overridable(c)))
            raise UsageError(f"--allow {code}: this guard cannot be overridden; those that can are {accepted}")


def _scheme(text: str, flag: str) -> Scheme:
    scheme = schemes.resolve(text)
    release = schemes.release_of(text)
    if release is not None and release.hash_in_names:
        raise UsageError(
            f"{flag} {text}: this release puts the hash into object names, so it cannot be migrated; "
            "`hash` and `explain` know it"
        )
    return scheme
