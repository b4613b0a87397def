"""What an operator says in the statuses of a set and of all below: K4, K5 and K8 to K13.

See :mod:`tests.simulation.operators`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from testbed.trees import Hashes, Object
from tests.simulation.lines import Line
from tests.simulation.tree import GROUP_INDEX, Tree, clique_of, hash_of

ENDED: Final = "updateEndedAt"


@dataclass(frozen=True, slots=True)
class OneSet:
    """A PodCliqueSet in one reconcile, with the hashes of its spec by the operator's scheme."""

    tree: Tree
    pcs: Object
    hashes: Hashes
    line: Line

    @property
    def status(self) -> Object:
        """The set's own."""
        status: Object = self.pcs.setdefault("status", {})
        return status

    @property
    def on_delete(self) -> bool:
        """Whether pods are replaced only where users delete them."""
        return (self.pcs["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"

    def pods(self, clique: Object) -> list[Object]:
        """Those of a PodClique."""
        return self.tree.owned("Pod", clique)

    def template_of(self, clique: Object) -> str | None:
        """The hash of the template that a PodClique was made from, as it is now."""
        return self.hashes.pod_template_hashes.get(clique_of(clique))

    def in_progress(self, status: Mapping[str, Any]) -> bool:
        """Whether an update is under way that replaces pods."""
        progress = status.get("updateProgress")
        return progress is not None and not progress.get(ENDED) and not self.on_delete

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


def write_pod_clique(one: OneSet, clique: Object) -> None:
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
    elif progress.get(ENDED) and complete:
        status["currentPodTemplateHash"] = progress["podTemplateHash"]
        status["currentPodCliqueSetGenerationHash"] = progress["podCliqueSetGenerationHash"]


def write_group(one: OneSet, group: Object) -> None:
    """K8, K9 and K10: when a scaling group, and each of its replicas, counts as updated.

    ``common/component/utils/podcliquescalinggroup.go:GetPCLQsInPCSGPendingUpdate`` (labels alone, up to alpha.9),
    ``podcliquescalinggroup/reconcilestatus.go:havePCSGPodCliquesConverged``, ``computeReplicaStatus``.
    """
    status, cliques = group["status"], one.tree.owned("PodClique", group)
    updated = [one.is_updated(clique) for clique in cliques]
    replicas = [clique["metadata"]["labels"][GROUP_INDEX] for clique in cliques]
    late = {index for index, is_updated in zip(replicas, updated, strict=True) if not is_updated}
    status["observedGeneration"] = group["metadata"]["generation"]
    status["updatedReplicas"] = len(set(replicas) - late)
    status["replicas"] = group["spec"]["replicas"]
    if not one.line.compares_children:
        updated = [hash_of(clique) == one.template_of(clique) for clique in cliques]
    if not one.in_progress(status) and cliques and all(updated):
        status["currentPodCliqueSetGenerationHash"] = one.status["currentGenerationHash"]


def write_set(one: OneSet, alone: Sequence[Object], groups: Sequence[Object]) -> None:
    """K11, K12 and K13: when a set counts as updated, and when its update ends.

    ``podcliqueset/reconcilestatus.go:computePCLQsStatus``, ``common/component/utils:IsPCSGUpdateComplete``,
    ``podcliqueset/components/podcliquesetreplica/rollingupdate.go:isPCLQUpdateComplete``.
    """
    done = all(map(one.is_updated, alone)) and all(
        group["status"].get("currentPodCliqueSetGenerationHash") == one.status["currentGenerationHash"]
        for group in groups
    )
    if done and one.in_progress(one.status):
        one.status["updateProgress"][ENDED] = one.tree.now
    one.status["updatedReplicas"] = one.pcs["spec"].get("replicas", 1) if done else 0
