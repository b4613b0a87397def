"""Which PodCliqueSets the user means: ``-n`` and ``-l``, with kubectl's grammar."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from migrator.errors import UsageError
from migrator.model import PodCliqueSet

_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]*[A-Za-z0-9])?"
_SET: Final = re.compile(rf"^({_KEY})\s+(in|notin)\s+\(([^)]*)\)$")
_EQUAL: Final = re.compile(rf"^({_KEY})\s*(==|=|!=)\s*([A-Za-z0-9_.-]*)$")
_EXISTS: Final = re.compile(rf"^(!?)\s*({_KEY})$")
_COMMA: Final = re.compile(r",(?![^(]*\))")

Requirement = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """PodCliqueSets of one namespace, or with certain labels; all of them by default."""

    namespace: str | None = None
    selector: str | None = None

    def matches(self, pcs: PodCliqueSet) -> bool:
        """Whether the set is meant. Raises :class:`~migrator.errors.UsageError` for a bad selector."""
        if self.namespace is not None and pcs.ref.namespace != self.namespace:
            return False
        return matches_labels(self.selector, pcs.labels)


def matches_labels(selector: str | None, labels: Mapping[str, str]) -> bool:
    """Evaluate a label selector as the API server does.

    Raises :class:`~migrator.errors.UsageError` for a selector that kubectl would not accept.
    """
    return selector is None or all(requirement(labels) for requirement in _parse(selector))


def _parse(selector: str) -> tuple[Requirement, ...]:
    parts = [part.strip() for part in _COMMA.split(selector)]
    return tuple(_requirement(part) for part in parts if part)


def _requirement(text: str) -> Requirement:
    if match := _SET.match(text):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match := _EQUAL.match(text):
        key, operator, value = match.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match := _EXISTS.match(text):
        negated, key = match.groups()
        return lambda labels: (key in labels) is not bool(negated)
    raise UsageError(f"`{text}` is no label selector; examples: app=web, tier!=cache, env in (a, b), !canary")
