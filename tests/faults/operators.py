"""A small model of what an operator does to hashes and pods, rule by rule.

K1 to K15 are the comparisons that Grove's operator makes; each is cited as ``file:function`` under
``operator/internal/controller`` where it is modelled. What depends on no hash (scheduling, gangs, readiness) is left
out: all pods are ready at once. K13 and K14 choose an order among pods that are replaced in any case, and K15 says
when a reconcile happens; here it always does.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from migrator.hashing import podcliqueset, schemes
from tests.faults.cluster import HASH_LABEL, Key
from tests.trees import Object

_ENDED: Final = "updateEndedAt"
_PART_OF: Final = "app.kubernetes.io/part-of"
_GROUP: Final = "grove.io/podcliquescalinggroup"
_GROUP_INDEX: Final = "grove.io/podcliquescalinggroup-replica-index"
_SET_INDEX: Final = "grove.io/podcliqueset-replica-index"
_FOREVER: Final = 10**9


@dataclass
class Operator:
    """An operator that speaks one scheme, at work on Grove's objects, which it changes in place.

    ``watches_idle_sets``: whether it looks at PodCliques of sets that are not being updated (alpha.12-rc1 and later).
    ``now`` is what it writes as the time. ``deleted`` are the pods that it has replaced, by name.
    """

    objects: dict[Key, Object]
    scheme: str
    watches_idle_sets: bool = False
    now: str = "2026-04-01T00:00:00Z"
    deleted: list[str] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=lambda: count(1))
    _left: int = _FOREVER

    def reconcile(self, replacing: int = _FOREVER) -> list[str]:
        """Reconcile everything until nothing is left to do, or so many pods were replaced; returns their names."""
        self._left = replacing
        before = len(self.deleted)
        for pcs in self._all("PodCliqueSet"):
            if not pcs["metadata"].get("deletionTimestamp"):
                _Set(self, pcs).reconcile()
        return self.deleted[before:]

    def may_replace(self) -> bool:
        """Whether it is still running: false once it was stopped."""
        return self._left > 0

    def replace(self, pod: Object) -> None:
        """Delete a pod; another one is made later."""
        self._left -= 1
        self.deleted.append(pod["metadata"]["name"])
        del self.objects["Pod", pod["metadata"]["namespace"], pod["metadata"]["name"]]

    def create_pod(self, pod_clique: Object) -> None:
        """A new pod: it gets all labels of its PodClique (``podclique/components/pod/pod.go:getLabels``)."""
        name = f"{pod_clique['metadata']['name']}-n{next(self._names)}"
        while ("Pod", pod_clique["metadata"]["namespace"], name) in self.objects:
            name = f"{pod_clique['metadata']['name']}-n{next(self._names)}"
        labels = {**pod_clique["metadata"]["labels"], "grove.io/podclique": pod_clique["metadata"]["name"]}
        self.objects["Pod", pod_clique["metadata"]["namespace"], name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": pod_clique["metadata"]["namespace"],
                "uid": f"uid-{name}",
                "labels": labels,
                "creationTimestamp": self.now,
                "ownerReferences": [_owner(pod_clique)],
            },
            "spec": {"containers": [{"name": "main", "image": "example.test/pause:1"}]},
            "status": {"phase": "Running"},
        }

    def owned(self, kind: str, owner: Object) -> list[Object]:
        """The objects of a kind that another controls."""
        uid = owner["metadata"]["uid"]
        return [
            item
            for item in self._all(kind)
            if any(ref["uid"] == uid for ref in item["metadata"].get("ownerReferences") or ())
        ]

    def _all(self, kind: str) -> list[Object]:
        return [item for key, item in sorted(self.objects.items()) if key[0] == kind]


class _Set:
    """One PodCliqueSet in one reconcile."""

    def __init__(self, operator: Operator, pcs: Object) -> None:
        self.operator = operator
        self.pcs = pcs
        self.status = pcs.setdefault("status", {})
        computed = podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(operator.scheme))
        self.generation, self.templates = computed.generation_hash, computed.pod_template_hashes
        self.on_delete = (pcs["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"

    def reconcile(self) -> None:
        """One reconcile of the set and of everything below."""
        self._compare_generation()
        groups = self.operator.owned("PodCliqueScalingGroup", self.pcs)
        alone = self.operator.owned("PodClique", self.pcs)
        grouped = [clique for group in groups for clique in self.operator.owned("PodClique", group)]
        for clique in alone if not self.on_delete else [*alone, *grouped]:
            self._sync_pod_clique(clique)
        if self._in_progress(self.status):
            for clique in alone:
                self._update_pod_clique(clique)
            for group in groups:
                self._update_group(group)
        elif self.on_delete or self.operator.watches_idle_sets:
            for clique in alone if not self.on_delete else [*alone, *grouped]:
                self._update_pod_clique(clique)
        for clique in (*alone, *(c for group in groups for c in self.operator.owned("PodClique", group))):
            self._replace_old_pods(clique)
            self._fill(clique)
            self._pod_clique_status(clique)
        for group in groups:
            self._group_status(group)
        self._set_status(alone, groups)

    def _compare_generation(self) -> None:
        """K1, ``podcliqueset/reconcilespec.go:processGenerationHashChange``."""
        self.status["observedGeneration"] = self.pcs["metadata"]["generation"]
        stored = self.status.get("currentGenerationHash")
        if stored is not None and stored != self.generation:
            self.status["updateProgress"] = self._progress()
            self.status["updatedReplicas"] = 0
        self.status["currentGenerationHash"] = self.generation

    def _sync_pod_clique(self, clique: Object) -> None:
        """H2 of a PodClique that the set controls is written on every reconcile, and its spec with it.

        ``podcliqueset/components/podclique/podclique.go:buildResource``; under OnDelete also those of scaling groups
        (``podcliquescalinggroup/components/podclique/sync.go:createOrUpdatePCLQs``).
        """
        name = _clique_of(clique)
        if name not in self.templates:
            return
        template = next(t for t in self.pcs["spec"]["template"]["cliques"] if t["name"] == name)
        spec = {**copy.deepcopy(template["spec"]), "replicas": clique["spec"]["replicas"]}
        if clique["spec"] != spec:
            clique["spec"] = spec
            clique["metadata"]["generation"] += 1
        clique["metadata"]["labels"][HASH_LABEL] = self.templates[name]

    def _update_pod_clique(self, clique: Object) -> None:
        """K2, ``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``: start an update, or start it again."""
        status = clique["status"]
        progress, current = status.get("updateProgress"), status.get("currentPodCliqueSetGenerationHash")
        stored = self.status["currentGenerationHash"]
        if progress is None and current is not None and current == stored:
            return
        if progress is not None and progress.get("podCliqueSetGenerationHash") == stored:
            return
        status["updateProgress"] = self._progress(self.templates.get(_clique_of(clique)))

    def _replace_old_pods(self, clique: Object) -> None:
        """K3, ``podclique/components/pod/rollingupdate.go:computeUpdateWork``: only while an update is under way."""
        progress = clique["status"].get("updateProgress")
        if self.on_delete or progress is None or progress.get(_ENDED):
            return
        old = [pod for pod in self._pods(clique) if _hash(pod) != self.templates.get(_clique_of(clique))]
        for pod in old:
            if not self.operator.may_replace():
                return
            self.operator.replace(pod)
        progress[_ENDED] = self.operator.now

    def _update_group(self, group: Object) -> None:
        """K6 and K7: a scaling group of a set that is being updated.

        ``podcliquescalinggroup/reconcilespec.go:shouldResetOrTriggerUpdate``,
        ``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``: of a replica with a label
        that is not the expected one, all PodCliques are deleted and made anew.
        """
        progress = group["status"].get("updateProgress")
        if progress is None or progress.get("podCliqueSetGenerationHash") != self.status["currentGenerationHash"]:
            progress = group["status"]["updateProgress"] = self._progress()
        if progress.get(_ENDED):
            return
        replicas: dict[str, list[Object]] = {}
        for clique in self.operator.owned("PodClique", group):
            replicas.setdefault(clique["metadata"]["labels"][_GROUP_INDEX], []).append(clique)
        for cliques in replicas.values():
            if all(_hash(clique) == self.templates.get(_clique_of(clique)) for clique in cliques):
                continue
            for clique in cliques:
                for pod in self._pods(clique):
                    if not self.operator.may_replace():
                        return
                    self.operator.replace(pod)
            for clique in cliques:
                self._sync_pod_clique(clique)
                clique["status"] = {"observedGeneration": clique["metadata"]["generation"]}
        progress[_ENDED] = self.operator.now

    def _fill(self, clique: Object) -> None:
        """Pods that are missing are made, with the labels that the PodClique has now."""
        if self.operator.may_replace():
            for _ in range(clique["spec"]["replicas"] - len(self._pods(clique))):
                self.operator.create_pod(clique)

    def _pod_clique_status(self, clique: Object) -> None:
        """K4 and K5, ``podclique/reconcilestatus.go:mutateUpdatedReplica``, ``mutateCurrentHashes``."""
        status, pods = clique["status"], self._pods(clique)
        status["observedGeneration"] = clique["metadata"]["generation"]
        progress = status.get("updateProgress")
        late = _hash(clique) if self.operator.watches_idle_sets else None
        base = (progress or {}).get("podTemplateHash") or late or status.get("currentPodTemplateHash")
        status["replicas"] = len(pods)
        status["updatedReplicas"] = sum(1 for pod in pods if _hash(pod) == base)
        if progress is not None and not progress.get(_ENDED):
            return
        template = self.templates.get(_clique_of(clique))
        if progress is None:
            known = _hash(clique) if self.operator.watches_idle_sets else status.get("currentPodTemplateHash", template)
            if known == template and (base is None or status["updatedReplicas"] == len(pods)):
                status["currentPodTemplateHash"] = template
                status["currentPodCliqueSetGenerationHash"] = self.status["currentGenerationHash"]
        elif status["updatedReplicas"] == len(pods):
            status["currentPodTemplateHash"] = progress["podTemplateHash"]
            status["currentPodCliqueSetGenerationHash"] = progress["podCliqueSetGenerationHash"]

    def _group_status(self, group: Object) -> None:
        """K8, K9 and K10, ``podcliquescalinggroup/reconcilestatus.go:havePCSGPodCliquesConverged``."""
        status, cliques = group["status"], self.operator.owned("PodClique", group)
        status["observedGeneration"] = group["metadata"]["generation"]
        updated = {clique["metadata"]["labels"][_GROUP_INDEX] for clique in cliques if self._is_updated(clique)} - {
            clique["metadata"]["labels"][_GROUP_INDEX] for clique in cliques if not self._is_updated(clique)
        }
        status["updatedReplicas"] = len(updated)
        if cliques and all(self._is_updated(clique) for clique in cliques):
            status["currentPodCliqueSetGenerationHash"] = self.status["currentGenerationHash"]

    def _set_status(self, alone: list[Object], groups: list[Object]) -> None:
        """K11 and K12, ``podcliqueset/reconcilestatus.go:computePCLQsStatus``, ``IsPCSGUpdateComplete``."""
        done = all(map(self._is_updated, alone)) and all(
            group["status"].get("currentPodCliqueSetGenerationHash") == self.status["currentGenerationHash"]
            for group in groups
        )
        if done and self._in_progress(self.status):
            self.status["updateProgress"][_ENDED] = self.operator.now
        self.status["updatedReplicas"] = self.pcs["spec"].get("replicas", 1) if done else 0

    def _is_updated(self, clique: Object) -> bool:
        """K10, K11: the label and both current hashes, and every pod counted (alpha.10 and later)."""
        status, template = clique["status"], self.templates.get(_clique_of(clique))
        return (
            _hash(clique) == template
            and status.get("currentPodTemplateHash") == template
            and status.get("currentPodCliqueSetGenerationHash") == self.status["currentGenerationHash"]
            and status.get("updatedReplicas") == len(self._pods(clique))
        )

    def _progress(self, template: str | None = None) -> Object:
        progress: Object = {"updateStartedAt": self.operator.now}
        if template is not None:
            progress["podTemplateHash"] = template
        progress["podCliqueSetGenerationHash"] = self.generation
        if self.on_delete:
            progress[_ENDED] = self.operator.now
        return progress

    def _in_progress(self, status: Mapping[str, Any]) -> bool:
        progress = status.get("updateProgress")
        return progress is not None and not progress.get(_ENDED) and not self.on_delete

    def _pods(self, clique: Object) -> list[Object]:
        return self.operator.owned("Pod", clique)


def would_replace(objects: Mapping[Key, Object], scheme: str, *, watches_idle_sets: bool = False) -> list[str]:
    """The pods that an operator of this scheme would replace if it were started now, by name."""
    return Operator(copy.deepcopy(dict(objects)), scheme, watches_idle_sets).reconcile()


def _clique_of(pod_clique: Object) -> str:
    """``operator/internal/utils/componentname.go:GetPodCliqueNameFromPodCliqueFQN``."""
    labels, name = pod_clique["metadata"]["labels"], pod_clique["metadata"]["name"]
    if _GROUP in labels:
        prefix = f"{labels[_GROUP]}-{labels[_GROUP_INDEX]}-"
    else:
        prefix = f"{labels[_PART_OF]}-{labels[_SET_INDEX]}-"
    return str(name.removeprefix(prefix))


def _hash(item: Object) -> str | None:
    value = item["metadata"].get("labels", {}).get(HASH_LABEL)
    return value if isinstance(value, str) else None


def _owner(item: Object) -> Object:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
