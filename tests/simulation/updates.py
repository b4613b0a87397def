"""Which updates an operator starts, and which pods it replaces: K1 to K3, K6, K7 and K14.

See :mod:`tests.simulation.operators`.
"""

from __future__ import annotations

from testbed.trees import Object
from tests.simulation import children, statuses
from tests.simulation.cluster import HASH_LABEL
from tests.simulation.statuses import ENDED, OneSet
from tests.simulation.tree import GROUP_INDEX, clique_of, hash_of
from tests.support.memory_objects import copied


def reconcile(one: OneSet) -> None:
    """One reconcile of the set and of everything below."""
    _compare_generation(one)
    if one.tree.left > 0:
        children.sync(one.tree, one.pcs, one.hashes)
    groups, alone = (one.tree.owned(kind, one.pcs) for kind in ("PodCliqueScalingGroup", "PodClique"))
    grouped = [clique for group in groups for clique in one.tree.owned("PodClique", group)]
    _update(one, alone, grouped, groups)
    for clique in (*alone, *grouped):
        _replace_old_pods(one, clique)
        _fill(one, clique)
        statuses.write_pod_clique(one, clique)
    for group in groups:
        statuses.write_group(one, group)
    statuses.write_set(one, alone, groups)


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
    status, generation = one.status, one.hashes.generation_hash
    status["observedGeneration"] = one.pcs["metadata"]["generation"]
    stored = status.get("currentGenerationHash")
    if stored is not None and stored != generation:
        status["updateProgress"] = _started(one)
        status["updatedReplicas"] = 0
    status["currentGenerationHash"] = generation


def _sync_pod_clique(one: OneSet, clique: Object) -> None:
    """H2 of a PodClique that the set controls is written on every reconcile, and its spec with it.

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
    clique["metadata"]["labels"][HASH_LABEL] = template_hash


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
        "podCliqueSetGenerationHash": one.hashes.generation_hash,
        **({} if template is None else {"podTemplateHash": template}),
    }


def _replace_old_pods(one: OneSet, clique: Object) -> None:
    """K3, ``podclique/components/pod/rollingupdate.go:computeUpdateWork``: only while an update is under way."""
    if not one.in_progress(clique["status"]):
        return
    if one.tree.replace([pod for pod in one.pods(clique) if hash_of(pod) != one.template_of(clique)]):
        clique["status"]["updateProgress"][ENDED] = one.tree.now


def _update_group(one: OneSet, group: Object) -> None:
    """K6 and K7: a scaling group of a set that is being updated.

    ``podcliquescalinggroup/reconcilespec.go:shouldResetOrTriggerUpdate``,
    ``podcliquescalinggroup/components/podclique/rollingupdate.go:isReplicaUpdated``: of a replica with a label
    that is not the expected one, all PodCliques are deleted and made anew.
    """
    progress = _start_group_update(one, group)
    if progress.get(ENDED):
        return
    replicas: dict[str, list[Object]] = {}
    for clique in one.tree.owned("PodClique", group):
        replicas.setdefault(clique["metadata"]["labels"][GROUP_INDEX], []).append(clique)
    for cliques in replicas.values():
        if all(hash_of(clique) == one.template_of(clique) for clique in cliques):
            continue
        if not one.tree.replace([pod for clique in cliques for pod in one.pods(clique)]):
            return
        for clique in cliques:
            _sync_pod_clique(one, clique)
            clique["status"] = {"observedGeneration": clique["metadata"]["generation"]}
    progress[ENDED] = one.tree.now


def _start_group_update(one: OneSet, group: Object) -> Object:
    """K6: start an update of a scaling group, or start it again; returns its progress.

    Under RollingRecreate while the set is being updated, under OnDelete always, ended at once.
    """
    progress: Object | None = group["status"].get("updateProgress")
    if progress is None or progress.get("podCliqueSetGenerationHash") != one.status["currentGenerationHash"]:
        progress = {**_started(one), "podCliqueSetGenerationHash": one.hashes.generation_hash}
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
    return {"updateStartedAt": one.tree.now, **({ENDED: one.tree.now} if one.on_delete else {})}
