"""Which builds of Grove's operator a name, a scheme or the tag of an image stands for. Pure.

``releases.json`` lists them: one JSON object per line, oldest build first.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from migrator.errors import UnknownScheme
from migrator.hashing import schemes
from migrator.hashing.schemes import Scheme

#: Releases that known issues name and that are not in the table, because nobody has read them; oldest first.
_LATER: Final = ("v0.1.0-alpha.12", "v0.1.0-alpha.13", "v0.1.0-alpha.14")

#: What looks like a version of Dynamo; the names of Grove's releases are longer.
_DYNAMO: Final = re.compile(r"dynamo-.*|v?\d+\.\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Release:
    """A build of the operator and the scheme that it uses.

    ``source`` links to where its API minor is said. ``dynamo`` has the minor versions of Dynamo's platform chart that
    bring it, each with a link to where that is said.
    """

    name: str
    scheme: Scheme
    commit: str
    source: str
    dynamo: Mapping[str, str] = field(hash=False)

    @property
    def from_main(self) -> bool:
        """Whether it is a build of the main branch, named ``main-`` and its commit."""
        return self.name.startswith("main-")


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

    @property
    def chart_version(self) -> str:
        """The version of Grove's chart that installs it, for a shell: ``$VERSION`` if no chart has its name."""
        return '"$VERSION"' if self.release is None or self.release.from_main else self.release.name

    def __str__(self) -> str:
        return self.text


@cache
def releases() -> tuple[Release, ...]:
    """The release table, oldest build first."""
    lines = (pkgutil.get_data(__package__, "releases.json") or b"").decode().splitlines()
    return tuple(
        Release(
            name=row["release"],
            scheme=Scheme(row["algorithm"], row["minor"]),
            commit=row["commit"],
            source=row["source"],
            dynamo=row.get("dynamo", {}),
        )
        for row in map(json.loads, lines)
    )


def named(text: str) -> Named:
    """What a user names: a scheme, or a release as ``v0.1.0-alpha.9``, ``0.1.0-alpha.9`` or ``alpha.9``.

    Raises :class:`~migrator.errors.UnknownScheme` for a name that is not known.
    """
    for release in releases():
        if text in {release.name, release.name.removeprefix("v"), release.name.removeprefix("v0.1.0-")}:
            return Named(text, release.scheme, release)
    try:
        return Named(text, schemes.by_name(text))
    except UnknownScheme:
        raise UnknownScheme(_unknown(text)) from None


def _unknown(text: str) -> str:
    if _DYNAMO.fullmatch(text):
        return (
            f"{text} is not a release of Grove. For a version of Dynamo, name the release of Grove that its chart "
            "brings: `helm show chart` lists it under dependencies. `grove-migrator releases` has some in its column "
            "DYNAMO, and docs/dynamo.md more."
        )
    known = "`grove-migrator releases` lists them."
    if text == "auto":
        return f"auto is only for --from. Name a release or a scheme. {known}"
    return (
        f"{text[:60]!r} is not a known release or scheme. {known} For another operator, "
        "`grove-migrator scheme PROGRAM` reads its scheme."
    )


@cache
def builds() -> tuple[str, ...]:
    """Every build that has a name here, oldest first."""
    return tuple(dict.fromkeys((*(release.name for release in releases()), *_LATER)))


def is_before(build: str, other: str) -> bool:
    """Whether a build is older than another."""
    return builds().index(build) < builds().index(other)


@cache
def targets_of(target: Named) -> tuple[str, ...]:
    """The builds that ``--to`` may mean. Builds that nobody has read may use the newest scheme, or a newer one."""
    order, scheme, newest = schemes.all_schemes(), target.scheme, releases()[-1].scheme
    if target.release is not None or scheme.algorithm != newest.algorithm:
        return target.builds
    unread = builds()[len(releases()) :] if order.index(scheme) >= order.index(newest) else ()
    return (*target.builds, *unread)


@cache
def builds_with(scheme: Scheme) -> tuple[str, ...]:
    """The builds that use a scheme, oldest first."""
    return tuple(release.name for release in releases() if release.scheme == scheme)


@cache
def released_schemes() -> tuple[Scheme, ...]:
    """The schemes that some build uses, in table order."""
    return tuple(filter(builds_with, schemes.all_schemes()))


def build_range(names: tuple[str, ...]) -> str:
    """These builds, oldest first, in a few words."""
    return span(names[0], names[-1]) if names else "no known release"


def span(since: str, until: str | None) -> str:
    """The builds from one to another in words; ``None`` is the newest: ``v0.1.0-alpha.4 to v0.1.0-alpha.9``."""
    if until is None:
        return f"{since} or later"
    return since if until == since else f"{since} to {until}"


def is_target(image: str, target: Scheme, target_image: str | None) -> bool:
    """Whether an image is the target's: its tag is a release that uses ``target``, or it is ``target_image``."""
    release = release_in(image)
    return image == target_image or (release is not None and release.scheme == target)


def release_in(image: str) -> Release | None:
    """The release that the tag of an image names; a registry's port and a digest are not tags."""
    _, _, tag = image.partition("@")[0].rpartition("/")[-1].partition(":")
    return next((release for release in releases() if tag in {release.name, release.name.removeprefix("v")}), None)


def accepts(image: str, names: Collection[str]) -> bool:
    """Whether the tag of an image names a release that accepts stored hashes of one of these schemes, by name."""
    release = release_in(image)
    return release is not None and not release.scheme.accepts.isdisjoint(names)
