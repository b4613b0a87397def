"""A file of Kubernetes objects: read, and written again with only the planned values changed.

It is what ``kubectl get -o yaml`` or ``-o json`` prints, plain or gzipped: a List, or documents one after the other.
JSON is never parsed as YAML, and the text around a changed value is never printed anew.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, Final

from migrator import exact_json
from migrator.errors import InputError, OutputError
from migrator.exact_json import JSONObject
from migrator.stores.dump import json_text, yaml_text

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = "\ufeff"
STDIO: Final = "-"

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Placed:
    """An object and its place: the number of its document, from 0, and its path within the document."""

    value: JSONObject
    document: int
    path: Path


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file's text. ``name`` is for messages; ``bom`` is the byte order mark that was cut off, if any."""

    name: str
    text: str
    gzipped: bool = False
    bom: str = ""

    @classmethod
    def read(cls, path: str) -> DumpFile:
        """Read a file, or stdin for ``-``; raises :class:`~migrator.errors.InputError`."""
        name = "stdin" if path == STDIO else path
        try:
            data = sys.stdin.buffer.read() if path == STDIO else FilePath(path).read_bytes()
        except (OSError, ValueError) as error:
            raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
        gzipped = data.startswith(_GZIP)
        if gzipped:
            try:
                data = gzip.decompress(data)
            except (OSError, EOFError, zlib.error) as error:
                raise InputError(f"{name}: is gzip, but damaged: {error}") from error
        # Bytes that are not UTF-8 are kept: Go replaces them within strings, and so does hashing.
        text = data.decode("utf-8", "surrogateescape")
        bom = _BOM if text.startswith(_BOM) else ""
        return cls(name, text.removeprefix(_BOM), gzipped, bom)

    @property
    def is_json(self) -> bool:
        """Whether it is JSON; YAML that begins like JSON is not accepted, as it could mean something else."""
        return self.text.lstrip(" \t\r\n")[:1] in {"{", "["}

    def objects(self, *, whole: bool = False) -> Iterator[Placed]:
        """Every object, with Lists opened; raises :class:`~migrator.errors.InputError` at the first bad place.

        With ``whole`` a List that has another page is a bad place too: what it leaves out would count as absent.
        """
        try:
            for number, value in enumerate(self._documents()):
                if value is not None:
                    yield from self._open(value, number, (), whole=whole)
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from error

    def edited(self, changes: Mapping[tuple[int, Path], str]) -> DumpFile:
        """The same file with other strings at those places, each a document's number and a path.

        Raises :class:`~migrator.errors.OutputError` where a place does not hold a scalar of its own.
        """
        if not changes:
            return self
        by_document: dict[int, dict[Path, str]] = {}
        for (number, path), new in changes.items():
            by_document.setdefault(number, {})[path] = new
        places = self._json_places(by_document) if self.is_json else self._yaml_places(by_document)
        cuts = sorted(places)
        if len(cuts) != len(changes):
            raise OutputError(
                f"{self.name}: {len(changes) - len(cuts)} of {len(changes)} values cannot be changed in place, because "
                "they are written as aliases, tags or blocks; dump again with `kubectl get -o json`"
            )
        parts, done = [], 0
        for start, end, new in cuts:
            parts += [self.text[done:start], new]
            done = end
        parts.append(self.text[done:])
        return DumpFile(self.name, "".join(parts), self.gzipped, self.bom)

    def write(self, path: str) -> None:
        """Write to a file, replaced as a whole or not at all, or to stdout for ``-``.

        Raises :class:`~migrator.errors.OutputError`.
        """
        data = (self.bom + self.text).encode("utf-8", "surrogateescape")
        if self.gzipped:
            data = gzip.compress(data, mtime=0)
        try:
            if path == STDIO:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            else:
                _replace_file(FilePath(os.path.realpath(path)), data)
        except OSError as error:
            where = "stdout" if path == STDIO else path
            raise OutputError(f"cannot write to {where}: {error.strerror}") from error

    def _documents(self) -> Iterator[Any]:
        if self.is_json:
            return (value for value, _ in json_text.documents(self.text))
        return yaml_text.documents(self.text)

    def _open(self, value: Any, document: int, path: Path, *, whole: bool) -> Iterator[Placed]:  # noqa: ANN401 - anything a file may hold
        if not isinstance(value, dict):
            raise InputError(f"{self._place(document, path)} is not a Kubernetes object but {_named(value)}")
        kind, version = value.get("kind"), value.get("apiVersion")
        if not (isinstance(kind, str) and kind and isinstance(version, str) and version):
            raise InputError(
                f"{self._place(document, path)} is not a Kubernetes object: it lacks "
                f"{'kind' if isinstance(version, str) and version else 'apiVersion'}"
            )
        if not kind.endswith("List") or "items" not in value:
            yield Placed(value, document, path)
            return
        items = value["items"] if value["items"] is not None else []
        if not isinstance(items, list):
            raise InputError(f"{self._place(document, path)}: items is not a list but {_named(items)}")
        metadata = value.get("metadata")
        if whole and isinstance(metadata, dict) and metadata.get("continue"):
            raise InputError(
                f"{self._place(document, path)} is one page of a longer list ({len(items)} objects, and "
                "metadata.continue is set): dump again without a limit, as `kubectl get` does by itself"
            )
        of = kind.removesuffix("List")
        for index, item in enumerate(items):
            if of and isinstance(item, dict):  # the API leaves them out in the items of a typed list
                item.setdefault("kind", of)
                item.setdefault("apiVersion", version)
            yield from self._open(item, document, (*path, "items", index), whole=whole)

    def _place(self, document: int, path: Path) -> str:
        items = "".join(f", item {part + 1}" for part in path if isinstance(part, int))
        return f"{self.name}: document {document + 1}{items}"

    def _json_places(self, wanted: Mapping[int, Mapping[Path, str]]) -> Iterator[tuple[int, int, str]]:
        for number, (_, start) in enumerate(json_text.documents(self.text)):
            news = dict(wanted.get(number, {}))
            if news:
                try:
                    for path, (begin, end) in json_text.spans(self.text, start, news):
                        yield begin, end, exact_json.dumps(news[path])
                except RecursionError as error:
                    raise OutputError(f"{self.name}: nested too deeply to be changed in place") from error

    def _yaml_places(self, wanted: Mapping[int, Mapping[Path, str]]) -> Iterator[tuple[int, int, str]]:
        for number, path, (begin, end) in yaml_text.spans(self.text, wanted):
            yield begin, end, yaml_text.plain_or_quoted(wanted[number][path])


def _replace_file(path: FilePath, data: bytes) -> None:
    """Write a new file beside it, then rename: a reader sees the old file or the new one, never a part."""
    mode = _mode(path)
    if mode is None:
        with path.open("wb") as device:  # a pipe or a terminal cannot be replaced
            device.write(data)
        return
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        FilePath(beside).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            FilePath(beside).unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _mode(path: FilePath) -> int | None:
    """The permissions for the new file; ``None`` where the path is not a regular file."""
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None


def _named(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")
