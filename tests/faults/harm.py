"""What a proxy does to requests: faults, and the schedules that say which requests suffer them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tests.faults.proxy import Exchange, Fault, Reply, Schedule, Seen

#: What the API server says with these codes; the reasons are Kubernetes' own (``apimachinery/pkg/apis/meta/v1``).
_REASONS: Final = {
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


#: The migrator dies, and the API server never hears of the request.
kill_before: Final[Fault] = Exchange.kill

#: The connection breaks before the API server has the request.
reset: Final[Fault] = Exchange.reset


def kill_after(exchange: Exchange) -> None:
    """The API server did it, and the migrator dies without having heard so."""
    exchange.forward()
    exchange.kill()


def kill_late(seconds: float) -> Fault:
    """The migrator dies, and its request reaches the API server later: it was under way."""

    def late(exchange: Exchange) -> None:
        exchange.kill()
        time.sleep(seconds)
        exchange.forward()

    return late


def lose(exchange: Exchange) -> None:
    """The connection breaks after the API server did it."""
    exchange.forward()
    exchange.reset()


def truncate(exchange: Exchange) -> None:
    """The reply ends half-way."""
    reply = exchange.forward()
    exchange.answer(reply, len(reply.body) // 2)
    exchange.reset()


def delay(seconds: float) -> Fault:
    """The reply comes late."""

    def late(exchange: Exchange) -> None:
        reply = exchange.forward()
        time.sleep(seconds)
        exchange.answer(reply)

    return late


def refuse(status: int, *, retry_after: int | None = None, causes: Sequence[Mapping[str, str]] = ()) -> Fault:
    """An error in the API server's place, which does nothing.

    A 422 without ``causes`` is what it answers when a ``test`` of a JSON Patch fails, one with them a rejection.
    """
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": status}
    body |= {"reason": _REASONS[status], "message": f"injected {status}", "details": {"causes": list(causes)}}
    headers = [("Content-Type", "application/json")]
    if retry_after is not None:
        headers.append(("Retry-After", str(retry_after)))
    reply = Reply(status, tuple(headers), json.dumps(body).encode())
    return lambda exchange: exchange.answer(reply)


def once(fault: Fault, chosen: Callable[[Seen], bool], *, times: int = 1) -> Schedule:
    """The first request that is chosen suffers the fault, or the first so many."""
    done: list[Seen] = []
    lock = threading.Lock()

    def schedule(seen: Seen) -> Fault | None:
        with lock:
            if len(done) < times and chosen(seen):
                done.append(seen)
                return fault
        return None

    return schedule


def always(fault: Fault, chosen: Callable[[Seen], bool]) -> Schedule:
    """All that are chosen suffer the fault."""
    return lambda seen: fault if chosen(seen) else None


def write(number: int) -> Callable[[Seen], bool]:
    """The write of that number."""
    return lambda seen: seen.write == number


def nth(number: int, method: str, start: str) -> Callable[[Seen], bool]:
    """The ``number``-th request by this method, rehearsals aside, to something whose name begins so."""
    found: list[Seen] = []

    def chosen(seen: Seen) -> bool:
        if (seen.write or seen.method == "GET") and seen.method == method and seen.target.startswith(start):
            found.append(seen)
            return len(found) == number
        return False

    return chosen


def burst(number: int, fault: Fault, first: int) -> Schedule:
    """The request of that number suffers the fault, and so do the next ones of its kind, so many in all."""
    kinds: list[tuple[str, str]] = []

    def chosen(seen: Seen) -> bool:
        if seen.number == first:
            kinds.append((seen.method, seen.target))
        return (seen.method, seen.target) in kinds

    return once(fault, chosen, times=number)
