"""A list in pages, of one resource version.

While one page is parsed the next is already requested, so that the server and this process work at the same time.
Parsing takes as long as the server does, and a run reads every list three times.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from migrator.errors import ApiError, ClusterError
from migrator.exact_json import JSONObject
from migrator.stores.json_stream import Decode, Stream
from migrator.stores.kube import responses
from migrator.stores.kube.transport import Request

T = TypeVar("T")

_TOKEN: Final = re.compile(rb'"continue":"([\w+/=-]+)"')

#: How many bytes at the beginning and at the end of a page are searched for its metadata.
_NEAR: Final = 2048


class ListMovedError(Exception):
    """The pages are not of one snapshot; begin again."""


def pages(
    first: Request, send: Callable[[Request], bytes], parse: Callable[[Request, bytes], tuple[JSONObject, list[T]]]
) -> Iterator[tuple[str, list[T]]]:
    """The resource version and the items of every page; ``parse`` gives a page's metadata and its items.

    Raises :class:`ListMovedError` when the server no longer has the rest of the list, or has another list by now. The
    token that a 410 offers leads to a newer one and is not used. What ``send`` and ``parse`` raise is passed on.
    """
    version: str | None = None
    request, body = first, _unexpired(partial(send, first))
    with ThreadPoolExecutor(1, "pages") as ahead:
        while True:
            guess = _next(first, token_of(body))
            coming = ahead.submit(send, guess) if guess is not None else None
            metadata, items = parse(request, body)
            found = str(metadata.get("resourceVersion") or "")
            if version is not None and found != version:
                raise ListMovedError
            version = found
            yield version, items
            following = _next(first, metadata.get("continue"))
            if following is None:
                return
            request = following
            body = _unexpired(coming.result if coming is not None and guess == request else partial(send, request))


def token_of(body: bytes) -> str | None:
    """The token of the next page, found before the page is parsed; a guess that is seldom wrong.

    ``metadata`` comes before ``items`` in lists of Kubernetes' own kinds, and after them in those of custom resources
    (``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured``), whose keys are sorted.
    """
    before = body[:_NEAR].partition(b'"items":')[0]
    after = body[-_NEAR:].rpartition(b'"metadata":')[2]
    found = _TOKEN.search(before) or _TOKEN.search(after)
    return found[1].decode("ascii") if found else None


def _unexpired(send: Callable[[], bytes]) -> bytes:
    try:
        return send()
    except ApiError as error:
        if error.status == responses.GONE:
            raise ListMovedError from error
        raise


def _next(first: Request, token: str | None) -> Request | None:
    return replace(first, query={**first.query, "continue": str(token)}) if token else None


def items_of(request: Request, body: bytes, decode: Decode) -> Iterator[tuple[JSONObject | None, JSONObject]]:
    """Every item of a page as it is decoded, beside nothing; and at the end nothing of note, beside the metadata.

    Raises ``ClusterError`` for an answer that is not a list: it must not look like an empty one.
    """
    stream = Stream(iter([body.decode("utf-8", "surrogateescape")]), decode)
    found: JSONObject = {}
    try:
        starts = [next(documents := stream.documents(), "")]
        for path, value, _ in stream.members():
            if len(path) == 1:
                found[str(path[0])] = value
            elif isinstance(value, dict):
                yield value, {}
            else:
                raise _not_a_list(request)
        starts += documents
    except ValueError:
        starts = []
    if starts != ["{"]:
        raise ClusterError(f"{request.what}: the answer is not a JSON object; is a proxy in the way?")
    if found.get("items", ()) not in ([], None):  # Go may write an empty slice as null
        raise _not_a_list(request)
    yield None, found.get("metadata") or {}


def _not_a_list(request: Request) -> ClusterError:
    return ClusterError(f"{request.what}: the answer is not a list of objects; is a proxy in the way?")
