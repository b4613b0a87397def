"""A file stands for a cluster: read in every form that kubectl prints, written with nothing else changed."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import stat
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.errors import InputError, NotFound, OutputError
from migrator.errors import TestFailed as FailedTest
from migrator.exact_json import JSONNumber
from migrator.resources import CONFIG_MAPS, LEASES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANG_MAPS, POD_GANGS, PODS, Op
from migrator.store import DryRun
from migrator.stores.dump import file as dumpfile
from migrator.stores.dump import json_text, yaml_text
from migrator.stores.dump.file import Changes, DumpFile
from migrator.stores.dump.store import DumpStore, read_documents
from migrator.stores.json_stream import Stream

LABEL = "/metadata/labels/grove.io~1pod-template-hash"
PCS = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "demo", "namespace": "a", "uid": "u1", "generation": 3, "labels": {"app": "web"}},
    "spec": {"template": {"cliques": [{"name": "worker", "text": "abc5 naïve \U0001f600 <&>"}]}},
    "status": {"currentGenerationHash": "abc5"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a", "uid": "u2", "labels": {"grove.io/pod-template-hash": "5678"}},
    "spec": {},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
OBJECTS = [PCS, SERVICE, POD]
LIST = {"apiVersion": "v1", "items": OBJECTS, "kind": "List", "metadata": {"resourceVersion": ""}}


def as_yaml(value: Any) -> str:
    """Block style, as kubectl prints it."""
    return yaml.safe_dump(value, allow_unicode=True)


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


def dump(tmp_path: Path, text: str | bytes, name: str = "dump") -> str:
    """A file with that content, byte for byte."""
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def swap(path: str, old: str, new: str) -> tuple[Op, Op]:
    """A compare-and-swap."""
    return Op("test", path, old), Op("replace", path, new)


def regenerate(store: DumpStore, old: str = "abc5", new: str = "def6") -> None:
    """Change the hash in the set's status."""
    store.patch(POD_CLIQUE_SETS, "a", "demo", swap("/status/currentGenerationHash", old, new), subresource="status")


def relabel(store: DumpStore, old: str = "5678", new: str = "bcd") -> None:
    """Change the hash in the pod's label."""
    store.patch(PODS, "a", "p", swap(LABEL, old, new))


def migrate(store: DumpStore) -> None:
    """Change one hash in a status and one in a label; the new label looks like a number."""
    regenerate(store)
    relabel(store, new="8765")


def test_every_form_holds_the_same_objects(tmp_path: Path, form: str) -> None:
    """List or documents, YAML or JSON, with or without a byte order mark: the same objects in the same order."""
    store = DumpStore.read(dump(tmp_path, form))
    assert store.list(POD_CLIQUE_SETS, dict).items == (PCS,)
    assert store.list(PODS, dict).items == (POD,)
    assert list(read_documents(dump(tmp_path, form))) == OBJECTS


@pytest.mark.parametrize("zipped", [False, True])
def test_an_unchanged_dump_is_written_byte_for_byte(tmp_path: Path, form: str, *, zipped: bool) -> None:
    """Nothing planned, nothing changed; gzip stays gzip."""
    data = gzip.compress(form.encode(), mtime=0) if zipped else form.encode()
    store = DumpStore.read(dump(tmp_path, data))
    store.write(str(tmp_path / "out"))
    written = (tmp_path / "out").read_bytes()
    assert (gzip.decompress(written) if zipped else written) == form.encode()
    assert written.startswith(b"\x1f\x8b") is zipped


