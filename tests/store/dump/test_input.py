"""Files that are not dumps: refused with the file, the place and what is wrong there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import InputError
from migrator.stores.dump import reader
from migrator.stores.dump.store import DumpStore
from tests.store.dump.dumps import PCS, POD, SERVICE, as_yaml, dump


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: dump again, and see what kubectl printed on stderr"),
        (" \n", "is empty"),
        ("{", "document 1: parse error: premature EOF"),
        ('{"kind":"List","apiVersion":"v1","items":[]}\n{"kind"\n', "document 2: parse error"),
        ('{"a": NaN}', "document 1: lexical error"),
        (json.dumps(SERVICE) + "}", "document 2: parse error"),
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
        (b"a: \xff\xfe\n", "byte 3: invalid leading UTF-8 octet"),
        ("[" * 100_000, "document 1: parse error: premature EOF"),
        pytest.param(
            "{apiVersion: v1, kind: Service}\n",
            "document 1: lexical error",
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
        (
            json.dumps({"items": [POD], "apiVersion": "v1", "kind": "Odd"}),
            "document 1.*: it has items and is not a List",
        ),
        (
            json.dumps({"items": [POD, {"a": 1}], "apiVersion": "v1", "kind": "List"}),
            "document 1.*: it has items and is not a List",
        ),
        ('{"apiVersion": "v1",\n"apiVersion": "v1"}', "document 1: key 'apiVersion' is set twice"),
        ('{"kind": "List", "apiVersion": "v1", "items": [],}', "document 1: parse error"),
        (json.dumps({"items": [POD]})[:-2] + ", {oops", "document 1, item 2: lexical error"),
        (b'{"a": "\xff"}', "document 1: lexical error: invalid bytes in UTF8 string"),
    ],
)
def test_what_is_no_dump_is_refused_with_its_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    """One sentence with the file and the place, exit code 2, whatever the file holds."""
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


@pytest.mark.parametrize("number", ["0.5", "1.0", "1e3"])
@pytest.mark.parametrize("form", [json.dumps, as_yaml])
def test_a_template_with_a_number_that_is_no_plain_integer_is_refused(
    tmp_path: Path, form: Callable[[Any], str], number: str
) -> None:
    """Its spelling is hashed, and a dump may have lost it; elsewhere such a number does no harm."""
    odd = {**PCS, "spec": {"template": {"cliques": [{"spec": {"limit": "SPELT"}}]}}}
    text = form(odd).replace('"SPELT"', number).replace("SPELT", number)
    if form is as_yaml and number != "0.5":
        DumpStore.read(dump(tmp_path, text))  # in YAML these are other spellings of integers, for kubectl too
        return
    path = dump(tmp_path, text)
    said = f"^{path}: document 1: PodCliqueSet a/demo: /spec/template/cliques/0/spec/limit is a number that is not a "
    said += r"plain integer, and a dump can lose how it is spelt\. Plan on the cluster itself, without -f\.$"
    with pytest.raises(InputError, match=said):
        DumpStore.read(path)
    DumpStore.read(dump(tmp_path, form({**POD, "spec": {"limit": 0.5}})))


@pytest.mark.parametrize("spelt", [False, True], ids=["plan", "hash"])
def test_a_version_of_groves_api_that_is_not_known_is_refused(tmp_path: Path, *, spelt: bool) -> None:
    """Its fields may mean something else; a version of a kind that holds no hash does no harm."""
    path = dump(tmp_path, json.dumps({**PCS, "apiVersion": "grove.io/v1"}))
    said = f"^{path}: document 1: PodCliqueSet a/demo is grove.io/v1, and only v1alpha1 is known. Dump it with "
    with pytest.raises(InputError, match=said + "`kubectl get podcliquesets.v1alpha1.grove.io -A -o yaml`"):
        list(reader.objects(path, spelt=spelt))
    other = {**PCS, "apiVersion": "grove.io/v1", "kind": "ClusterTopologyBinding"}
    assert list(reader.objects(dump(tmp_path, json.dumps(other)), spelt=spelt))


def test_an_object_in_two_files_is_named_with_both(tmp_path: Path) -> None:
    """Whoever gives two dumps of two times sees which two."""
    one, other = dump(tmp_path, json.dumps(PCS), "one"), dump(tmp_path, json.dumps(POD) + json.dumps(PCS), "other")
    with pytest.raises(InputError, match=f"^{other}: PodCliqueSet a/demo is in {one} too"):
        DumpStore.read(one, other)


def test_documents_before_a_bad_place_are_given(tmp_path: Path) -> None:
    """``hash`` prints what it can: the reader fails where the text does, not before."""
    documents = reader.objects(dump(tmp_path, json.dumps(PCS) + "\n{oops\n"), spelt=True)
    assert next(documents) == PCS
    with pytest.raises(InputError, match="line 2"):
        next(documents)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ('{"a": 1,\n"a": 2}', "key 'a' is set twice"),
        ("[" * 100_000, "nested too deeply"),
        ("a: " + "[" * 5_000 + "]" * 5_000, "nested too deeply"),
    ],
)
def test_what_hash_cannot_read_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """After a kubectl that failed, `hash -f -` does not end well, and Go merges a key that is set twice."""
    with pytest.raises(InputError, match=message):
        list(reader.objects(dump(tmp_path, text), spelt=True))
