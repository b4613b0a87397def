"""Files that are not dumps: refused with the file, the place and what is wrong there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from migrator.errors import InputError
from migrator.stores.dump.store import DumpStore, read_documents
from tests.support.dumps import PCS, POD, SERVICE, dump


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: dump again, and see what kubectl printed on stderr"),
        (" \n", "is empty"),
        ("{", "line 1"),
        ('{"kind":"List","apiVersion":"v1","items":[]}\n{"kind"\n', "line 2|line 3"),
        ('{"a": NaN}', "NaN"),
        (json.dumps(SERVICE) + "}", "line 1"),
        ("[]", "document 1 is not a Kubernetes object but a list"),
        ("just text", "document 1 is not a Kubernetes object but a string"),
        ("5", "document 1 is not a Kubernetes object but a number"),
        ("a: b\n", "document 1 is not a Kubernetes object: it lacks apiVersion"),
        ("apiVersion: v1\n", "it lacks kind"),
        ("apiVersion: v1\nkind: 5\n", "it lacks kind"),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "items is not a list but a mapping"),
        ("apiVersion: v1\nkind: List\nitems: [a]\n", "document 1, item 1 is not a Kubernetes object but a string"),
        ('{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod","apiVersion":"v1"}]}', "a Pod has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: []\n", "a Pod has no metadata.name"),
        ("a: 1\na: 2\n", "line 2: key 'a' is set twice"),
        ("a: [\n", "line 2"),
        (b"\x1f\x8b\x08\x00broken", "is gzip, but damaged"),
        (gzip.compress(b"a: b\n" * 100, mtime=0)[:-10], "is gzip, but damaged"),
        (b"a: \xff\xfe\n", "line 1: it is not UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        pytest.param(
            "{apiVersion: v1, kind: Service}\n",
            "line 1",
            id="What begins like JSON and is none is refused, though YAML would take it.",
        ),
        pytest.param(
            json.dumps(POD) * 2,
            "Pod a/p is in it twice",
            id="Two dumps in one file may be of two times, and nobody could say which is true.",
        ),
        pytest.param(
            json.dumps(POD) + json.dumps({**POD, "metadata": {**POD["metadata"], "name": "q"}}),
            "Pod a/q has the uid u2 of Pod a/p",
            id="No API server gives one uid to two objects, and by their uids objects are joined.",
        ),
        (
            json.dumps(PCS) + json.dumps({**POD, "metadata": {**POD["metadata"], "uid": "u1"}}),
            "Pod a/p has the uid u1 of PodCliqueSet a/demo",
        ),
        (json.dumps({"items": [POD], "apiVersion": "v1", "kind": "Odd"}), "has items and is not a List"),
        (json.dumps({"items": [POD, {"a": 1}], "apiVersion": "v1", "kind": "List"}), "has items and is not a List"),
        ('{"apiVersion": "v1",\n"apiVersion": "v1"}', "line 2: key 'apiVersion' is set twice"),
        ('{"kind": "List", "apiVersion": "v1", "items": [],}', "line 1: Expecting value"),
        ('{"kind": "List", 5: 6}', "line 1: Expecting property name"),
        ('{"kind" "List"}', "line 1: Expecting ':'"),
        ('{"kind": "List", "items": [5 6]}', "line 1: Expecting ']'"),
        ('{"kind": "List"', "line 1: Expecting '}'"),
        ('{"kind": "List", "items": [{"a": "\\u0020"}]}', "line 1: .*needs no escape"),
    ],
)
def test_what_is_no_dump_is_refused_with_its_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    """One sentence with the file and the place, exit code 2, whatever the file holds.

    A List is decoded item by item, and what is wrong around its items is named with its line all the same.
    """
    path = dump(tmp_path, text, "bad")
    with pytest.raises(InputError, match=message) as caught:
        DumpStore.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", ["missing", ".", "nul\0l"])
def test_a_file_that_cannot_be_read(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, a directory, or no path at all: named, not a traceback."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        DumpStore.read(path)


def test_documents_before_a_bad_place_are_given(tmp_path: Path) -> None:
    """``hash`` prints what it can: the reader fails where the text does, not before."""
    documents = read_documents(dump(tmp_path, json.dumps(PCS) + "\n{oops\n"))
    assert next(documents) == PCS
    with pytest.raises(InputError, match="line 2"):
        next(documents)
