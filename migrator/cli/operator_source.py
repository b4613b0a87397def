"""The schemes that ``--from`` and ``--to`` name, or that an operator's own binary has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from migrator.cli import log
from migrator.cli.connect import ClusterFlags
from migrator.errors import InputError, Refused, UsageError
from migrator.hashing import layouts, schemes
from migrator.planning.images import is_target, release_in
from migrator.planning.options import AUTO

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme

#: The name of a scheme whose layout was read from a binary, see :func:`migrator.hashing.layouts.name_of`.
_READ_ELSEWHERE: Final = re.compile(r"(?:legacy|canonical)-x[0-9a-f]{12}")
#: The largest scheme.json; one is about 40 kB.
_LARGEST_FILE: Final = 1 << 22


class NamedSchemes(NamedTuple):
    """The names of both schemes, and the digests of the next operator's image if its binary was read."""

    source: str
    target: str | None
    digests: frozenset[str]


def choose_schemes(
    source: str,
    target: str | None,
    from_binary: str | None = None,
    to_binary: str | None = None,
    *,
    cluster: ClusterFlags | None,
    target_image: str | None = None,
) -> NamedSchemes:
    """Resolve ``--from``, ``--to`` and both binaries, which are read.

    A layout that is not shipped is looked up in the record of the ``cluster``, if there is one. Raises ``UsageError``
    for a name or an image that contradicts its binary, and for an image that contradicts ``--to``; and ``Refused`` for
    an operator that cannot be migrated.
    """
    digests: frozenset[str] = frozenset()
    if to_binary is not None:
        found = _agreed("--to", target, to_binary)
        target, digests = found.scheme.name, found.digests
        named = (target_image or "").partition("@")[2]
        if named and digests and named not in digests:
            raise UsageError(
                f"--target-image {target_image} names another image than --to-binary {to_binary}, which is "
                f"{', '.join(sorted(digests))}: they are two different operators; leave one out"
            )
    if from_binary is not None:
        source = _agreed("--from", None if source == AUTO else source, from_binary).scheme.name
    known_names = {scheme.name for scheme in schemes.all_schemes()}
    if cluster and any(_READ_ELSEWHERE.fullmatch(name) for name in {source, target or ""} - known_names):
        from migrator.cli import connect

        connect.adopt_recorded(cluster)
    release = release_in(target_image or "") if to_binary is None and target not in {None, schemes.CANONICAL} else None
    # A run that took the old operator for the next one would start it again on the new hashes.
    if release is not None and not is_target(str(target_image), schemes.resolve(str(target)), None):
        raise UsageError(
            f"--target-image {target_image} is {release.name} ({release.scheme.name}), not of --to {target}: "
            "give the image of the next operator, or leave it out"
        )
    return NamedSchemes(source, target, digests)


def require_target(target: str | None, to_binary: str | None) -> None:
    """Raise ``UsageError`` if no target is named."""
    if target is None and to_binary is None:
        raise UsageError("--to is missing: name the next release, or give its program file with --to-binary.")


def _agreed(flag: str, name: str | None, path: str) -> OperatorScheme:
    found = known(path)
    # A name without a known scheme cannot contradict the binary.
    if name is not None and schemes.unread_release(name) is None:
        named = name if name == schemes.CANONICAL else schemes.resolve(name).name
        if named not in {found.scheme.name, found.scheme.algorithm}:
            raise UsageError(
                f"{flag} {name} is {named}, but {flag}-binary {path} is {found.scheme.name}: they are two different "
                "operators; leave one out"
            )
    if found.recognised.hash_in_names:
        raise Refused(
            f"{flag}-binary {path}: this operator puts the hash into object names, so it cannot be migrated; "
            "only `hash` accepts it"
        )
    return found


def known(path: str) -> OperatorScheme:
    """Read an operator, and make its layout known by the scheme's name; its warnings are logged."""
    found = read(path)
    layouts.adopt(found.layout)
    for warning in found.warnings:
        log.write_warning("operator_binary", f"{path}: {warning}")
    return found


def read(path: str, *, image: str | None = None) -> OperatorScheme:
    """Read an operator, or the scheme.json that was made from one.

    Raises ``InputError`` for an unreadable file, and ``Refused`` for an operator that is understood but cannot be
    migrated to; both name the path.
    """
    from migrator.operators import images, schemefile

    try:
        if Path(path).is_dir():
            with _Directory(Path(path)) as files:
                return images.read_files(files, TemporaryFile, image=image)
        with Path(path).open("rb") as file:
            if file.seekable() and file.read(1) == b"{":
                file.seek(0)
                return schemefile.decode(file.read(_LARGEST_FILE))
            if file.seekable():
                return images.read_file(file, TemporaryFile, image=image)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}{_hint(error)}") from error
    except (InputError, Refused) as error:
        raise type(error)(f"{path}: {error}") from error
    raise InputError(f"{path} is a pipe, which cannot be read twice: save it to a file and give that")


def _hint(error: OSError) -> str:
    """The likely cause in a pod: an API server without image volumes drops them from a Job silently (seen in 1.34)."""
    from migrator.cli import connect

    if not isinstance(error, FileNotFoundError) or connect.own_namespace() is None:
        return ""
    return (
        "; if the Job mounts an image volume there, the API server dropped it: image volumes need Kubernetes 1.35, or "
        "1.33 with the feature gate ImageVolume; give the Job a scheme.json in a ConfigMap instead"
    )


class _Directory(ExitStack):
    """The regular files of a directory, closed at exit; links are followed only inside the directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root.resolve()

    def paths(self) -> Iterator[str]:
        """Every regular file that is not a link."""
        for folder, _, names in os.walk(self._root):
            for path in (Path(folder, name) for name in names):
                if path.is_file() and not path.is_symlink():
                    yield str(path.relative_to(self._root))

    def open(self, path: str) -> BinaryIO | None:
        """One of them; ``None`` if the path has no file."""
        wanted = (self._root / path).resolve()
        if not wanted.is_relative_to(self._root) or not wanted.is_file():
            return None
        return self.enter_context(wanted.open("rb"))
