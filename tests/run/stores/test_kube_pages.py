"""Pages are asked for while others are parsed, and what is guessed for that changes nothing that is read."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

import pytest

from migrator.errors import ClusterError
from migrator.stores.kube.pages import pages, token_of
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
    """Answers by token, and remembers what it was asked for."""

    def __init__(self, answers: Mapping[str | None, bytes]) -> None:
        self._answers = answers
        self.asked: list[str | None] = []
        self.came = threading.Event()

    def send(self, request: Request) -> bytes:
        """One answer; what nobody foresaw is an error."""
        token = dict(parse_qsl(request.query)).get("continue")
        self.asked.append(token)
        self.came.set() if token else None
        return self._answers[token]


@pytest.mark.parametrize("custom", [True, False])
def test_the_next_page_is_asked_for_before_this_one_is_parsed(*, custom: bool) -> None:
    """A page is only parsed once the request for the next one has been sent: else this would wait for ever."""
    server = Server({None: body([{"n": 1}, {"n": 2}], "t1", custom=custom), "t1": body([{"n": 3}], custom=custom)})

    def decode_late(text: str, index: int) -> tuple[Any, int]:
        assert server.came.wait(30), "the next page was not asked for"
        return DECODE(text, index)

    found: list[tuple[Any, str]] = []
    pages(FIRST, server.send, decode_late, lambda item, text: found.append((item, text)))
    assert found == [({"n": number}, f'{{"n":{number}}}') for number in (1, 2, 3)]
    assert server.asked == [None, "t1"]


@pytest.mark.parametrize("text", ['"continue":"bad"', '"metadata":{"continue":"bad"', '"items":[],"continue":"bad"}'])
@pytest.mark.parametrize("custom", [True, False])
def test_what_a_user_wrote_is_not_taken_for_a_token(text: str, *, custom: bool) -> None:
    """Text of an object that looks like a page's metadata leads nowhere: every page is read, and in order."""
    annotated = {"metadata": {"annotations": {"note": text, "continue": "bad"}}}
    server = Server(
        {None: body([annotated, annotated], "t1", custom=custom), "t1": body([annotated], custom=custom), "bad": b"{}"}
    )
    found: list[Any] = []
    pages(FIRST, server.send, DECODE, lambda item, _: found.append(item))
    assert found == [annotated] * 3
    assert [token for token in server.asked if token != "bad"] == [None, "t1"]


def test_what_goes_wrong_with_a_page_asked_for_early_is_told_when_its_turn_comes() -> None:
    """An error of the next page is raised after this one has been handed over, and an unneeded one not at all."""
    server = Server({None: body([{"n": 1}], "t1")})
    found: list[Any] = []
    with pytest.raises(KeyError, match="t1"):
        pages(FIRST, server.send, DECODE, lambda item, _: found.append(item))
    misled = {"annotations": {"continue": "bad"}, "metadata": {"continue": "bad"}}
    pages(FIRST, Server({None: body([misled])}).send, DECODE, lambda item, _: found.append(item))
    assert found == [{"n": 1}, misled]


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
        pages(FIRST, Server({None: answer}).send, DECODE, lambda _item, _: None)
    for empty in (b'{"items":null}', b' {"items" : [ ] , "metadata":{"resourceVersion":"7"}} '):
        pages(FIRST, Server({None: empty}).send, DECODE, lambda _item, _: pytest.fail("an empty list has no item"))


def test_a_token_is_found_at_either_end_of_a_large_page() -> None:
    """A real page is far longer than what is searched."""
    items = [{"spec": "x" * 1000}] * 20
    assert token_of(body(items, "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ==", custom=True)) == "eyJ2IjoibWV0YS5rOHMuaW8vdjEifQ=="
    assert token_of(body(items, "eyJ2Ijoi", custom=False)) == "eyJ2Ijoi"
    assert token_of(body(items)) is None
