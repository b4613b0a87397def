"""YAML means what it means to kubectl, or is refused: every value was read off sigs.k8s.io/yaml v1.6.0."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator import exact_json, kubectl_yaml

#: ASCII, in which YAML has all that means something, and letters of two, three and four bytes.
TEXTS = st.text("".join(map(chr, range(32, 127))) + "\u00a0\u00e4\u6a21\U0001f600", max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def read(text: str) -> Any:
    """The value of the only document."""
    ((value, _),) = kubectl_yaml.documents(io.BytesIO(text.encode()))
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # booleans and nulls of YAML 1.1
        *((word, True) for word in ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y")),
        *((word, False) for word in ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("tRue", "yES", "nULL", "None")),
        ("0", 0),
        ("-0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        # no plain integers
        ("+5", 5.0),
        ("0644", 644.0),
        ("18446744073709551616", 18446744073709551616.0),
        ("1e3", 1000.0),
        ("1.0", 1.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-0.0", -0.0),
        ("1.5e-7", 1.5e-7),
        # strings all the same
        *(
            (word, word)
            for word in (
                "1e400",
                "9" * 400,
                "0x" + "F" * 17,
                "-0x8000000000000001",
                "-0b1" + "0" * 62 + "1",
                "0o2" + "0" * 21,
                "1_0e400",
                "+.i_nf",
                "1:30",
                "190:20:30",
                "2020-01-01",
                "2020-01-01T00:00:00Z",
                "0b2",
                "0o",
            )
        ),
        *((word, word) for word in ("1.2.3", "1e", "0x", "-x", "+", ".", "10Gi", "100m", "=", "infinity")),
        # tags and quotes
        ("'5'", "5"),
        ('"yes"', "yes"),
        ("!!str 5", "5"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
        # keys are strings, and an alias is what it refers to
        ("{'n': a, \"1\": b}", {"n": "a", "1": "b"}),
        ("{'<<': a}", {"<<": "a"}),  # in quotes it merges nothing (go.yaml.in/yaml/v2 decode.go:isMerge)
        ("[&x {b: 1}, &y c, *x, *x]", [{"b": 1}, "c", {"b": 1}, {"b": 1}]),
        ("\n- - a\n  - b\n- {}\n- []\n", [["a", "b"], {}, []]),
    ],
)
def test_a_value_is_what_kubectl_would_print(text: str, value: Any) -> None:
    """It has the value, and a number the spelling, that kubectl's JSON would have."""
    found = read(f"a: {text}\n")["a"]
    assert type(found) is type(value)
    assert found == value


#: Nine lines for a billion values.
BOMB = "a0: [x]\na1: &a1 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(2, 10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: key 'a' is set twice"),
        *((f"a: {odd}\n", "line 1: a number is not spelt as kubectl prints it") for odd in (".inf", "-.Inf", ".nan")),
        *(
            (f"a: {odd}\n", "line 1: a number is not spelt as")
            for odd in ("0x1F", "-0b101", "0o17", "1_000", "1_0.5", ".5_0", "-0x8000000000000000", "0o1" + "7" * 21)
        ),
        ("a: !!int '5'\n", "line 1: tags other than !!str are not read"),
        ("a: [!, 5]\n", "line 1: tags other than !!str are not read"),
        ("a: !foo bar\n", "line 1: tags other than !!str are not read"),
        ("a: !foo {}\n", "line 1: tags other than !!str are not read"),
        ("a: *b\n", "line 1: this alias has no anchor"),
        ("a: &b [*b]\n", "line 1: this alias has no anchor, or is within its own"),
        ("a: &b c\n---\na: *b\n", "line 3: this alias has no anchor"),
        (BOMB, "line 6: aliases stand for more than 100,000 values"),
        *(
            (f"{key}: a\n", "line 1: a key is not a string")
            for key in ("1", "yes", "~", "[a]", "[]", "{}", "<<", "1.5", "? [b]\n")
        ),
        ("a: [1,\n", "line 2:"),
        ("a: b: c\n", "line 1: mapping values are not allowed"),
        ("\ta: b\n", "line 1: found character"),
        ("a: @b\n", "line 1: found character"),
        (b"a: \xff\n", "byte 3: invalid leading UTF-8 octet"),
        (b"a: b\nc: \x07\n", "byte 8: control characters are not allowed"),
    ],
)
def test_what_is_refused(text: str | bytes, message: str) -> None:
    """Text that is not YAML, that has no JSON form, or could expand without end, is refused with its line."""
    with pytest.raises(ValueError, match=re.escape(message)):
        list(kubectl_yaml.documents(io.BytesIO(text.encode() if isinstance(text, str) else text)))


def test_documents_come_one_after_the_other() -> None:
    """Several documents, empty ones among them."""
    found = kubectl_yaml.documents(io.BytesIO(b"a: &x 1\n---\n---\nb: 2\n...\n"))
    assert list(found) == [({"a": 1}, "document 1"), (None, "document 2"), ({"b": 2}, "document 3")]


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    """Any JSON text means the same when it is read as the YAML that it also is."""
    text = json.dumps({"value": value}, ensure_ascii=False)
    assert read(text) == exact_json.loads(text)
