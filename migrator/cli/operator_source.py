"""The schemes that ``--from`` and ``--to`` name, or that an operator's own binary has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from migrator.cli import log
from migrator.errors import InputError, Refused, UsageError
from migrator.hashing import layouts, schemes
from migrator.planning.options import AUTO, HASH_IN_NAMES
from migrator.planning.releases import is_target, release_in

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme

#: How to get a program file, which is at this path in Grove's ``operator/Dockerfile``.
_PROGRAM: Final = (
    "Take the program out of an operator's image: `crane export IMAGE - | tar -xO grove-operator > grove-operator`"
)
#: The largest scheme.json; one is about 32 kB.
_LARGEST_FILE: Final = 1 << 22


def choose_schemes(
    source: str,
    target: str | None,
    from_binary: str | None = None,
    to_binary: str | None = None,
    *,
    target_image: str | None = None,
) -> tuple[str, str | None]:
    """The schemes of ``--from`` and ``--to``, as named or read from the binaries.

    Raises ``UsageError`` for a name that contradicts its binary, and for an image that contradicts the target; and
    ``Refused`` for an operator that cannot be migrated.
    """
    if to_binary is not None:
        target = _agreed("--to", target, to_binary)
    if from_binary is not None:
        source = _agreed("--from", None if source == AUTO else source, from_binary)
    release = release_in(target_image or "") if target not in {None, schemes.CANONICAL} else None
    # A run that took the old operator for the next one would start it again on the new hashes.
    if release is not None and not is_target(str(target_image), schemes.resolve(str(target)), None):
        raise UsageError(
            f"--target-image {target_image} is {release.name} ({release.scheme.name}), and the target is {target}: "
            "give the image of the next operator, or leave it out; a rebuilt one needs a tag of its own"
        )
    if target is not None and to_binary is None:
        _warn_of_unused(target)
    return source, target


def _warn_of_unused(target: str) -> None:
    """Warn of a target that is a scheme which no release uses: a person may have meant a release."""
    scheme = next((one for one in schemes.all_schemes() if one.name == target), None)
    if scheme is None or schemes.releases_with(scheme) or schemes.READ_ELSEWHERE.fullmatch(target):
        return
    preview = " Its Kubernetes API is not released, so its hashes can still change." if scheme.preview else ""
    log.write_warning("unused_scheme", f"No known release of Grove uses {target}.{preview}")


def require_target(target: str | None, to_binary: str | None, *, revert: bool = False) -> None:
    """Raise ``UsageError`` if no target is named; a revert needs that of the run which it undoes."""
    if target is not None or to_binary is not None:
        return
    if revert:
        raise UsageError("--revert needs the --to (or --to-binary) of the run that it undoes.")
    raise UsageError("--to is missing: name the next release, or give its program file with --to-binary.")


def _agreed(flag: str, name: str | None, path: str) -> str:
    """The scheme of an operator's file, which agrees with ``name``; adopts its layout."""
    operator = read(path)
    layouts.adopt(operator.layout)
    for warning in operator.warnings:
        log.write_warning("operator_binary", f"{path}: {warning}")
    # A name without a known scheme cannot contradict the binary.
    if name is not None and schemes.unread_release(name) is None:
        named = name if name == schemes.CANONICAL else schemes.resolve(name).name
        if named not in {operator.scheme.name, operator.scheme.algorithm}:
            raise UsageError(
                f"{flag} {name} is {named}, but {flag}-binary {path} is {operator.scheme.name}: they are two different "
                "operators; leave one out"
            )
    if operator.recognised.hash_in_names:
        raise Refused(f"{flag}-binary {path}: {HASH_IN_NAMES}")
    return operator.scheme.name


def read(path: str) -> OperatorScheme:
    """Read an operator's program file, or the scheme.json that was made from one.

    Raises ``InputError`` for an unreadable file, and ``Refused`` for an operator that is understood but cannot be
    migrated to; both name the path.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}. {_PROGRAM}") from error
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
