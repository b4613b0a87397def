"""A file of Kubernetes objects: what ``kubectl get -o yaml`` or ``-o json`` prints, plain or gzipped.

A List, or several documents. JSON is never parsed as YAML.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, cast

import ijson

from migrator import exact_json
from migrator.errors import InputError
from migrator.exact_json import JSONNumber, JSONObject
from migrator.resources import DEFAULT_NAMESPACE, POD_CLIQUE_SETS, pointer
from migrator.stores.dump import yaml_text

_GZIP: Final = b"\x1f\x8b"
_BOM: Final = b"\xef\xbb\xbf"
_SPACE: Final = b" \t\r\n"
STDIO: Final = "-"
_CHUNK: Final = 1 << 16

_SPACES: Final = re.compile(r"[ \t\n\r]*")

#: Events of ijson, and how deep the items of a List are.
_BEGINNINGS: Final[dict[str, type[dict[str, Any] | list[Any]]]] = {"start_map": dict, "start_array": list}
_ENDS: Final = frozenset({"end_map", "end_array"})
_ITEMS: Final = 2

#: A document, or an item of a List, with the numbers that name its place, from 1.
_Placed: TypeAlias = tuple[Any, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DumpFile:
    """A file, which every method reads again. ``name`` is for messages; ``mode`` are its permissions, if it has any."""

    name: str
    source: Callable[[], IO[bytes]]
    mode: int | None = None

    @classmethod
    def read(cls, path: str) -> DumpFile:
        """A file, or stdin for ``-``; what can be read only once stays in memory. Raises InputError."""
        name = "stdin" if path == STDIO else path
        try:
            if path != STDIO and stat.S_ISREG(Path(path).stat().st_mode):
                with Path(path).open("rb") as file:
                    mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                return cls(name, lambda: Path(path).open("rb"), mode)
            data = sys.stdin.buffer.read() if path == STDIO else Path(path).read_bytes()
        except (OSError, ValueError) as error:
            raise InputError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
        return cls(name, lambda: io.BytesIO(data))

    def objects(self) -> Iterator[JSONObject]:
        """Every object of a dump, with Lists opened; raises :class:`~migrator.errors.InputError` at a bad place.

        A List with a further page is bad: the objects that it lacks would count as absent. So is a number in a pod
        template that is not a plain integer: its spelling is hashed, and this reader does not keep it.
        """
        for value, place in self._placed(self._json_events if self._is_json else self._yaml):
            if value["kind"] == POD_CLIQUE_SETS.kind and (path := _inexact(value)):
                found = value.get("metadata")
                metadata = found if isinstance(found, dict) else {}
                which = f"{value['kind']} {metadata.get('namespace') or DEFAULT_NAMESPACE}/{metadata.get('name')}"
                raise InputError(
                    f"{self._place(place)}: {which}: {path} is a number that is not a plain integer; dump again with "
                    "kubectl, or write it as a string"
                )
            yield value

    def documents(self) -> Iterator[JSONObject]:
        """Every object of a file, Lists opened, with numbers as they are spelt; raises ``InputError``."""
        return (value for value, _ in self._placed(self._json if self._is_json else self._yaml, whole=False))

    @property
    def _first(self) -> bytes:
        """The first byte that is not white space."""
        with self._open() as file:
            while data := file.read(_CHUNK):
                if text := data.lstrip(_SPACE):
                    return text[:1]
        return b""

    @property
    def _is_json(self) -> bool:
        """Whether it is JSON; YAML that begins like JSON is not accepted, as it could mean something else."""
        return self._first in {b"{", b"["}

    @contextmanager
    def _open(self) -> Iterator[IO[bytes]]:
        """The bytes, unpacked, behind a byte order mark; raises ``InputError`` for what cannot be read or unpacked."""
        with self.source() as raw:
            zipped = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
            try:
                if file.read(len(_BOM)) != _BOM:
                    file.seek(0)
                yield file
            except (OSError, EOFError, zlib.error) as error:
                what = f"is gzip, but damaged: {error}" if zipped else f"cannot be read: {error}"
                raise InputError(f"{self.name}: {what}") from error

    def _json_events(self) -> Iterator[_Placed]:
        """Documents, and items of Lists as they come, by ijson's events: only one of them is in memory at a time."""
        with self._open() as file:
            yield from _built(ijson.basic_parse(file, multiple_values=True, buf_size=_CHUNK))

    def _json(self) -> Iterator[_Placed]:
        with self._open() as file:
            text = file.read().decode("utf-8", "surrogateescape")  # Go replaces what is not UTF-8, and so does hashing
        at, number = _after_spaces(text, 0), 0
        while at < len(text):
            number += 1
            value, end = exact_json.DECODER.raw_decode(text, at)
            yield value, (number,)
            at = _after_spaces(text, end)

    def _yaml(self) -> Iterator[_Placed]:
        with self._open() as file:
            values = yaml_text.documents(file)
            yield from ((value, (number,)) for number, value in enumerate(values, 1) if value is not None)

    def _placed(self, read: Callable[[], Iterator[_Placed]], *, whole: bool = True) -> Iterator[_Placed]:
        if not self._first:
            raise InputError(f"{self.name}: is empty: dump again, and see what kubectl printed on stderr")
        try:
            for value, place in read():
                yield from self._opened(value, place, whole=whole)
        except RecursionError as error:
            raise InputError(f"{self.name}: nested too deeply") from error
        except ValueError as error:
            raise InputError(f"{self.name}: {error}") from error

    def _opened(self, value: Any, place: tuple[int, ...], *, whole: bool) -> Iterator[_Placed]:  # noqa: ANN401 - any JSON
        """The objects that a document or item holds."""
        if not isinstance(value, dict):
            raise InputError(f"{self._place(place)} is not a Kubernetes object but {_named(value)}")
        for key in ("apiVersion", "kind"):
            if not isinstance(value.get(key), str) or not value[key]:
                raise InputError(f"{self._place(place)} is not a Kubernetes object: it lacks {key}")
        if not value["kind"].endswith("List") or "items" not in value:
            yield value, place
            return
        items = value["items"] if value["items"] is not None else []
        if not isinstance(items, list):
            raise InputError(f"{self._place(place)}: items is not a list but {_named(items)}")
        metadata = value.get("metadata")
        if whole and isinstance(metadata, dict) and metadata.get("continue"):
            raise InputError(
                f"{self._place(place)} is one page of a longer list (metadata.continue is set): dump again without a "
                "limit, which is what `kubectl get` does by default"
            )
        for number, item in enumerate(items, 1):
            yield from self._opened(_typed(item, value), (*place, number), whole=whole)

    def _place(self, place: tuple[int, ...]) -> str:
        document, *items = place
        return f"{self.name}: document {document}{''.join(f', item {number}' for number in items)}"


