"""A hash is always that of the printed text, byte by byte, however often its parts were met."""

from __future__ import annotations

import random
from typing import Any

import pytest

from benchmarks.mixes import MIXES
from migrator.errors import DecodeError
from migrator.hashing import podcliqueset, schemes
from migrator.hashing.fnv import MASK, OFFSET, PRIME, Fixed, clean, encode, fold
from migrator.hashing.podcliqueset import SetHasher, TemplateHasher, dump_template
from tests.golden.compare import UNKNOWABLE, set_hashes
from tests.golden.vectors import vectors

STATES = (OFFSET, 0, 1, 0x7F, 0x80, 0xFF, MASK)


def feed(state: int, data: bytes) -> int:
    """FNV-1a as it is defined, byte by byte."""
    for byte in data:
        state = (state ^ byte) * PRIME & MASK
    return state


@pytest.mark.parametrize("text", ["", "a", " Name:(string)", "x" * 300, "\x7f\x00"])
def test_a_text_that_recurs_takes_every_state_where_its_bytes_do(text: str) -> None:
    """The sums that are kept for each of the low seven bits are those of the bytes."""
    piece = Fixed(text)
    for low in range(256):
        for state in (low, *(state & ~0xFF | low for state in STATES)):
            assert fold(state, [piece]) == feed(state, text.encode())


@pytest.mark.parametrize("text", ["", "a", "é", "\u2028 wide ☃ text", "\ud800"])
def test_any_other_text_is_hashed_by_its_bytes(text: str) -> None:
    """Text of any script takes every state where its UTF-8 does; a lone surrogate is U+FFFD."""
    for state in STATES:
        assert fold(state, [Fixed("a"), text]) == feed(feed(state, b"a"), clean(text).encode())


@pytest.mark.parametrize("name", MIXES)
def test_templates_hash_as_printed(name: str) -> None:
    """Templates that are much alike, and such as share little, hash as their texts do, met before or not."""
    make, _ = MIXES[name]
    scheme = schemes.by_name("canonical-1.35")
    for template in [make(number) for number in (0, 1, 50, 100, 0)]:
        text = dump_template(template, scheme)
        assert TemplateHasher(template).under(scheme) == encode(feed(OFFSET, text.encode()))


def test_a_refused_template_is_refused_again_with_its_path() -> None:
    """Siblings of a template that Go would not decode are refused at the same place."""
    scheme = schemes.by_name("legacy-1.35")
    for number in range(3):
        container = {"image": f"image:{number}", "ports": [{"containerPort": "80"}]}
        with pytest.raises(DecodeError) as refused:
            TemplateHasher({"podSpec": {"containers": [container]}}).under(scheme)
        assert refused.value.path == "podSpec.containers[0].ports[0].containerPort"


def test_what_is_nested_very_deep_is_ignored_if_no_layout_knows_it() -> None:
    """A field that no layout knows may be nested deeper than Python recurses."""
    scheme = schemes.by_name("legacy-1.35")
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    hashes = {TemplateHasher({"podSpec": spec}).under(scheme) for spec in ({"unknown": deep}, {})}
    assert len(hashes) == 1


def test_schemes_share_work_and_nothing_else() -> None:
    """One hasher gives under every scheme, in any order and twice, what a new one gives."""
    known = (vector for vector in vectors.read(vectors.POD_CLIQUE_SETS) if None not in vector.hashes.values())
    sets = [vector for vector in known if set_hashes(vector.input, vectors.SCHEMES[0]) != UNKNOWABLE][::4]
    rng = random.Random(3)  # noqa: S311 - nothing here is a secret
    for vector in sets:
        hasher = SetHasher(vector.input)
        for name in [*rng.sample(vectors.SCHEMES, len(vectors.SCHEMES)), vectors.SCHEMES[0]]:
            found = hasher.under(schemes.by_name(name))
            assert found == podcliqueset.hash_pod_clique_set(vector.input, schemes.by_name(name)), vector.id
            assert found.generation_hash == vector.hashes[name]["generationHash"], vector.id
    assert len(sets) > 20
