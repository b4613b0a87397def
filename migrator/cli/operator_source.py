"""The schemes that ``--from`` and ``--to`` name, or that an operator's own binary has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from migrator.cli import log
from migrator.cli.connect import ClusterFlags
from migrator.errors import InputError, Refused, UsageError
from migrator.hashing import layouts, schemes
from migrator.planning.options import AUTO
from migrator.planning.releases import is_target, release_in

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme

#: The name of a scheme whose layout was read from a binary, see :func:`migrator.hashing.layouts.name_of`.
_READ_ELSEWHERE: Final = re.compile(r"(?:legacy|canonical)-x[0-9a-f]{12}")
#: The way to a program file, which is at this path in Grove's ``operator/Dockerfile``.
_PROGRAM: Final = (
    "Take the program out of an operator's image: `crane export IMAGE - | tar -xO grove-operator > grove-operator`"
)
#: The largest scheme.json; one is about 40 kB.
_LARGEST_FILE: Final = 1 << 22


class NamedSchemes(NamedTuple):
    """The names of both schemes."""

    source: str
    target: str | None


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
    if to_binary is not None:
        target = _agreed("--to", target, to_binary).scheme.name
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
    if target is not None and to_binary is None:
        _warn_of_unused(target)
    return NamedSchemes(source, target)


def _warn_of_unused(target: str) -> None:
    """Warn of a target that is a scheme which no release uses: a person may have meant a release."""
    scheme = next((one for one in schemes.all_schemes() if one.name == target), None)
    if scheme is None or schemes.releases_with(scheme) or _READ_ELSEWHERE.fullmatch(target):
        return
    preview = " Its Kubernetes API is not released, so its hashes can still change." if scheme.preview else ""
    log.write_warning("unused_scheme", f"No known release of Grove uses {target}.{preview}")


def require_target(target: str | None, to_binary: str | None, *, revert: bool = False) -> None:
    """Raise ``UsageError`` if no target is named; a revert needs that of the run which it undoes."""
    if target is None and to_binary is None and revert:
        raise UsageError("--revert needs the --to (or --to-binary) of the run that it undoes.")
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


def read(path: str) -> OperatorScheme:
    """Read an operator's program file, or the scheme.json that was made from one.

    Raises ``InputError`` for an unreadable file, and ``Refused`` for an operator that is understood but cannot be
    migrated to; both name the path.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. {_PROGRAM}{_hint(error)}") from error
    except (InputError, Refused) as error:
        raise type(error)(f"{path}: {error}") from error


def _read(file: BinaryIO) -> OperatorScheme:
    from migrator.operators import binary, elf, schemefile

    if not file.seekable():
        raise InputError("this is a pipe, which cannot be read twice. Save it to a file and name that.")
    head = file.read(len(elf.MAGIC))
    file.seek(0)
    if head[:1] == b"{":
        return schemefile.decode(file.read(_LARGEST_FILE))
    if head != elf.MAGIC:
        raise InputError(f"this is not a program file. {_PROGRAM}")
    return binary.read(file)


def _hint(error: OSError) -> str:
    """The likely cause in a pod: an API server without image volumes drops them from a Job silently (seen in 1.34)."""
    from migrator.cli import connect

    if not isinstance(error, FileNotFoundError) or connect.own_namespace() is None:
        return ""
    return (
        "; if the Job mounts an image volume there, the API server dropped it: image volumes need Kubernetes 1.35, or "
        "1.33 with the feature gate ImageVolume; give the Job a scheme.json in a ConfigMap instead"
    )
