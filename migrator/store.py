"""The one seam to the outside: what the migrator asks of a cluster, or of a file that stands for one.

Every request goes through a :class:`Store`, Lease, Deployment, ConfigMaps and Events included, so that dry
run, field manager, retries and fault injection cover all of them. The core never sees a client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

from migrator.jsonvalue import JSONObject

T = TypeVar("T")

FIELD_MANAGER: Final = "grove-migrator"
PAGE_SIZE: Final = 500


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object as the API server addresses it; ``group`` is empty for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` that its objects carry."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """The name of its CustomResourceDefinition, for example ``podcliques.grove.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


POD_CLIQUE_SETS: Final = Resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet")
POD_CLIQUE_SCALING_GROUPS: Final = Resource("grove.io", "v1alpha1", "podcliquescalinggroups", "PodCliqueScalingGroup")
POD_CLIQUES: Final = Resource("grove.io", "v1alpha1", "podcliques", "PodClique")
PODS: Final = Resource("", "v1", "pods", "Pod")
POD_GANGS: Final = Resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang")
POD_GANG_MAPS: Final = Resource("grove.io", "v1alpha1", "podgangmaps", "PodGangMap")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
CUSTOM_RESOURCE_DEFINITIONS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


class DryRun(StrEnum):
    """What a write does: happens, stays with us, or is sent as ``dryRun=All``."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Op:
    """One JSON Patch operation (RFC 6902). ``test`` of an absent path is spelt ``value=None``.

    ``value`` is always sent: an op without it panics the API server's handler or writes null.
    """

    op: str  # "test" | "replace" | "add" | "remove"
    path: str
    value: Any = None

    def as_json(self) -> JSONObject:
        """The operation as it goes over the wire."""
        if self.op == "remove":
            return {"op": self.op, "path": self.path}
        return {"op": self.op, "path": self.path, "value": self.value}


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A complete list at one resource version (empty text for a file)."""

    items: tuple[T, ...]
    resource_version: str


class Store(Protocol):
    """A cluster, or a dump of one.

    Every method raises a subclass of :class:`migrator.errors.ClusterError`, or
    :class:`migrator.errors.LostReply` for a write whose fate is unknown. Reads and writes are retried
    inside (429, 5xx, refused connections; Retry-After honoured; bounded by count and deadline).
    ``is_cluster`` is false for a file, on which nothing that needs a cluster or the time can be checked.
    ``request_timeout`` is how long, in seconds, one write and all its attempts may be under way.
    """

    @property
    def is_cluster(self) -> bool: ...  # noqa: D102 - above

    @property
    def dry_run(self) -> DryRun: ...  # noqa: D102 - above

    @property
    def request_timeout(self) -> float: ...  # noqa: D102 - above

    def in_dry_run(self, mode: DryRun) -> Store:
        """The same store, whose writes are of ``mode``."""
        ...

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        metadata_only: bool = False,
    ) -> Listing[T]:
        """Read every object of a kind, all namespaces unless one is given, in pages of one snapshot.

        ``project`` is applied to each raw item at once, so that a page is all that is held in full. An
        expired continue token restarts the list, bounded. Raises :class:`~migrator.errors.NotFound` when the
        resource itself does not exist (its CRD is not installed).
        """
        ...

    def get(self, resource: Resource, namespace: str, name: str, *, subresource: str = "") -> JSONObject:
        """Read one object; ``namespace`` is empty for a cluster-scoped kind."""
        ...

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """Create an object. In a dry run nothing is created and ``body`` is returned."""
        ...

    def patch(
        self, resource: Resource, namespace: str, name: str, ops: Sequence[Op], *, subresource: str = ""
    ) -> JSONObject:
        """Apply a JSON Patch, all of it or none, with ``fieldValidation=Strict``.

        Returns the object (metadata only for pods). Raises :class:`~migrator.errors.TestFailed` where a
        ``test`` does not hold. In a client-side dry run nothing is sent and an empty object is returned.
        """
        ...

    def delete(self, resource: Resource, namespace: str, name: str, uid: str) -> None:
        """Delete one object of ours (a record), if it still has this uid; absent is success."""
        ...
