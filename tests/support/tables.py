"""Tests that differ in data only: one function, and a row for each, under the sentence that it pins."""

from __future__ import annotations

from typing import Any

import pytest


def table(names: str, *rows: tuple[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Parametrize by rows, each a sentence and its values; ``names`` are the arguments, with spaces between them."""
    return pytest.mark.parametrize(names.split(), [pytest.param(*values, id=sentence) for sentence, values in rows])
