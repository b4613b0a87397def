"""YAML means what it means to kubectl: every expectation was read off sigs.k8s.io/yaml v1.6.0."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator import exact_json
from migrator.exact_json import JSONNumber
from migrator.stores.dump import yaml_text

TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def read(text: str) -> Any:
    """The value of the only document."""
    (value,) = yaml_text.documents(text)
    return value


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        # booleans and nulls of YAML 1.1
        *((word, True) for word in ("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y")),
        *((word, False) for word in ("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N")),
        *((word, None) for word in ("", "~", "null", "Null", "NULL")),
        *((word, word) for word in ("tRue", "yES", "nULL", "None")),
        # integers
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("017", 15),
        ("0o17", 15),
        ("-0x1F", -31),
        ("0b101", 5),
        ("1_000", 1000),
        ("1_", 1),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0xFFFFFFFFFFFFFFFFF", "0xFFFFFFFFFFFFFFFFF"),
        # a scalar that is not an integer may still be a float, and floats print as Go prints them
        ("08", 8),
        ("18446744073709551616", 18446744073709552000),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.50", JSONNumber("1.5")),
        (".5", JSONNumber("0.5")),
        ("-.5", JSONNumber("-0.5")),
        (".6_1", JSONNumber("0.61")),
        ("5.", 5),
        ("-0.0", JSONNumber("-0")),
        ("1e20", 100000000000000000000),
        ("1e21", JSONNumber("1e+21")),
        ("0.000001", JSONNumber("0.000001")),
        ("1.5e-7", JSONNumber("1.5e-7")),
        ("1e-10", JSONNumber("1e-10")),
        # strings all the same
        *((word, word) for word in ("1e400", "1:30", "190:20:30", "2020-01-01", "2020-01-01T00:00:00Z", "0b2", "0o")),
        *((word, word) for word in ("1.2.3", "._5", "1e", "0x", "-x", "+", ".", "10Gi", "100m", "=", "infinity")),
        # tags and quotes
        ("'5'", "5"),
        ('"yes"', "yes"),
        ("!!str 5", "5"),
        ("! 5", "5"),
        ("|\n  a\n  b\n", "a\nb\n"),
        (">-\n  a\n  b\n", "a b"),
    ],
)
def test_scalars(scalar: str, value: Any) -> None:
    """A scalar has the value, and the spelling, that kubectl's JSON would have."""
    found = read(f"a: {scalar}\n")["a"]
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1: a\n", {"1": "a"}),
        ("0x10: a\n", {"16": "a"}),
        ("yes: a\nn: b\n", {"true": "a", "false": "b"}),
        ("1.5: a\n", {"1.5": "a"}),
        ("2020-01-01: a\n", {"2020-01-01": "a"}),
        ("'n': a\n", {"n": "a"}),
        ("a: &k b\n*k : c\n", {"a": "b", "b": "c"}),
        ("a: &x {b: 1}\nc: [*x, *x]\n", {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}),
        ("a: &x {b: 1}\nc: {<<: *x, d: 2}\n", {"a": {"b": 1}, "c": {"b": 1, "d": 2}}),
        ("a: &x {b: 1}\nc: {<<: *x, b: 2}\n", {"a": {"b": 1}, "c": {"b": 2}}),
        ("<<: [{a: 1}, {a: 2, b: 2}]\n", {"a": 1, "b": 2}),
        ("'<<': {a: 1}\n", {"<<": {"a": 1}}),
        ("- - a\n  - b\n- {}\n- []\n", [["a", "b"], {}, []]),
    ],
)
def test_structures(text: str, value: Any) -> None:
    """Keys become strings, aliases are followed, and merged keys do not win over those that are there."""
    assert read(text) == value


#: Nine lines for a billion values.
BOMB = "a0: [x]\na1: &a1 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(2, 10)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "line 3: key 'a' is set twice"),
        ("a: .inf\n", "line 1: infinity and NaN"),
        ("a: -.Inf\n", "line 1: infinity and NaN"),
        ("a: .nan\n", "line 1: infinity and NaN"),
        ("a: !!int '5'\n", "line 1: tags other than !!str are not read"),
        ("a: !foo bar\n", "line 1: tags other than !!str are not read"),
        ("a: *b\n", "line 1: this alias has no anchor"),
        ("a: &b [*b]\n", "line 1: this alias has no anchor, or is within its own"),
        (BOMB, "line 6: aliases stand for more than 100000 values"),
        ("<<: 5\n", "line 1: `<<` needs a mapping"),
        ("~: a\n", "line 1: a key is neither"),
        ("? [a]\n: b\n", "line 1: a key is neither"),
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
        list(yaml_text.documents(text))


def test_documents_come_one_after_the_other() -> None:
    """Several documents, empty ones among them, and anchors that do not leak from one to the next."""
    assert list(yaml_text.documents("a: &x 1\n---\n---\nb: 2\n...\n")) == [{"a": 1}, None, {"b": 2}]
    with pytest.raises(ValueError, match="no anchor"):
        list(yaml_text.documents("a: &x 1\n---\nb: *x\n"))


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_json_is_yaml(value: Any) -> None:
    """Any JSON text means the same when it is read as the YAML that it also is."""
    text = json.dumps(value, ensure_ascii=False)
    assert list(yaml_text.documents(text)) == [exact_json.loads(text)]