def test_only_the_planned_values_change(tmp_path: Path, form: str) -> None:
    """Everything around the two values stays as it was, spelling and order included."""
    store = DumpStore.read(dump(tmp_path, form))
    migrate(store)
    store.write(str(tmp_path / "out"))
    written = (tmp_path / "out").read_bytes().decode()
    before, after = form.splitlines(), written.splitlines()
    assert len(before) == len(after)
    again = DumpStore.read(str(tmp_path / "out"))
    pcs, pod = copy.deepcopy(PCS), copy.deepcopy(POD)
    pcs["status"]["currentGenerationHash"] = "def6"  # type: ignore[index]
    pod["metadata"]["labels"]["grove.io/pod-template-hash"] = "8765"  # type: ignore[index]
    assert again.list(POD_CLIQUE_SETS, dict).items == (pcs,)
    assert again.list(PODS, dict).items == (pod,)
    expected = form.replace("Hash: abc5", "Hash: def6").replace('Hash": "abc5"', 'Hash": "def6"')
    expected = expected.replace('Hash":"abc5"', 'Hash":"def6"').replace('"5678"', '"8765"').replace("'5678'", '"8765"')
    assert written == expected


def test_writing_twice_and_back_gives_the_original(tmp_path: Path, form: str) -> None:
    """A revert of a migrated dump is the dump, up to how YAML quotes a value."""
    store = DumpStore.read(dump(tmp_path, form))
    migrate(store)
    store.write(str(tmp_path / "out"))
    back = DumpStore.read(str(tmp_path / "out"))
    regenerate(back, "def6", "abc5")
    relabel(back, "8765", "5678")
    back.write(str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes().decode() == form.replace("'5678'", '"5678"')


def test_numbers_keep_their_spelling(tmp_path: Path) -> None:
    """In JSON, 1e3, 1.0, 0.10 and -0 are read as they were spelt and written so."""
    text = json.dumps(PCS).replace('"generation": 3', '"generation": 3, "n": [1e3, 1.0, 0.10, -0, 1E+2]')
    store = DumpStore.read(dump(tmp_path, text))
    (found,) = store.list(POD_CLIQUE_SETS, lambda item: item["metadata"]["n"]).items
    assert found == [JSONNumber(spelt) for spelt in ("1e3", "1.0", "0.10", "-0", "1E+2")]
    regenerate(store)
    store.write(str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == text.replace(
        '"currentGenerationHash": "abc5"', '"currentGenerationHash": "def6"'
    )


def test_json_lines_end_at_newlines_only(tmp_path: Path) -> None:
    """A line separator of Unicode, or a next-line character, is part of a string, not the end of a line."""
    odd = {**SERVICE, "note": "a\u2028b\u2029c\x85d"}
    path = dump(tmp_path, "".join(json.dumps(item, ensure_ascii=False) + "\n" for item in (odd, odd)))
    assert list(read_documents(path)) == [odd, odd]


def test_standard_input_and_output(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is stdin and stdout, in bytes."""

    class Stream:
        def __init__(self, data: bytes = b"") -> None:
            self.buffer = io.BytesIO(data)

    monkeypatch.setattr(sys, "stdin", Stream(form.encode()))
    out = Stream()
    monkeypatch.setattr(sys, "stdout", out)
    DumpStore.read("-").write("-")
    assert out.buffer.getvalue() == form.encode()


def test_lists_within_lists_and_typed_lists(tmp_path: Path) -> None:
    """What `kubectl get --raw` prints is a PodList whose items have no kind of their own."""
    bare = {key: value for key, value in POD.items() if key not in {"kind", "apiVersion"}}
    nested = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [{"apiVersion": "v1", "kind": "PodList", "items": [bare]}, PCS],
    }
    found = [item["kind"] for item in read_documents(dump(tmp_path, json.dumps(nested)))]
    assert sorted(found) == ["Pod", "PodCliqueSet"]
    store = DumpStore.read(dump(tmp_path, as_yaml(nested)))
    relabel(store)
    store.write(str(tmp_path / "out"))
    assert (tmp_path / "out").read_text() == as_yaml(nested).replace("'5678'", "bcd")


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nitems: []\nkind: List\n", '{"apiVersion":"v1","kind":"List","items":null}']
)
def test_an_empty_list_is_a_dump_of_nothing(tmp_path: Path, text: str) -> None:
    """An empty List is what kubectl prints where there is nothing: no objects, and no error."""
    store = DumpStore.read(dump(tmp_path, text))
    for resource in (POD_CLIQUE_SETS, POD_CLIQUES, PODS, POD_GANG_MAPS, POD_GANGS):
        assert store.list(resource, dict).items == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
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


def test_reading_what_is_there(tmp_path: Path) -> None:
    """Namespace and label selectors, one object by name, and what a dump cannot have."""
    other = {**PCS, "metadata": {"name": "other", "uid": "u3", "labels": {"app": "batch"}}}
    store = DumpStore.read(dump(tmp_path, "\n".join(map(json.dumps, [*OBJECTS, other]))))

    def name(item: dict[str, Any]) -> str:
        return str(item["metadata"]["name"])

    assert store.list(POD_CLIQUE_SETS, name).items == ("demo", "other")
    assert store.list(POD_CLIQUE_SETS, name, namespace="default").items == ("other",)
    assert store.list(POD_CLIQUE_SETS, name, label_selector="app in (web)").items == ("demo",)
    assert store.list(PODS, name, label_selector="app!=web", metadata_only=True).items == ("p",)
    assert store.get(POD_CLIQUE_SETS, "a", "demo") == PCS
    assert not store.is_cluster
    for absent in (
        lambda: store.get(PODS, "a", "q"),
        lambda: store.get(PODS, "b", "p"),
        lambda: store.get(LEASES, "a", "l"),
        lambda: store.get(CONFIG_MAPS, "a", "c"),
        lambda: store.list(LEASES, name),
        lambda: store.get(PODS, "a", "p", subresource="scale"),
        lambda: store.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}),
        lambda: store.delete(PODS, "a", "p", "u2"),
    ):
        with pytest.raises(NotFound):
            absent()


def test_a_failed_test_changes_nothing(tmp_path: Path) -> None:
    """The patch is refused as a whole, in memory too."""
    store = DumpStore.read(dump(tmp_path, json.dumps(POD)))
    with pytest.raises(FailedTest):
        store.patch(PODS, "a", "p", [*swap(LABEL, "5678", "bcd"), Op("test", "/metadata/uid", "other")])
    assert store.get(PODS, "a", "p") == POD


@pytest.mark.parametrize("mode", [DryRun.CLIENT, DryRun.SERVER])
def test_a_dry_run_changes_nothing(tmp_path: Path, mode: DryRun) -> None:
    """Neither kind of dry run touches an object; the one that stands for the server's still tests."""
    store = DumpStore.read(dump(tmp_path, json.dumps(POD)))
    dry = store.in_dry_run(mode)
    dry.patch(PODS, "a", "p", swap(LABEL, "5678", "bcd"))
    assert dry.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}) == {"metadata": {"name": "c"}}
    dry.delete(PODS, "a", "p", "u2")
    assert store.get(PODS, "a", "p") == POD
    assert (dry.dry_run, store.dry_run) == (mode, DryRun.NONE)
    if mode is DryRun.SERVER:
        with pytest.raises(FailedTest):
            dry.patch(PODS, "a", "p", swap(LABEL, "wrong", "bcd"))


@pytest.mark.parametrize(
    "text",
    [
        as_yaml(POD).replace("'5678'", "&x '5678'"),
        as_yaml(POD).replace("'5678'", "!!str 5678"),
        as_yaml(POD).replace("'5678'", "|-\n        5678"),
        as_yaml(POD)
        .replace("hash: '5678'", "hash: *x")
        .replace("  labels:", "  annotations: {x: &x '5678'}\n  labels:"),
    ],
)
def test_what_cannot_be_changed_in_place_is_not_written(tmp_path: Path, text: str) -> None:
    """A value that is shared, tagged or a block is refused rather than guessed at, and OUT stays as it was."""
    store = DumpStore.read(dump(tmp_path, text))
    relabel(store)
    out = tmp_path / "out"
    out.write_text("before")
    with pytest.raises(OutputError, match="cannot be changed in place"):
        store.write(str(out))
    assert out.read_text() == "before"


@pytest.mark.parametrize(
    "op", [Op("replace", "/metadata/labels/new", "x"), Op("replace", "/spec", 5), Op("replace", LABEL, None)]
)
def test_only_strings_are_replaced(tmp_path: Path, op: Op) -> None:
    """A change that no plan makes cannot be written to a file."""
    store = DumpStore.read(dump(tmp_path, json.dumps(POD)))
    store.patch(PODS, "a", "p", [op])
    with pytest.raises(OutputError, match="only strings can be replaced"):
        store.write(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_existing_file_is_replaced_with_its_permissions(tmp_path: Path) -> None:
    """The name leads to the new content, links are followed, permissions stay, and nothing is left beside it."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    DumpStore.read(dump(tmp_path, json.dumps(POD))).write(str(link))
    assert link.is_symlink()
    assert json.loads(real.read_text()) == POD
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump", "link", "real"]


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    """Not those of a temporary file."""
    mask = os.umask(0o027)
    try:
        DumpStore.read(dump(tmp_path, json.dumps(POD))).write(str(tmp_path / "out"))
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_input_and_output_may_be_the_same_file(tmp_path: Path) -> None:
    """In place, atomically."""
    path = dump(tmp_path, as_yaml(POD))
    store = DumpStore.read(path)
    relabel(store)
    store.write(path)
    assert Path(path).read_text() == as_yaml(POD).replace("'5678'", "bcd")


@pytest.mark.parametrize("place", ["missing/out", "dump/out", "."])
def test_a_place_that_cannot_be_written_to(tmp_path: Path, place: str) -> None:
    """No such directory, or a directory itself: one sentence, and exit code 1."""
    store = DumpStore.read(dump(tmp_path, json.dumps(POD)))
    with pytest.raises(OutputError, match="cannot write to") as caught:
        store.write(str(tmp_path / place))
    assert caught.value.exit_code == 1


def test_a_failure_on_the_way_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk in the middle of the write: OUT is what it was, and nothing is left beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out"
    out.write_text("before")
    store = DumpStore.read(dump(tmp_path, json.dumps(POD)))
    monkeypatch.setattr(dumpfile.os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        store.write(str(out))
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump", "out"]


def test_a_device_is_written_to_as_it_is(tmp_path: Path) -> None:
    """A pipe cannot be replaced by a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    DumpStore.read(dump(tmp_path, json.dumps(POD))).write(str(pipe))
    assert json.loads(os.read(reader, 65536)) == POD
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def keeps_its_value(text: str) -> bool:
    """Whether PyYAML's idea of what must be quoted, YAML 1.1 without ``y``, is enough for this string."""
    return list(yaml_text.documents(yaml.safe_dump([text], allow_unicode=True))) == [[text]]


TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=9).filter(keeps_its_value)
TREES = st.recursive(
    TEXTS | st.integers(-(2**31), 2**31) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


def strings(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all strings in a value."""
    if isinstance(value, str):
        return [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in strings(item, (*path, key))]


def with_value(value: Any, path: tuple[str | int, ...], new: str) -> Any:
    """The value with another string at a path."""
    if not path:
        return new
    changed = copy.copy(value)
    changed[path[0]] = with_value(value[path[0]], path[1:], new)
    return changed


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(TEXTS, TREES, min_size=1, max_size=4), min_size=1, max_size=3), st.data())
def test_any_string_can_be_changed_in_place(documents: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever surrounds it: the edited text reads as the same documents with that one string changed."""
    texts = {
        "json": "\n".join(json.dumps(document, indent=2) for document in documents),
        "compact": "".join(json.dumps(document, ensure_ascii=False) for document in documents),
        "block": "---\n".join(yaml.safe_dump(document, allow_unicode=True) for document in documents),
        "flow": "# c\n" + "\n---\n".join(json.dumps(document, ensure_ascii=False) for document in documents),
    }
    places = [(number, path) for number, document in enumerate(documents) for path in strings(document)]
    if not places:
        return
    chosen = data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=3, unique=True))
    changes = {place: data.draw(st.sampled_from(["bcd", "567", "no"])) for place in chosen}
    expected = list(documents)
    for (number, path), new in changes.items():
        expected[number] = with_value(expected[number], path, new)
    for style, text in texts.items():
        file = DumpFile("file", partial(io.BytesIO, text.encode("utf-8", "surrogatepass")))
        numbers = {number for number, _ in changes}
        news: Changes = {
            (n, ()): [(path, new) for (number, path), new in changes.items() if number == n] for n in numbers
        }
        edited = "".join(file.edited(news))
        assert values_of(edited, as_json=file.is_json) == expected, style


def values_of(text: str, *, as_json: bool, size: int = 7) -> list[Any]:
    """The values of a text, which comes in pieces of so many characters."""
    if not as_json:
        return list(yaml_text.documents(text))
    stream = Stream((text[at : at + size] for at in range(0, len(text), size)), json_text.decode)
    return [stream.value()[0] for _ in stream.documents()]


def test_items_of_a_list_whose_kind_comes_last(tmp_path: Path) -> None:
    """Items that leave their kind to their List wait for it; those that have one do not."""
    bare = [{"metadata": {"name": name, "uid": name}} for name in "ab"]
    text = json.dumps({"items": bare, "apiVersion": "v1", "kind": "PodList"})
    found = DumpStore.read(dump(tmp_path, text)).list(PODS, lambda item: item["metadata"]["name"])
    assert found.items == ("a", "b")
    text = json.dumps({"items": OBJECTS, "apiVersion": "v1", "kind": "List"})
    assert list(read_documents(dump(tmp_path, text))) == OBJECTS


def test_a_file_that_changes_while_it_is_read_is_not_written(tmp_path: Path) -> None:
    """It is read again to be written, and places in another text mean nothing."""
    path = dump(tmp_path, json.dumps(POD))
    store = DumpStore.read(path)
    relabel(store)
    Path(path).write_text(json.dumps({**POD, "more": 1}), encoding="utf-8")
    with pytest.raises(OutputError, match="changed while it was read"):
        store.write(str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_value_is_read_to_its_end() -> None:
    """Wherever a text is cut, a value that could go on is read on, and what lies behind is passed over."""
    text = '{"a": 12345, "items": [{"b": "xyz"}], "c": true} 678 "nine" [null]'
    for size in range(1, 9):
        assert values_of(text, as_json=True, size=size) == [
            {"a": 12345, "items": [{"b": "xyz"}], "c": True},
            678,
            "nine",
            [None],
        ]


def test_what_nothing_looks_at_is_not_kept(tmp_path: Path) -> None:
    """Of a pod the containers are left out, of a PodClique all of the pod spec but hashes; what is written is whole."""
    spec = {"containers": [{"image": "x" * 10_000, "name": "55fbb579647fbb4475c4"}]}
    clique = {
        **PCS,
        "kind": "PodClique",
        "metadata": {"name": "c", "uid": "c"},
        "spec": {"podSpec": spec, "replicas": 2},
    }
    pod = {**POD, "spec": spec, "status": {"phase": "Running", "podIP": "::1"}}
    text = json.dumps(clique) + json.dumps(pod)
    store = DumpStore.read(dump(tmp_path, text))
    assert store.list(PODS, dict).items == ({**POD, "status": {"phase": "Running"}},)
    (kept,) = store.list(POD_CLIQUES, dict).items
    assert kept["spec"] == {"podSpec": {"containers": {"0": {"name": "55fbb579647fbb4475c4"}}}, "replicas": 2}
    relabel(store)
    store.write(str(tmp_path / "out"))
    assert (tmp_path / "out").read_text(encoding="utf-8") == text.replace('"5678"', '"bcd"')
