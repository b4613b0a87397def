"""YAML means what it means to kubectl: the expectations are what Go's ``sigs.k8s.io/yaml`` 1.6 answered."""

from __future__ import annotations

import pytest

from migrator import jsonvalue, yamlvalue

#: What stands after ``v: ``, and the JSON that Go makes of it; ``None`` where Go refuses.
SCALARS = (
    ("y", "true"),
    ("Y", "true"),
    ("yes", "true"),
    ("Yes", "true"),
    ("YES", "true"),
    ("n", "false"),
    ("N", "false"),
    ("no", "false"),
    ("No", "false"),
    ("NO", "false"),
    ("off", "false"),
    ("Off", "false"),
    ("OFF", "false"),
    ("on", "true"),
    ("On", "true"),
    ("ON", "true"),
    ("true", "true"),
    ("True", "true"),
    ("TRUE", "true"),
    ("tRue", '"tRue"'),
    ("false", "false"),
    ("False", "false"),
    ("FALSE", "false"),
    ("fALSE", '"fALSE"'),
    ("null", "null"),
    ("Null", "null"),
    ("NULL", "null"),
    ("nULL", '"nULL"'),
    ("~", "null"),
    (".inf", None),
    ("-.Inf", None),
    ("+.INF", None),
    (".NaN", None),
    ("+", '"+"'),
    (".", '"."'),
    ("..", '".."'),
    ("0", "0"),
    ("00", "0"),
    ("08", "8"),
    ("010", "8"),
    ("-010", "-8"),
    ("0o17", "15"),
    ("0O17", "15"),
    ("0x1f", "31"),
    ("0X1F", "31"),
    ("-0x1F", "-31"),
    ("+0x1", "1"),
    ("0b101", "5"),
    ("-0b11", "-3"),
    ("0B1", "1"),
    ("0b2", '"0b2"'),
    ("1_000", "1000"),
    ("_1", '"_1"'),
    ("1__0", "10"),
    ("0_1", "1"),
    ("1e3", "1000"),
    ("1E3", "1000"),
    ("1e+3", "1000"),
    ("1.e3", "1000"),
    (".5", "0.5"),
    (".5e3", "500"),
    ("5.", "5"),
    ("-.5", "-0.5"),
    ("+.5", "0.5"),
    ("+5", "5"),
    ("-0", "0"),
    ("-0.0", "-0"),
    ("0.0", "0"),
    ("1.0", "1"),
    ("1.50", "1.5"),
    ("1e999", '"1e999"'),
    ("1e-999", "0"),
    ("9223372036854775807", "9223372036854775807"),
    ("9223372036854775808", "9223372036854775808"),
    ("-9223372036854775808", "-9223372036854775808"),
    ("-9223372036854775809", "-9223372036854776000"),
    ("18446744073709551615", "18446744073709551615"),
    ("18446744073709551616", "18446744073709552000"),
    ("+9223372036854775808", "9223372036854776000"),
    ("0xffffffffffffffff", "18446744073709551615"),
    ("0x10000000000000000", '"0x10000000000000000"'),
    ("1:30", '"1:30"'),
    ("190:20:30", '"190:20:30"'),
    ("2001-01-01", '"2001-01-01"'),
    ("2001-01-01T00:00:00Z", '"2001-01-01T00:00:00Z"'),
    ("1e20", "100000000000000000000"),
    ("1e21", "1e+21"),
    ("123456789012345678901234", "1.2345678901234569e+23"),
    ("1e-6", "0.000001"),
    ("1e-7", "1e-7"),
    ("0.000001234", "0.000001234"),
    ("1.5e300", "1.5e+300"),
    ("3.0", "3"),
    ("1_0.5", "10.5"),
    ("=", '"="'),
    ("0.1", "0.1"),
    ("1000000.5", "1000000.5"),
    ("0o8", '"0o8"'),
    ("0x", '"0x"'),
    ("0b", '"0b"'),
    ("-_1", "-1"),
    ("1e", '"1e"'),
    ("1e+", '"1e+"'),
    ("e3", '"e3"'),
    ("1.2.3", '"1.2.3"'),
    ("4e5", "400000"),
    ("9d", '"9d"'),
    ("4567", "4567"),
    ("5bc9dcdcf4d5866b5f54", '"5bc9dcdcf4d5866b5f54"'),
    ("0099", "99"),
    ("1_", "1"),
    ("._5", '"._5"'),
    (".3_26", "0.326"),
    ("1.0e+2", "100"),
    (".e3", '".e3"'),
    ("-.5e-7", "-5e-8"),
    ('""', '""'),
    ("''", '""'),
    ('"1"', '"1"'),
    ("'true'", '"true"'),
    ("!!str 1", '"1"'),
    ('!!int "12"', "12"),
    ("!!float 3", "3"),
    ('!!float "1e3"', "1000"),
    ('!!bool "yes"', "true"),
    ('!!null ""', "null"),
    ("!!int x", None),
    ("!!binary aGVsbG8=", '"hello"'),
    ("!custom 1", '"1"'),
    ("! 1", '"1"'),
    ("", "null"),
    ('"a\\u00e9\\U0001F600"', '"aé😀"'),
    ("|\n  a\n  b\n", '"a\\nb\\n"'),
    (">-\n  a\n  b\n", '"a b"'),
    ("# nothing", "null"),
)
#: Keys, and what they are in JSON.
KEYS = (
    ("yes", "true"),
    ("1", "1"),
    ("1.5", "1.5"),
    ("0x10", "16"),
    ("010", "8"),
    ("true", "true"),
    ("~", None),
    ("2001-01-01", "2001-01-01"),
    ("'1'", "1"),
    ("!!int 7", "7"),
)
#: Whole documents.
DOCUMENTS = (
    ("x: &a {b: 1, c: 2}\ny:\n  <<: *a\n  c: 3\n", '{"true":{"b":1,"c":3},"x":{"b":1,"c":2}}'),
    ("x: &a {b: 1}\ny: &c {b: 2, d: 4}\nz:\n  <<: [*a, *c]\n", '{"true":{"b":2,"d":4},"x":{"b":1},"z":{"b":1,"d":4}}'),
    ("x: &a [1, {b: *a}]\n", None),
    ("x: *nowhere\n", None),
    ("x: &a {b: [1, 2]}\ny: *a\n", '{"true":{"b":[1,2]},"x":{"b":[1,2]}}'),
    ("<<: 1\n", None),
    ("a:\n- b\n- c: d\n  e: f\n-\n  - g\n", '{"a":["b",{"c":"d","e":"f"},["g"]]}'),
    ('{a: [1, b, ~], "c": {d: yes}}', '{"a":[1,"b",null],"c":{"d":true}}'),
    ("[a, b]", '["a","b"]'),
    ("a: b: c", None),
    ("a:\n\t- b", None),
    ("key: [unclosed", None),
    ("? [a]\n: b", None),
    ("- &k yes\n- *k\n", "[true,true]"),
    ("&k on: *k\n", '{"true":true}'),
)


