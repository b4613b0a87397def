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
from typing import Final

from migrator.errors import ApiError, ClusterError
from migrator.exact_json import JSONObject
from migrator.stores.kube import responses
from migrator.stores.kube.transport import Request

_TOKEN: Final = re.compile(rb'"continue":"([\w+/=-]+)"')

#: How many bytes at the beginning and at the end of a page are searched for its metadata.
_NEAR: Final = 2048


class ListMovedError(Exception):
    """The pages are not of one snapshot; begin again."""


def pages(
    first: Request, send: Callable[[Request], bytes], parse: Callable[[Request, bytes], JSONObject]
) -> Iterator[tuple[str, bytes, list[JSONObject]]]:
    """The resource version, the body and the items of every page.

    Raises :class:`ListMovedError` when the server no longer has the rest of the list, or has another list by now. The
    token that a 410 offers leads to a newer one and is not used. What ``send`` and ``parse`` raise is passed on.
    """
    version: str | None = None
    request, body = first, _unexpired(partial(send, first))
    with ThreadPoolExecutor(1, "pages") as ahead:
        while True:
            guess = _next(first, token_of(body))
            coming = ahead.submit(send, guess) if guess is not None else None
            page = parse(request, body)
            metadata = page.get("metadata") or {}
            found = str(metadata.get("resourceVersion") or "")
            if version is not None and found != version:
                raise ListMovedError
            version = found
            yield version, body, _items(request, page)
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


def _items(request: Request, page: JSONObject) -> list[JSONObject]:
    """The items of a page.

    Raises ``ClusterError`` for an answer that is not a list: it must not look like an empty one.
    """
    items = page.get("items")
    if items is None and "items" in page:  # Go may write an empty slice as null
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ClusterError(f"{request.what}: the answer is not a list of objects; is a proxy in the way?")
    return items
