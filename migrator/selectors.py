"""Which PodCliqueSets the user means: ``-n`` and ``-l``, with kubectl's grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from migrator.errors import UsageError

_WORD: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)?")
_NAME: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)", re.ASCII)
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*", re.ASCII)
_MAX_PREFIX: Final = 253
_NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_END: Final = ""

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]


def matches_labels(selector: str | None, labels: Labels) -> bool:
    """Evaluate a label selector as the API server does (k8s.io/apimachinery ``labels.Parse``).

    Raises :class:`~migrator.errors.UsageError` for a selector that it would not accept.
    """
    return selector is None or all(requirement(labels) for requirement in _Parser(selector).requirements())


class _Parser:
    def __init__(self, selector: str) -> None:
        self._selector = selector
        self._words = [match.group(1) or _END for match in _WORD.finditer(selector.rstrip())]
        self._at = 0

    def requirements(self) -> list[Requirement]:
        """All requirements, in the written order; none for an empty selector."""
        found: list[Requirement] = []
        while self._peek() != _END or found:  # after a comma there must be more
            found.append(self._requirement())
            if self._peek() == _END:
                break
            self._expect(",")
        return found

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            absent = self._key()
            return lambda labels: absent not in labels
        key = self._key()
        if self._peek() in {_END, ","}:
            return lambda labels: key in labels
        operator = self._next()
        if operator in {"=", "==", "!="}:
            value, equal = self._value(), operator != "!="
            return lambda labels: (labels.get(key) == value) is equal
        if operator in {"in", "notin"}:
            values, among = self._values(), operator == "in"
            return lambda labels: (labels.get(key) in values) is among
        if operator in {"<", ">"}:
            bound, above = self._number(), operator == ">"
            return lambda labels: _compares(labels.get(key), bound, above=above)
        raise self._error()

    def _key(self) -> str:
        key = self._next()
        prefix, slash, name = key.rpartition("/")
        if not _NAME.fullmatch(name) or (slash and not (_PREFIX.fullmatch(prefix) and len(prefix) <= _MAX_PREFIX)):
            raise self._error()
        return key

    def _value(self) -> str:
        if self._peek() in {_END, ",", ")"}:
            return ""
        value = self._next()
        if not _NAME.fullmatch(value):
            raise self._error()
        return value

    def _values(self) -> set[str]:
        self._expect("(")
        values = {self._value()}
        while self._peek() == ",":
            self._next()
            values.add(self._value())
        self._expect(")")
        return values

    def _number(self) -> int:
        value = self._next()
        if not _NUMBER.fullmatch(value):
            raise self._error()
        return int(value)

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else _END

    def _next(self) -> str:
        word = self._peek()
        self._at += 1
        return word

    def _expect(self, word: str) -> None:
        if self._next() != word:
            raise self._error()

    def _error(self) -> UsageError:
        return UsageError(
            f"`{self._selector}` is not a valid label selector; examples: app=web, tier!=cache, env in (a, b), !canary"
        )


def _compares(text: str | None, bound: int, *, above: bool) -> bool:
    if text is None or not _NUMBER.fullmatch(text):
        return False
    return int(text) > bound if above else int(text) < bound
