"""A list in pages, of one resource version.

While one page is parsed the next is already requested, or the first page of the next list, so that the server and this
process work at the same time. Parsing takes as long as the server does, and a run reads every list three times. Items
are decoded one by one, so that of a page only its text is in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import urlencode

from migrator.errors import ApiError, ClusterError
from migrator.exact_json import JSONObject
from migrator.stores.json_stream import Decode, Path, Stream
from migrator.stores.kube.transport import Ahead, Request

_TOKEN: Final = re.compile(rb'"continue":"([\w+/=-]+)"')

#: How many bytes at the beginning and at the end of a page are searched for its metadata.
_NEAR: Final = 2048

#: Gets an item and its JSON.
Take: TypeAlias = Callable[[JSONObject, str], object]


class ListMovedError(Exception):
    """The pages are not of one snapshot; begin again."""


def pages(first: Request, ahead: Ahead, decode: Decode, take: Take, following: Request | None = None) -> None:
    """Give ``take`` every item of every page, one by one, with its JSON; at the end ``following`` was sent.

    Raises :class:`ListMovedError` when the server no longer has the rest of the list, or has another list by now. The
    token that a 410 offers leads to a newer list and is not used. What requests and ``take`` raise is passed on.
    """
    version: str | None = None
    request: Request | None = first
    while request is not None:
        try:
            body = ahead.send(request)
        except ApiError as error:
            if error.status == HTTPStatus.GONE:
                raise ListMovedError from error
            raise
        ahead.begin(_next(first, token_of(body)) or following)
        metadata = _page(request, body, decode, take)
        found = str(metadata.get("resourceVersion") or "")
        if version is not None and found != version:
            raise ListMovedError
        version, request = found, _next(first, metadata.get("continue"))


def token_of(body: bytes) -> str | None:
    """The token of the next page, found before the page is parsed; a guess that is seldom wrong.

    ``metadata`` comes before ``items`` in lists of Kubernetes' own kinds, and after them in those of custom resources
    (``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured``), whose keys are sorted.
    """
    before = body[:_NEAR].partition(b'"items":')[0]
    after = body[-_NEAR:].rpartition(b'"metadata":')[2]
    found = _TOKEN.search(before) or _TOKEN.search(after)
    return found[1].decode("ascii") if found else None


def _next(first: Request, token: str | None) -> Request | None:
    return first._replace(query=f"{first.query}&{urlencode({'continue': str(token)})}") if token else None


def _page(request: Request, body: bytes, decode: Decode, take: Take) -> JSONObject:
    """Give ``take`` the items of a page; returns the metadata of the list.

    Raises ``ClusterError`` for an answer that is not a list: it must not look like an empty one.
    """
    page: JSONObject = {}
    stream = Stream(iter([body.decode("utf-8", "surrogateescape")]), decode)
    for path, value, begin in _members(request, stream):
        if len(path) == 1:
            page[str(path[0])] = value
        elif isinstance(value, dict):
            take(value, stream.text[begin : stream.at])
        else:
            raise _is_not(request, "a list of objects")
    if not isinstance(page.get("items", ""), list | None):  # Go may write an empty slice as null
        raise _is_not(request, "a list of objects")
    return page.get("metadata") or {}


def _members(request: Request, stream: Stream) -> Iterator[tuple[Path, Any, int]]:
    try:
        yield from stream.members()
        more = next(stream.documents(), "")
    except ValueError as error:
        raise _is_not(request, "a JSON object") from error
    if more:
        raise _is_not(request, "a JSON object")


def _is_not(request: Request, what: str) -> ClusterError:
    return ClusterError(f"{request.what}: the answer is not {what}; is a proxy in the way?")
