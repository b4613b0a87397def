"""Pages are asked for while others are parsed, and what is guessed for that changes nothing that is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl

import pytest

from migrator.errors import ClusterError, NotAuthorised
from migrator.stores.kube.pages import Ahead, pages, token_of
from migrator.stores.kube.transport import Request

FIRST = Request("/apis/grove.io/v1alpha1/podcliques", "list podcliques", query="limit=2")


def body(items: list[Any], token: str | None = None, *, custom: bool = True) -> bytes:
    """A page as an API server writes it: of custom resources, or of kinds of its own."""
    metadata = {**({"continue": token} if token else {}), "resourceVersion": "7"}
    page: dict[str, Any] = {"apiVersion": "v1", "items": items, "kind": "List", "metadata": metadata}
    if not custom:
        page = {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(page, separators=(",", ":")).encode()


DECODE = json.JSONDecoder().raw_decode


class Server:
    """Answers by token, and remembers what it was asked for, and which answers nobody waited for."""

    def __init__(self, answers: Mapping[str | None, bytes]) -> None:
        self._answers = answers
        self.asked: list[str | None] = []
        self.dropped: list[str | None] = []

    def begin(self, request: Request) -> Any:
        """Take a request."""
        token = dict(parse_qsl(request.query)).get("continue", request.path if request != FIRST else None)
        self.asked.append(token)
        return SimpleNamespace(token=token, drop=lambda: self.dropped.append(token))

    def send(self, request: Request, begun: Any = None) -> bytes:
        """One answer; what nobody foresaw is an error."""
        return self._answers[(begun or self.begin(request)).token]


def ahead(answers: Mapping[str | None, bytes]) -> Ahead:
    """Requests to such a server."""
    return Ahead(Server(answers))  # type: ignore[arg-type]


@pytest.mark.parametrize("custom", [True, False])
def test_the_next_page_is_asked_for_before_this_one_is_parsed(*, custom: bool) -> None:
    """A page is parsed only once the request for the next one has been sent, and after the last that for ``then``."""
    then = FIRST._replace(path="/then")
    server = Server({None: body([{"n": 1}, {"n": 2}], "t1", custom=custom), "t1": body([{"n": 3}]), "/then": body([])})
    asked: list[Any] = []

    def decode(text: str, index: int) -> tuple[Any, int]:
        asked.append(list(server.asked))
        return DECODE(text, index)

    found: list[tuple[Any, str]] = []
    requests = Ahead(server)  # type: ignore[arg-type]
    pages(FIRST, requests, decode, lambda item, text: found.append((item, text)), then)
    assert found == [({"n": number}, f'{{"n":{number}}}') for number in (1, 2, 3)]
    assert [len(seen) for seen in asked] == sorted(len(seen) for seen in asked)
    assert asked[0] == [None, "t1"]
    assert asked[-1] == [None, "t1", "/then"]
    pages(then, requests, DECODE, lambda _item, _text: None)
    assert server.asked == [None, "t1", "/then"]
    assert server.dropped == []


def test_an_answer_that_was_not_asked_for_next_is_dropped() -> None:
    """What was begun is never used later than at once: by then it would be old."""
    other, then = (FIRST._replace(path=path) for path in ("/other", "/then"))
    server = Server({None: body([]), "/other": body([]), "/then": body([])})
    requests = Ahead(server)  # type: ignore[arg-type]
    for request, following in ((FIRST, then), (other, None), (then, None)):
        pages(request, requests, DECODE, lambda _item, _text: None, following)
    assert server.asked == [None, "/then", "/other", "/then"]
    assert server.dropped == ["/then"]


@pytest.mark.parametrize("text", ['"continue":"bad"', '"metadata":{"continue":"bad"', '"items":[],"continue":"bad"}'])
@pytest.mark.parametrize("custom", [True, False])
def test_what_a_user_wrote_is_not_taken_for_a_token(text: str, *, custom: bool) -> None:
    """Text of an object that looks like a page's metadata leads nowhere: every page is read, and in order."""
    annotated = {"metadata": {"annotations": {"note": text, "continue": "bad"}}}
    server = Server(
        {None: body([annotated, annotated], "t1", custom=custom), "t1": body([annotated], custom=custom), "bad": b"{}"}
    )
    found: list[Any] = []
    pages(FIRST, Ahead(server), DECODE, lambda item, _: found.append(item))  # type: ignore[arg-type]
    assert found == [annotated] * 3
    assert [token for token in server.asked if token != "bad"] == [None, "t1"]


def test_what_goes_wrong_with_a_page_asked_for_early_is_told_when_its_turn_comes() -> None:
    """An error of the next page is raised after this one has been handed over, and an unneeded one not at all."""
    requests = ahead({None: body([{"n": 1}], "t1")})
    found: list[Any] = []
    with pytest.raises(KeyError, match="t1"):
        pages(FIRST, requests, DECODE, lambda item, _: found.append(item))
    misled = {"annotations": {"continue": "bad"}, "metadata": {"continue": "bad"}}
    pages(FIRST, ahead({None: body([misled])}), DECODE, lambda item, _: found.append(item))
    assert found == [{"n": 1}, misled]


def test_a_request_that_cannot_be_sent_early_is_not_tried_again_and_delays_nothing() -> None:
    """A credential plugin that fails is not started twice, and what it says is raised after the page before."""
    server = Server({None: body([{"n": 1}], "t1"), "/then": body([])})
    begin, found = server.begin, list[Any]()

    def refuse(request: Request) -> Any:
        begun = begin(request)
        if begun.token == "t1":
            raise NotAuthorised("the plugin ended with exit code 1")
        return begun

    server.begin = refuse  # type: ignore[method-assign]
    requests = Ahead(server)  # type: ignore[arg-type]
    with pytest.raises(NotAuthorised, match="exit code 1"):
        pages(FIRST, requests, DECODE, lambda item, _: found.append(item))
    assert (server.asked, found) == ([None, "t1"], [{"n": 1}])
    requests.begin(FIRST._replace(query="limit=2&continue=t1"))
    pages(FIRST._replace(path="/then"), requests, DECODE, lambda item, _: found.append(item))
    assert (server.asked, found) == ([None, "t1", "t1", "/then"], [{"n": 1}])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b'"x"',
        b"{}",
        b'{"items":[]}{}',
        b'{"items":[]} x',
        b'{"items":[{}',
        b'{"items":{}}',
        b'{"items":[1]}',
        b'{"status":"up"}',
        b'{"kind":"PodList","items":"none"}',
    ],
)
def test_an_answer_that_is_no_list_never_looks_like_an_empty_one(answer: bytes) -> None:
    """Whatever a proxy answers in the server's place is an error; only a list without items is empty."""
    with pytest.raises(ClusterError, match="is a proxy in the way"):
        pages(FIRST, ahead({None: answer}), DECODE, lambda _item, _: None)
    for empty in (b'{"items":null}', b' {"items" : [ ] , "metadata":{"resourceVersion":"7"}} '):
        pages(FIRST, ahead({None: empty}), DECODE, lambda _item, _: pytest.fail("an empty list has no item"))


def test_a_token_is_found_at_either_end_of_a_large_page() -> None:
    """A real page is far longer than what is searched."""
    items = [{"spec": "x" * 1000}] * 20
    assert token_of(body(items, "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ==", custom=True)) == "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ=="
    assert token_of(body(items, "eyJ2Ijoi", custom=False)) == "eyJ2Ijoi"
    assert token_of(body(items)) is None
