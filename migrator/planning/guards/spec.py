"""Guards on a set's template: why the hash that an operator computed is not the one of the spec that was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from migrator.grove.hash_fields import CLIQUE_LABEL, POD_LABEL
from migrator.grove.objects import PodClique, pod_spec_of
from migrator.hashing.podcliqueset import EXPLICIT, IN_ORDER
from migrator.planning.disruption import whole_units
from migrator.planning.guards.base import Case, Cause, report
from migrator.planning.model import Finding
from migrator.planning.new_fields import newer_fields
from migrator.planning.releases import ANNOTATION_AUTO_MNNVL, hashes_injected_claims, template_by_suffix

_GPU: Final = "nvidia.com/gpu"


def template(case: Case) -> Iterator[Finding]:
    """Causes of a PodClique's hash that differs from that of its template."""
    for cause in case.causes.values():
        yield cause.finding


def fields(case: Case) -> Iterator[Finding]:
    """A field that only one of the two struct layouts has is a real change of the template."""
    pcs, source, target = case.tree.pcs, case.source.minor, case.target.minor
    for pointer in newer_fields(pcs.spec, source, target):
        message = (
            f"{pcs.ref} sets {pointer}: the running operator (Kubernetes {source}) ignores the field, and the next one "
            f"({target}) knows it, so the upgrade really changes the pods and a migration would hide that"
        )
        remedy = "remove the field before the upgrade and add it again afterwards"
        yield report("GM-125", pcs.ref, pointer, message, remedy)
    for pointer in newer_fields(pcs.spec, target, source):
        message = (
            f"{pcs.ref} sets {pointer}, which the next operator (Kubernetes {target}) ignores: its pods keep the "
            "effect of the field until they are recreated, and new pods lack it"
        )
        yield report("GM-134", pcs.ref, pointer, message)


def causes(case: Case) -> Mapping[str, Cause]:
    """The causes of foreign template hashes, by uid of the PodClique."""
    labels = {stored.ref.uid for stored in case.foreign if stored.place is CLIQUE_LABEL}
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
        "recomputed: the operator is still removing it, or did not make it"
    )
    remedy = "let the operator finish, or delete it"
    return Cause(report("GM-101", pod_clique.ref, POD_LABEL.pointer, message, remedy, overridable=True))


def _suffix_trap(case: Case, pod_clique: PodClique) -> Cause | None:
    """The PodClique is made from one template and hashed by the name of another."""
    clique, templates = pod_clique.clique, case.source_hashes.templates
    match = template_by_suffix(case.tree.pcs, pod_clique.ref.name) or clique
    if clique is None or match is None or match == clique:
        return None
    targets = case.target_hashes.templates
    if templates[match] == templates[clique] and targets[match] == targets[clique]:
        return None
    message = (
        f"{pod_clique.ref} is made from the template of clique {match} instead of {clique}, because the operator "
        f"compares name endings and {match} comes first"
    )
    remedy = _way_out(case, clique, match)
    finding = report("GM-101", pod_clique.ref, POD_LABEL.pointer, message, remedy)
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
    """The PodClique has GPUs, and may have been hashed with the claim that its operator injected."""
    pcs = case.tree.pcs
    has_gpu = any(clique.get("name") == pod_clique.clique and _has_gpu(clique) for clique in pcs.cliques)
    if not has_gpu or not hashes_injected_claims(case.source, pcs.annotations, pod_clique):
        return None
    message = (
        f"{pod_clique.ref} runs GPUs under the annotation {ANNOTATION_AUTO_MNNVL}=enabled: alpha.6 and alpha.7 "
        "hash the claims that they inject, so this hash and those of its pods cannot be recomputed"
    )
    remedy = (
        "upgrade to alpha.8 first, which hashes as alpha.7 does and still injects the claims, and replace the pods "
        "that keep such a hash (alpha.9 and later ignore the annotation: GM-305)"
    )
    finding = report("GM-101", pod_clique.ref, POD_LABEL.pointer, message, remedy)
    return Cause(finding, frozenset({pod_clique.template_hash or ""}))


def _has_gpu(clique: Mapping[str, Any]) -> bool:
    pod_spec = pod_spec_of(clique)
    containers = (*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ()))
    resources = [container.get("resources") or {} for container in containers]
    return any(whole_units((one.get(kind) or {}).get(_GPU)) for one in resources for kind in ("limits", "requests"))


CHECKS: Final = (template, fields)
