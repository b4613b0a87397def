"""What is remembered between templates must never show: a hash is always that of the printed text."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from benchmarks.mixes import MIXES, distinct
from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber
from migrator.hashing import podcliqueset, remembered, schemes
from migrator.hashing.fnv import MASK, OFFSET, PRIME, Fixed, Piece, clean, encode, fold, plain
from migrator.hashing.podcliqueset import SetHasher, TemplateHasher, dump_template
from tests.oracle.golden import vectors

STATES = (OFFSET, 0, 1, 0x7F, 0x80, 0xFF, 2**64 - 1)
TEXTS = ("", "a", " Name:(string)", "x" * 300, "\x7f\x00")
WIDE = ("é", "\u2028 wide ☃ text", "\ud800")


def feed(state: int, data: bytes) -> int:
    """FNV-1a as it is defined, byte by byte."""
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return state


def hash_template(template: Mapping[str, Any], scheme: schemes.Scheme) -> str:
    """The hash by a new hasher."""
    return TemplateHasher(template).under(scheme)


def _forget() -> None:
    remembered._GENERATIONS[:] = {}, {}


def _alone(template: Mapping[str, Any], scheme: schemes.Scheme) -> str:
    """The hash of the text, byte by byte, with nothing remembered."""
    _forget()
    return encode(feed(OFFSET, dump_template(template, scheme).encode()))


def _outcome(compute: Any, template: Mapping[str, Any], scheme: schemes.Scheme) -> str:
    try:
        return str(compute(template, scheme))
    except DecodeError as error:
        return f"{error.path}: {error.message}"


def _takes_every_state(piece: Fixed) -> None:
    data = piece.text.encode()
    for low in random.Random(7).sample(range(256), 256):  # noqa: S311 - nothing here is a secret
        for state in (low, *(state & ~0xFF | low for state in STATES)):
            assert fold(state, [piece]) == feed(state, data)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_takes_every_state_where_its_bytes_do(text: str) -> None:
    """Before and after its table is whole, a text gives the sums that its bytes give one by one."""
    _takes_every_state(Fixed(text))


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:3], ("ab", "cd"), ()])
def test_joined_pieces_take_every_state_where_their_bytes_do(texts: tuple[str, ...]) -> None:
    """A sequence of pieces as one gives the sums of its bytes, whatever its pieces are."""
    parts = [Fixed(text) for text in texts]
    _takes_every_state(Fixed(Fixed(*parts), *parts, *texts))


@pytest.mark.parametrize("text", [*TEXTS, *WIDE])
def test_a_text_that_nothing_is_known_of_is_hashed_by_its_bytes(text: str) -> None:
    """Plain text, of any script, takes every state where its UTF-8 does; a lone surrogate is U+FFFD."""
    for state in STATES:
        assert fold(state, [Fixed("a"), text]) == feed(feed(state, b"a"), clean(text).encode())


@pytest.mark.parametrize("name", MIXES)
def test_templates_of_every_mix_hash_as_printed(name: str) -> None:
    """Templates that are much alike, and such as share little, hash as their texts do, met before or not."""
    make, _ = MIXES[name]
    templates = [make(number) for number in (0, 1, 50, 100, 150)]
    scheme = schemes.by_name("canonical-1.35")
    expected = [_alone(template, scheme) for template in templates]
    _forget()
    for _ in range(3):
        assert [hash_template(template, scheme) for template in templates] == expected


def _siblings(value: Any, rng: random.Random) -> Any:
    """The same template with other labels, annotations, images, arguments and values of variables here and there."""
    value = copy.deepcopy(value)
    words = ("", "a", "b-1", "b-2", "registry.example/x:1.2", "é-1", "é☃-2", "\ud800-3", "long " * 20, "\x000\x00")
    spots: list[tuple[Any, Any]] = []
    for key in ("labels", "annotations"):
        if isinstance(value.get(key), dict):
            spots += [(value[key], name) for name in value[key]]
    pod_spec = value.get("podSpec")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for item in (pod_spec.get(kind) if isinstance(pod_spec, dict) else None) or ():
            if isinstance(item, dict):
                spots += [(item, "image")]
                spots += [(item["args"], number) for number in range(len(item.get("args") or ()))]
                spots += [(each, "value") for each in item.get("env") or () if isinstance(each, dict)]
    for holder, key in spots:
        if rng.random() < 0.5:
            holder[key] = rng.choice(words)
    return value


@pytest.mark.parametrize("part", range(4))
def test_siblings_of_golden_templates_hash_as_printed(part: int) -> None:
    """Golden templates with other texts in the places where templates differ hash as printed, met before or not."""
    rng = random.Random(part)  # noqa: S311 - nothing here is a secret
    taken = [vector for vector in vectors.read(vectors.TEMPLATES) if vector.hashes["legacy-1.35"]][part::40]
    first, second = schemes.by_name("legacy-1.33"), schemes.by_name("canonical-1.36")
    assert len(taken) > 40
    for vector in taken:
        for template in [_siblings(vector.input, rng) for _ in range(5)]:
            for scheme in (first, second):
                alone = _outcome(_alone, template, scheme)
                assert [_outcome(hash_template, template, scheme) for _ in range(3)] == [alone] * 3, vector.id


ALIKE: tuple[Any, ...] = (
    *(None, "", "0", "1", "1.0", "true", 0, 1, 8, True, False),
    *(JSONNumber("1.0"), JSONNumber("1e0"), JSONNumber("-0")),
    *([], {}, [None], ["1"], [1], {"a": "1"}, {"a": 1}, {"a": None}),
    *([{}], [{"name": "a"}], [{"value": "1", "name": "a"}]),
    *([{"name": "a", "value": value}] for value in ("", None, "1", 1)),
)


def _places() -> Iterator[tuple[str, ...]]:
    container = ("name", "image", "args", "env", "ports", "stdin", "resources", "unknown")
    yield from (("podSpec", "containers", "0", name) for name in container)
    yield from (("podSpec", "containers", "0", "env", "0", name) for name in ("name", "value", "valueFrom"))
    yield ("podSpec", "containers", "0", "ports", "0", "containerPort")
    yield ("podSpec", "containers", "0", "livenessProbe", "httpGet", "port")
    yield ("podSpec", "containers", "0", "resources", "limits", "cpu")
    pod_spec = ("containers", "volumes", "hostNetwork", "priority", "nodeSelector", "priorityClassName", "unknown")
    yield from (("podSpec", name) for name in pod_spec)
    yield from (("labels",), ("annotations",), ("labels", "a"), ("podSpec",), ("priorityClassName",))


def _with(path: tuple[str, ...], value: Any) -> Any:
    for step in reversed(path):
        value = [value] if step == "0" else {step: value}
    return value


@pytest.mark.parametrize("path", tuple(_places()), ids=".".join)
def test_values_that_look_alike_are_never_confused(path: tuple[str, ...]) -> None:
    """1, 1.0, True and "1", nil and empty, a number and its spellings: each is hashed or refused as if alone."""
    scheme = schemes.by_name("canonical-1.35")
    rng = random.Random(str(path))  # noqa: S311 - nothing here is a secret
    alone = [_outcome(_alone, _with(path, value), scheme) for value in ALIKE]
    for _ in range(6):
        for number in rng.sample(range(len(ALIKE)), len(ALIKE)):
            assert _outcome(hash_template, _with(path, ALIKE[number]), scheme) == alone[number], ALIKE[number]
            assert _outcome(hash_template, _with(path, ALIKE[number]), scheme) == alone[number], ALIKE[number]


def test_a_refused_template_is_refused_again_with_its_path() -> None:
    """Siblings of a template that Go would not decode are refused at the same place, however well they are known."""
    scheme = schemes.by_name("legacy-1.35")
    for number in range(6):
        container = {"image": f"image:{number}", "ports": [{"containerPort": "80"}]}
        with pytest.raises(DecodeError) as refused:
            hash_template({"podSpec": {"containers": [container]}}, scheme)
        assert refused.value.path == "podSpec.containers[0].ports[0].containerPort"


def test_what_is_nested_very_deep_is_printed() -> None:
    """A field that no layout knows may be nested deeper than Python compares; it is ignored, as always."""
    scheme = schemes.by_name("legacy-1.35")
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    template = {"podSpec": {"unknown": deep}}
    assert {hash_template(template, scheme) for _ in range(4)} == {hash_template({"podSpec": {}}, scheme)}


def test_memory_is_bounded_and_forgetting_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for next to nothing everything is forgotten again and again, and hashes stay what they are."""
    monkeypatch.setattr(remembered, "_CONTENTS", 40)
    scheme = schemes.by_name("legacy-1.33")
    templates = [distinct(number) for number in range(4)]
    expected = [_alone(template, scheme) for template in templates]
    for _ in range(3):
        for template, hashed in zip(templates, expected, strict=True):
            assert hash_template(template, scheme) == hashed
            assert [len(met) <= 41 for met in remembered._GENERATIONS] == [True, True]


