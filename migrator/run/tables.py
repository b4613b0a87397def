"""The values that a run records: the run itself, and for each set the old and new hashes and the pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum, auto
from hashlib import blake2b

from migrator.grove.hash_fields import stored_hashes
from migrator.grove.objects import Tree
from migrator.planning.model import AlreadyNew, SetPlan, Table
from migrator.planning.planner import template_digest


@dataclass(frozen=True, slots=True)
class OperatorBefore:
    """The operator's Deployment as a run stopped it."""

    replicas: int
    image: str
    uid: str


class RecordState(StrEnum):
    """How far a run got."""

    STOPPING = auto()  # nothing was written to a set
    WRITING = auto()
    REVERTING = auto()
    DONE = auto()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run: its identity, its schemes as requested, its times, its state, and why it ended if it failed.

    ``operator`` is the Deployment that a revert restores, ``stopped`` the one that this run itself stopped (``None`` if
    it was at zero already). ``version`` is that of grove-migrator.
    """

    run_id: str
    identity: str
    version: str
    source: str
    target: str
    started: datetime
    finished: datetime | None
    state: str
    revert: bool = False
    operator: OperatorBefore | None = None
    stopped: OperatorBefore | None = None
    error: str | None = None


def table_of(plan: SetPlan, run: str = "") -> Table:
    """The table of a tree that will be written to; raises ``ValueError`` for a plan without source or hashes."""
    source, target, pcs = plan.source_hashes, plan.target_hashes, plan.tree.pcs
    if plan.source is None or source is None or target is None:
        raise ValueError(f"{pcs.ref} has no source, so its hashes cannot be translated")
    kept = tuple(
        AlreadyNew(item.ref, item.field, item.value)
        for item in stored_hashes(plan.tree)
        if item.value == target.of(item) and item.value != source.of(item)
    )
    return Table(
        namespace=pcs.ref.namespace,
        name=pcs.ref.name,
        uid=pcs.ref.uid,
        generation=pcs.generation,
        source=plan.source,
        target=plan.target,
        source_hashes=source,
        target_hashes=target,
        template_digest=template_digest(pcs),
        kept=kept,
        run=run,
    )


def pods_of(tree: Tree) -> Mapping[str, tuple[str, ...]]:
    """The pods of each PodClique that stays, with which ``verify`` compares: :func:`pod_id` of those that live."""
    return {
        clique.ref.name: tuple(sorted(pod_id(pod.ref.uid) for pod in clique.pods if not pod.terminating))
        for clique in tree.staying
    }


def pod_id(uid: str) -> str:
    """8 bytes of a pod's uid, in hexadecimal."""
    return blake2b(uid.encode(), digest_size=8).hexdigest()
