"""A file of Kubernetes objects: what ``kubectl get -o yaml`` or ``-o json`` prints, plain or gzipped.

A List, or several documents. JSON is never parsed as YAML.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final, TypeAlias, cast

import ijson

from migrator import exact_json
from migrator.errors import InputError
from migrator.exact_json import JSONNumber, JSONObject
from migrator.resources import DEFAULT_NAMESPACE, HOLDERS, POD_CLIQUE_SETS, pointer
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

#: A document, or an item of a List, and its place: ``document 1, item 2``.
_Placed: TypeAlias = tuple[Any, str]


def title(path: str) -> str:
    """What messages call a file: its path, or stdin for ``-``."""
    return "stdin" if path == STDIO else path


def objects(path: str, *, spelt: bool = False) -> Iterator[JSONObject]:
    """Every object of a file, with Lists opened; raises :class:`~migrator.errors.InputError` at a bad place.

    A List with a further page is bad: the objects that it lacks would count as absent. So is a number in a pod
    template that is not a plain integer: its spelling is hashed, and is not kept. With ``spelt`` numbers are as they
    are spelt, and both are good. Without, ``-0`` is read as ``0``, and half of a surrogate pair as ``?``: kubectl
    prints neither.
    """
    name = title(path)
    with _opened(path) as (file, first):
        if not first:
            raise InputError(f"{name}: is empty: dump again, and see what kubectl printed on stderr")
        # YAML that begins like JSON is not accepted, as it could mean something else.
        read = _yaml if first not in {b"{", b"["} else _json if spelt else _streamed
        try:
            for value, place in read(file):
                for item, at in _items(value, f"{name}: {place}", whole=not spelt):
                    _demand_known_version(item, at)
                    if not spelt and item["kind"] == POD_CLIQUE_SETS.kind:
                        _demand_integers(item, at)
                    yield item
        except RecursionError as error:
            raise InputError(f"{name}: nested too deeply") from error
        except ValueError as error:
            raise InputError(f"{name}: {error}") from error


@contextmanager
def _opened(path: str) -> Iterator[tuple[IO[bytes], bytes]]:
    """The bytes of a file, unpacked and behind a byte order mark, and the first that is not white space.

    What can be read only once stays in memory. Raises ``InputError`` for what cannot be read or unpacked.
    """
    zipped = False
    try:
        with io.BytesIO(sys.stdin.buffer.read()) if path == STDIO else Path(path).open("rb") as given:
            raw = given if given.seekable() else io.BytesIO(given.read())
            zipped = raw.read(len(_GZIP)) == _GZIP
            raw.seek(0)
            file = cast("IO[bytes]", gzip.GzipFile(fileobj=raw)) if zipped else raw
            start = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
            file.seek(start)
            first = file.read(_CHUNK).lstrip(_SPACE)[:1]
            file.seek(start)
            yield file, first
    except (OSError, EOFError, ValueError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{title(path)}: {'is gzip, but damaged' if zipped else 'cannot be read'}: {why}") from error


def _json(file: IO[bytes]) -> Iterator[_Placed]:
    text = file.read().decode("utf-8", "surrogateescape")  # Go replaces what is not UTF-8, and so does hashing
    at, number = _after_spaces(text, 0), 0
    while at < len(text):
        number += 1
        value, end = exact_json.DECODER.raw_decode(text, at)
        yield value, f"document {number}"
        at = _after_spaces(text, end)


def _after_spaces(text: str, at: int) -> int:
    match = _SPACES.match(text, at)
    return match.end() if match else at


def _yaml(file: IO[bytes]) -> Iterator[_Placed]:
    for number, value in enumerate(yaml_text.documents(file), 1):
        if value is not None:
            yield value, f"document {number}"


def _streamed(file: IO[bytes]) -> Iterator[_Placed]:
    """The values of JSON, of which one object is in memory at a time.

    Of a List the items that are objects come one by one, before the rest of it: kubectl prints the List's kind last.
    Raises ``ValueError`` with the place of what is not JSON.
    """
    holders: list[Any] = []  # open mappings and lists, and the key of each mapping whose value comes next
    keys: list[str | None] = []
    document, passed = 1, 0
    try:
        for event, value in ijson.basic_parse(file, multiple_values=True, buf_size=_CHUNK):
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
                yield _document(whole, passed), f"document {document}"
                document, passed = document + 1, 0
            elif len(holders) == _ITEMS and keys[0] == "items" and not holders[1] and _has_kind(whole):
                passed += 1  # and it is not kept
                yield whole, f"document {document}, item {passed}"
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


def _exact(scalar: Any) -> Any:  # noqa: ANN401 - what ijson gives
    """A scalar; a number that is no plain integer, 1.0 too, as Go would print it."""
    return yaml_text.printed(float(scalar)) if isinstance(scalar, Decimal) else scalar


def _document(value: Any, passed: int) -> Any:  # noqa: ANN401 - any JSON value
    """A whole document, of whose items so many were passed on; raises ``ValueError`` if it should have kept them."""
    if passed and (value["items"] or not str(value.get("kind")).endswith("List")):
        raise ValueError("it has items and is not a List")
    return value


def _has_kind(item: Any) -> bool:  # noqa: ANN401 - anything a file may hold
    """Whether an item can be opened before the rest of its List is read."""
    return isinstance(item, dict) and isinstance(item.get("kind"), str) and isinstance(item.get("apiVersion"), str)


def _first_line(error: Exception) -> str:
    """What is wrong, without the text around it that ijson shows: it may be secret. Text that is not UTF-8 is bytes."""
    what = error.args[0]
    return str(what.decode("utf-8", "replace") if isinstance(what, bytes) else what).strip().partition("\n")[0]


def _items(value: Any, place: str, *, whole: bool) -> Iterator[_Placed]:  # noqa: ANN401 - any JSON
    """The objects that a document or item holds; raises ``InputError`` with the place of what is none."""
    if not isinstance(value, dict):
        raise InputError(f"{place} is not a Kubernetes object but {_named(value)}")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str) or not value[key]:
            raise InputError(f"{place} is not a Kubernetes object: it lacks {key}")
    if not value["kind"].endswith("List") or "items" not in value:
        yield value, place
        return
    items = value["items"] if value["items"] is not None else []
    if not isinstance(items, list):
        raise InputError(f"{place}: items is not a list but {_named(items)}")
    metadata = value.get("metadata")
    if whole and isinstance(metadata, dict) and metadata.get("continue"):
        raise InputError(
            f"{place} is one page of a longer list (metadata.continue is set): dump again without a limit, which is "
            "what `kubectl get` does by default"
        )
    kind = value["kind"].removesuffix("List")
    own = {"apiVersion": value["apiVersion"], "kind": kind} if kind else {}  # the API leaves it out in a typed List
    for number, item in enumerate(items, 1):
        typed = {**own, **item} if isinstance(item, dict) else item
        yield from _items(typed, f"{place}, item {number}", whole=whole)


def _named(value: object) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number")


def _demand_known_version(value: JSONObject, place: str) -> None:
    """Raise ``InputError`` for a kind that holds hashes in another version of Grove's API."""
    group, _, version = str(value["apiVersion"]).rpartition("/")
    known = next((one for one in HOLDERS if (one.group, one.kind) == (group, value["kind"])), None)
    if known is not None and version != known.version:
        raise InputError(
            f"{place}: {_name(value)} is {value['apiVersion']}, and only {known.version} is known. Dump it with "
            f"`kubectl get {known.plural}.{known.version}.{known.group} -A -o yaml`, or use a newer grove-migrator."
        )


def _name(value: JSONObject) -> str:
    found = value.get("metadata")
    metadata = found if isinstance(found, dict) else {}
    return f"{value['kind']} {metadata.get('namespace') or DEFAULT_NAMESPACE}/{metadata.get('name')}"


def _demand_integers(pod_clique_set: JSONObject, place: str) -> None:
    """Raise ``InputError`` with the path of a number anywhere in the spec of a set that is not a plain integer."""
    waiting: list[tuple[Any, tuple[object, ...]]] = [(pod_clique_set.get("spec"), ("spec",))]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, JSONNumber):
            raise InputError(
                f"{place}: {_name(pod_clique_set)}: {pointer(*path)} is a number that is not a plain integer, and a "
                "dump can lose how it is spelt. Plan on the cluster itself, without -f."
            )
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += ((part, (*path, key)) for key, part in items)
