"""Label selectors: ``-l`` with kubectl's grammar, and LabelSelectors of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from migrator.errors import UsageError

_WORD: Final = r"[^\s=!(),<>]"
_REQUIREMENT: Final = re.compile(
    rf"""\s*(?P<not>!)?\s*(?P<key>{_WORD}++)\s*
    (?:(?P<operator>==|!=|=) \s* (?P<value>{_WORD}*+) \s* | (?P<among>in|notin) \s* \( (?P<values>[^()]*) \) \s*)?
    (?P<more>,|$)""",
    re.VERBOSE,
)
_NAME: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)", re.ASCII)
_PREFIX: Final = re.compile(r"(?=.{1,253}/)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/", re.ASCII)
_ONE_OF: Final = frozenset({"In", "Exists"})

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]


def matches_labels(selector: str | None, labels: Labels) -> bool:
    """Evaluate a label selector as the API server does (k8s.io/apimachinery ``labels.Parse``), without ``<`` and ``>``.

    Raises :class:`~migrator.errors.UsageError` for a selector that it would not accept.
    """
    requirements = _requirements(selector) if selector and not selector.isspace() else []
    return all(requirement(labels) for requirement in requirements)


def _requirements(selector: str) -> list[Requirement]:
    """All requirements, in the written order; after a comma there must be one more."""
    found, at, more = [], 0, ","
    while more:
        match = _REQUIREMENT.match(selector.rstrip(), at)
        requirement = match and _requirement(match)
        if match is None or requirement is None:
            raise UsageError(
                f"`{selector}` is not a valid label selector; examples: app=web, tier!=cache, env in (a, b), !canary"
            )
        found.append(requirement)
        at, more = match.end(), match["more"]
    return found


def _requirement(match: re.Match[str]) -> Requirement | None:
    """One requirement; ``None`` where the API server would not accept it."""
    key, operator, value = match["key"], match["operator"], match["value"]
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not _PREFIX.fullmatch(prefix + slash)):
        return None
    if match["not"]:
        return None if operator or match["among"] else lambda labels: key not in labels
    if not operator and not match["among"]:
        return lambda labels: key in labels
    values = [text.strip() for text in match["values"].split(",")] if match["among"] else [value]
    among = match["among"] != "notin" and operator != "!="
    valid = all(not text or _NAME.fullmatch(text) for text in values)
    return (lambda labels: (labels.get(key) in values) is among) if valid else None


def matches_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Evaluate a LabelSelector; unlike in Kubernetes, an empty one matches nothing."""
    for expression in (expressions := (selector or {}).get("matchExpressions") or ()):
        values, key = expression.get("values"), expression["key"]
        found = labels.get(key) in values if values else key in labels
        if found is not (expression["operator"] in _ONE_OF):
            return False
    wanted = (selector or {}).get("matchLabels") or {}
    return bool(wanted or expressions) and wanted.items() <= labels.items()