def read(text: str) -> str | None:
    """The JSON of the only document, keys sorted as Go sorts them; ``None`` where it is refused."""
    try:
        (value,) = yamlvalue.documents(text)
    except yamlvalue.YAMLValueError:
        return None
    return jsonvalue.dumps(value, sort_keys=True)


@pytest.mark.parametrize(("text", "expected"), SCALARS)
def test_scalars(text: str, expected: str | None) -> None:
    """A scalar is the string, number or boolean that it is to Go, in Go's spelling."""
    assert read(f"v: {text}") == (None if expected is None else f'{{"v":{expected}}}')


@pytest.mark.parametrize(("text", "expected"), KEYS)
def test_keys(text: str, expected: str | None) -> None:
    """Keys become strings as Go makes them."""
    assert read(f"{text}: v") == (None if expected is None else f'{{"{expected}":"v"}}')


@pytest.mark.parametrize(("text", "expected"), DOCUMENTS)
def test_documents(text: str, expected: str | None) -> None:
    """Anchors, merges, nesting and mistakes are read as Go reads them."""
    assert read(text) == expected


def test_a_key_twice_is_refused() -> None:
    """Go takes the last of two equal keys; which one was meant is not ours to guess."""
    with pytest.raises(yamlvalue.YAMLValueError, match="line 2"):
        list(yamlvalue.documents("a: 1\na: 2\n"))


def test_a_stream_of_documents() -> None:
    """Documents come one after the other, empty ones as null, a marker of the end included."""
    assert list(yamlvalue.documents("---\na: 1\n---\n---\nb: 2\n...\n")) == [{"a": 1}, None, {"b": 2}]


def test_mistakes_name_the_line() -> None:
    """Whoever has to repair a file is told where."""
    with pytest.raises(yamlvalue.YAMLValueError, match="line 3"):
        list(yamlvalue.documents("a: 1\nb: 2\nc: d: e\n"))


def test_deep_nesting_is_no_crash() -> None:
    """A file may nest deeper than Python recurses."""
    depth = 2000
    (value,) = yamlvalue.documents("[" * depth + "]" * depth)
    for _ in range(depth - 1):
        (value,) = value
    assert value == []
