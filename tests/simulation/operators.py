"""A small model of what an operator does to hashes and pods, rule by rule.

K1 to K15 are the comparisons that Grove's operator makes; each is cited as ``file:function`` under
``operator/internal/controller`` where it is modelled. What depends on no hash (scheduling, gangs, readiness) is left
out: all pods are ready at once, and a pod that is being deleted is gone. Replicas of a set are updated all at once,
not one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import Any, Final

from migrator.hashing import podcliqueset, schemes
from testbed.trees import Object
from tests.simulation import children
from tests.simulation.cluster import HASH_LABEL, Key
from tests.support.memory_store import copied

POD_CLIQUE_LABEL: Final = "grove.io/podclique"
_ENDED: Final = "updateEndedAt"
_PART_OF: Final = "app.kubernetes.io/part-of"
_GROUP: Final = "grove.io/podcliquescalinggroup"
_GROUP_INDEX: Final = "grove.io/podcliquescalinggroup-replica-index"
_SET_INDEX: Final = "grove.io/podcliqueset-replica-index"
_FOREVER: Final = 10**9
_SETTLED: Final = 5


@dataclass(frozen=True, slots=True)
class Line:
    """In what the operators of a release line differ.

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


@dataclass
class Operator:
    """An operator that speaks one scheme, at work on Grove's objects, which it changes in place.

    ``now`` is what it writes as the time. ``deleted`` are the pods that it has replaced, by name; those that a
    scale-in or the end of a set takes away are not among them.
    """

    objects: dict[Key, Object]
    scheme: str
    line: Line = ALPHA_11
    now: str = "2026-04-01T00:00:00Z"
    deleted: list[str] = field(default_factory=list)
    _names: Iterator[int] = field(default_factory=lambda: count(1))
    _left: int = _FOREVER

    def reconcile(self, replacing: int = _FOREVER) -> list[str]:
        """Reconcile everything once, or until so many pods were replaced; returns their names.

        K15 (``register.go``) says what makes an operator reconcile; at its start it reconciles all there is, so here
        it always does.
        """
        self._left = replacing
        before = len(self.deleted)
        for item in list(self.objects.values()):
            if item["metadata"].get("deletionTimestamp"):
                self.remove(item)
        for pcs in self._all("PodCliqueSet"):
            _Set(self, pcs).reconcile()
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

    def may_replace(self) -> bool:
        """Whether it is still running: false once it was stopped."""
        return self._left > 0

    def replace(self, pod: Object) -> None:
        """Delete a pod; another one is made later."""
        self._left -= 1
        self.deleted.append(pod["metadata"]["name"])
        del self.objects["Pod", pod["metadata"]["namespace"], pod["metadata"]["name"]]

    def remove(self, item: Object) -> None:
        """Take an object away, and all that it owns."""
        self.objects.pop((item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]), None)
        for kind in ("PodCliqueScalingGroup", "PodClique", "Pod"):
            for child in self.owned(kind, item):
                self.remove(child)

    def add(self, item: Object, owner: Object) -> None:
        """A new object, controlled by another."""
        metadata = item["metadata"]
        metadata["uid"] = f"uid-{metadata['name']}-{self.now}"
        metadata["ownerReferences"] = [_owner(owner)]
        self.objects[item["kind"], metadata["namespace"], metadata["name"]] = item

    def create_pod(self, pod_clique: Object) -> None:
        """A new pod: it gets all labels of its PodClique (``podclique/components/pod/pod.go:getLabels``)."""
        name = f"{pod_clique['metadata']['name']}-n{next(self._names)}"
        while ("Pod", pod_clique["metadata"]["namespace"], name) in self.objects:
            name = f"{pod_clique['metadata']['name']}-n{next(self._names)}"
        labels = {**pod_clique["metadata"]["labels"], POD_CLIQUE_LABEL: pod_clique["metadata"]["name"]}
        self.objects["Pod", pod_clique["metadata"]["namespace"], name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": pod_clique["metadata"]["namespace"],
                "uid": f"uid-{name}-{self.now}",
                "labels": labels,
                "creationTimestamp": self.now,
                "ownerReferences": [_owner(pod_clique)],
            },
            "spec": {"containers": containers_of(pod_clique["spec"])},
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
        computed = _computed(json.dumps(pcs["spec"]), operator.scheme)
        self.generation, self.templates = computed.generation_hash, computed.pod_template_hashes
        self.on_delete = (pcs["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"

    def reconcile(self) -> None:
        """One reconcile of the set and of everything below."""
        self._compare_generation()
        if self.operator.may_replace():
            children.sync(self.operator, self.pcs, self)
        groups = self.operator.owned("PodCliqueScalingGroup", self.pcs)
        alone = self.operator.owned("PodClique", self.pcs)
        self._update(alone, groups)
        for clique in (*alone, *(c for group in groups for c in self.operator.owned("PodClique", group))):
            self._replace_old_pods(clique)
            self._fill(clique)
            self._pod_clique_status(clique)
        for group in groups:
            self._group_status(group)
        self._set_status(alone, groups)

    def _update(self, alone: list[Object], groups: list[Object]) -> None:
        """Start and go on with the updates of PodCliques and scaling groups, where K2 and K6 are asked at all."""
        if self.on_delete:
            grouped = [clique for group in groups for clique in self.operator.owned("PodClique", group)]
            for clique in (*alone, *grouped):
                self._sync_pod_clique(clique)
                self._update_pod_clique(clique)
            for group in groups:
                self._start_group_update(group)
            return
        in_progress = self._in_progress(self.status)
        for clique in alone:
            self._sync_pod_clique(clique)
            if in_progress or self.operator.line.watches_idle_sets:
                self._update_pod_clique(clique)
        for group in groups if in_progress else ():
            self._update_group(group)

    def _compare_generation(self) -> None:
        """K1, ``podcliqueset/reconcilespec.go:processGenerationHashChange``."""
        self.status["observedGeneration"] = self.pcs["metadata"]["generation"]
        stored = self.status.get("currentGenerationHash")
        if stored is not None and stored != self.generation:
            self.status["updateProgress"] = self._started()
            self.status["updatedReplicas"] = 0
        self.status["currentGenerationHash"] = self.generation

    def _sync_pod_clique(self, clique: Object) -> None:
        """H2 of a PodClique that the set controls is written on every reconcile, and its spec with it.

        ``podcliqueset/components/podclique/podclique.go:buildResource``; under OnDelete also those of scaling groups
        (``podcliquescalinggroup/components/podclique/sync.go:createOrUpdatePCLQs``).
        """
        name = clique_of(clique)
        if name not in self.templates:
            return
        template = next(t for t in self.pcs["spec"]["template"]["cliques"] if t["name"] == name)
        spec = {**copied(template["spec"]), "replicas": clique["spec"]["replicas"]}
        if clique["spec"] != spec:
            clique["spec"] = spec
            clique["metadata"]["generation"] += 1
        clique["metadata"]["labels"][HASH_LABEL] = self.templates[name]

    def _update_pod_clique(self, clique: Object) -> None:
        """K2, ``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``: start an update, or start it again.

        Where there was no update and the hash is current, lines before main start one as well; up to alpha.11 only
        while the set is being updated, when the hash is not current.
        """
        status = clique["status"]
        progress, current = status.get("updateProgress"), status.get("currentPodCliqueSetGenerationHash")
        stored = self.status["currentGenerationHash"]
        if progress is None and current is not None and current == stored and not self.operator.line.restarts_idle:
            return
        if progress is not None and progress.get("podCliqueSetGenerationHash") == stored:
            return
        status["updateProgress"] = self._progress(self.templates.get(clique_of(clique)))

    def _replace_old_pods(self, clique: Object) -> None:
        """K3, ``podclique/components/pod/rollingupdate.go:computeUpdateWork``: only while an update is under way."""
        progress = clique["status"].get("updateProgress")
        if self.on_delete or progress is None or progress.get(_ENDED):
            return
        old = [pod for pod in self._pods(clique) if _hash(pod) != self.templates.get(clique_of(clique))]
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
        progress = self._start_group_update(group)
        if progress.get(_ENDED):
            return
        replicas: dict[str, list[Object]] = {}
        for clique in self.operator.owned("PodClique", group):
            replicas.setdefault(clique["metadata"]["labels"][_GROUP_INDEX], []).append(clique)
        for cliques in replicas.values():
            if all(_hash(clique) == self.templates.get(clique_of(clique)) for clique in cliques):
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

    def _start_group_update(self, group: Object) -> Object:
        """K6: start an update of a scaling group, or start it again; returns its progress.

        Under RollingRecreate while the set is being updated, under OnDelete always, ended at once.
        """
        progress: Object | None = group["status"].get("updateProgress")
        if progress is None or progress.get("podCliqueSetGenerationHash") != self.status["currentGenerationHash"]:
            progress = group["status"]["updateProgress"] = self._progress()
            group["status"]["updatedReplicas"] = 0
        return progress

    def _fill(self, clique: Object) -> None:
        """Pods that are missing are made, with the labels that the PodClique has now; surplus ones go.

        K14, ``podclique/components/pod/deletionsort.go:Less``: first those whose hash is not the expected one, which
        ``syncflow.go:getExpectedPodTemplateHash`` takes from an update of this generation, else from the label.
        """
        if not self.operator.may_replace():
            return
        pods, wanted = self._pods(clique), clique["spec"]["replicas"]
        progress = clique["status"].get("updateProgress") or {}
        of_update = progress.get("podCliqueSetGenerationHash") == self.status["currentGenerationHash"]
        expected = progress.get("podTemplateHash") if of_update else _hash(clique)
        for pod in sorted(pods, key=lambda pod: _hash(pod) == expected)[: max(len(pods) - wanted, 0)]:
            self.operator.remove(pod)
        for _ in range(wanted - len(pods)):
            self.operator.create_pod(clique)

    def _pod_clique_status(self, clique: Object) -> None:
        """K4 and K5, ``podclique/reconcilestatus.go:mutateUpdatedReplica``, ``mutateCurrentHashes``."""
        status, pods = clique["status"], self._pods(clique)
        status["observedGeneration"] = clique["metadata"]["generation"]
        progress = status.get("updateProgress")
        late = _hash(clique) if self.operator.line.watches_idle_sets else None
        base = (progress or {}).get("podTemplateHash") or late or status.get("currentPodTemplateHash")
        status["replicas"] = len(pods)
        for name in ("readyReplicas", "scheduledReplicas"):
            status[name] = len(pods)
        status["updatedReplicas"] = sum(1 for pod in pods if _hash(pod) == base)
        if progress is not None and not progress.get(_ENDED):
            return
        template = self.templates.get(clique_of(clique))
        if progress is None:
            known = (
                _hash(clique)
                if self.operator.line.watches_idle_sets
                else status.get("currentPodTemplateHash", template)
            )
            if known == template and (base is None or status["updatedReplicas"] == len(pods)):
                status["currentPodTemplateHash"] = template
                status["currentPodCliqueSetGenerationHash"] = self.status["currentGenerationHash"]
        elif status["updatedReplicas"] == len(pods):
            status["currentPodTemplateHash"] = progress["podTemplateHash"]
            status["currentPodCliqueSetGenerationHash"] = progress["podCliqueSetGenerationHash"]

    def _group_status(self, group: Object) -> None:
        """K8, K9 and K10: when a scaling group, and each of its replicas, counts as updated.

        ``common/component/utils/podcliquescalinggroup.go:GetPCLQsInPCSGPendingUpdate`` (labels alone, up to alpha.9),
        ``podcliquescalinggroup/reconcilestatus.go:havePCSGPodCliquesConverged``, ``computeReplicaStatus``.
        """
        status, cliques = group["status"], self.operator.owned("PodClique", group)
        status["observedGeneration"] = group["metadata"]["generation"]
        updated = {clique["metadata"]["labels"][_GROUP_INDEX] for clique in cliques if self._is_updated(clique)} - {
            clique["metadata"]["labels"][_GROUP_INDEX] for clique in cliques if not self._is_updated(clique)
        }
        status["updatedReplicas"] = len(updated)
        status["replicas"] = group["spec"]["replicas"]
        if self._in_progress(status):
            return
        if self.operator.line.compares_children:
            converged = all(self._is_updated(clique) for clique in cliques)
        else:
            converged = all(_hash(clique) == self.templates.get(clique_of(clique)) for clique in cliques)
        if cliques and converged:
            status["currentPodCliqueSetGenerationHash"] = self.status["currentGenerationHash"]

    def _set_status(self, alone: list[Object], groups: list[Object]) -> None:
        """K11, K12 and K13: when a set counts as updated, and when its update ends.

        ``podcliqueset/reconcilestatus.go:computePCLQsStatus``, ``common/component/utils:IsPCSGUpdateComplete``,
        ``podcliqueset/components/podcliquesetreplica/rollingupdate.go:isPCLQUpdateComplete``.
        """
        done = all(map(self._is_updated, alone)) and all(
            group["status"].get("currentPodCliqueSetGenerationHash") == self.status["currentGenerationHash"]
            for group in groups
        )
        if done and self._in_progress(self.status):
            self.status["updateProgress"][_ENDED] = self.operator.now
        self.status["updatedReplicas"] = self.pcs["spec"].get("replicas", 1) if done else 0

    def _is_updated(self, clique: Object) -> bool:
        """K10, K11, K13: the label, both current hashes, and every pod counted; up to alpha.9 the generation hash.

        Of standalone PodCliques K11 counted pods up to alpha.9, which changes nothing but the set's counter.
        """
        status, template = clique["status"], self.templates.get(clique_of(clique))
        if status.get("currentPodCliqueSetGenerationHash") != self.status["currentGenerationHash"]:
            return False
        if not self.operator.line.compares_children:
            return True
        return (
            _hash(clique) == template
            and status.get("currentPodTemplateHash") == template
            and status.get("updatedReplicas") == len(self._pods(clique))
        )

    @property
    def generation_hash(self) -> str:
        """See :class:`testbed.trees.Hashes`."""
        return self.generation

    @property
    def pod_template_hashes(self) -> Mapping[str, str]:
        """See :class:`testbed.trees.Hashes`."""
        return self.templates

    def _started(self) -> Object:
        """The progress of an update that begins now; under OnDelete it has ended as well."""
        progress: Object = {"updateStartedAt": self.operator.now}
        if self.on_delete:
            progress[_ENDED] = self.operator.now
        return progress

    def _progress(self, template: str | None = None) -> Object:
        """That of a PodClique or a scaling group, which tells what is updated to."""
        progress = {**self._started(), "podCliqueSetGenerationHash": self.generation}
        if template is not None:
            progress["podTemplateHash"] = template
        return progress

    def _in_progress(self, status: Mapping[str, Any]) -> bool:
        progress = status.get("updateProgress")
        return progress is not None and not progress.get(_ENDED) and not self.on_delete

    def _pods(self, clique: Object) -> list[Object]:
        return self.operator.owned("Pod", clique)


def would_roll(objects: Mapping[Key, Object], scheme: str, line: Line = ALPHA_11) -> frozenset[str]:
    """The pods that an operator of this scheme and line would replace if it were started now, by name."""
    model = Operator(copied(dict(objects)), scheme, line)
    return frozenset(model.settle()) & {key[2] for key in objects if key[0] == "Pod"}


def containers_of(spec: Object) -> list[Object]:
    """What a pod of a PodClique with this spec runs, by name and image."""
    found: Sequence[Object] = (spec.get("podSpec") or {}).get("containers") or ()
    return [{"name": item["name"], "image": item["image"]} for item in found]


def clique_of(item: Object) -> str:
    """The clique of a PodClique or of a pod.

    ``operator/internal/utils/componentname.go:GetPodCliqueNameFromPodCliqueFQN``.
    """
    labels = item["metadata"]["labels"]
    name = labels.get(POD_CLIQUE_LABEL, item["metadata"]["name"])
    if _GROUP in labels:
        prefix = f"{labels[_GROUP]}-{labels[_GROUP_INDEX]}-"
    else:
        prefix = f"{labels[_PART_OF]}-{labels[_SET_INDEX]}-"
    return str(name.removeprefix(prefix))


@cache
def _computed(spec: str, scheme: str) -> podcliqueset.PodCliqueSetHashes:
    return podcliqueset.hash_pod_clique_set({"spec": json.loads(spec)}, schemes.by_name(scheme))


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
