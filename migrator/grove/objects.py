"""Grove's objects, trimmed so that 100,000 pods fit into a small Job; labels: ``operator/api/common/labels.go``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any, Final, NamedTuple

from migrator.exact_json import integer
from migrator.hashing.podcliqueset import SetHasher, SetHashes
from migrator.hashing.schemes import Scheme

LABEL_PART_OF: Final = "app.kubernetes.io/part-of"
LABEL_POD_TEMPLATE_HASH: Final = "grove.io/pod-template-hash"
LABEL_POD_CLIQUE: Final = "grove.io/podclique"
LABEL_SCALING_GROUP: Final = "grove.io/podcliquescalinggroup"
LABEL_SCALING_GROUP_REPLICA_INDEX: Final = "grove.io/podcliquescalinggroup-replica-index"
LABEL_SET_REPLICA_INDEX: Final = "grove.io/podcliqueset-replica-index"
LABEL_GENERATION_HASH: Final = "grove.io/podcliqueset-generation-hash"


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One object; references sort by kind, namespace and name."""

    kind: str
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, from its metadata alone. ``in_other_gang``: an annotation names it to another scheduler's pod group."""

    ref: Ref
    owner_uid: str | None
    template_hash: str | None
    terminating: bool
    pod_clique_label: str | None
    in_other_gang: bool
    created: str  # metadata.creationTimestamp
    loading: float | None  # seconds from scheduled to ready; a cluster's pods are read without them

    @property
    def labels(self) -> Mapping[str, str | None]:
        """The label that is a hash."""
        return {LABEL_POD_TEMPLATE_HASH: self.template_hash}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroveObject:
    """A scaling group, PodGangMap or PodGang, and the base of other kinds; ``owner_uid`` is its controller's uid."""

    ref: Ref
    owner_uid: str | None
    labels: Mapping[str, str]
    created: str  # metadata.creationTimestamp
    terminating: bool
    spec: Mapping[str, Any]
    status: Mapping[str, Any]

    @property
    def set_index(self) -> str | None:
        """The replica of the PodCliqueSet that it belongs to."""
        return self.labels.get(LABEL_SET_REPLICA_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodClique(GroveObject):
    """A PodClique without its pod spec.

    ``clique`` is its name in the PodCliqueSet's template; it is empty if the labels do not name it.
    """

    clique: str = ""
    pods: tuple[Pod, ...] = ()

    @property
    def live(self) -> tuple[Pod, ...]:
        """Its pods that are not being deleted."""
        return tuple(pod for pod in self.pods if not pod.terminating)

    @property
    def is_over_full(self) -> bool:
        """Whether it has more pods than it wants until those are gone that are being deleted."""
        return 0 < len(self.live) < len(self.pods) and len(self.pods) > integer(self.spec.get("replicas"), 1)

    @property
    def template_hash(self) -> str | None:
        """Its label with the hash of its template."""
        return self.labels.get(LABEL_POD_TEMPLATE_HASH)

    @property
    def group_index(self) -> str | None:
        """The replica of the scaling group that it belongs to."""
        return self.labels.get(LABEL_SCALING_GROUP_REPLICA_INDEX)

    @property
    def standalone(self) -> bool:
        """Whether it belongs to the PodCliqueSet directly, not to a scaling group."""
        return LABEL_SCALING_GROUP not in self.labels


class Edit(NamedTuple):
    """Who wrote fields of a set's template, and when that manager did so last."""

    manager: str
    time: datetime


@dataclass(frozen=True, kw_only=True)
class PodCliqueSet(GroveObject):
    """A PodCliqueSet, with its whole spec and status."""

    annotations: Mapping[str, str]
    generation: int
    edits: tuple[Edit, ...]

    @cached_property
    def hashes(self) -> Callable[[Scheme], SetHashes]:
        """The hashes of its spec under a scheme, each computed once, however many plans are made.

        That raises :class:`~migrator.errors.DecodeError` for a set that Go could not decode.
        """
        return cache(SetHasher({"spec": self.spec}).under)

    @property
    def generation_hash(self) -> str | None:
        """``status.currentGenerationHash``; ``None`` if the operator has never reconciled the set."""
        value = self.status.get("currentGenerationHash")
        return value if isinstance(value, str) and value else None

    @property
    def is_observed(self) -> bool:
        """Whether the operator has reconciled the newest spec."""
        return integer(self.status.get("observedGeneration")) >= self.generation

    @property
    def template(self) -> Mapping[str, Any]:
        """``spec.template``."""
        template: Mapping[str, Any] = self.spec.get("template") or {}
        return template

    @property
    def cliques(self) -> tuple[Mapping[str, Any], ...]:
        """``spec.template.cliques``, in stored order."""
        return tuple(self.template.get("cliques") or ())

    @property
    def group_configs(self) -> tuple[Mapping[str, Any], ...]:
        """``spec.template.podCliqueScalingGroups``."""
        return tuple(self.template.get("podCliqueScalingGroups") or ())

    @property
    def standalone(self) -> tuple[Mapping[str, Any], ...]:
        """The cliques that belong to no scaling group."""
        grouped = {name for config in self.group_configs for name in config.get("cliqueNames") or ()}
        return tuple(clique for clique in self.cliques if clique.get("name") not in grouped)

    @property
    def on_delete(self) -> bool:
        """Whether pods are replaced only when somebody deletes them (``updateStrategy.type: OnDelete``)."""
        return bool((self.spec.get("updateStrategy") or {}).get("type") == "OnDelete")


def pod_spec_of(clique: Mapping[str, Any]) -> Mapping[str, Any]:
    """The pod spec of a clique in a PodCliqueSet's template."""
    return (clique.get("spec") or {}).get("podSpec") or {}


@dataclass(frozen=True, slots=True)
class Tree:
    """A PodCliqueSet with everything that it owns, found by owner references."""

    pcs: PodCliqueSet
    scaling_groups: tuple[GroveObject, ...]
    pod_cliques: tuple[PodClique, ...]
    pod_gang_maps: tuple[GroveObject, ...]
    pod_gangs: tuple[GroveObject, ...]

    @property
    def ref(self) -> Ref:
        """The PodCliqueSet's own reference."""
        return self.pcs.ref

    @property
    def staying(self) -> tuple[PodClique, ...]:
        """Its PodCliques that stay: neither they nor their scaling group is being deleted."""
        leaving = {group.ref.uid for group in self.scaling_groups if group.terminating}
        return tuple(c for c in self.pod_cliques if not c.terminating and c.owner_uid not in leaving)

    @property
    def children(self) -> tuple[GroveObject, ...]:
        """Its PodCliques and scaling groups."""
        return (*self.pod_cliques, *self.scaling_groups)


@dataclass(frozen=True, slots=True)
class PossibleHash:
    """A string outside the known places that may be a hash; ``part_of`` is the PodCliqueSet that the labels name."""

    ref: Ref
    field: str  # JSON Pointer
    value: str
    part_of: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The objects that one attempt judges, all from one set of lists.

    ``installed``: the API server knows PodCliqueSets. ``forbidden_kinds`` could not be listed, and a dump lacks its
    ``missing_kinds``. ``possible_hashes`` are by value. ``only`` is the one namespace that could be read, ``None`` for
    all.
    """

    trees: tuple[Tree, ...]
    is_cluster: bool
    installed: bool = True
    forbidden_kinds: tuple[str, ...] = ()
    missing_kinds: tuple[str, ...] = ()
    possible_hashes: Mapping[str, Sequence[PossibleHash]] = field(default_factory=dict)
    only: str | None = None


def condition(item: GroveObject, kind: str) -> Mapping[str, Any]:
    """The condition of that type, or an empty mapping."""
    return next((entry for entry in item.status.get("conditions") or () if entry.get("type") == kind), {})


def kubernetes_time(text: object) -> datetime | None:
    """A time as Kubernetes writes it, with its zone; ``None`` for anything else."""
    try:
        parsed = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
