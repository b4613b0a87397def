"""Generated parts of a page that people write: each is between two marks with its name."""

from __future__ import annotations

import re


def put(text: str, name: str, generated: str) -> str:
    """The page with other lines between ``<!-- name: begin ... -->`` and ``<!-- name: end -->``.

    Raises ``ValueError`` if these marks are not there once.
    """
    marks = re.compile(rf"(<!-- {name}: begin [^\n]*-->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    replaced, times = marks.subn(lambda match: f"{match[1]}{generated.strip()}\n{match[2]}", text)
    if times != 1:
        raise ValueError(f"the page has {times} pairs of {name} marks, not one")
    return replaced
