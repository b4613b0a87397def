"""Templates of a known pattern: hashed without being printed.

The printers of :mod:`migrator.hashing.spew` say what is printed, and are what this must equal; here is only a way not
to run them again. The templates of a cluster are much alike: some labels, images, arguments and values of
environment variables differ, and in those often a part only. The *shape* of a template is what is left without all
such values. From two templates of one shape a *pattern* is made: what both have, with a gap wherever they differ.
Whatever fits the pattern has a known dump, with the gaps' texts in known places; so the dump between two gaps is one
chunk, and all that is left to do is to compare, and to hash chunks and texts in turn.

What a pattern's dump is, the printers say: of a template with a placeholder in each gap. A template of known shape
that does not fit widens the pattern.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from migrator.errors import DecodeError
from migrator.hashing.fnv import MASK, PRIME, Chunk, Joined, utf8
from migrator.hashing.memory import MEMORY, Memory
from migrator.hashing.schemes import Scheme

#: What a template is made of, in the order of a shape's parts.
PARTS: Final = ("labels", "annotations", "podSpec", "priorityClassName")

#: Labels and annotations are printed before the spec, and alike in all layouts.
_METADATA: Final = (0, 1)

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")

#: How many patterns are tried before the shape is looked up.
_TRIED: Final = 8

#: A gap's text of at most that many characters is hashed byte by byte; a longer one may recur.
_SHORT: Final = 32

#: What a pattern is guessed to take, in bytes: for each string that may be a gap, and for the rest.
_PER_VALUE: Final = 1 << 10
_PER_SHAPE: Final = 32 << 10

# The version without references: equal values have equal bytes, whoever else holds them.
_MARSHAL_VERSION: Final = 2

#: Each chunk, and the number of the gap after it.
Gaps: TypeAlias = tuple[tuple[Chunk, int], ...]
Path: TypeAlias = tuple[str | int, ...]
Printing: TypeAlias = Callable[[Mapping[str, Any], Scheme], Sequence[Chunk]]


class Open:
    """Stands in a shape for a string that may be a gap; ``path`` is where, from the parts."""

    __slots__ = ("path",)

    def __init__(self, path: Path) -> None:
        self.path = path


class Gap(NamedTuple):
    """What all strings at one place have in common: what is before and after the gap, or all (no ``after``)."""

    before: str
    after: str | None = None

    def widened(self, value: str) -> Gap:
        """The gap that this string fits too."""
        if self.after is None and value == self.before:
            return self
        if self.after is not None and Fits(self.before, self.after) == value:
            return self
        before = _words_alike(self.before, value)
        rest = self.before[len(before) :] if self.after is None else self.after
        return Gap(before, _words_alike(rest[::-1], value[len(before) :][::-1])[::-1])


class Fits:
    """Equals every string that begins and ends alike."""

    __slots__ = ("_after", "_before", "_least")

    def __init__(self, before: str, after: str) -> None:
        self._before = before
        self._after = after
        self._least = len(before) + len(after)

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is str
            and len(other) >= self._least
            and other.startswith(self._before)
            and other.endswith(self._after)
        )

    def __hash__(self) -> int:
        raise TypeError("it equals strings that differ")


class Exactly:
    """Equals its value and nothing of another type: to Python 1, 1.0 and True are equal."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self._value) and other == self._value

    def __hash__(self) -> int:
        return hash((type(self._value), self._value))


class Steps(NamedTuple):
    """How to hash what fits: what schemes may share of it, and the chunk at the end."""

    metadata: Gaps
    spec: Gaps
    end: Chunk


def _through(gaps: Gaps, state: int, texts: Sequence[bytes | Chunk]) -> int:
    """The sum after the last of these gaps, when it was ``state`` before the first chunk."""
    for chunk, number in gaps:
        low = state & chunk.mask
        value = chunk.table.get(low)
        if value is None:
            value = chunk.fill(low)
        state = ((state ^ low) * chunk.power + value) & MASK
        text = texts[number]
        if isinstance(text, bytes):
            for byte in text:
                state = (state ^ byte) * PRIME & MASK
        else:
            state = text.step(state)
    return state


class _Place(NamedTuple):
    """An open gap of a pattern: where it is, what is around it, and what stands there in the example."""

    path: Path
    before: str
    after: str
    placeholder: str


