"""The one seam to the outside: a cluster, or a file that stands for one.

Every request goes through a :class:`Cluster`, so dry run, field manager, retries and fault injection cover all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from migrator.exact_json import JSONObject
from migrator.kinds import Op, Resource

T = TypeVar("T")

FIELD_MANAGER: Final = "grove-migrator"
PAGE_SIZE: Final = 500

#: The longest time, in seconds, that one write may be under way. After a lost reply a run may wait that long
#: before it reads all sets again.
LONGEST_WRITE: Final = 10.0

#: How many patches may be under way.
CONCURRENCY: Final = 16


class Deadline:
    """When a run and its cluster must stop waiting, on a monotonic clock; without ``seconds`` there is no limit."""

    def __init__(self, clock: Callable[[], float], seconds: float | None = None) -> None:
        self._clock = clock
        self._seconds = math.inf if seconds is None else seconds
        self._at = clock() + self._seconds

    def remaining(self) -> float:
        """Seconds left, never less than zero; infinite without a limit."""
        return max(0.0, self._at - self._clock())

    def restart(self) -> None:
        """Count from now on: what came before was waiting that the user asked for."""
        self._at = self._clock() + self._seconds

    def extend(self, seconds: float) -> None:
        """Leave at least ``seconds`` from now on: a revert needs time even if the migration used up its own."""
        self._at = max(self._at, self._clock() + seconds)


class Cluster(Protocol):
    """A cluster, or a dump of one (``is_cluster`` is false).

    ``name`` is the address of the API server, or the dump's files; ``context`` is the kubeconfig's, if there is one.

    Every method raises a :class:`migrator.errors.ClusterError`, or :class:`migrator.errors.LostReply` for a write whose
    outcome is unknown, or :class:`migrator.errors.LeaseLost` (see :meth:`within`). It retries reads and writes
    (429, 5xx, refused connections; Retry-After honoured; bounded by count and deadline).
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - above

    @property
    def context(self) -> str | None: ...  # noqa: D102 - above

    @property
    def is_cluster(self) -> bool: ...  # noqa: D102 - above

    @property
    def dry_run(self) -> bool: ...  # noqa: D102 - above

    def in_dry_run(self) -> Cluster:
        """The same cluster, whose writes are sent with ``dryRun=All`` and change nothing."""
        ...

    def within(self, left: Callable[[], float]) -> Cluster:
        """The same cluster, whose writes are sent only while ``left()`` seconds remain.

        ``left`` is called right before each attempt; if it raises, nothing is sent.
        """
        ...

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
    ) -> tuple[T, ...]:
        """Read every object of a kind, in all namespaces unless one is given, in pages of one snapshot.

        ``project`` is applied to each object at once, so that only one page is held in full. Raises
        :class:`~migrator.errors.NotFound` if the CRD is not installed.
        """
        ...

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """Every kind of an API group that can be listed, by discovery; for a dump the kinds of its objects."""
        ...

    def short_names(self, group: str) -> Mapping[str, str]:
        """The plural of the kind that each short name of an API group belongs to, by discovery; a dump shows none.

        A kind whose CRD is not established is not among them.
        """
        ...

    def get(self, resource: Resource, namespace: str, name: str) -> JSONObject:
        """Read one object; ``namespace`` is empty for a cluster-scoped kind."""
        ...

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """Create an object."""
        ...

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """Apply a JSON Patch, all of it or none, with ``fieldValidation=Strict``, and return the object.

        For a pod or a kind of Grove, only the metadata is returned.

        Raises :class:`~migrator.errors.TestFailed` if a ``test`` does not hold.
        """
        ...
