"""Schemes, and the table of the releases that use them.

A scheme is an algorithm over the struct layout of one k8s.io/api minor. The minors are those that have a layout,
the releases those of ``releases.json``: neither is listed in code.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
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
    def taken(self) -> frozenset[str]:
        """The names of the schemes whose stored hashes an operator of this one takes as its own.

        A canonical operator takes the legacy hash of its own layout too (Grove PR 566: ``ComputeHashLegacy``, without
        which a program is not recognised).
        """
        return frozenset((self.name, f"{LEGACY}-{self.minor}"))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Release:
    """A build of the operator and the scheme that it uses.

    ``source`` links to where its API minor is said. ``dynamo`` has the minor versions of Dynamo's platform chart that
    bring it, each with a link to where that is said.
    """

    name: str
    scheme: Scheme
    commit: str | None
    source: str
    dynamo: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def from_main(self) -> bool:
        """Whether it is a build of the main branch, named ``main-`` and its commit."""
        return self.name.startswith("main-")


@cache
def all_schemes() -> tuple[Scheme, ...]:
    """Every scheme in table order: legacy before canonical, then by minor."""
    return tuple(Scheme(algorithm, minor) for algorithm in _ALGORITHMS for minor in layouts.minors())


@cache
def releases() -> tuple[Release, ...]:
    """The release table, oldest build first. Raises ``ValueError`` for a line that is wrong."""
    return parse_releases((pkgutil.get_data(__package__, "releases.json") or b"").decode())


def parse_releases(text: str) -> tuple[Release, ...]:
    """Read a release table: one JSON object per line."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            raw = json.loads(line)
            scheme = Scheme(raw["algorithm"], raw["minor"])
            if scheme not in all_schemes():
                raise ValueError(f"there is no scheme {scheme.name}")  # noqa: TRY301
            found.append(
                Release(
                    name=raw["release"],
                    scheme=scheme,
                    commit=raw.get("commit"),
                    source=raw["source"],
                    dynamo=raw.get("dynamo", {}),
                )
            )
        except (KeyError, ValueError) as error:
            raise ValueError(f"releases.json line {number}: {error}") from error
    return tuple(found)


def by_name(name: str) -> Scheme:
    """The scheme of that name; raises ``UnknownScheme`` if there is none."""
    for scheme in all_schemes():
        if scheme.name == name:
            return scheme
    raise _unknown(name)


def release_of(tag: str) -> Release | None:
    """The release that the tag of an image names, with or without its ``v``; ``None`` for anything else."""
    return next((release for release in releases() if tag in {release.name, release.name.removeprefix("v")}), None)


def requested_release(text: str) -> Release | None:
    """The release that a user names: ``v0.1.0-alpha.9``, ``0.1.0-alpha.9`` or ``alpha.9``."""
    return next((release for release in releases() if _means(text, release.name)), None)


def resolve(text: str) -> Scheme:
    """The scheme that a user names by itself or by a release; raises as :func:`by_name` does."""
    release = requested_release(text)
    return release.scheme if release is not None else by_name(text)


def _means(text: str, release: str) -> bool:
    return text in {release, release.removeprefix("v"), release.removeprefix("v0.1.0-")}


def released_schemes() -> tuple[Scheme, ...]:
    """The schemes that some build uses, in table order."""
    used = {release.scheme for release in releases()}
    return tuple(scheme for scheme in all_schemes() if scheme in used)


def releases_with(scheme: Scheme) -> tuple[Release, ...]:
    """The releases that use a scheme."""
    return tuple(release for release in releases() if release.scheme == scheme)


_LIST: Final = "`grove-migrator releases` lists them."


def _unknown(text: str) -> UnknownScheme:
    if text == "auto":
        return UnknownScheme(f"auto is only for --from. Name a release or a scheme. {_LIST}")
    if text.startswith("dynamo-"):
        return UnknownScheme(
            f"{text} is a version of Dynamo, not of Grove. Name the release of Grove that its chart brings: "
            "`helm show chart` lists it under dependencies."
        )
    return UnknownScheme(
        f"{text!r} is not a known release or scheme. {_LIST} For another operator, `grove-migrator scheme PROGRAM` "
        "reads its scheme."
    )