def test_what_is_met_again_stays_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A content is one piece from the third time on, and is not forgotten while it is met in every generation."""
    scheme = schemes.by_name("legacy-1.35")
    template = {"podSpec": {"tolerations": [{"key": "a", "operator": "Exists"}]}}

    def pieces() -> list[Piece]:
        return [piece for piece in TemplateHasher(template).pieces(scheme) if "Exists" in plain([piece])]

    _forget()
    assert [type(piece) for piece in pieces()] == [str]
    pieces()
    (joined,) = pieces()
    assert isinstance(joined, Fixed)
    monkeypatch.setattr(remembered, "_CONTENTS", 40)
    for number in range(200):
        hash_template({"podSpec": {"hostAliases": [{"ip": f"10.0.0.{number}"}]}}, scheme)
        if number % 20 == 0:
            assert pieces() == [joined]


def test_schemes_share_work_and_nothing_else() -> None:
    """One hasher gives under every scheme, in any order and twice, what a new one gives."""
    sets = [vector for vector in vectors.read(vectors.POD_CLIQUE_SETS) if None not in vector.hashes.values()][::4]
    rng = random.Random(3)  # noqa: S311 - nothing here is a secret
    for vector in sets:
        hasher = SetHasher(vector.input)
        for name in [*rng.sample(vectors.SCHEMES, len(vectors.SCHEMES)), vectors.SCHEMES[0]]:
            found = hasher.under(schemes.by_name(name))
            assert found == podcliqueset.hash_pod_clique_set(vector.input, schemes.by_name(name)), vector.id
            assert found.generation_hash == vector.hashes[name]["generationHash"], vector.id
    assert len(sets) > 20
