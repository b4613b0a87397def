"""Which builds of Grove's operator a name, a scheme or the tag of an image stands for. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Final

from migrator.hashing import schemes
from migrator.hashing.schemes import Release, Scheme

#: Releases that known issues name and that are not in the table, because nobody has read them; oldest first.
_LATER: Final = ("v0.1.0-alpha.12", "v0.1.0-alpha.13", "v0.1.0-alpha.14")


@dataclass(frozen=True, slots=True)
class Named:
    """What ``--from`` or ``--to`` names, as it was typed: a scheme, or a release that uses it."""

    text: str
    scheme: Scheme
    release: Release | None = None

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds that may be meant, oldest first: the release, or all that use the scheme."""
        return (self.release.name,) if self.release is not None else builds_with(self.scheme)

    def __str__(self) -> str:
        return self.text


def named(text: str) -> Named:
    """What a user names; raises :class:`~migrator.errors.UnknownScheme` for a name that is not known."""
    release = schemes.requested_release(text)
    return Named(text, release.scheme if release is not None else schemes.by_name(text), release)


@cache
def builds() -> tuple[str, ...]:
    """Every build that has a name here, oldest first."""
    return tuple(dict.fromkeys((*(release.name for release in schemes.releases()), *_LATER)))


def is_before(build: str, other: str) -> bool:
    """Whether a build is older than another."""
    return builds().index(build) < builds().index(other)


@cache
def targets_of(target: Named) -> tuple[str, ...]:
    """The builds that ``--to`` may mean. The newest scheme, or a newer one, may be that of one that nobody has read."""
    table, order, scheme = schemes.releases(), schemes.all_schemes(), target.scheme
    newest = table[-1].scheme
    if target.release is not None or scheme.algorithm != newest.algorithm:
        return target.builds
    unread = builds()[len(table) :] if order.index(scheme) >= order.index(newest) else ()
    return (*target.builds, *unread)


@cache
def builds_with(scheme: Scheme) -> tuple[str, ...]:
    """The builds that use a scheme and can be migrated to."""
    return tuple(release.name for release in schemes.releases_with(scheme))


def build_range(names: tuple[str, ...]) -> str:
    """The builds in a few words: ``v0.1.0-alpha.4 to v0.1.0-alpha.9``, or the only one."""
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}" if names else "no known release"


def span(since: str, until: str | None) -> str:
    """The builds from one to another in words; ``None`` is the newest."""
    if until is None:
        return f"{since} or later"
    return since if until == since else f"{since} to {until}"


def is_target(image: str, target: Scheme, target_image: str | None) -> bool:
    """Whether an image is the target's: its tag is a release that uses ``target``, or it is ``target_image``."""
    if target_image is not None and image == target_image:
        return True
    release = release_in(image)
    return release is not None and release.scheme == target


def release_in(image: str) -> Release | None:
    """The release that the tag of an image names."""
    return schemes.release_of(image_tag(image) or "")


def knows(image: str, names: Collection[str]) -> bool:
    """Whether the tag of an image names a release that takes stored hashes of one of these schemes as its own."""
    release = release_in(image)
    return release is not None and not release.scheme.taken.isdisjoint(names)


def image_tag(image: str) -> str | None:
    """The tag of an image reference, ``None`` without one; a registry's port and a digest are not tags."""
    last = image.split("@", 1)[0].rsplit("/", 1)[-1]
    _, colon, tag = last.partition(":")
    return tag if colon and tag else None
