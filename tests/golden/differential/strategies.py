"""Hypothesis strategies for pod specs as JSON text, walked from the newest layout, so that failures shrink."""

from __future__ import annotations

import json
from functools import cache

from hypothesis import strategies as st

from testbed.oracle import NEWEST
from tests.support.layout_walk import custom, fields, types, underlying

Text = st.SearchStrategy[str]

MAX_FIELDS = 4

# Exponents stay small: for 1e-99999999 Go computes a number of a hundred million digits.
_NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)
_QUANTITIES = st.from_regex(
    r"[+-]?[0-9]{0,20}(\.[0-9]{0,12})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2}|[a-zA-Z])?", fullmatch=True
)
_STRINGS = st.text(st.characters(), max_size=6).map(json.dumps)
_CUSTOM: dict[str, Text] = {
    "resource.Quantity": st.one_of(_QUANTITIES.map(json.dumps), _NUMBERS),
    "intstr.IntOrString": st.one_of(st.integers(-3, 70000).map(str), _STRINGS, _NUMBERS),
    "v1.Time": st.just('"2024-05-06T07:08:09Z"'),
    "v1.FieldsV1": st.just('{"f:a":{}}'),
}
_SCALARS: dict[str, Text] = {
    "string": _STRINGS,
    "bool": st.sampled_from(["true", "false"]),
    "int32": st.one_of(st.integers(-(2**31), 2**31 - 1).map(str), _NUMBERS),
    "int64": st.one_of(st.integers(-(2**63), 2**63 - 1).map(str), _NUMBERS),
}


def templates() -> Text:
    """Return template inputs: labels, annotations, priority class, and a pod spec of a few fields."""
    return st.fixed_dictionaries(
        {"podSpec": _value("v1.PodSpec")},
        optional={
            "labels": _value("map[string]string"),
            "annotations": _value("map[string]string"),
            "priorityClassName": _value("string"),
        },
    ).map(_object)


@cache
def _value(go_type: str) -> Text:
    """Return JSON texts for a Go type, null among them."""
    return st.one_of(st.just("null"), st.deferred(lambda: _present(go_type.removeprefix("*"))))


@cache
def _present(go_type: str) -> Text:
    if go_type in custom(NEWEST):
        return _CUSTOM[go_type]
    basic = underlying(NEWEST, go_type)
    if basic.startswith("[]"):
        return st.lists(_value(basic[2:]), max_size=3).map(lambda elements: f"[{','.join(elements)}]")
    if basic.startswith("map["):
        keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
        return st.dictionaries(keys, _value(basic.partition("]")[2]), max_size=3).map(_object)
    if basic in types(NEWEST):
        return _struct(basic)
    return _SCALARS[basic]


def _struct(go_type: str) -> Text:
    """Choose a few fields first: each of forty with even odds would be too much to shrink."""
    known = dict(fields(NEWEST, go_type))
    names = st.lists(st.sampled_from(sorted(known)), max_size=MAX_FIELDS, unique=True)
    chosen = names.flatmap(lambda some: st.fixed_dictionaries({name: _value(known[name]) for name in some}))
    return chosen.map(_object)


def _object(members: dict[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(key)}:{value}" for key, value in members.items()) + "}"
