"""The canonical order of PR #566 (Grove 94a0105c, ``operator/internal/utils/kubernetes/pod.go``)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from migrator.hashing.canonical import canonicalize


@pytest.mark.parametrize(
    "given",
    [
        {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "one"}]},
        {"containers": {"name": "a"}},
        {"containers": ["a"], "volumes": "b"},
        {"containers": [{"resources": "none", "ports": None}]},
    ],
    ids=["in order", "a mapping", "texts", "scalars"],
)
def test_what_is_in_order_or_of_a_wrong_type_is_the_very_same_object(given: dict[str, Any]) -> None:
    """Nothing is copied without need, and printing refuses what Go could not decode."""
    assert canonicalize(given) is given


def test_the_input_stays_as_it_is() -> None:
    """Sorting works on a copy."""
    given = {"containers": [{"name": "b", "resources": {"claims": [{"name": "d"}, {"name": "c"}]}}, {"name": "a"}]}
    before = copy.deepcopy(given)
    assert canonicalize(given) != before
    assert given == before
