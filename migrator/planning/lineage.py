"""The releases that a name stands for, in the order in which they were built. Pure."""

from __future__ import annotations

from functools import cache
from typing import Final

from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme

#: From this build on a member below its minimum ends its gang, but not one that never was healthy (Grove PR 614), and a
#: standalone PodClique is compared with its set's generation hash even if the set is idle
#: (``podclique/reconcilespec.go:shouldCheckPendingUpdatesForPCLQ``). This build alone begins an update of each that
#: stores no progress, whatever its hash is (until Grove PR 757).
RC1: Final = "v0.1.0-alpha.12-rc1"


@cache
def builds() -> tuple[str, ...]:
    """Every known build, oldest first, unread releases last."""
    return (*(release.name for release in schemes.releases()), *schemes.unread_releases())


def is_before(build: str, other: str) -> bool:
    """Whether a build is older than another."""
    return builds().index(build) < builds().index(other)


@cache
def builds_of(requested: str, scheme: Scheme | None) -> tuple[str, ...]:
    """The builds that ``--from`` or ``--to`` may mean: the named release, or all that speak ``scheme``."""
    release = schemes.release_of(requested)
    name = release.name if release is not None else schemes.unread_release(requested)
    if name is not None:
        return (name,)
    return speakers(scheme) if scheme is not None else ()


@cache
def speakers(scheme: Scheme) -> tuple[str, ...]:
    """The builds that speak a scheme and can be migrated to."""
    return tuple(release.name for release in schemes.speakers(scheme) if not release.hash_in_names)


def targets() -> tuple[tuple[Scheme, tuple[str, ...]], ...]:
    """Every scheme that a release speaks, in table order, with these releases."""
    found = (
        (scheme, tuple(r.name for r in schemes.speakers(scheme) if not r.dev and not r.hash_in_names))
        for scheme in schemes.spoken_schemes()
    )
    return tuple((scheme, releases) for scheme, releases in found if releases)


def build_range(names: tuple[str, ...]) -> str:
    """The builds in a few words: ``v0.1.0-alpha.4 to v0.1.0-alpha.9``, or the only one."""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" if names else "no build"
