"""Files by path in tars, in layers on top of each other, and in directories. No file is unpacked under its name."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import accumulate
from typing import BinaryIO, Final, Protocol

from migrator.errors import InputError

GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_HEAD: Final = 512
_CHUNK: Final = 1 << 20
#: The most bytes that one gzip stream may hold. An operator's whole image has about 60 MB.
_LARGEST_UNPACKED: Final = 1 << 31
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"

#: A function that makes an empty file for an unpacked layer; the file is deleted when it is closed.
Scratch = Callable[[], BinaryIO]


@contextmanager
def as_input_error() -> Iterator[None]:
    """Turn any error in the contents of a file into one refusal: such a file cannot be trusted."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, struct.error) as error:
        raise InputError(f"its contents cannot be understood ({error!r}): get it again") from error


class Files(Protocol):
    """Files by path, without a leading slash: a directory or an archive."""

    def paths(self) -> Iterable[str]:
        """The regular files; in an archive also the links."""

    def open(self, path: str) -> BinaryIO | None:
        """One of them, seekable; ``None`` if that path has no file."""


class TarFiles:
    """The files of a tar, and its ``folders``; raises :class:`~migrator.errors.InputError` if it is damaged or cut off.

    A complete tar ends with zeros. Some tools leave them out, so a tar that is ``sealed`` by a digest needs none.
    """

    def __init__(self, file: BinaryIO, *, sealed: bool = False) -> None:
        self._length = file.seek(0, 2)
        file.seek(0)
        try:
            with as_input_error():
                self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the caller owns the file
                members = {}
                for one in self._tar:
                    if one.size < 0:  # tarfile would read the same bytes again and again
                        raise InputError("the archive is damaged: a file in it has a negative size")
                    members[plain_path(one.name)] = one
        except tarfile.TarError as error:
            raise InputError(f"the archive is damaged or cut off ({error}): copy it again") from error
        self._members = {path: one for path, one in members.items() if not one.isdir()}
        self.folders = members.keys() - self._members.keys()
        file.seek(self._tar.offset)
        rest = file.read(tarfile.BLOCKSIZE)  # a header that makes no sense ends the reading without an error
        if rest.strip(b"\0") or not (rest or sealed):
            raise InputError("the archive is damaged or cut off: copy it again")

    def paths(self) -> Iterable[str]:
        """Every file and link, in the archive's order."""
        return self._members

    def open(self, path: str) -> BinaryIO | None:
        """A file, or the target of a link; ``None`` for a broken link, and for a file larger than the archive."""
        member = self._members.get(plain_path(path))
        if member is None or member.size > self._length:
            return None
        with suppress(KeyError, tarfile.TarError, RecursionError):  # links may lead in a circle
            return self._tar.extractfile(member)  # type: ignore[return-value]
        return None


class _Layers(dict[str, TarFiles]):
    """The files of layers on top of each other, each with the layer that it is in."""

    def paths(self) -> Iterable[str]:
        """Every file that can be seen."""
        return self

    def open(self, path: str) -> BinaryIO | None:
        """One of them."""
        return self[path].open(path) if path in self else None

    def put(self, layer: TarFiles) -> None:
        """Hide what a layer replaces or removes (image-spec, layer.md), then add its files."""
        removed, emptied, added = set(), set(), {}
        for path in layer.paths():
            folder, _, name = path.rpartition("/")
            if name == _OPAQUE:
                emptied.add(folder)
            elif name.startswith(_WHITEOUT):
                removed.add(f"{folder}/{name.removeprefix(_WHITEOUT)}".removeprefix("/"))
            else:
                removed.add(path)
                added[path] = layer
        for path in list(self):
            above = {"", *accumulate(path.split("/")[:-1], lambda one, two: f"{one}/{two}")}
            if path in removed | layer.folders or above & (removed | emptied):
                del self[path]
        self.update(added)


@contextmanager
def layered_files(layers: Iterable[BinaryIO], scratch: Scratch, states: Sequence[str] = ()) -> Iterator[Files]:
    """The files of an image's layers, unpacked until the end of the ``with``; ``states`` are their digests if known."""
    with ExitStack() as opened:
        made = _Layers()
        for number, layer in enumerate(layers):
            plain = opened.enter_context(unpack(layer, scratch))
            if states and f"sha256:{sha256_of(plain)}" != states[number]:
                raise InputError(f"layer {number + 1} is not the {states[number]} that the image states; save it again")
            made.put(TarFiles(plain, sealed=True))
        yield made


def unpack(file: BinaryIO, scratch: Scratch) -> BinaryIO:
    """A file without its compression, which must be gzip or none."""
    head = head_of(file)
    if head.startswith(_ZSTD):
        raise InputError(
            "it is compressed with zstd, which cannot be read here; make another copy with "
            "`skopeo copy --dest-compress-format gzip` or `crane export`"
        )
    if not head.startswith(GZIP):
        return file
    with ExitStack() as failed:
        made = failed.enter_context(scratch())
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                while chunk := unzipped.read(_CHUNK):
                    made.write(chunk)
                    if made.tell() > _LARGEST_UNPACKED:
                        most = f"{_LARGEST_UNPACKED >> 20} MiB"
                        raise InputError(f"its gzip data holds more than {most}; no operator does")
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"its gzip data is damaged or cut off ({error}); copy it again") from error
        made.seek(0)
        failed.pop_all()
    return made


def head_of(file: BinaryIO) -> bytes:
    """The first bytes of a file, which is left at its start."""
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(0)
    return head


def sha256_of(file: BinaryIO) -> str:
    """The digest of a whole file in hexadecimal digits; the file is left at its start."""
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # every reader of ours has readinto
    file.seek(0)
    return digest


def plain_path(name: str) -> str:
    """A path in an archive, from its root; a path that leads out of the archive is taken to stay in it."""
    return posixpath.normpath(f"/{name}").lstrip("/")
