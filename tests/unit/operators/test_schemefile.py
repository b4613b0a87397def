"""scheme.json: what is written is read again, and nothing else is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from migrator.errors import InputError
from migrator.hashing import layouts, schemes
from migrator.hashing.layouts import Layout
from migrator.operators import schemefile
from tests.support.operator_files import changed_layout, described


@pytest.mark.parametrize("layout", [None, changed_layout()], ids=["shipped", "new"])
@pytest.mark.parametrize("algorithm", ["legacy", "canonical"])
def test_what_is_written_is_read_again(layout: Layout | None, algorithm: str) -> None:
    """Every part of an operator survives the file."""
    found = described(layout, algorithm=algorithm)
    text = schemefile.encode(found)
    assert schemefile.decode(text.encode()) == found
    assert json.loads(text)["formatVersion"] == 1


def test_a_new_layout_is_named_by_its_digest() -> None:
    """A layout that is not shipped has a name made of its digest, and is hashed under it once it is adopted."""
    found = described(changed_layout())
    assert found.scheme.name == f"legacy-x{layouts.digest(found.layout)[7:19]}"
    assert layouts.adopt(found.layout) == found.scheme.minor
    assert schemes.by_name(found.scheme.name) == found.scheme
    assert layouts.load(found.scheme.minor) == found.layout
    assert described().scheme.name == "legacy-1.35"


def _set(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (_set("formatVersion", value=2), "has format 2, and format 1 can be read"),
        (_set("layoutDigest", value="sha256:0"), "another digest"),
        (_set("layout", "v1.PodSpec", value=[["A", "a", "string"]]), "another digest"),
        (_set("layout", "v1.PodSpec", value=[["A", 1, "string"]]), "not a layout"),
        (_set("layout", value=[]), "not a layout"),
        (_set("scheme", value="legacy-1.34"), "names the scheme legacy-1.34"),
        (_set("algorithm", value="canonical"), "its algorithm is canonical"),
        (_set("algorithm", value="newest"), "its algorithm is newest"),
        (_set("flags", "acceptsLegacy", value=True), "its algorithm is legacy, and acceptsLegacy is true"),
        (_set("flags", "new", value=True), "its flags are"),
        (_set("flags", "podGangMaps", value="no"), "its flags are"),
        (_set("labels", value={"go": 1}), "1 is not text"),
        (_set("labels", value=[]), "not a scheme"),
        (_set("warnings", value=[{}]), "is not text"),
        (lambda document: document.pop("recognisedBy"), "recognisedBy"),
        (lambda document: document.clear(), "formatVersion"),
    ],
)
def test_a_file_that_contradicts_itself_is_refused(change: Callable[[dict[str, Any]], Any], refusal: str) -> None:
    """Whatever does not agree with the rest of the file, or is not known, refuses."""
    document = json.loads(schemefile.encode(described()))
    change(document)
    with pytest.raises(InputError, match=refusal):
        schemefile.decode(json.dumps(document).encode())


NESTED = b'{"formatVersion": ' + b"[" * 200_000


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", pytest.param(NESTED, id="nested without end")])
def test_what_is_not_such_a_file_is_refused(text: bytes) -> None:
    """Other JSON and other bytes are refused."""
    with pytest.raises(InputError, match="this is not a scheme"):
        schemefile.decode(text)
