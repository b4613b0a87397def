"""Files that are not dumps: refused with the file, the place and what is wrong there."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from migrator import dump as file_of_objects
from migrator.dump import Dump
from migrator.errors import InputError
from tests.store.dump.dumps import LIST, PCS, POD, SERVICE, as_yaml, dump

AGAIN = "it seems to be cut off, or to hold messages of kubectl; dump again, and keep stderr apart"


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """What other tests have left is not finalised at the limit of recursion, where that fails."""
    gc.disable()
    yield
    gc.enable()


def renamed(**metadata: Any) -> str:
    return json.dumps({**POD, "metadata": {**POD["metadata"], **metadata}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: dump again, and see what kubectl printed on stderr"),
        (" \n\t", "is empty"),
        ("\ufeff", "is empty"),
        (b"\xff\xfe", "is empty"),
        # JSON
        ("{", "document 1: line 1: Expecting property name"),
        ('{"kind":"List","apiVersion":"v1","items":[]}\n{"kind"\n', f"document 2: line 3: .*: {AGAIN}"),
        ('{"a": NaN}', "document 1: NaN is not JSON"),
        (json.dumps(SERVICE) + "}", f"document 2: line 1: Expecting value: {AGAIN}"),
        ('{"apiVersion": "v1",\n"apiVersion": "v1"}', "document 1: key 'apiVersion' is set twice"),
        (
            '{"apiVersion": "v1", "items": [{"kind": "A", "apiVersion": "v1"},\n\n{oops',
            "document 1, item 2: line 3: ",
        ),
        (
            '{"apiVersion": "v1", "items": [{"kind": "A", "apiVersion": "v1"} {}]}',
            "item 1: line 1: Expecting ']'",
        ),
        ('{"apiVersion": "v1"}\nerror: the server is away\n', "document 1 is not an object"),
        (json.dumps(SERVICE) + "\nWarning: v1 is old\n", f"document 2: line 2: .*{AGAIN}"),
        ('{"a": "x\ny"}', f"line 1: Invalid control character at: {AGAIN}"),
        ('{"a": 1' + "0" * 5000 + "}", "document 1: a number has 5,001 digits"),
        ("[" * 100_000, "document 1 is nested too deeply"),
        ('{"items": [{"apiVersion": "v1", "kind": "A"}, ' + '{"a":' * 100_000, "document 1, item 2 is nested too deep"),
        ("[]", "document 1 is not an object"),
        ('{"items": [1]}', "document 1 is not an object"),
        pytest.param(
            "{apiVersion: v1, kind: Service}\n",
            "document 1: line 1: Expecting property name",
            id="What begins like JSON and is none is refused, though YAML would take it.",
        ),
        # YAML
        ("just text", f"document 1 is not an object with apiVersion and kind: {AGAIN}"),
        ("5", "document 1 is not an object"),
        ("a: b\n", "document 1 is not an object"),
        ("Error from server (Forbidden): pods is forbidden: User x\n" + as_yaml(LIST), f"line 1: .*: {AGAIN}"),
        (as_yaml(LIST) + "error: no resource type foo\n", f"document 1 is not a List as kubectl prints it: {AGAIN}"),
        ("Warning: v1 is old\n" + as_yaml(LIST), f"document 1 is not a List as kubectl prints it: {AGAIN}"),
        ("apiVersion: v1\n", "document 1 is not an object"),
        ("apiVersion: v1\nkind: 5\n", "document 1 is not an object"),
        ("apiVersion: v1\nkind: List\nitems: {}\n", "document 1 is not a List as kubectl prints it"),
        ("apiVersion: v1\nkind: List\nitems: [a]\n", "document 1, item 1 is not an object"),
        ("apiVersion: v1\nkind: Pod\nmetadata: []\n", "document 1: a Pod has no metadata.name"),
        ("apiVersion: [\n", f"line 2: .*: {AGAIN}"),
        (b"a: b\0c\n", f"byte 4: control characters are not allowed: {AGAIN}"),
        ("a: " + "[" * 50_000 + "]" * 50_000, "nested too deeply"),
        ("- " * 50_000 + "a", "nested too deeply"),
        ("? " * 50_000 + "a", "a key is not a string|nested too deeply"),
        # objects
        (
            '{"apiVersion":"v1","kind":"List","items":[{"kind":"Pod","apiVersion":"v1"}]}',
            "document 1, item 1: a Pod has no metadata.name",
        ),
        (b'\xff\xfe{\0"', "document 1: line 1: Expecting property name"),
        (renamed(name=5), "a Pod has no metadata.name"),
        pytest.param(
            json.dumps(POD) * 2,
            "Pod a/p is in it twice",
            id="Two dumps in one file may be of two times, and nobody could say which is true.",
        ),
        *(
            (form({**LIST, "metadata": {"continue": "abc"}}), r"document 1 is one page of a longer list \(metadata")
            for form in (json.dumps, as_yaml)
        ),
        (gzip.compress(b"a: b\n", mtime=0), "is gzip: unpack it"),
    ],
)
def test_what_is_no_dump_is_refused_with_its_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    """One sentence with the file and the place, exit code 2, whatever the file holds."""
    path = dump(tmp_path, text, "bad")
    with pytest.raises(InputError, match=message) as caught:
        Dump.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("form", [as_yaml, lambda value: json.dumps(value, indent=0)], ids=["yaml", "json"])
def test_a_dump_that_is_cut_off_anywhere_is_called_that(tmp_path: Path, form: Callable[[Any], str]) -> None:
    """At every character before the kind of the List, behind which nothing is lost."""
    text = form({**LIST, "items": [SERVICE, POD]}).rstrip()
    end = text.index("List") + 1
    for at in range(len("apiVersion: v"), end):
        with pytest.raises(InputError) as caught:
            Dump.read(dump(tmp_path, text[:at]))
        assert AGAIN in str(caught.value), (text[:at][-40:], str(caught.value))


@pytest.mark.parametrize("path", ["missing", ".", "nul\0l"])
def test_a_file_that_cannot_be_read(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, a directory, or no path at all: named, not a traceback."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"cannot be read|embedded null"):
        Dump.read(path)


@pytest.mark.parametrize("number", ["0.5", "1.0", "1e3"])
@pytest.mark.parametrize("form", [json.dumps, as_yaml])
def test_a_template_with_a_number_that_is_no_plain_integer_is_refused(
    tmp_path: Path, form: Callable[[Any], str], number: str
) -> None:
    """Its spelling is hashed, and a dump may have lost it; elsewhere such a number does no harm."""
    odd = {**PCS, "spec": {"template": {"cliques": [{"spec": {"limit": "SPELT"}}]}}}
    path = dump(tmp_path, form(odd).replace('"SPELT"', number).replace("SPELT", number))
    said = f"^{path}: document 1: PodCliqueSet a/demo: /spec/template/cliques/0/spec/limit is a number that is not a "
    said += r"plain integer, and a dump can lose how it is spelt\. Plan on the cluster itself, without -f\.$"
    with pytest.raises(InputError, match=said):
        Dump.read(path)
    list(file_of_objects.objects(path, lenient=True))
    Dump.read(dump(tmp_path, form({**POD, "spec": {"limit": 0.5}})))


@pytest.mark.parametrize("lenient", [False, True], ids=["plan", "hash"])
def test_a_version_of_groves_api_that_is_not_known_is_refused(tmp_path: Path, *, lenient: bool) -> None:
    """Its fields may mean something else; a version of a kind that holds no hash does no harm."""
    path = dump(tmp_path, json.dumps({**PCS, "apiVersion": "grove.io/v1"}))
    said = f"^{path}: document 1: PodCliqueSet a/demo is grove.io/v1, and only v1alpha1 is known. Dump it with "
    with pytest.raises(InputError, match=said + "`kubectl get podcliquesets.v1alpha1.grove.io -A -o yaml`"):
        list(file_of_objects.objects(path, lenient=lenient))
    other = {**PCS, "apiVersion": "grove.io/v1", "kind": "ClusterTopologyBinding"}
    assert list(file_of_objects.objects(dump(tmp_path, json.dumps(other)), lenient=lenient))


def test_an_object_that_python_reads_and_cannot_pack_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many levels that takes depends on the version: 500 with 3.11, more than 3,000 with 3.13."""

    def fail(_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(pickle, "dumps", fail)
    with pytest.raises(InputError, match="Pod a/p is nested too deeply"):
        Dump.read(dump(tmp_path, renamed(name="p")))


def test_an_object_in_two_files_is_named_with_both(tmp_path: Path) -> None:
    """Whoever gives two dumps of two times sees which two."""
    one, other = dump(tmp_path, json.dumps(PCS), "one"), dump(tmp_path, json.dumps(POD) + json.dumps(PCS), "other")
    with pytest.raises(InputError, match=f"^{other}: PodCliqueSet a/demo is in {one} too"):
        Dump.read(one, other)


def test_documents_before_a_bad_place_are_given(tmp_path: Path) -> None:
    """``hash`` prints what it can: the reader fails where the text does, not before."""
    documents = file_of_objects.objects(dump(tmp_path, json.dumps(PCS) + "\n{oops\n"), lenient=True)
    assert next(documents) == PCS
    with pytest.raises(InputError, match="line 2"):
        next(documents)


@pytest.mark.parametrize("text", ["[" * 10_000_000, "a: " + "[" * 10_000_000, '{"a": 1' + "0" * 10_000_000])
def test_what_is_too_deep_or_too_long_takes_no_time(tmp_path: Path, text: str) -> None:
    """Ten megabytes of brackets or digits: less than what a dump of that size takes."""
    path, began = dump(tmp_path, text), time.process_time()
    with pytest.raises(InputError, match=r"nested too deeply|digits"):
        Dump.read(path)
    assert time.process_time() - began < 3