def _built(events: Iterator[tuple[str, Any]]) -> Iterator[_Placed]:
    """The values of ijson's events: of a List that has them the items that are objects, one by one, then the rest.

    Raises ``ValueError`` with the place of what is not JSON.
    """
    holders: list[Any] = []  # open mappings and lists, and the key of each mapping whose value comes next
    keys: list[str | None] = []
    document, passed = 1, 0
    try:
        for event, value in events:
            if event == "map_key":
                keys[-1] = _new(value, holders[-1])
                continue
            if event in _BEGINNINGS:
                holders.append(_BEGINNINGS[event]())
                keys.append(None)
                continue
            whole = holders.pop() if event in _ENDS else _exact(value)
            del keys[len(holders) :]
            if not holders:
                yield _document(whole, passed), (document,)
                document, passed = document + 1, 0
            elif len(holders) == _ITEMS and keys[0] == "items" and not holders[1] and _has_kind(whole):
                passed += 1  # and it is not kept
                yield whole, (document, passed)
            elif keys[-1] is None:
                holders[-1].append(whole)
            else:
                holders[-1][keys[-1]] = whole
    except (ijson.JSONError, ValueError) as error:
        item = f", item {passed + 1}" if passed else ""
        raise ValueError(f"document {document}{item}: {_first_line(error)}") from error


def _new(key: str, holder: JSONObject) -> str:
    """A key that a mapping does not have yet: Go merges the values of one that it has, and no API server does that."""
    if key in holder:
        raise ValueError(f"key {key!r} is set twice")
    return key


def _first_line(error: Exception) -> str:
    """What is wrong, without the text around it that ijson shows: it may be secret. Text that is not UTF-8 is bytes."""
    what = error.args[0]
    return str(what.decode("utf-8", "replace") if isinstance(what, bytes) else what).strip().partition("\n")[0]


def _exact(scalar: Any) -> Any:  # noqa: ANN401 - what ijson gives
    """A scalar; a number that is no plain integer, 1.0 too, as Go would print it."""
    return yaml_text.printed(float(scalar)) if isinstance(scalar, Decimal) else scalar


def _document(value: Any, passed: int) -> Any:  # noqa: ANN401 - any JSON value
    """A whole document, of whose items so many were passed on; raises ``ValueError`` if it should have kept them."""
    if passed and (value["items"] or not str(value.get("kind")).endswith("List")):
        raise ValueError("it has items and is not a List")
    return value


def _has_kind(item: Any) -> bool:  # noqa: ANN401 - anything a file may hold
    """Whether an item can be opened before the rest of its List is read; kubectl prints the List's kind last."""
    return isinstance(item, dict) and isinstance(item.get("kind"), str) and isinstance(item.get("apiVersion"), str)


def _typed(item: Any, of: JSONObject) -> Any:  # noqa: ANN401 - anything a file may hold
    """An item of a List; the API leaves its kind out where the List has it."""
    kind = str(of.get("kind") or "").removesuffix("List")
    if kind and isinstance(item, dict):
        return {"apiVersion": of["apiVersion"], "kind": kind, **item}
    return item


def _inexact(pod_clique_set: JSONObject) -> str:
    """The path of a number in the templates of a set that is not a plain integer; empty if there is none."""
    waiting: list[tuple[Any, tuple[object, ...]]] = [(pod_clique_set.get("spec"), ("spec",))]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, JSONNumber):
            return pointer(*path)
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += ((part, (*path, key)) for key, part in items)
    return ""


def _after_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    return match.end() if match else at


def _named(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")
