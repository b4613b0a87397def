"""A dump in every form that kubectl prints, and as a cluster: what can be read in it, and what it cannot have."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from migrator import dump as file_of_objects
from migrator import kubectl_json
from migrator.dump import Dump
from migrator.errors import NotFound
from migrator.exact_json import JSONNumber
from migrator.kinds import LEASES, POD_CLIQUE_SETS, POD_CLIQUES, POD_GANG_MAPS, POD_GANGS, PODS
from tests.store.dump.dumps import LIST, OBJECTS, PCS, POD, SERVICE, as_yaml, dump, read
from tests.support.memory_objects import CONFIG_MAPS

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


def documents(path: str) -> list[Any]:
    """Every object of a file, as ``hash`` reads it."""
    return list(file_of_objects.objects(path, lenient=True))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(tmp_path: Path, form: str, encoding: str) -> None:
    """The same objects, whatever the form; PowerShell's > writes UTF-16."""
    content = FORMS[form]() if encoding == "utf-8" else FORMS[form]().removeprefix("\ufeff")
    path = dump(tmp_path, content.encode(encoding))
    assert documents(path) == OBJECTS
    store = Dump.read(path)
    assert [store.list(kind, dict) for kind in (POD_CLIQUE_SETS, PODS)] == [(PCS,), (POD,)]


@pytest.mark.parametrize("content", [as_yaml(LIST).encode(), json.dumps(LIST).encode()])
def test_standard_input(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is stdin, in bytes."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert Dump.read("-").list(PODS, dict) == (POD,)


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("form", [form for form in FORMS if form.startswith("json")])
def test_json_is_the_same_in_pieces(tmp_path: Path, form: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece may end anywhere: within a number, an escape or a word. Numbers keep their spelling, which Go hashes."""
    monkeypatch.setattr(kubectl_json, "_CHUNK", size)
    odd = '"odd": [12.50e1, "\\u00e4\\n", true, null], "generation"'
    text = FORMS[form]().replace('"generation"', odd)
    (found,) = (item for item in documents(dump(tmp_path, text)) if item["kind"] == "PodCliqueSet")
    assert found["metadata"]["odd"] == [JSONNumber("12.50e1"), "\u00e4\n", True, None]


@pytest.mark.parametrize("form", [json.dumps, as_yaml], ids=["json", "yaml"])
def test_items_have_the_kind_of_their_list(tmp_path: Path, form: Callable[[Any], str]) -> None:
    """`kubectl get --raw` prints a PodList whose items have none of their own; its kind may come last, or be within."""
    bare = {key: value for key, value in POD.items() if key not in {"kind", "apiVersion"}}
    pods = {"items": [bare, SERVICE], "apiVersion": "v1", "kind": "PodList"}
    for value in (pods, {"apiVersion": "v1", "kind": "List", "items": [pods]}):
        found = documents(dump(tmp_path, form(value)))
        assert sorted(found, key=lambda item: str(item["kind"])) == [POD, SERVICE]


@pytest.mark.parametrize(
    "text", ["apiVersion: v1\nitems: []\nkind: List\n", '{"apiVersion":"v1","kind":"List","items":null}']
)
def test_an_empty_list_is_a_dump_of_nothing(tmp_path: Path, text: str) -> None:
    """An empty List is what kubectl prints where there is nothing: no objects, and no error."""
    store = read(tmp_path, text)
    for resource in (POD_CLIQUE_SETS, POD_CLIQUES, PODS, POD_GANG_MAPS, POD_GANGS):
        assert store.list(resource, dict) == ()


def test_reading_what_is_there(tmp_path: Path) -> None:
    """Namespace and labels, the kinds of a group, and what a dump cannot have."""
    other = {**PCS, "metadata": {"name": "other", "uid": "u3", "labels": {"app": "batch"}}}
    store = read(tmp_path, "\n".join(map(json.dumps, [*OBJECTS, other])))

    def name(item: dict[str, Any]) -> str:
        return str(item["metadata"]["name"])

    assert store.list(POD_CLIQUE_SETS, name) == ("demo", "other")
    assert store.list(POD_CLIQUE_SETS, name, namespace="default") == ("other",)
    assert store.list(POD_CLIQUE_SETS, name, label_selector="app") == ("demo", "other")
    assert store.list(PODS, name, label_selector="grove.io/pod-template-hash", metadata_only=True) == ("p",)
    assert store.kinds("grove.io") == (POD_CLIQUE_SETS,)
    assert store.short_names("grove.io") == {}
    assert not store.is_cluster
    for absent in (
        lambda: store.list(LEASES, name),
        lambda: store.get(PODS, "a", "p"),
        lambda: store.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}),
        lambda: store.patch(PODS, "a", "p", ()),
    ):
        with pytest.raises(NotFound):
            absent()


@pytest.mark.parametrize("labels", [["app"], {"app": 1}, "app", 5, None])
def test_labels_of_the_wrong_shape_are_for_the_reader(tmp_path: Path, labels: Any) -> None:
    """A file may hold anything: what is listed is checked by its reader, and listing does not fail."""
    store = read(tmp_path, json.dumps({**PCS, "metadata": {**PCS["metadata"], "labels": labels}}))
    assert store.list(POD_CLIQUE_SETS, len, label_selector="missing") == ()
    assert len(store.list(POD_CLIQUE_SETS, len)) == 1
