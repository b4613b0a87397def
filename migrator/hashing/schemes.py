"""Schemes: an algorithm over the struct layout of one k8s.io/api minor. The minors are those that have a layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from migrator.errors import UnknownScheme
from migrator.hashing import layouts

LEGACY: Final = "legacy"
CANONICAL: Final = "canonical"
_ALGORITHMS: Final = (LEGACY, CANONICAL)


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to hash a pod template, named ``<algorithm>-<minor>``."""

    algorithm: str
    minor: str

    @property
    def name(self) -> str:
        """For example ``legacy-1.34``."""
        return f"{self.algorithm}-{self.minor}"

    @property
    def accepts(self) -> frozenset[str]:
        """The names of the schemes whose stored hashes an operator of this scheme leaves as they are.

        A canonical operator accepts the legacy hash of its own layout too (Grove PR 566: ``ComputeHashLegacy``, without
        which a program is not recognised).
        """
        return frozenset((self.name, f"{LEGACY}-{self.minor}"))

    def __str__(self) -> str:
        return self.name


@cache
def all_schemes() -> tuple[Scheme, ...]:
    """Every scheme in table order: legacy before canonical, then by minor."""
    return tuple(Scheme(algorithm, minor) for algorithm in _ALGORITHMS for minor in layouts.minors())


def by_name(name: str) -> Scheme:
    """The scheme of that name; raises :class:`~migrator.errors.UnknownScheme` if there is none."""
    for scheme in all_schemes():
        if scheme.name == name:
            return scheme
    raise UnknownScheme(f"{name!r} is not a known scheme")
