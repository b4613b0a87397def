"""LabelSelectors of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ONE_OF: Final = frozenset({"In", "Exists"})


def matches_selector(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Evaluate a LabelSelector; unlike in Kubernetes, an empty one matches nothing."""
    for expression in (expressions := (selector or {}).get("matchExpressions") or ()):
        values, key = expression.get("values"), expression["key"]
        found = labels.get(key) in values if values else key in labels
        if found is not (expression["operator"] in _ONE_OF):
            return False
    wanted = (selector or {}).get("matchLabels") or {}
    return bool(wanted or expressions) and wanted.items() <= labels.items()
