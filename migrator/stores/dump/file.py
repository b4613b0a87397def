"""A file of Kubernetes objects, which is read, and written again with only the planned values changed.

It holds what ``kubectl get -o yaml`` or ``-o json`` prints, plain or gzipped: a List, or documents. JSON is never
parsed as YAML, and the text around a changed value is never printed anew.
"""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import secrets
import stat
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path as FilePath
from typing import IO, Any, Final, TypeAlias

from migrator import exact_json
from migrator.errors import InputError, OutputError
from migrator.exact_json import JSONObject
from migrator.stores.dump import json_text, yaml_text
from migrator.stores.json_stream import Path, Stream

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = "\ufeff"
STDIO: Final = "-"
_CHUNK: Final = 1 << 20

#: Other strings, each with its path, by the number of a document and the path of the object, or item, that holds them.
Changes: TypeAlias = Mapping[tuple[int, Path], Sequence[tuple[Path, str]]]
#: Begin and end of a part of the text, and what comes in its place.
Cut: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An object and its place: the number of its document, from 0, and its path within the document."""

    value: JSONObject
    document: int
    path: Path


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file, which every method reads again. ``name`` is for messages."""

    name: str
    source: Callable[[], IO[bytes]]
    changed: Callable[[], bool] = lambda: False

    @classmethod
    def read(cls, path: str) -> DumpFile:
        """A file, or stdin for ``-``; what can be read only once stays in memory. Raises InputError."""
        name = "stdin" if path == STDIO else path
        try:
            if path != STDIO and stat.S_ISREG(FilePath(path).stat().st_mode):
                with FilePath(path).open("rb"):
                    was = _state(path)
                return cls(name, lambda: FilePath(path).open("rb"), lambda: _state(path) != was)
            data = sys.stdin.buffer.read() if path == STDIO else FilePath(path).read_bytes()
        except (OSError, ValueError) as error:
            raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
        return cls(name, lambda: io.BytesIO(data))

    @property
    def gzipped(self) -> bool:
        """Whether it is compressed."""
        with self.source() as file:
            return file.read(len(_GZIP)) == _GZIP

    def chunks(self) -> Iterator[str]:
        """The text, a byte order mark included; raises :class:`~migrator.errors.InputError`."""
        # Bytes that are not UTF-8 are kept: Go replaces them within strings, and so does hashing.
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        gzipped = self.gzipped
        with self.source() as raw, gzip.open(raw) if gzipped else contextlib.nullcontext(raw) as file:
            while True:
                try:
                    data = file.read(_CHUNK)
                except (OSError, EOFError, zlib.error) as error:
                    what = f"is gzip, but damaged: {error}" if gzipped else f"cannot be read: {error}"
                    raise InputError(f"{self.name}: {what}") from error
                if text := decoder.decode(data, not data):
                    yield text
                if not data:
                    return

    @property
    def text(self) -> str:
        """All of it, without the byte order mark."""
        return "".join(self.chunks()).removeprefix(_BOM)

    @property
    def first(self) -> str:
        """The first character that is not white space; nothing if there is none."""
        found = (text.removeprefix(_BOM).lstrip(" \t\r\n") for text in self.chunks())
        return next((text[0] for text in found if text), "")

    @property
    def is_json(self) -> bool:
        """Whether it is JSON; YAML that begins like JSON is not accepted, as it could mean something else."""
        return self.first in {"{", "["}

    def objects(self, *, whole: bool = False) -> Iterator[PlacedObject]:
        """Every object, with Lists opened; raises :class:`~migrator.errors.InputError` at the first bad place.

        With ``whole``, a List with a further page is bad: the objects that it lacks would count as absent.
        """
        try:
            if self.is_json:
                yield from self._json_objects(whole=whole)
                return
            for number, value in enumerate(yaml_text.documents(self.text)):
                if value is not None:
                    yield from self._open(value, number, (), whole=whole)
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from error

    def edited(self, changes: Changes) -> Iterator[str]:
        """The text with other strings; raises :class:`~migrator.errors.OutputError` for a place without a scalar."""
        cuts = self._cuts(changes) if changes else []
        self._check_unchanged()  # before anything is printed
        yield from _cut(self.chunks(), cuts)
        self._check_unchanged()

    def write(self, path: str, changes: Changes) -> None:
        """Write it, :meth:`edited`, to a file, as a whole or not at all, or to stdout for ``-``; raises OutputError."""
        try:
            if path == STDIO:
                self._write(sys.stdout.buffer, changes)
                sys.stdout.buffer.flush()
            else:
                _replace_file(FilePath(os.path.realpath(path)), lambda file: self._write(file, changes))
        except OSError as error:
            where = "stdout" if path == STDIO else path
            raise OutputError(f"cannot write to {where}: {error.strerror}") from error

    def _write(self, file: IO[bytes], changes: Changes) -> None:
        texts = self.edited(changes)
        first = next(texts, "")  # a file that cannot be edited is found before gzip's header is written
        compressed = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if self.gzipped else contextlib.nullcontext(file)
        with compressed as out:
            out.writelines(text.encode("utf-8", "surrogateescape") for text in chain([first], texts))

    def _stream(self) -> Stream:
        chunks = self.chunks()
        return Stream(chain([next(chunks, "").removeprefix(_BOM)], chunks), json_text.decode)

    def _json_objects(self, *, whole: bool) -> Iterator[PlacedObject]:
        stream = self._stream()
        for number, first in enumerate(stream.documents()):
            if first != "{":
                yield from self._open(stream.value()[0], number, (), whole=whole)
                continue
            found: JSONObject = {}
            passed = 0
            for path, value, _ in stream.members():
                if len(path) == 1:
                    found[str(path[0])] = value
                elif not found["items"] and _is_of_list(value, found):
                    passed += 1
                    yield from self._open(_typed(value, found), number, path, whole=whole)
                else:
                    found["items"].append(value)
            if passed and (found["items"] or not str(found.get("kind")).endswith("List")):
                raise InputError(f"{self._place(number, ())} has items and is not a List")
            yield from self._open(found, number, (), whole=whole, passed=passed)

    def _cuts(self, changes: Changes) -> list[Cut]:
        """The spans of the strings in the text, in order, and what comes in their place."""
        before = len(_BOM) if next(self.chunks(), "").startswith(_BOM) else 0
        found = self._json_cuts(changes) if self.is_json else self._yaml_cuts(changes)
        cuts = sorted((begin + before, end + before, new) for begin, end, new in found)
        asked = sum(map(len, changes.values()))
        if len(cuts) != asked:
            raise OutputError(
                f"{self.name}: {asked - len(cuts)} of {asked} values cannot be changed in place, because they are "
                "written as aliases, tags or blocks; dump again with `kubectl get -o json`"
            )
        return cuts

    def _json_cuts(self, changes: Changes) -> Iterator[Cut]:
        stream = self._stream()
        for number, _ in enumerate(stream.documents()):
            own = dict(changes.get((number, ()), ()))
            for path, _, begin in stream.members():
                news = dict(changes.get((number, path), ()))
                news |= {place[len(path) :]: new for place, new in own.items() if place[: len(path)] == path}
                try:
                    # A list named items has no text of its own: its items come one by one.
                    spans = json_text.spans(stream.text, begin, news) if news and begin >= 0 else {}
                except RecursionError as error:
                    raise OutputError(f"{self.name}: nested too deeply to be changed in place") from error
                for place, (start, end) in spans.items():
                    yield stream.forgotten + start, stream.forgotten + end, exact_json.dumps(news[place])

    def _yaml_cuts(self, changes: Changes) -> Iterator[Cut]:
        wanted: dict[int, dict[Path, str]] = {}
        for (number, holder), news in changes.items():
            wanted.setdefault(number, {}).update(((*holder, *path), new) for path, new in news)
        for number, path, span in yaml_text.spans(self.text, wanted):
            yield *span, yaml_text.plain_or_quoted(wanted[number][path])

    def _check_unchanged(self) -> None:
        if self.changed():
            raise OutputError(f"{self.name}: it was changed while it was read; nothing is written, so run again")

    def _open(self, value: Any, document: int, path: Path, *, whole: bool, passed: int = 0) -> Iterator[PlacedObject]:  # noqa: ANN401 - anything a file may hold
        """The objects that a value holds, but for ``passed`` items of a List, which were looked at as they came."""
        if not isinstance(value, dict):
            raise InputError(f"{self._place(document, path)} is not a Kubernetes object but {_named(value)}")
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key), str) or not value[key]:
                raise InputError(f"{self._place(document, path)} is not a Kubernetes object: it lacks {key}")
        if not value["kind"].endswith("List") or "items" not in value:
            yield PlacedObject(value, document, path)
            return
        items = value["items"] if value["items"] is not None else []
        if not isinstance(items, list):
            raise InputError(f"{self._place(document, path)}: items is not a list but {_named(items)}")
        metadata = value.get("metadata")
        if whole and isinstance(metadata, dict) and metadata.get("continue"):
            raise InputError(
                f"{self._place(document, path)} is one page of a longer list ({passed + len(items)} objects, and "
                "metadata.continue is set): dump again without a limit, which is what `kubectl get` does by default"
            )
        for index, item in enumerate(items):
            yield from self._open(_typed(item, value), document, (*path, "items", index), whole=whole)

    def _place(self, document: int, path: Path) -> str:
        items = "".join(f", item {part + 1}" for part in path if isinstance(part, int))
        return f"{self.name}: document {document + 1}{items}"


