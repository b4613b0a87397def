"""A dump in every form that kubectl prints: read, and written with nothing else changed."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from migrator.exact_json import JSONNumber
from migrator.resources import POD_CLIQUE_SETS, POD_CLIQUES, POD_GANG_MAPS, POD_GANGS, PODS
from migrator.stores.dump.store import DumpStore, read_documents
from tests.support.dumps import OBJECTS, PCS, POD, SERVICE, as_yaml, dump, migrate, read, regenerate, relabel, written

LIST = {"apiVersion": "v1", "items": OBJECTS, "kind": "List", "metadata": {"resourceVersion": ""}}


FORMS: dict[str, Callable[[], str]] = {
    "yaml-list": lambda: as_yaml(LIST),
    "yaml-documents": lambda: "---\n".join(map(as_yaml, OBJECTS)),
    "yaml-flow": lambda: "# a comment\n" + yaml.safe_dump(LIST, default_flow_style=True),
    "json-list": lambda: json.dumps(LIST, indent=4) + "\n",
    "json-compact": lambda: json.dumps(LIST, separators=(",", ":"), ensure_ascii=False),
    "json-documents": lambda: "\n".join(json.dumps(item, indent=2) for item in OBJECTS),
    "json-lines": lambda: "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in OBJECTS),
    "json-crlf": lambda: json.dumps(LIST, indent=4).replace("\n", "\r\n"),
    "yaml-crlf": lambda: as_yaml(LIST).replace("\n", "\r\n"),
    "yaml-bom": lambda: "\ufeff" + as_yaml(LIST),
    "json-bom": lambda: "\ufeff" + json.dumps(LIST),
}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    """The text of a dump in one of the forms."""
    return FORMS[request.param]()


def test_every_form_holds_the_same_objects(tmp_path: Path, form: str) -> None:
    """List or documents, YAML or JSON, with or without a byte order mark: the same objects in the same order."""
    store = read(tmp_path, form)
    assert store.list(POD_CLIQUE_SETS, dict) == (PCS,)
    assert store.list(PODS, dict) == (POD,)
    assert list(read_documents(dump(tmp_path, form))) == OBJECTS


@pytest.mark.parametrize("zipped", [False, True])
def test_an_unchanged_dump_is_written_byte_for_byte(tmp_path: Path, form: str, *, zipped: bool) -> None:
    """Nothing planned, nothing changed; gzip stays gzip."""
    data = gzip.compress(form.encode(), mtime=0) if zipped else form.encode()
    read(tmp_path, data).write(str(tmp_path / "out"))
    found = (tmp_path / "out").read_bytes()
    assert (gzip.decompress(found) if zipped else found) == form.encode()
    assert found.startswith(b"\x1f\x8b") is zipped


def test_only_the_planned_values_change(tmp_path: Path, form: str) -> None:
    """Everything around the two values stays as it was, spelling and order included; a text stays a text in quotes."""
    store = read(tmp_path, form)
    migrate(store)
    expected = form.replace("Hash: abc5", "Hash: def6").replace('Hash": "abc5"', 'Hash": "def6"')
    expected = expected.replace('Hash":"abc5"', 'Hash":"def6"').replace('"5678"', '"8765"').replace("'5678'", '"8765"')
    assert written(tmp_path, store) == expected


def test_writing_twice_and_back_gives_the_original(tmp_path: Path, form: str) -> None:
    """A revert of a migrated dump is the dump, up to how YAML quotes a value."""
    store = read(tmp_path, form)
    migrate(store)
    back = read(tmp_path, written(tmp_path, store))
    regenerate(back, "def6", "abc5")
    relabel(back, "8765", "5678")
    assert written(tmp_path, back) == form.replace("'5678'", '"5678"')


def test_standard_input_and_output(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is stdin and stdout, in bytes."""
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(form.encode())))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    DumpStore.read("-").write("-")
    assert out.getvalue() == form.encode()


def test_numbers_keep_their_spelling(tmp_path: Path) -> None:
    """In JSON, 1e3, 1.0, 0.10 and -0 are read as they were spelt and written so."""
    text = json.dumps(PCS).replace('"generation": 3', '"generation": 3, "n": [1e3, 1.0, 0.10, -0, 1E+2]')
    store = read(tmp_path, text)
    (found,) = store.list(POD_CLIQUE_SETS, lambda item: item["metadata"]["n"])
    assert found == [JSONNumber(spelt) for spelt in ("1e3", "1.0", "0.10", "-0", "1E+2")]
    regenerate(store)
    assert written(tmp_path, store) == text.replace('Hash": "abc5"', 'Hash": "def6"')


def test_json_lines_end_at_newlines_only(tmp_path: Path) -> None:
    """A line separator of Unicode, or a next-line character, is part of a string, not the end of a line."""
    odd = {**SERVICE, "note": "a\u2028b\u2029c\x85d"}
    path = dump(tmp_path, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in (odd, odd)))
    assert list(read_documents(path)) == [odd, odd]


def test_lists_within_lists_and_typed_lists(tmp_path: Path) -> None:
    """What `kubectl get --raw` prints is a PodList whose items have no kind of their own."""
    bare = {key: value for key, value in POD.items() if key not in {"kind", "apiVersion"}}
    pods = {"apiVersion": "v1", "kind": "PodList", "items": [bare]}
    nested = {"apiVersion": "v1", "kind": "List", "items": [pods, PCS]}
    found = [item["kind"] for item in read_documents(dump(tmp_path, json.dumps(nested)))]
    assert sorted(found) == ["Pod", "PodCliqueSet"]
    store = read(tmp_path, as_yaml(nested))
    relabel(store)
    assert written(tmp_path, store) == as_yaml(nested).replace("'5678'", "bcd")


def test_items_of_a_list_whose_kind_comes_last(tmp_path: Path) -> None:
    """Items that leave their kind to their List wait for it; those that have one do not."""
    bare = [{"metadata": {"name": name, "uid": name}} for name in "ab"]
    text = json.dumps({"items": bare, "apiVersion": "v1", "kind": "PodList"})
    found = read(tmp_path, text).list(PODS, lambda item: item["metadata"]["name"])
    assert found == ("a", "b")
    text = json.dumps({"items": OBJECTS, "apiVersion": "v1", "kind": "List"})
    assert list(read_documents(dump(tmp_path, text))) == OBJECTS


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nitems: []\nkind: List\n", '{"apiVersion":"v1","kind":"List","items":null}']
)
def test_an_empty_list_is_a_dump_of_nothing(tmp_path: Path, text: str) -> None:
    """An empty List is what kubectl prints where there is nothing: no objects, and no error."""
    store = read(tmp_path, text)
    for resource in (POD_CLIQUE_SETS, POD_CLIQUES, PODS, POD_GANG_MAPS, POD_GANGS):
        assert store.list(resource, dict) == ()
