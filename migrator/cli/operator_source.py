"""The schemes that ``--from`` and ``--to`` name, or that the program of the next operator has."""

from __future__ import annotations

from pathlib import Path

from migrator.cli import log
from migrator.errors import InputError, Refused, UsageError
from migrator.hashing import schemes
from migrator.releases import program
from migrator.releases.program import Operator
from migrator.releases.table import is_target, release_in


def choose_target(target: str | None, to_binary: str | None, target_image: str | None = None) -> str | None:
    """The scheme of ``--to``, as named or read from the program.

    Raises ``UsageError`` for a name that contradicts the program and for an image that contradicts the target,
    ``InputError`` for a program whose scheme is not certain, and ``Refused`` for one that cannot be migrated.
    """
    if to_binary is not None:
        target = _agreed(target, to_binary)
    release = release_in(target_image or "") if target is not None else None
    # A run that took the old operator for the next one would start it again on the new hashes.
    if release is not None and not is_target(str(target_image), schemes.resolve(str(target)), None):
        raise UsageError(
            f"--target-image {target_image} is {release.name} ({release.scheme.name}), and the target is {target}: "
            "give the image of the next operator, or leave it out; a rebuilt one needs a tag of its own"
        )
    if target is not None and to_binary is None:
        _warn_of_unused(target)
    return target


def _warn_of_unused(target: str) -> None:
    """Warn of a target that is a scheme which no release uses: a person may have meant a release."""
    scheme = next((one for one in schemes.all_schemes() if one.name == target), None)
    if scheme is None or schemes.releases_with(scheme):
        return
    log.write_warning("unused_scheme", f"No known release of Grove uses {target}.")


def require_target(target: str | None, to_binary: str | None, *, revert: bool = False) -> None:
    """Raise ``UsageError`` if no target is named; a revert needs that of the run which it undoes."""
    if target is not None or to_binary is not None:
        return
    if revert:
        raise UsageError("--revert needs the --to (or --to-binary) of the run that it undoes.")
    raise UsageError("--to is missing: name the next release, or give its program file with --to-binary.")


def _agreed(name: str | None, path: str) -> str:
    """The scheme of an operator's program, which is certain and agrees with ``name``."""
    operator = read(path)
    scheme = operator.scheme.name
    if operator.doubt:
        raise InputError(
            f"{path} is likely {scheme}, but {operator.doubt}. If you are sure, name the scheme in place of the "
            f"program: --to {scheme}"
        )
    if name is not None:
        named = schemes.resolve(name).name
        if named != scheme:
            raise UsageError(
                f"--to {name} is {named}, but --to-binary {path} is {scheme}: they are two different operators; leave "
                "one out"
            )
    return scheme


def read(path: str) -> Operator:
    """Read an operator's program.

    Raises ``InputError`` for an unreadable file, and ``Refused`` for an operator that is known but cannot be migrated
    to; both name the path.
    """
    try:
        with Path(path).open("rb") as file:
            return program.read(file.read(program.LARGEST + 1))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; {program.TAKE_IT}") from error
    except (InputError, Refused) as error:
        raise type(error)(f"{path}: {error}") from error