def _cut(chunks: Iterable[str], cuts: Iterable[Cut]) -> Iterator[str]:
    """The text with the strings of the cuts in place of their spans."""
    left = deque(cuts)
    begin = passed = 0  # the index of the chunk, and of what was not yet given or replaced
    for chunk in chunks:
        while left and left[0][0] < begin + len(chunk):
            start, end, new = left.popleft()
            yield chunk[passed - begin : start - begin] + new
            passed = end
        yield chunk[passed - begin :]
        begin += len(chunk)
        passed = max(passed, begin)


def _is_of_list(item: Any, found: JSONObject) -> bool:  # noqa: ANN401 - anything a file may hold
    """Whether an item can be opened before the rest of its List is read; kubectl prints the List's kind last."""
    version, kind = found.get("apiVersion"), found.get("kind")
    if kind is None:
        return isinstance(item, dict) and isinstance(item.get("kind"), str) and isinstance(item.get("apiVersion"), str)
    return isinstance(kind, str) and kind.endswith("List") and isinstance(version, str) and version != ""


def _typed(item: Any, of: JSONObject) -> Any:  # noqa: ANN401 - anything a file may hold
    """An item of a List; the API leaves its kind out where the List has it."""
    kind = str(of.get("kind") or "").removesuffix("List")
    if kind and isinstance(item, dict):
        item.setdefault("kind", kind)
        item.setdefault("apiVersion", of["apiVersion"])
    return item


def _state(path: str) -> object:
    found = FilePath(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _replace_file(path: FilePath, write: Callable[[IO[bytes]], None]) -> None:
    """Write a new file beside it, then rename: a reader sees the old file or the new one, never a part."""
    before = path.stat().st_mode if path.exists() else None
    if before is not None and not stat.S_ISREG(before):
        with path.open("wb") as device:  # a pipe or a terminal cannot be replaced
            write(device)
        return
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        private = partial(os.open, mode=0o666 if before is None else 0o600)  # not more than the old file's mode
        with open(beside, "xb", opener=private) as file:  # a path's own open has no opener
            if before is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(before))
            write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _named(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")
