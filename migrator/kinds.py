"""The API's kinds that the migrator reads or writes, JSON Pointers and patch operations."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from migrator.exact_json import dumps

#: The namespace of an object that names none, as kubectl applies it.
DEFAULT_NAMESPACE: Final = "default"


class Resource(NamedTuple):
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
#: The kinds that hold hashes, in the order of reading.
HOLDERS: Final = (POD_CLIQUE_SETS, POD_GANG_MAPS, POD_CLIQUE_SCALING_GROUPS, POD_GANGS, POD_CLIQUES, PODS)
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
SELF_SUBJECT_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)


def pointer(*steps: object) -> str:
    """The JSON Pointer of keys and positions."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


class Op(NamedTuple):
    """One JSON Patch operation (RFC 6902). A ``test`` that a path is absent has ``value=None``."""

    op: str  # "test" | "replace" | "add" | "remove"
    path: str
    value: Any = None

    @property
    def text(self) -> str:
        """Its JSON, with a value, without which the API server's handler panics or writes null."""
        return dumps({"op": self.op, "path": self.path, "value": self.value})
