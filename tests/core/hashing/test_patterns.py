"""What is remembered between templates must never show: a hash is always that of the printed text."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.templates import mix
from migrator.errors import DecodeError
from migrator.exact_json import JSONNumber
from migrator.hashing import podcliqueset, schemes
from migrator.hashing.fnv import Chunk, Joined, Text, feed, fold
from migrator.hashing.memory import MEMORY, Memory
from migrator.hashing.patterns import Fits, Gap, Patterns
from migrator.hashing.podcliqueset import SetHasher, TemplateHasher, dump_template, hash_template, hash_text
from tests.oracle.golden import vectors

STATES = (0xCBF29CE484222325, 0, 1, 0x7F, 0x80, 0xFF, 2**64 - 1)
TEXTS = ("", "a", " Name:(string)", "x" * 300, "é", "\u2028 wide ☃ text", "\ud800", "\x7f\x00")


def _printed(template: Mapping[str, Any], scheme: schemes.Scheme) -> str:
    """The hash of the text, byte by byte: nothing but the text is remembered for it."""
    return hash_text(dump_template(template, scheme))


def _outcome(compute: Any, template: Mapping[str, Any], scheme: schemes.Scheme) -> str:
    try:
        return str(compute(template, scheme))
    except DecodeError as error:
        return f"{error.path}: {error.message}"


@pytest.mark.parametrize("text", TEXTS)
def test_a_chunk_takes_every_state_where_its_bytes_do(text: str) -> None:
    """Before and after its table is whole, a text gives the sums that its bytes give one by one."""
    chunk = Text(text)
    for low in range(256):
        for state in (low, *(state & ~0xFF | low for state in STATES)):
            assert chunk.step(state) == feed(state, chunk.data)
    assert chunk.hot


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:4], ("ab", "cd"), ("é", "a", "☃"), ()])
def test_joined_chunks_take_every_state_where_their_bytes_do(texts: tuple[str, ...]) -> None:
    """A sequence of chunks as one gives the sums of its bytes, whichever of them knows how much of its table."""
    rng = random.Random(7)  # noqa: S311 - nothing here is a secret
    parts = [Text(text) for text in texts]
    for part in parts:
        fold(0, [part] * rng.randrange(2))
    chunk = Joined([Joined(parts), *parts])
    lows = rng.sample(range(256), 256)
    for low in lows:
        assert chunk.step(low | 0xABCDEF00) == feed(low | 0xABCDEF00, chunk.data)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(alphabet="ab-1.é", max_size=8), min_size=2, max_size=6))
def test_a_gap_fits_all_that_it_was_widened_by(values: list[str]) -> None:
    """However often a gap is widened, every string that it has met still fits, and is put together again."""
    gap = Gap(values[0])
    for value in values[1:]:
        gap = gap.widened(value)
    for value in values:
        assert gap.widened(value) == gap
        if gap.after is None:
            assert value == gap.before
        else:
            assert Fits(gap.before, gap.after) == value
            assert gap.before + value[len(gap.before) : len(value) - len(gap.after)] + gap.after == value


def test_what_fits_must_begin_and_end_without_overlap() -> None:
    """A string shorter than what must be around the gap does not fit, though it begins and ends alike."""
    assert Fits("a-", "-b") == "a--b"
    assert Fits("a-", "-b") != "a-b"
    assert Fits("", "") != 1


def test_templates_of_one_pattern_hash_as_printed() -> None:
    """Templates that differ as those of a cluster do are recognised, and hash as their texts under all schemes."""
    patterns = Patterns()
    recognised = 0
    for template in mix(20, start=5000):
        recognised += patterns.recognise(template) is not None
        hasher = TemplateHasher(template)
        for scheme in schemes.all_schemes():
            assert hasher.under(scheme) == _printed(template, scheme)
    assert recognised > 15


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
    """Golden templates with other texts in the places where templates differ hash as printed, patterns or not."""
    rng = random.Random(part)  # noqa: S311 - nothing here is a secret
    taken = [vector for vector in vectors.read(vectors.TEMPLATES) if vector.hashes["legacy-1.35"]][part::40]
    first, second = schemes.by_name("legacy-1.33"), schemes.by_name("canonical-1.36")
    assert len(taken) > 40
    for vector in taken:
        for template in [_siblings(vector.input, rng) for _ in range(5)]:
            hasher = TemplateHasher(template)
            assert hasher.under(first) == _printed(template, first), vector.id
            assert hasher.under(second) == _printed(template, second), vector.id


ALIKE: tuple[Any, ...] = (
    None,
    "",
    "0",
    "1",
    "1.0",
    "true",
    0,
    1,
    8,
    True,
    False,
    JSONNumber("1.0"),
    JSONNumber("1e0"),
    JSONNumber("-0"),
    [],
    {},
    [None],
    ["1"],
    [1],
    {"a": "1"},
    {"a": 1},
    {"a": None},
    [{}],
    [{"name": "a"}],
    [{"name": "a", "value": ""}],
    [{"name": "a", "value": None}],
    [{"name": "a", "value": "1"}],
    [{"name": "a", "value": 1}],
    [{"value": "1", "name": "a"}],
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
    alone = {}
    for number, value in enumerate(ALIKE):
        alone[number] = _outcome(_printed, _with(path, value), scheme)
    for _ in range(6):
        for number in rng.sample(range(len(ALIKE)), len(ALIKE)):
            assert _outcome(hash_template, _with(path, ALIKE[number]), scheme) == alone[number], ALIKE[number]
            assert _outcome(hash_template, _with(path, ALIKE[number]), scheme) == alone[number], ALIKE[number]


def test_a_value_that_is_a_placeholder_is_hashed_as_itself() -> None:
    """A template may hold the very text that a pattern puts into its gaps."""
    scheme = schemes.by_name("legacy-1.34")
    for seen in itertools.product(("\x000\x00", "x", "y"), repeat=3):
        template = {"labels": dict(zip("abc", seen, strict=True)), "podSpec": {"hostname": "\x000\x00"}}
        assert hash_template(template, scheme) == _printed(template, scheme), seen


def test_a_refused_template_is_refused_again_with_its_path() -> None:
    """Siblings of a template that Go would not decode are refused at the same place, however well they are known."""
    scheme = schemes.by_name("legacy-1.35")
    for number in range(6):
        container = {"image": f"image:{number}", "ports": [{"containerPort": "80"}]}
        with pytest.raises(DecodeError) as refused:
            hash_template({"podSpec": {"containers": [container]}}, scheme)
        assert refused.value.path == "podSpec.containers[0].ports[0].containerPort"


def test_the_order_of_keys_does_not_hide_a_pattern() -> None:
    """A template whose keys come in another order fits, and has the same hash."""
    patterns = Patterns()
    for number in range(4):
        patterns.recognise({"labels": {"a": f"x-{number}", "b": "1"}, "podSpec": {}})
    template = {"labels": {"b": "1", "a": "x-9"}, "podSpec": {}}
    assert patterns.recognise(template) is not None
    scheme = schemes.by_name("legacy-1.35")
    assert hash_template(template, scheme) == _printed(template, scheme)


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
    monkeypatch.setattr(MEMORY, "_budget", 300_000)
    scheme = schemes.by_name("legacy-1.33")
    held = []
    for template in mix(60, start=9000):
        assert hash_template(template, scheme) == _printed(template, scheme)
        held.append(MEMORY._spent + Chunk.hot_ones * 12_000)
    assert max(held) < 600_000
    assert any(later < earlier for earlier, later in itertools.pairwise(held))


def test_only_what_recurs_is_remembered() -> None:
    """A text is kept from the second time on that it is met; one that is met once leaves no more than a mark."""
    memory = Memory()
    once, twice = [memory.text(f"once {number}") for number in range(1000)], memory.text("twice")
    for number in range(1000):
        memory.text(f"in between {number}")
    again = memory.text("twice")
    assert again is not twice
    assert memory.text("twice") is again
    assert memory.text("once 0") is not once[0]


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
