"""Templates of a known pattern: hashed without being printed.

The printers of :mod:`migrator.hashing.spew` say what is printed, and are what this must equal; here is only a way not
to run them again. The templates of a cluster are much alike: some labels, images, arguments and values of
environment variables differ, and in those often a part only. The *shape* of a template is what is left without all
such values. From two templates of one shape a *pattern* is made: the content of both, with a gap wherever they
differ. Whatever fits the pattern has a known dump, with the gaps' texts in known places; so the dump between two
gaps is one chunk, and all that is left to do is to find the texts, and to hash these and the chunks in turn.

A pattern is made from what the printers print of a template with a placeholder in each gap. A template of known
shape that does not fit widens the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from migrator.errors import DecodeError
from migrator.hashing.fnv import MASK, PRIME, Chunk, Joined, utf8
from migrator.hashing.memory import MEMORY, STRING, Memory, content
from migrator.hashing.schemes import Scheme

#: What a template is made of, in the order of its content.
PARTS: Final = ("labels", "annotations", "podSpec", "priorityClassName")

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")

#: Stands for a value that may be a gap. JSON has no bytes.
_OPEN: Final = b""

#: How many patterns are tried before the shape is looked up.
_TRIED: Final = 8

#: A gap's text of at most that many bytes is hashed byte by byte; a longer one may recur.
_SHORT: Final = 32

_LENGTH: Final = 4

Printed: TypeAlias = Sequence[Chunk]
Printing: TypeAlias = Callable[[Mapping[str, Any], Scheme], Printed]


@dataclass(frozen=True, slots=True)
class Gap:
    """What all values at one place have in common: the text around the gap, or all of it (``after`` is None)."""

    before: str
    after: str | None = None

    def widened(self, value: str) -> Gap:
        """The gap that this value fits too."""
        if self.after is None:
            if value == self.before:
                return self
            before = _words_alike(self.before, value)
            return Gap(before, _words_alike(self.before[len(before) :][::-1], value[len(before) :][::-1])[::-1])
        if len(value) >= len(self.before) + len(self.after) and (
            value.startswith(self.before) and value.endswith(self.after)
        ):
            return self
        before = _words_alike(self.before, value)
        return Gap(before, _words_alike(self.after[::-1], value[len(before) :][::-1])[::-1])


@dataclass(frozen=True, slots=True)
class Steps:
    """How to hash what fits: each chunk and the gap after it, and the chunk at the end."""

    gaps: tuple[tuple[Chunk, int], ...]
    end: Chunk

    def up_to_end(self, state: int, texts: Sequence[bytes | Chunk]) -> int:
        """The sum before the end, when it was ``state`` at the beginning."""
        for chunk, number in self.gaps:
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


class Pattern:
    """What templates of one shape have in common, and how to hash those that have it."""

    def __init__(self, shape: Any, gaps: Sequence[Gap]) -> None:  # noqa: ANN401 - a template without some values
        self._shape = shape
        self._gaps = gaps
        self._open: list[tuple[str, str, str]] = []  # the placeholder, and what is before and after the gap
        texts = (gap.before if gap.after is None else self._placeholder(gap.before, gap.after) for gap in gaps)
        self._example: Mapping[str, Any] = dict(zip(PARTS, _filled(shape, texts), strict=True))
        self._content = self._split(content(tuple(self._example.values())) or b"")
        self._steps: dict[Scheme, Steps | None] = {}
        self._shared: dict[tuple[tuple[Chunk, int], ...], tuple[tuple[Chunk, int], ...]] = {}

    def _placeholder(self, before: str, after: str) -> str:
        self._open.append((f"{before}\0{len(self._open)}\0{after}", before, after))
        return self._open[-1][0]

    def widened(self, values: Sequence[str]) -> Pattern:
        """The pattern that a template of the same shape with these values fits too."""
        return Pattern(self._shape, [gap.widened(value) for gap, value in zip(self._gaps, values, strict=True)])

    def texts(self, data: bytes) -> Sequence[bytes | Chunk] | None:
        """The texts in the gaps of a template of that content, or ``None`` if it does not fit."""
        if self._content is None:
            return None
        around, last = self._content
        found: list[bytes] = []
        at = 0
        for fixed, before, after in around:
            if not data.startswith(fixed, at):
                return None
            begin = at + len(fixed) + _LENGTH
            at = begin + int.from_bytes(data[begin - _LENGTH : begin], "little")
            start, stop = begin + len(before), at - len(after)
            if stop < start or not (data.startswith(before, begin) and data.startswith(after, stop)):
                return None
            found.append(data[start:stop])
        if not data.startswith(last, at) or at + len(last) != len(data):
            return None
        return [text if len(text) <= _SHORT and text.isascii() else _chunk(text) for text in found]

    def steps(self, scheme: Scheme, printing: Printing) -> Steps | None:
        """How to hash what fits under a scheme; ``None`` where the printers must say what is wrong with it."""
        if scheme not in self._steps:
            try:
                self._steps[scheme] = self._compiled(printing(self._example, scheme))
            except DecodeError:
                self._steps[scheme] = None
        return self._steps[scheme]

    def _split(self, data: bytes) -> tuple[Sequence[tuple[bytes, bytes, bytes]], bytes] | None:
        """The content around the gaps; ``None`` if a placeholder is not the only one of its kind."""
        around = []
        for text, before, after in self._open:
            placeholder = content(text) or b""
            fixed, _, rest = data.partition(placeholder)
            if placeholder in rest or placeholder not in data:
                return None
            around.append((fixed + STRING, _encoded(before), _encoded(after)))
            data = rest
        return around, data

    def _compiled(self, printed: Printed) -> Steps | None:
        numbers = {utf8(text): number for number, (text, _, _) in enumerate(self._open)}
        gaps: list[tuple[Chunk, int]] = []
        run: list[Chunk] = []
        for chunk in printed:
            number = numbers.pop(chunk.data, None)
            if number is None:
                run.append(chunk)
                continue
            _, before, after = self._open[number]
            gaps.append((_run([*run, MEMORY.text(before)]), number))
            run = [MEMORY.text(after)]
        if numbers:
            return None
        key = tuple(gaps)
        return Steps(self._shared.setdefault(key, key), _run(run))


@dataclass(frozen=True, slots=True)
class Recognised:
    """A template that fits a pattern."""

    pattern: Pattern
    texts: Sequence[bytes | Chunk]
    _known: dict[tuple[int, int], int] = field(default_factory=dict)

    def after(self, state: int, scheme: Scheme, printing: Printing) -> int | None:
        """The sum after the template when it was ``state`` before; ``None`` where it must be printed for that."""
        steps = self.pattern.steps(scheme, printing)
        if steps is None:
            return None
        key = (state, id(steps.gaps))
        before_end = self._known.get(key)
        if before_end is None:
            before_end = self._known[key] = steps.up_to_end(state, self.texts)
        return steps.end.step(before_end)


class Patterns:
    """The patterns of the templates met so far."""

    def __init__(self, memory: Memory = MEMORY) -> None:
        self._memory = memory
        self._by_shape: dict[bytes, Pattern] = memory.cache()
        self._recent: list[Pattern] = []

    def recognise(self, template: Mapping[str, Any]) -> Recognised | None:
        """The template with its pattern; ``None`` if there is none yet. Every template is learnt from."""
        parts = tuple([template.get(part) for part in PARTS])
        data = content(parts)
        if data is None:
            return None
        for number, pattern in enumerate(self._recent):
            texts = pattern.texts(data)
            if texts is not None:
                if number:
                    self._recent.insert(0, self._recent.pop(number))
                return Recognised(pattern, texts)
        return self._learnt(parts, data)

    def _learnt(self, parts: Sequence[Any], data: bytes) -> Recognised | None:
        shape, values = _opened(parts)
        key = content(shape) or b""
        known = self._by_shape.get(key)
        if known is None:
            self._remember(key, Pattern(shape, [Gap(value) for value in values]), len(data))
            return None
        texts = known.texts(data)
        if texts is None:
            if known in self._recent:
                self._recent.remove(known)
            known = known.widened(values)
            self._remember(key, known, len(data))
            texts = known.texts(data)
        if texts is None:
            return None
        self._recent.insert(0, known)
        del self._recent[_TRIED:]
        return Recognised(known, texts)

    def _remember(self, key: bytes, pattern: Pattern, size: int) -> None:
        self._memory.remember(self._by_shape, key, pattern, 4 * size)  # the shape, its content and an example


def _opened(parts: Sequence[Any]) -> tuple[Any, list[str]]:
    """The parts of a template without the values that may be gaps, and these."""
    values: list[str] = []

    def text(value: Any) -> Any:  # noqa: ANN401
        if type(value) is not str:
            return value
        values.append(value)
        return _OPEN

    def texts(value: Any) -> Any:  # noqa: ANN401
        if type(value) is list:
            return [text(item) for item in value]
        return {key: text(item) for key, item in value.items()} if type(value) is dict else value

    def inside(value: Any, fields: Mapping[str, Callable[[Any], Any]]) -> Any:  # noqa: ANN401
        if type(value) is not dict:
            return value
        return {key: fields[key](item) if key in fields else item for key, item in value.items()}

    def each(value: Any, fields: Mapping[str, Callable[[Any], Any]]) -> Any:  # noqa: ANN401
        return [inside(item, fields) for item in value] if type(value) is list else value

    variable = {"value": text}
    container = {"image": text, "args": texts, "env": lambda value: each(value, variable)}
    pod_spec = dict.fromkeys(_CONTAINERS, lambda value: each(value, container))
    labels, annotations, spec, priority = parts
    return (texts(labels), texts(annotations), inside(spec, pod_spec), priority), values


def _filled(shape: Any, texts: Iterator[str]) -> Any:  # noqa: ANN401
    if shape is _OPEN or type(shape) is bytes:
        return next(texts)
    if type(shape) is dict:
        return {key: _filled(item, texts) for key, item in shape.items()}
    if type(shape) in {list, tuple}:
        return [_filled(item, texts) for item in shape]
    return shape


_RUNS: Final[dict[bytes, Chunk]] = MEMORY.cache()


def _run(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks as one, which patterns with the same text share."""
    data = b"".join([chunk.data for chunk in chunks])
    return _RUNS.get(data) or MEMORY.remember(_RUNS, data, Joined(chunks), len(data))


def _chunk(text: bytes) -> Chunk:
    return MEMORY.text(text.decode("utf-8", "surrogatepass"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _words_alike(one: str, other: str) -> str:
    """What both begin with, up to the end of a word: within a number or name, the next template may differ."""
    pairs = zip(one, other, strict=False)
    size = next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(one), len(other)))
    while size and one[size - 1].isalnum():
        size -= 1
    return one[:size]
