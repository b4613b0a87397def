"""A snapshot asks a cluster for each list once, although it asks for most of them early."""

from __future__ import annotations

from itertools import pairwise

import pytest

from migrator.run import snapshot
from migrator.stores.kube.transport import Ahead, Request
from tests.support.fake_api import Answer, Seen, Serve, ok, status, store_on

KINDS = ["podcliquesets", "podgangmaps", "podcliquescalinggroups", "podgangs", "podcliques", "pods"]


@pytest.mark.parametrize("absent", [None, "podgangmaps"])
@pytest.mark.parametrize("only", [None, "a"])
def test_a_snapshot_asks_for_each_list_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, only: str | None, absent: str | None
) -> None:
    """What is asked for early is what is read next: in one namespace too, and behind a kind that is not installed."""

    def answer(seen: Seen) -> Answer:
        kind = seen.path.rpartition("/")[2]
        if kind == absent:
            return status(404, "not installed", reason="NotFound")
        if only and kind in KINDS and "/namespaces/a/" not in seen.path:
            return status(403, "only namespace a", reason="Forbidden")
        return ok(metadata={"resourceVersion": "1"}, items=[])

    api = serve(answer)
    early: list[str] = []
    begin = Ahead.begin

    def noted(ahead: Ahead, request: Request | None) -> None:
        early.extend([request.path.rpartition("/")[2]] if request is not None else [])
        begin(ahead, request)

    monkeypatch.setattr(Ahead, "begin", noted)
    found = snapshot.take(store_on(api.url), phases=True, namespace=only)
    assert (found.trees, found.only) == ((), only)
    asked = [(seen.path.rpartition("/")[2], seen.query.get("fieldSelector")) for seen in api.seen]
    refused, discovered = [(KINDS[0], None)] if only else [], [("grove.io", None), ("scheduler.grove.io", None)]
    phases = [("pods", "status.phase!=Running"), ("pods", "status.phase=Pending")]
    assert asked == [*refused, *((kind, None) for kind in KINDS), *discovered, *phases]
    assert early == [kind for before, kind in pairwise(KINDS) if before != absent]