class Pattern:
    """What templates of one shape have in common, and how to hash those that have it."""

    def __init__(self, shape: Any, gaps: Sequence[Gap]) -> None:  # noqa: ANN401 - a template without some values
        self._shape = shape
        self._gaps = gaps
        self._places: list[_Place] = []
        remaining = iter(gaps)

        def example(opened: Open) -> str:
            gap = next(remaining)
            if gap.after is None:
                return gap.before
            placeholder = f"{gap.before}\0{len(self._places)}\0{gap.after}"
            self._places.append(_Place(opened.path, gap.before, gap.after, placeholder))
            return placeholder

        self._example: Mapping[str, Any] = dict(zip(PARTS, _filled(shape, example, lambda item: item), strict=True))
        remaining = iter(gaps)
        self._common = tuple(_filled(shape, lambda _: _matching(next(remaining)), _exactly))
        self._steps: dict[Scheme, Steps | None] = {}
        self._shared: dict[Gaps, Gaps] = {}

    def widened(self, values: Sequence[str]) -> Pattern:
        """The pattern that a template of the same shape with these values fits too."""
        return Pattern(self._shape, [gap.widened(value) for gap, value in zip(self._gaps, values, strict=True)])

    def texts(self, parts: tuple[Any, ...]) -> Sequence[bytes | Chunk] | None:
        """The texts in the gaps of a template, or ``None`` if it does not fit."""
        if self._common != parts:
            return None
        found: list[bytes | Chunk] = []
        for place in self._places:
            value: Any = parts
            for step in place.path:
                value = value[step]
            text = value[len(place.before) : len(value) - len(place.after)]
            found.append(utf8(text) if len(text) <= _SHORT else MEMORY.text(text))
        return found

    def steps(self, scheme: Scheme, printing: Printing) -> Steps | None:
        """How to hash what fits under a scheme; ``None`` where the printers must say what is wrong with it."""
        try:
            return self._steps[scheme]
        except KeyError:
            pass
        try:
            found = self._compiled(printing(self._example, scheme))
        except DecodeError:
            found = None
        self._steps[scheme] = found
        return found

    def _compiled(self, printed: Sequence[Chunk]) -> Steps | None:
        """Chunks between gaps; ``None`` if a placeholder is not there, or not the only one of its kind."""
        numbers = {utf8(place.placeholder): number for number, place in enumerate(self._places)}
        gaps: list[tuple[Chunk, int]] = []
        run: list[Chunk] = []
        for chunk in printed:
            number = numbers.get(chunk.data)
            if number is None:
                run.append(chunk)
                continue
            gaps.append((_run([*run, MEMORY.text(self._places[number].before)]), number))
            run = [MEMORY.text(self._places[number].after)]
        if sorted(number for _, number in gaps) != list(range(len(self._places))):
            return None
        in_metadata = sum(place.path[0] in _METADATA for place in self._places)
        metadata, spec = tuple(gaps[:in_metadata]), tuple(gaps[in_metadata:])
        return Steps(self._shared.setdefault(metadata, metadata), self._shared.setdefault(spec, spec), _run(run))


class Recognised:
    """A template that fits a pattern, by the texts in its gaps."""

    def __init__(self, pattern: Pattern, texts: Sequence[bytes | Chunk]) -> None:
        self._pattern = pattern
        self._texts = texts
        self._known: dict[tuple[int, int], int] = {}

    def after(self, state: int, scheme: Scheme, printing: Printing) -> int | None:
        """The sum after the template when it was ``state`` before; ``None`` where it must be printed for that."""
        steps = self._pattern.steps(scheme, printing)
        if steps is None:
            return None
        for gaps in (steps.metadata, steps.spec):
            key = (state, id(gaps))
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = _through(gaps, state, self._texts)
            state = known
        return steps.end.step(state)


