"""``--to-binary`` and ``--from-binary``: how they are read, and how they combine with ``--to`` and ``--from``."""

from __future__ import annotations

import functools
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar, cast

import click
from click.core import ParameterSource

from migrator.cli.options import OperatorFlags, Session, reads_files
from migrator.errors import InputError, MigratorError, Refused, UsageError

if TYPE_CHECKING:
    from migrator.operators.schemefile import OperatorScheme

Command = TypeVar("Command", bound=Callable[..., Any])

#: The name of a scheme whose layout was read from a binary, see :func:`migrator.hashing.layouts.name_of`.
_READ_ELSEWHERE: Final = re.compile(r"(?:legacy|canonical)-x[0-9a-f]{12}")
#: The largest scheme.json; one is about 40 kB.
_LARGEST_FILE: Final = 1 << 22


def binary_options(command: Command) -> Command:
    """``--to-binary`` and ``--from-binary``."""
    for flag, meaning in (("--from-binary", "the operator stores now"), ("--to-binary", "the next operator expects")):
        text = f"Read what {meaning} from its own binary, its image in a file, or a scheme.json."
        command = click.option(flag, metavar="BINARY|IMAGE|scheme.json", help=text)(command)
    return command


def named_by_binaries(
    *, required: bool = False, migrates: bool = True, failing: Callable[[MigratorError], None] | None = None
) -> Callable[[Command], Command]:
    """Turn ``--to-binary`` and ``--from-binary`` into the names that the command takes as ``target`` and ``source``.

    With ``required`` a missing target is an error; with ``migrates`` an operator that cannot be migrated is one.
    ``failing`` gets every error before it is raised. A layout that is not shipped is looked up in the cluster's record.
    """

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **rest: Any) -> Any:  # noqa: ANN401 - the command's own
            try:
                _resolve(rest, migrates=migrates)
                if required and rest["target"] is None:
                    raise UsageError("Missing option '--to': give it, or the next operator's binary with --to-binary")
            except MigratorError as error:
                if failing is not None:
                    failing(error)
                raise
            return command(*args, **rest)

        return cast("Command", wrapped)

    return decorate


def _resolve(rest: dict[str, Any], *, migrates: bool) -> None:
    context = click.get_current_context()
    for flag, name in (("--to", "target"), ("--from", "source")):
        path = rest.pop(f"{flag.removeprefix('--')}_binary", None)
        if path is None:
            continue
        found = known(path)
        default = context.get_parameter_source(name) is ParameterSource.DEFAULT
        agree(flag, None if default else context.params.get(name), path, found)
        if migrates and found.hash_in_names:
            raise Refused(
                f"{flag}-binary {path}: this operator puts the hash into object names, so it cannot be migrated; "
                "only `hash` and `explain` accept it"
            )
        rest[name] = found.scheme.name
        if name == "target":
            operator: OperatorFlags | None = rest.get("operator")
            _agree_on_image(operator.target_image if operator else None, path, found)
            context.ensure_object(Session).target_digests = found.digests
    from migrator.hashing import schemes  # noqa: PLC0415 - --help needs none of it

    names = {rest.get("target") or "", rest.get("source") or ""} - {scheme.name for scheme in schemes.all_schemes()}
    if any(_READ_ELSEWHERE.fullmatch(name) for name in names) and not reads_files(rest):
        from migrator.cli import wiring  # noqa: PLC0415 - no other name needs a cluster

        wiring.adopt_recorded(rest["cluster"])


def read(path: str, *, image: str | None = None) -> OperatorScheme:
    """Read an operator, or the scheme.json that was made from one.

    Raises :class:`~migrator.errors.InputError` for an unreadable file, and :class:`~migrator.errors.Refused` for an
    operator that is understood but cannot be migrated to; both name the path.
    """
    from migrator.operators import images, schemefile  # noqa: PLC0415 - --help needs none of it

    try:
        if Path(path).is_dir():
            with _Directory(Path(path)) as files:
                return images.read_files(files, _scratch, image=image)
        with Path(path).open("rb") as file:
            if file.seekable() and file.read(1) == b"{":
                file.seek(0)
                return schemefile.decode(file.read(_LARGEST_FILE))
            if file.seekable():
                return images.read_file(file, _scratch, image=image)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}{_hint(error)}") from error
    except (InputError, Refused) as error:
        raise type(error)(f"{path}: {error}") from error
    raise InputError(f"{path} is a pipe, which cannot be read twice: save it to a file and give that")


def _hint(error: OSError) -> str:
    """The likely cause in a pod: an API server without image volumes drops them from a Job silently (seen in 1.34)."""
    from migrator.cli import wiring  # noqa: PLC0415 - only an error needs it

    if not isinstance(error, FileNotFoundError) or wiring.own_namespace() is None:
        return ""
    return (
        "; if the Job mounts an image volume there, the API server dropped it: image volumes need Kubernetes 1.35, or "
        "1.33 with the feature gate ImageVolume; give the Job a scheme.json in a ConfigMap instead"
    )


def known(path: str) -> OperatorScheme:
    """Read it, and make its layout known by the scheme's name; its warnings are logged."""
    from migrator.cli import log  # noqa: PLC0415
    from migrator.hashing import layouts  # noqa: PLC0415

    found = read(path)
    layouts.adopt(found.layout)
    for warning in found.warnings:
        log.write_warning("operator_binary", f"{path}: {warning}")
    return found


def agree(flag: str, name: str | None, binary: str, found: OperatorScheme) -> None:
    """Raise :class:`~migrator.errors.UsageError` if a name contradicts the binary."""
    from migrator.hashing import schemes  # noqa: PLC0415

    if name is None or schemes.unread_release(name) is not None or (name == schemes.CANONICAL == found.algorithm):
        return  # a name without a known scheme cannot contradict the binary
    named = schemes.CANONICAL if name == schemes.CANONICAL else schemes.resolve(name).name
    if named != found.scheme.name:
        raise UsageError(
            f"{flag} {name} is {named}, but {flag}-binary {binary} is {found.scheme.name}: they are two different "
            "operators; leave one out"
        )


def _agree_on_image(image: str | None, binary: str, found: OperatorScheme) -> None:
    digest = (image or "").partition("@")[2]
    if digest and found.digests and digest not in found.digests:
        raise UsageError(
            f"--target-image {image} names another image than --to-binary {binary}, which is "
            f"{', '.join(sorted(found.digests))}: they are two different operators; leave one out"
        )


class _Directory(ExitStack):
    """The regular files of a directory, closed at exit; links are followed only inside the directory."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root.resolve()

    def paths(self) -> Iterator[str]:
        """Every regular file that is not a link."""
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink():
                    yield str(path.relative_to(self._root))

    def open(self, path: str) -> BinaryIO | None:
        """One of them; ``None`` if the path has no file."""
        wanted = (self._root / path).resolve()
        if not wanted.is_relative_to(self._root) or not wanted.is_file():
            return None
        return self.enter_context(wanted.open("rb"))


def _scratch() -> BinaryIO:
    return tempfile.TemporaryFile()  # closed by who asked for it
