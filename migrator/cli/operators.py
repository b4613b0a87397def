"""What ``--to-binary`` and ``--from-binary`` name, and what it means beside ``--to`` and ``--from``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import click

from migrator.errors import InputError, Refused, UsageError

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme

Command = TypeVar("Command", bound=Callable[..., Any])

_SOURCE: Final = "BINARY|IMAGE|scheme.json"
#: The largest scheme.json; one is about 40 kB.
_LARGEST_FILE: Final = 1 << 22


def to_binary_option(command: Command) -> Command:
    """``--to-binary``: the next operator's own binary, image or scheme.json."""
    return click.option(
        "--to-binary",
        metavar=_SOURCE,
        help="Read what the next operator expects from its own binary, its image in a file, or a scheme.json.",
    )(command)


def from_binary_option(command: Command) -> Command:
    """``--from-binary``: the running operator's own binary, image or scheme.json."""
    return click.option(
        "--from-binary",
        metavar=_SOURCE,
        help="Read what the operator stores now from its own binary, its image in a file, or a scheme.json.",
    )(command)


def read(path: str, *, image: str | None = None) -> OperatorScheme:
    """Read an operator, or the scheme.json that was made of one.

    Raises :class:`~migrator.errors.InputError` for what cannot be read, and :class:`~migrator.errors.Refused` for an
    operator that is understood but cannot be migrated to; both name the path.
    """
    from migrator.operators import images, schemefile  # noqa: PLC0415 - --help needs none of it

    try:
        if Path(path).is_dir():
            return schemefile.of_image(images.read_files(_Directory(Path(path)), _scratch, image=image))
        with Path(path).open("rb") as file:
            if file.read(1) == b"{":
                file.seek(0)
                return schemefile.decode(file.read(_LARGEST_FILE))
            return schemefile.of_image(images.read_file(file, _scratch, image=image))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (InputError, Refused) as error:
        raise type(error)(f"{path}: {error}") from error


def known(path: str) -> OperatorScheme:
    """Read it, and make its layout known by the scheme's name; its warnings are logged."""
    from migrator.cli import log  # noqa: PLC0415
    from migrator.hashing import layouts  # noqa: PLC0415

    found = read(path)
    layouts.adopt(found.layout)
    for warning in found.warnings:
        log.write_warning("operator_binary", f"{path}: {warning}")
    return found


def migratable(flag: str, name: str | None, binary: str) -> OperatorScheme:
    """The operator that is to be migrated from or to.

    Raises :class:`~migrator.errors.UsageError` if a release or scheme beside it contradicts, naming both, and
    :class:`~migrator.errors.Refused` for one with the hash in object names.
    """
    found = known(binary)
    agree(flag, name, binary, found)
    if found.hash_in_names:
        raise Refused(
            f"{flag}-binary {binary}: this operator puts the hash into object names, so it cannot be migrated; `hash` "
            "and `explain` know it"
        )
    return found


def agree(flag: str, name: str | None, binary: str, found: OperatorScheme) -> None:
    """Raise :class:`~migrator.errors.UsageError` if a name contradicts what the binary says."""
    from migrator.hashing import schemes  # noqa: PLC0415

    if name is None or (name == schemes.CANONICAL == found.algorithm):
        return
    named = schemes.CANONICAL if name == schemes.CANONICAL else schemes.resolve(name).name
    if named != found.scheme.name:
        raise UsageError(
            f"{flag} {name} is {named}, but {flag}-binary {binary} is {found.scheme.name}: one of them is not the "
            "operator that is meant; leave one out"
        )


def required_target(target: str | None, to_binary: str | None) -> str:
    """The target by name, of ``--to`` or of ``--to-binary``; one of them must be there."""
    if to_binary is not None:
        return migratable("--to", target, to_binary).scheme.name
    if target is None:
        raise UsageError("the target is missing: give --to, or the next operator's own binary with --to-binary")
    return target


def source_name(source: str, from_binary: str | None) -> str:
    """The source by name, of ``--from`` or of ``--from-binary``."""
    if from_binary is None:
        return source
    return migratable("--from", None if source == "auto" else source, from_binary).scheme.name


class _Directory:
    """The regular files of a directory; links are followed only inside it."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()

    def paths(self) -> Iterator[str]:
        """Every regular file that is not a link."""
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield str(path.relative_to(self._root))

    def open(self, path: str) -> BinaryIO | None:
        """One of them; ``None`` if there is none."""
        wanted = (self._root / path).resolve()
        if not wanted.is_relative_to(self._root) or not wanted.is_file():
            return None
        return wanted.open("rb")


def _scratch() -> BinaryIO:
    return tempfile.TemporaryFile()  # type: ignore[return-value] # closed by who asked for it
