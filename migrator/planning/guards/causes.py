"""Why a hash that the operator computed cannot be recomputed: one cause for all values of a PodClique."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from migrator.grove.model import (
    POINTER_TEMPLATE_HASH_LABEL,
    Finding,
    Place,
    PodClique,
    StoredHash,
)
from migrator.hashing.podcliqueset import EXPLICIT, IN_ORDER
from migrator.hashing.schemes import LEGACY
from migrator.planning.blast import whole_units
from migrator.planning.guards.base import Case, refuse

_ANNOTATION_AUTO_MNNVL: Final = "grove.io/auto-mnnvl"
_MNNVL_MINOR: Final = "1.34"  # alpha.6 and alpha.7; those before have no MNNVL, those after copy the template
_GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of foreign template hashes of one PodClique and its pods: of ``values``, or of all if ``None``."""

    finding: Finding
    values: frozenset[str] | None = None

    def explains(self, stored: StoredHash) -> bool:
        """Whether that value follows from this cause."""
        return stored.clique is not None and (self.values is None or stored.value in self.values)


def causes(case: Case) -> Mapping[str, Cause]:
    """The causes of foreign template hashes, by uid of the PodClique."""
    labels = {stored.ref.uid for stored in case.foreign if stored.place is Place.CLIQUE_LABEL}
    found: dict[str, Cause] = {}
    for pod_clique in case.tree.pod_cliques:
        cause = _not_in_template(case, pod_clique) or _suffix_trap(case, pod_clique)
        if cause is None and pod_clique.ref.uid in labels:
            cause = _mnnvl(case, pod_clique)
        if cause is not None:
            found[pod_clique.ref.uid] = cause
    return found


def _not_in_template(case: Case, pod_clique: PodClique) -> Cause | None:
    if pod_clique.clique in case.source_hashes.templates:
        return None
    what = f"clique {pod_clique.clique}" if pod_clique.clique else "a clique that its labels do not name"
    message = (
        f"{pod_clique.ref} is of {what}, which the template of {case.tree.ref} does not have, so its hashes cannot be "
        "recomputed: the operator is still removing it, or did not make it; let the operator finish, or delete it"
    )
    return Cause(refuse("GM-109", pod_clique.ref, POINTER_TEMPLATE_HASH_LABEL, message))


def _suffix_trap(case: Case, pod_clique: PodClique) -> Cause | None:
    """The operator makes a PodClique from the first template whose name its own ends with, and compares exact names.

    Grove: ``strings.HasSuffix`` in ``buildResource`` of ``podclique.go`` below ``operator/internal/controller``, in
    ``podcliqueset/components/podclique`` and in ``podcliquescalinggroup/components/podclique``.
    """
    clique, templates = pod_clique.clique, case.source_hashes.templates
    names = (str(entry.get("name")) for entry in case.tree.pcs.cliques)
    match = next((name for name in names if name in templates and pod_clique.ref.name.endswith(name)), clique)
    if clique is None or match is None or match == clique:
        return None
    targets = case.target_hashes.templates
    if templates[match] == templates[clique] and targets[match] == targets[clique]:
        return None
    message = (
        f"{pod_clique.ref} is made from the template of clique {match} instead of {clique}, because the operator "
        f"compares name endings and {match} comes first; {_way_out(case, clique, match)}"
    )
    finding = refuse("GM-123", pod_clique.ref, POINTER_TEMPLATE_HASH_LABEL, message)
    return Cause(finding, frozenset({templates[match], targets[match]}))


def _way_out(case: Case, clique: str, match: str) -> str:
    """The remedy that the webhook allows: cliques are never renamed, and reordered under AnyOrder only.

    Grove: ``operator/internal/webhook/admission/pcs/validation/podcliqueset.go:validatePodCliqueUpdate``.
    """
    if case.tree.pcs.template.get("cliqueStartupType") in {IN_ORDER, EXPLICIT}:
        return (
            "under this cliqueStartupType Grove's webhook does not allow cliques to be renamed or reordered: recreate "
            "the set with other names, or accept that the upgrade replaces its pods (--skip-refused)"
        )
    return (
        f"put {clique} before {match} in the PodCliqueSet (Grove's webhook does not allow other names) and let the "
        "operator roll that out before the upgrade"
    )


def _mnnvl(case: Case, pod_clique: PodClique) -> Cause | None:
    """alpha.6 and alpha.7 inject the claim into the template that other PodCliques are hashed from.

    Grove: ``pclq.Spec = pclqTemplateSpec.Spec`` in ``buildResource`` of standalone PodCliques makes no copy;
    ``operator/internal/mnnvl:InjectMNNVLIntoPodSpec`` changes containers with GPUs.
    """
    pcs = case.tree.pcs
    if (
        (case.source.algorithm, case.source.minor) != (LEGACY, _MNNVL_MINOR)
        or pcs.annotations.get(_ANNOTATION_AUTO_MNNVL) != "enabled"
        or not pod_clique.standalone
        or not any(clique.get("name") == pod_clique.clique and _has_gpu(clique) for clique in pcs.cliques)
    ):
        return None
    message = (
        f"{pod_clique.ref} runs GPUs under the annotation {_ANNOTATION_AUTO_MNNVL}=enabled: alpha.6 and alpha.7 "
        "hash the claims that they inject, so this hash and those of its pods cannot be recomputed; upgrade to "
        "alpha.8 first, which hashes as alpha.7 does and still injects the claims, and replace the pods that keep "
        "such a hash (alpha.9 and later ignore the annotation: GM-305)"
    )
    finding = refuse("GM-126", pod_clique.ref, POINTER_TEMPLATE_HASH_LABEL, message)
    return Cause(finding, frozenset({pod_clique.template_hash or ""}))


def _has_gpu(clique: Mapping[str, Any]) -> bool:
    pod_spec = (clique.get("spec") or {}).get("podSpec") or {}
    containers = (*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ()))
    resources = [container.get("resources") or {} for container in containers]
    return any(whole_units((one.get(kind) or {}).get(_GPU)) for one in resources for kind in ("limits", "requests"))