class Patterns:
    """The patterns of the templates met so far."""

    def __init__(self, memory: Memory = MEMORY) -> None:
        self._memory = memory
        self._by_shape: dict[bytes, Pattern] = memory.cache()
        self._recent: list[Pattern] = []

    def recognise(self, template: Mapping[str, Any]) -> Recognised | None:
        """The template, of JSON values, with its pattern; ``None`` if there is none yet. Every template is learnt."""
        parts = tuple([template.get(part) for part in PARTS])
        try:
            for number, pattern in enumerate(self._recent):
                texts = pattern.texts(parts)
                if texts is not None:
                    if number:
                        self._prefer(pattern)
                    return Recognised(pattern, texts)
            return self._learnt(parts)
        except RecursionError:  # what is nested that deep, the printers may not even look at
            return None

    def _learnt(self, parts: tuple[Any, ...]) -> Recognised | None:
        values: list[str] = []
        shape = _opened(parts, values)
        key = _content(shape)
        if key is None:
            return None
        known = self._by_shape.get(key)
        if known is None:
            if self._memory.recurs(key):
                self._remember(key, Pattern(shape, [Gap(value) for value in values]), len(values))
            return None
        texts = known.texts(parts)
        if texts is None:
            self._recent = [pattern for pattern in self._recent if pattern is not known]
            known = known.widened(values)
            self._remember(key, known, len(values))
            texts = known.texts(parts)
        if texts is None:
            return None
        self._prefer(known)
        return Recognised(known, texts)

    def _prefer(self, first: Pattern) -> None:
        """Try a pattern before all others from now on."""
        self._recent = [first, *[pattern for pattern in self._recent if pattern is not first]][:_TRIED]

    def _remember(self, key: bytes, pattern: Pattern, values: int) -> None:
        self._memory.remember(self._by_shape, key, pattern, _PER_SHAPE + _PER_VALUE * values)


def _opened(parts: tuple[Any, ...], values: list[str]) -> tuple[Any, ...]:
    """The parts of a template with an :class:`Open` for each string that may be a gap; these go into ``values``."""

    def text(value: Any, path: Path) -> Any:  # noqa: ANN401
        if type(value) is not str:
            return value
        values.append(value)
        return Open(path)

    def texts(value: Any, path: Path) -> Any:  # noqa: ANN401
        if type(value) is list:
            return [text(item, (*path, number)) for number, item in enumerate(value)]
        return inside(value, path, dict.fromkeys(value, text)) if type(value) is dict else value

    def inside(value: Any, path: Path, fields: Mapping[str, Callable[[Any, Path], Any]]) -> Any:  # noqa: ANN401
        if type(value) is not dict:
            return value
        return {key: fields[key](item, (*path, key)) if key in fields else item for key, item in value.items()}

    def each(fields: Mapping[str, Callable[[Any, Path], Any]]) -> Callable[[Any, Path], Any]:
        def walk(value: Any, path: Path) -> Any:  # noqa: ANN401
            if type(value) is not list:
                return value
            return [inside(item, (*path, number), fields) for number, item in enumerate(value)]

        return walk

    container = {"image": text, "args": texts, "env": each({"value": text})}
    labels, annotations, pod_spec, priority = parts
    return (
        texts(labels, (0,)),
        texts(annotations, (1,)),
        inside(pod_spec, (2,), dict.fromkeys(_CONTAINERS, each(container))),
        priority,
    )


def _filled(shape: Any, fill: Callable[[Open], Any], other: Callable[[Any], Any]) -> Any:  # noqa: ANN401
    """A shape with something else in place of what is open, and of any other scalar."""
    if type(shape) is Open:
        return fill(shape)
    if type(shape) is dict:
        return {key: _filled(item, fill, other) for key, item in shape.items()}
    if type(shape) in {list, tuple}:
        return [_filled(item, fill, other) for item in shape]
    return other(shape)


def _matching(gap: Gap) -> object:
    return gap.before if gap.after is None else Fits(gap.before, gap.after)


def _exactly(value: object) -> object:
    return value if type(value) is str or value is None else Exactly(value)


def _content(shape: Any) -> bytes | None:  # noqa: ANN401
    """Bytes that two shapes share only if they are equal, types included; ``None`` where there are none."""
    try:
        return marshal.dumps(_filled(shape, lambda _: b"", lambda item: item), _MARSHAL_VERSION)
    except ValueError:  # a number that keeps its spelling
        return None


_RUNS: Final[dict[bytes, Chunk]] = MEMORY.cache()


def _run(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks as one, which patterns with the same text share."""
    data = b"".join([chunk.data for chunk in chunks])
    return _RUNS.get(data) or MEMORY.remember(_RUNS, data, Joined(chunks), len(data))


def _words_alike(one: str, other: str) -> str:
    """What both begin with, up to the end of a word: within a number or name, the next template may differ."""
    pairs = zip(one, other, strict=False)
    size = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))
    while size and one[size - 1].isalnum():
        size -= 1
    return one[:size]
