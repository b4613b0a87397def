"""Pages are asked for while others are parsed, and what is guessed for that changes nothing that is read."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from migrator.stores.kube.pages import pages, token_of
from migrator.stores.kube.transport import Request

FIRST = Request("GET", "/apis/grove.io/v1alpha1/podcliques", {"limit": "2"}, "list podcliques")


def body(items: list[Any], token: str | None = None, *, custom: bool = True) -> bytes:
    """A page as an API server writes it: of custom resources, or of kinds of its own."""
    metadata = {**({"continue": token} if token else {}), "resourceVersion": "7"}
    page: dict[str, Any] = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": metadata}
    if not custom:
        page = {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(page, separators=(",", ":")).encode()


def parse(_request: Request, text: bytes) -> Any:
    """The page."""
    return json.loads(text)


class Server:
    """Answers by token, and remembers what it was asked for."""

    def __init__(self, answers: Mapping[str | None, bytes]) -> None:
        self._answers = answers
        self.asked: list[str | None] = []
        self.came = threading.Event()

    def send(self, request: Request) -> bytes:
        """One answer; what nobody foresaw is an error."""
        token = request.query.get("continue")
        self.asked.append(token)
        self.came.set() if token else None
        return self._answers[token]


@pytest.mark.parametrize("custom", [True, False])
def test_the_next_page_is_asked_for_before_this_one_is_parsed(*, custom: bool) -> None:
    """A page is only parsed once the request for the next one has been sent: else this would wait for ever."""
    server = Server({None: body([{"n": 1}, {"n": 2}], "t1", custom=custom), "t1": body([{"n": 3}], custom=custom)})

    def parse_late(request: Request, text: bytes) -> Any:
        assert server.came.wait(30), "the next page was not asked for"
        return parse(request, text)

    found = list(pages(FIRST, server.send, parse_late))
    assert [(version, items) for version, _, items in found] == [("7", [{"n": 1}, {"n": 2}]), ("7", [{"n": 3}])]
    assert [parse(FIRST, text)["items"] for _, text, _ in found] == [items for _, _, items in found]
    assert server.asked == [None, "t1"]


@pytest.mark.parametrize("text", ['"continue":"bad"', '"metadata":{"continue":"bad"', '"items":[],"continue":"bad"}'])
@pytest.mark.parametrize("custom", [True, False])
def test_what_a_user_wrote_is_not_taken_for_a_token(text: str, *, custom: bool) -> None:
    """Text of an object that looks like a page's metadata leads nowhere: every page is read, and in order."""
    annotated = {"metadata": {"annotations": {"note": text, "continue": "bad"}}}
    server = Server(
        {None: body([annotated, annotated], "t1", custom=custom), "t1": body([annotated], custom=custom), "bad": b"{}"}
    )
    assert [len(items) for _, _, items in pages(FIRST, server.send, parse)] == [2, 1]
    assert [token for token in server.asked if token != "bad"] == [None, "t1"]


def test_what_goes_wrong_with_a_page_asked_for_early_is_told_when_its_turn_comes() -> None:
    """An error of the next page is raised after this one has been handed over, and an unneeded one not at all."""
    server = Server({None: body([{"n": 1}], "t1")})
    found = pages(FIRST, server.send, parse)
    assert next(found)[2] == [{"n": 1}]
    with pytest.raises(KeyError, match="t1"):
        next(found)
    misled = {"annotations": {"continue": "bad"}, "metadata": {"continue": "bad"}}
    assert [items for _, _, items in pages(FIRST, Server({None: body([misled])}).send, parse)] == [[misled]]


def test_a_token_is_found_at_either_end_of_a_large_page() -> None:
    """A real page is far longer than what is searched."""
    items = [{"spec": "x" * 1000}] * 20
    assert token_of(body(items, "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ==", custom=True)) == "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ=="
    assert token_of(body(items, "eyJ2Ijoi", custom=False)) == "eyJ2Ijoi"
    assert token_of(body(items)) is None
