"""A model of what Grove's operator does to hashes and pods, comparison by comparison (K1 to K15).

Each is cited as ``file:function`` under ``operator/internal/controller`` where it is modelled. All pods are ready at
once, a pod that is being deleted is gone, and the replicas of a set are updated all at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH, LABEL_SCALING_GROUP_REPLICA_INDEX
from testbed.trees import Hashes, Object
from tests.faults.cluster import Key, computed
from tests.faults.ownership import FOREVER, OwnershipTree, clique_of, hash_of, sync
from tests.support.memory_objects import copied

_SETTLED: Final = 5
_ENDED: Final = "updateEndedAt"


@dataclass(frozen=True, slots=True)
class Line:
    """In what the operators of a release line differ, as far as hashes and pods go.

    ``compares_children``: whether "updated" looks at labels and both current hashes of PodCliques (alpha.10 and later),
    or at the generation hash alone. ``watches_idle_sets``: whether standalone PodCliques of sets that are not being
    updated are looked at, and pods counted by the PodClique's label (alpha.12-rc1 and later). ``restarts_idle``:
    whether it then starts an update where everything is current (alpha.12-rc1 only; Grove PR 757).
    """

    name: str
    compares_children: bool = True
    watches_idle_sets: bool = False
    restarts_idle: bool = False


ALPHA_9: Final = Line("alpha.9", compares_children=False)
ALPHA_11: Final = Line("alpha.11")
ALPHA_12_RC1: Final = Line("alpha.12-rc1", watches_idle_sets=True, restarts_idle=True)
MAIN: Final = Line("main", watches_idle_sets=True)


class Operator:
    """An operator that speaks one scheme, at work on Grove's ``objects``, which it changes in place.

    ``now`` is what it writes as the time.
    """

    def __init__(
        self, objects: dict[Key, Object], scheme: str, line: Line = ALPHA_11, now: str = "2026-04-01T00:00:00Z"
    ) -> None:
        self.objects = objects
        self.scheme = scheme
        self.line = line
        self._tree = OwnershipTree(objects, now)

    @property
    def deleted(self) -> list[str]:
        return self._tree.deleted

    def reconcile(self, replacing: int = FOREVER) -> list[str]:
        """Reconcile everything once, as at a start (K15), or until so many pods were replaced; returns their names."""
        self._tree.left = replacing
        before = len(self.deleted)
        for item in list(self.objects.values()):
            if item["metadata"].get("deletionTimestamp"):
                self._tree.remove(item)
        for pcs in self._tree.all("PodCliqueSet"):
            _reconcile(OneSet(self._tree, pcs, computed(json.dumps(pcs["spec"]), self.scheme), self.line))
        return self.deleted[before:]

    def settle(self) -> list[str]:
        """Reconcile until that changes nothing any more; returns the names of all pods that were replaced."""
        before = len(self.deleted)
        for _ in range(_SETTLED):
            found = copied(self.objects)
            self.reconcile()
            if self.objects == found:
                break
        return self.deleted[before:]


def would_roll(objects: Mapping[Key, Object], scheme: str, line: Line = ALPHA_11) -> frozenset[str]:
    """The pods that an operator of this scheme and line would replace if it were started now, by name."""
    model = Operator(copied(dict(objects)), scheme, line)
    return frozenset(model.settle()) & {key[2] for key in objects if key[0] == "Pod"}


@dataclass(frozen=True, slots=True)
class OneSet:
    """A PodCliqueSet in one reconcile, with the hashes of its spec by the operator's scheme."""

    tree: OwnershipTree
    pcs: Object
    hashes: Hashes
    line: Line

    @property
    def status(self) -> Object:
        status: Object = self.pcs.setdefault("status", {})
        return status

    @property
    def on_delete(self) -> bool:
        """Whether pods are replaced only where users delete them."""
        return (self.pcs["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"

    def pods(self, clique: Object) -> list[Object]:
        return self.tree.owned("Pod", clique)

    def template_of(self, clique: Object) -> str | None:
        """The hash of the template that a PodClique was made from, as it is now."""
        return self.hashes.templates.get(clique_of(clique))

    def in_progress(self, status: Mapping[str, Any]) -> bool:
        """Whether an update is under way that replaces pods."""
        progress = status.get("updateProgress")
        return progress is not None and not progress.get(_ENDED) and not self.on_delete

    def is_updated(self, clique: Object) -> bool:
        """K10, K11, K13: the label, both current hashes, and every pod counted; up to alpha.9 the generation hash.

        Of standalone PodCliques K11 counted pods up to alpha.9, which changes nothing but the set's counter.
        """
        status, template = clique["status"], self.template_of(clique)
        if status.get("currentPodCliqueSetGenerationHash") != self.status["currentGenerationHash"]:
            return False
        return not self.line.compares_children or (
            hash_of(clique) == template
            and status.get("currentPodTemplateHash") == template
            and status.get("updatedReplicas") == len(self.pods(clique))
        )


# --- updates: K1 to K3, K6, K7 and K14 -------------------------------------------------------------------------------


def _reconcile(one: OneSet) -> None:
    _compare_generation(one)
    if one.tree.left > 0:
        sync(one.tree, one.pcs, one.hashes)
    groups, alone = (one.tree.owned(kind, one.pcs) for kind in ("PodCliqueScalingGroup", "PodClique"))
    grouped = [clique for group in groups for clique in one.tree.owned("PodClique", group)]
    _update(one, alone, grouped, groups)
    for clique in (*alone, *grouped):
        _replace_old_pods(one, clique)
        _fill(one, clique)
        _write_pod_clique(one, clique)
    for group in groups:
        _write_group(one, group)
    _write_set(one, alone, groups)


def _update(one: OneSet, alone: list[Object], grouped: list[Object], groups: list[Object]) -> None:
    """Start and go on with the updates of PodCliques and scaling groups, where K2 and K6 are asked at all."""
    if one.on_delete:
        for clique in (*alone, *grouped):
            _sync_pod_clique(one, clique)
            _start_pod_clique_update(one, clique)
        for group in groups:
            _start_group_update(one, group)
        return
    in_progress = one.in_progress(one.status)
    for clique in alone:
        _sync_pod_clique(one, clique)
        if in_progress or one.line.watches_idle_sets:
            _start_pod_clique_update(one, clique)
    for group in groups if in_progress else ():
        _update_group(one, group)


def _compare_generation(one: OneSet) -> None:
    """K1, ``podcliqueset/reconcilespec.go:processGenerationHashChange``."""
    status, generation = one.status, one.hashes.generation
    status["observedGeneration"] = one.pcs["metadata"]["generation"]
    stored = status.get("currentGenerationHash")
    if stored is not None and stored != generation:
        status["updateProgress"] = _started(one)
        status["updatedReplicas"] = 0
    status["currentGenerationHash"] = generation


def _sync_pod_clique(one: OneSet, clique: Object) -> None:
    """The label of a PodClique that the set controls is written on every reconcile, and its spec with it.

    ``podcliqueset/components/podclique/podclique.go:buildResource``; under OnDelete also those of scaling groups
    (``podcliquescalinggroup/components/podclique/sync.go:createOrUpdatePCLQs``).
    """
    template_hash = one.template_of(clique)
    if template_hash is None:
        return
    template = next(t for t in one.pcs["spec"]["template"]["cliques"] if t["name"] == clique_of(clique))
    spec = {**copied(template["spec"]), "replicas": clique["spec"]["replicas"]}
    if clique["spec"] != spec:
        clique["spec"] = spec
        clique["metadata"]["generation"] += 1
    clique["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = template_hash


def _start_pod_clique_update(one: OneSet, clique: Object) -> None:
    """K2, ``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``: start an update, or start it again.

    Where there was no update and the hash is current, lines before main start one as well; up to alpha.11 only
    while the set is being updated, when the hash is not current.
    """
    status, stored = clique["status"], one.status["currentGenerationHash"]
    progress, current = status.get("updateProgress"), status.get("currentPodCliqueSetGenerationHash")
    if progress is None and current is not None and current == stored and not one.line.restarts_idle:
        return
    if progress is not None and progress.get("podCliqueSetGenerationHash") == stored:
        return
    template = one.template_of(clique)
    status["updateProgress"] = {
        **_started(one),
        "podCliqueSetGenerationHash": one.hashes.generation,
        **({} if template is None else {"podTemplateHash": template}),
    }


def _replace_old_pods(one: OneSet, clique: Object) -> None:
    """K3, ``podclique/components/pod/rollingupdate.go:computeUpdateWork``: only while an update is under way."""
    if not one.in_progress(clique["status"]):
        return
    if one.tree.replace([pod for pod in one.pods(clique) if hash_of(pod) != one.template_of(clique)]):
        clique["status"]["updateProgress"][_ENDED] = one.tree.now


def _update_group(one: OneSet, group: Object) -> None:
    """K6 and K7: a scaling group of a set that is being updated.

    ``podcliquescalinggroup/reconcilespec.go:shouldResetOrTriggerUpdate``,
    ``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``: of a replica with a label
    that is not the expected one, all PodCliques are deleted and made anew.
    """
    progress = _start_group_update(one, group)
    if progress.get(_ENDED):
        return
    replicas: dict[str, list[Object]] = {}
    for clique in one.tree.owned("PodClique", group):
        replicas.setdefault(clique["metadata"]["labels"][LABEL_SCALING_GROUP_REPLICA_INDEX], []).append(clique)
    for cliques in replicas.values():
        if all(hash_of(clique) == one.template_of(clique) for clique in cliques):
            continue
        if not one.tree.replace([pod for clique in cliques for pod in one.pods(clique)]):
            return
        for clique in cliques:
            _sync_pod_clique(one, clique)
            clique["status"] = {"observedGeneration": clique["metadata"]["generation"]}
    progress[_ENDED] = one.tree.now


def _start_group_update(one: OneSet, group: Object) -> Object:
    """K6: start an update of a scaling group, or start it again; returns its progress.

    Under RollingRecreate while the set is being updated, under OnDelete always, ended at once.
    """
    progress: Object | None = group["status"].get("updateProgress")
    if progress is None or progress.get("podCliqueSetGenerationHash") != one.status["currentGenerationHash"]:
        progress = {**_started(one), "podCliqueSetGenerationHash": one.hashes.generation}
        group["status"] |= {"updateProgress": progress, "updatedReplicas": 0}
    return progress


def _fill(one: OneSet, clique: Object) -> None:
    """Pods that are missing are made, with the labels that the PodClique has now; surplus ones go.

    K14, ``podclique/components/pod/deletionsort.go:Less``: first those whose hash is not the expected one, which
    ``syncflow.go:getExpectedPodTemplateHash`` takes from an update of this generation, else from the label.
    """
    if one.tree.left <= 0:
        return
    pods, wanted = one.pods(clique), clique["spec"]["replicas"]
    progress = clique["status"].get("updateProgress") or {}
    of_update = progress.get("podCliqueSetGenerationHash") == one.status["currentGenerationHash"]
    expected = progress.get("podTemplateHash") if of_update else hash_of(clique)
    for pod in sorted(pods, key=lambda pod: hash_of(pod) == expected)[: max(len(pods) - wanted, 0)]:
        one.tree.remove(pod)
    for _ in range(wanted - len(pods)):
        one.tree.create_pod(clique)


def _started(one: OneSet) -> Object:
    """The progress of an update that begins now; under OnDelete it has ended as well."""
    return {"updateStartedAt": one.tree.now, **({_ENDED: one.tree.now} if one.on_delete else {})}


# --- statuses: K4, K5 and K8 to K13 ----------------------------------------------------------------------------------


def _write_pod_clique(one: OneSet, clique: Object) -> None:
    """K4 and K5, ``podclique/reconcilestatus.go:mutateUpdatedReplica``, ``mutateCurrentHashes``."""
    status, pods, template = clique["status"], one.pods(clique), one.template_of(clique)
    progress = status.get("updateProgress")
    late = hash_of(clique) if one.line.watches_idle_sets else None
    base = (progress or {}).get("podTemplateHash") or late or status.get("currentPodTemplateHash")
    status["observedGeneration"] = clique["metadata"]["generation"]
    for name in ("replicas", "readyReplicas", "scheduledReplicas"):
        status[name] = len(pods)
    status["updatedReplicas"] = sum(1 for pod in pods if hash_of(pod) == base)
    complete = status["updatedReplicas"] == len(pods)
    if progress is None:
        known = late if one.line.watches_idle_sets else status.get("currentPodTemplateHash", template)
        if known == template and (base is None or complete):
            status["currentPodTemplateHash"] = template
            status["currentPodCliqueSetGenerationHash"] = one.status["currentGenerationHash"]
    elif progress.get(_ENDED) and complete:
        status["currentPodTemplateHash"] = progress["podTemplateHash"]
        status["currentPodCliqueSetGenerationHash"] = progress["podCliqueSetGenerationHash"]


def _write_group(one: OneSet, group: Object) -> None:
    """K8, K9 and K10: when a scaling group, and each of its replicas, counts as updated.

    ``common/component/utils/podcliquescalinggroup.go:GetPCLQsInPCSGPendingUpdate`` (labels alone, up to alpha.9),
    ``podcliquescalinggroup/reconcilestatus.go:havePCSGPodCliquesConverged``, ``computeReplicaStatus``.
    """
    status, cliques = group["status"], one.tree.owned("PodClique", group)
    updated = [one.is_updated(clique) for clique in cliques]
    replicas = [clique["metadata"]["labels"][LABEL_SCALING_GROUP_REPLICA_INDEX] for clique in cliques]
    late = {index for index, is_updated in zip(replicas, updated, strict=True) if not is_updated}
    status["observedGeneration"] = group["metadata"]["generation"]
    status["updatedReplicas"] = len(set(replicas) - late)
    status["replicas"] = group["spec"]["replicas"]
    if not one.line.compares_children:
        updated = [hash_of(clique) == one.template_of(clique) for clique in cliques]
    if not one.in_progress(status) and cliques and all(updated):
        status["currentPodCliqueSetGenerationHash"] = one.status["currentGenerationHash"]


def _write_set(one: OneSet, alone: Sequence[Object], groups: Sequence[Object]) -> None:
    """K11, K12 and K13: when a set counts as updated, and when its update ends.

    ``podcliqueset/reconcilestatus.go:computePCLQsStatus``, ``common/component/utils:IsPCSGUpdateComplete``,
    ``podcliqueset/components/podcliquesetreplica/rollingupdate.go:isPCLQUpdateComplete``.
    """
    done = all(map(one.is_updated, alone)) and all(
        group["status"].get("currentPodCliqueSetGenerationHash") == one.status["currentGenerationHash"]
        for group in groups
    )
    if done and one.in_progress(one.status):
        one.status["updateProgress"][_ENDED] = one.tree.now
    one.status["updatedReplicas"] = one.pcs["spec"].get("replicas", 1) if done else 0
