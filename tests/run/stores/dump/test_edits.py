"""Any string of any document can be changed in place, however its text is cut into pieces."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from functools import partial
from typing import Any
from unittest.mock import patch

import jsonpatch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.resources import pointer
from migrator.stores.dump import file as dumpfile
from migrator.stores.dump import json_text, yaml_text
from migrator.stores.dump.file import DumpFile
from migrator.stores.json_stream import Stream


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


def values_of(text: str, *, as_json: bool, size: int = 7) -> list[Any]:
    """The values of a text, which comes in pieces of so many characters."""
    if not as_json:
        return list(yaml_text.documents(text))
    stream = Stream((text[at : at + size] for at in range(0, len(text), size)), json_text.decode)
    return [stream.value()[0] for _ in stream.documents()]


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
        operation = {"op": "replace", "path": pointer(*path), "value": new}
        expected[number] = jsonpatch.apply_patch(expected[number], [operation])
    for style, text in texts.items():
        file = DumpFile("file", partial(io.BytesIO, text.encode("utf-8", "surrogatepass")))
        news = defaultdict[Any, list[Any]](list)
        for (number, path), new in changes.items():
            news[number, ()].append((path, new))
        with patch.object(dumpfile, "_CHUNK", 7):
            edited = "".join(file.edited(news))
        assert values_of(edited, as_json=file.is_json) == expected, style


def test_a_string_in_a_list_named_items_can_be_changed_in_place() -> None:
    """An object that is not a List may have such a list too, of whatever."""
    file = DumpFile("file", partial(io.BytesIO, b'{"items": ["a", {"b": ["c"]}], "d": "e"}'))
    news = [(("items", 0), "bcd"), (("items", 1, "b", 0), "567"), (("d",), "no")]
    assert "".join(file.edited({(0, ()): news})) == '{"items": ["bcd", {"b": ["567"]}], "d": "no"}'


def test_a_value_is_read_to_its_end() -> None:
    """Wherever a text is cut, a value that could go on is read on, and what lies behind is passed over."""
    text = '{"a": 12345, "items": [{"b": "xyz"}], "c": true} 678 "nine" [null]'
    values = [{"a": 12345, "items": [{"b": "xyz"}], "c": True}, 678, "nine", [None]]
    for size in range(1, 9):
        assert values_of(text, as_json=True, size=size) == values
