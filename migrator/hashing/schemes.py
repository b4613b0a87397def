"""Schemes, and the table of the releases that use them.

A scheme is an algorithm over the struct layout of one k8s.io/api minor. The minors are those that have a layout,
the releases those of ``releases.json``: neither is listed in code.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from migrator.errors import UnknownScheme, UnreadRelease, suggestion
from migrator.hashing import layouts

LEGACY: Final = "legacy"
CANONICAL: Final = "canonical"
_ALGORITHMS: Final = (LEGACY, CANONICAL)

#: The name of a scheme whose layout was read from a binary, see :func:`migrator.hashing.layouts.digest_name`.
READ_ELSEWHERE: Final = re.compile("(?:legacy|canonical)-x[0-9a-f]{12}")


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

    @property
    def preview(self) -> bool:
        """Whether its API minor has no release yet."""
        return self.minor.endswith(layouts.PREVIEW)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Release:
    """A build of the operator and the scheme that it uses.

    ``dev`` marks builds that are not releases, and ``hash_in_names`` those that put the hash into object names (never
    migrated). ``dynamo`` are the versions of the dynamo-platform chart that bring it, without their patch number (the
    chart's README at 1.6.0 has the table).
    """

    name: str
    scheme: Scheme
    commit: str | None
    dev: bool = False
    hash_in_names: bool = False
    dynamo: tuple[str, ...] = ()


@cache
def unread_releases() -> Mapping[str, tuple[str, ...]]:
    """Releases that exist but whose source was not read, oldest first, and the Dynamo versions that bring them.

    All of them are newer than the table.
    """
    raw = json.loads(pkgutil.get_data(__package__, "unread.json") or b"[]")
    return {line["release"]: tuple(line["dynamo"]) for line in raw}


def all_schemes() -> tuple[Scheme, ...]:
    """Every scheme in table order: legacy before canonical, then by minor; those of layouts read elsewhere last."""
    return _over(layouts.minors()) + _over(layouts.adopted())


@cache
def _over(names: tuple[str, ...]) -> tuple[Scheme, ...]:
    return tuple(Scheme(algorithm, minor) for algorithm in _ALGORITHMS for minor in names)


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
                    dev=raw.get("dev", False),
                    hash_in_names=raw.get("hashInNames", False),
                    dynamo=tuple(raw.get("dynamo", ())),
                )
            )
        except (KeyError, ValueError) as error:
            raise ValueError(f"releases.json line {number}: {error}") from error
    return tuple(found)


def by_name(name: str) -> Scheme:
    """The scheme of that name; raises ``UnreadRelease`` for a release that was not read, else ``UnknownScheme``."""
    for scheme in all_schemes():
        if scheme.name == name:
            return scheme
    unread = unread_release(name)
    if unread is None:
        raise _unknown(name)
    raise UnreadRelease(f"The source of {unread} could not be read, so its hashes are not known. {USE_BINARY_ADVICE}")


def release_of(tag: str) -> Release | None:
    """The release that the tag of an image names, with or without its ``v``; ``None`` for anything else."""
    return next((release for release in releases() if tag in {release.name, release.name.removeprefix("v")}), None)


def requested_release(text: str) -> Release | None:
    """The release that a user names: ``v0.1.0-alpha.9``, ``0.1.0-alpha.9``, ``alpha.9``, or ``dynamo-1.3``."""
    return next((release for release in releases() if _means(text, release.name, release.dynamo)), None)


def unread_release(text: str) -> str | None:
    """The unread release that a user names, as in :func:`requested_release`; ``None`` for anything else."""
    return next((name for name, dynamo in unread_releases().items() if _means(text, name, dynamo)), None)


def resolve(text: str) -> Scheme:
    """The scheme that a user names by itself or by a release; raises as :func:`by_name` does."""
    release = requested_release(text)
    return release.scheme if release is not None else by_name(text)


def _means(text: str, release: str, dynamo: Iterable[str]) -> bool:
    version = _DYNAMO.fullmatch(text)
    if version is not None:
        return version[1] in dynamo
    return text in {release, release.removeprefix("v"), release.removeprefix("v0.1.0-")}


def released_schemes() -> tuple[Scheme, ...]:
    """The schemes that some build uses, in table order."""
    used = {release.scheme for release in releases()}
    return tuple(scheme for scheme in all_schemes() if scheme in used)


def canonical_over(scheme: Scheme) -> Scheme:
    """The canonical algorithm over the scheme's own layout."""
    return Scheme(CANONICAL, scheme.minor)


def releases_with(scheme: Scheme) -> tuple[Release, ...]:
    """The releases that use a scheme."""
    return tuple(release for release in releases() if release.scheme == scheme)


_DYNAMO: Final = re.compile(r"dynamo-v?(\d+\.\d+)(?:\.\d+)?")
#: A version of Grove: ``v0.1.0-alpha.12-rc1``, ``1.2.0``. A version without a prerelease sorts last.
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([a-z]+)\.(\d+)(?:-rc(\d+))?)?")


def _version(text: str) -> tuple[int | str, ...] | None:
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    *numbers, stage, number, candidate = found.groups()
    return (*map(int, numbers), stage or "~", int(number or 0), int(candidate) if candidate else 10**9)


#: What to do about a release whose hashes are not known.
USE_BINARY_ADVICE: Final = "Give its program file with --to-binary, or with --from-binary if it runs now."
_LIST: Final = "`grove-migrator releases` lists what is known."


def _unknown(text: str) -> UnknownScheme:
    if READ_ELSEWHERE.fullmatch(text):
        return UnknownScheme(
            f"{text} is a layout that was read from a program and is not recorded here. Give that program, or the "
            "scheme.json made of it, with --to-binary or --from-binary."
        )
    if text == CANONICAL:
        return UnknownScheme(f"{CANONICAL} is only for --to. Name a scheme or a release, such as {CANONICAL}-1.34.")
    if text == "auto":
        return UnknownScheme(f"auto is only for --from. Name a release or a scheme. {_LIST}")
    builds = [*(release.name for release in releases()), *unread_releases()]
    dynamo = [version for release in releases() for version in release.dynamo]
    dynamo += [version for versions in unread_releases().values() for version in versions]
    if text.startswith("dynamo-"):
        return UnknownScheme(
            f"{text} is not a known version of Dynamo (dynamo-{dynamo[0]} to dynamo-{dynamo[-1]}). "
            "Name the release of Grove that it brings."
        )
    versions = {version: name for name in builds if (version := _version(name)) is not None}
    newest = max(versions)
    if (_version(text) or _version(f"v0.1.0-{text}") or newest) > newest:
        known = f"{versions[newest]}, the newest release in the table"
        return UnknownScheme(f"{text} is newer than {known}. {USE_BINARY_ADVICE}")
    names = [CANONICAL, *map(str, all_schemes()), *builds, *(name.removeprefix("v0.1.0-") for name in builds)]
    if re.fullmatch(r"(?:legacy|canonical)-[\d.]+", text):  # never another minor, because it is another set of hashes
        names = [name for name in names if name.startswith(f"{text}-")]
    return UnknownScheme(f"{text!r} is not a known release or scheme.{suggestion(text, names)} {_LIST}")
