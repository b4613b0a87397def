"""The target: what ``--to`` names, or the scheme that the program of the next operator has."""

from __future__ import annotations

import re
from pathlib import Path

from migrator import errors
from migrator.cli import log
from migrator.releases import program, table
from migrator.releases.program import Operator


def choose_target(target: str | None, to_binary: str | None, target_image: str | None = None) -> table.Named | None:
    """What ``--to`` names, or the scheme that was read from the program; ``None`` without either.

    Raises ``UsageError`` for a name that contradicts the program, for an image that contradicts the target or is none,
    ``InputError`` for a program whose scheme is not certain, and ``Refused`` for one that cannot be migrated.
    """
    if to_binary is not None:
        target = _agreed(target, to_binary)
    if target is None:
        return None
    # A name alone is an image, of which Kubernetes runs the tag `latest`; a tag has a digit, or is that one.
    if target_image is not None and (target_image == "latest" or not re.search("[/:@]|^[a-z-]+$", target_image)):
        raise errors.UsageError(
            f"--target-image {target_image} is no image, perhaps the tag of one: give it as the next operator's "
            f"Deployment will name it, for instance registry.example/grove-operator:{target_image}"
        )
    chosen, release = table.named(target), table.release_in(target_image or "")
    # A run that took the old operator for the next one would start it again on the new hashes.
    if release is not None and release.scheme != chosen.scheme:
        raise errors.UsageError(
            f"--target-image {target_image} is {release.name} ({release.scheme.name}), and the target is {target}: "
            "give the image of the next operator, or leave it out; a rebuilt one needs a tag of its own"
        )
    if to_binary is None and not chosen.builds:  # a person may have meant a release
        log.write_warning("unused_scheme", f"No known release of Grove uses {target}.")
    return chosen


def require_target(target: str | None, to_binary: str | None, target_image: str | None) -> table.Named:
    """The target; raises as :func:`choose_target` does, and ``UsageError`` if none is named."""
    chosen = choose_target(target, to_binary, target_image)
    if chosen is None:
        raise errors.UsageError(
            "--to is missing: name the release that you upgrade to, or give its program file with --to-binary."
        )
    return chosen


def _agreed(name: str | None, path: str) -> str:
    """The scheme of an operator's program, which is certain and agrees with ``name``."""
    operator = read_program(path)
    scheme = operator.scheme.name
    if operator.doubt:
        raise errors.InputError(
            f"{path} is likely {scheme}, but {operator.doubt}. If you are sure, name the scheme in place of the "
            f"program: --to {scheme}"
        )
    if name is not None:
        other = table.named(name).scheme.name
        if other != scheme:
            raise errors.UsageError(
                f"--to {name} is {other}, but --to-binary {path} is {scheme}: they are two different operators; leave "
                "one out"
            )
    return scheme


def read_program(path: str) -> Operator:
    """Read an operator's program.

    Raises ``InputError`` for an unreadable file, and ``Refused`` for an operator that is known but cannot be migrated
    to; both name the path.
    """
    try:
        with Path(path).open("rb") as file:
            return program.read(file.read(program.LARGEST + 1))
    except OSError as error:
        raise errors.InputError(f"{path} cannot be read: {error.strerror}; {program.TAKE_IT}") from error
    except (errors.InputError, errors.Refused) as error:
        raise type(error)(f"{path}: {error}") from error
