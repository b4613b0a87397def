"""Guards on the stored values themselves: those that are neither the source's nor the target's hash, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple

from migrator.grove import objects, places
from migrator.hashing import layouts
from migrator.kinds import pointer
from migrator.planning.detect import Verdict
from migrator.planning.disruption import limits_of, whole_units
from migrator.planning.guards import base
from migrator.planning.model import Finding
from migrator.releases import quirks, table

#: What the operator injects claims for.
_GPU: Final = "nvidia.com/gpu"
_EDITED: Final = (
    "if the spec was edited, let the running operator roll that out; if another operator wrote this value, name its "
    "release with --from"
)
_OVERTAKEN: Final = "do what GM-102 says"
_STUCK: Final = "let the running operator finish the update that left it"
_DELETE: Final = f"{_STUCK}; if it never does (Grove issue 400), delete the pod"
#: What to do about a foreign value, by the kind that holds it; of the others :data:`_STUCK`.
_REMEDIES: Final = {"PodCliqueSet": _EDITED, "Pod": _DELETE}
FOREIGN: Final = base.Guard(
    "GM-101",
    "foreign-value",
    "A stored hash is neither the source's nor the target's",
    "let the running operator finish the update; the finding says what else helps",
    overridable=True,
)
NEVER_RECONCILED: Final = base.Guard(
    "GM-104", "never-reconciled", "The set stores no generation hash", "let the running operator reconcile it"
)
LEFT_ALONE: Final = base.Guard("GM-112", "left-alone", "Hashes of older templates are left alone", warns=True)
UNKNOWN_PLACE: Final = base.Guard(
    "GM-136",
    "unknown-place",
    "A hash is stored in an unknown place",
    "report it, and leave this set out with --skip-refused: the upgrade recreates its pods",
)

#: Where ``--allow`` accepts that a foreign value stays: the operator treats the object as before.
_OVERRIDABLE: Final = frozenset({"PodClique", "PodCliqueScalingGroup", "Pod"})


class _Cause(NamedTuple):
    """Why template hashes of one PodClique and its pods are foreign: all of them, or these ``values``."""

    finding: Finding
    values: frozenset[str] | None = None

    def explains(self, stored: places.StoredHash) -> bool:
        """Whether nothing else needs to be said of this value."""
        return stored.clique is not None and (self.values is None or stored.value in self.values)


def never_reconciled(facts: base.SetFacts) -> Iterator[Finding]:
    """A set without a generation hash whose children do not all hold the source's hashes.

    An operator that finds no generation hash stores its own and replaces no pod
    (``podcliqueset/reconcilespec.go:processGenerationHashChange``). The next one does so too, and by then
    the children have its hashes.
    """
    pcs = facts.tree.pcs
    if pcs.generation_hash is None and (facts.pods_await_replacement or not facts.explained):
        message = "has children, but no status.currentGenerationHash"
        yield NEVER_RECONCILED.found(pcs.ref, places.SET_GENERATION.pointer, message)


def foreign(facts: base.SetFacts) -> Iterator[Finding]:
    """A stored value that neither scheme gives for the current spec, or the cause of some of them.

    GM-107 if no pod depends on it: it only shows how far the operator has come.
    """
    causes = dict[str, _Cause]()
    for clique in facts.tree.pod_cliques:
        if cause := _not_in_template(facts, clique) or _suffix_trap(facts, clique) or _mnnvl(facts, clique):
            causes[clique.ref.uid] = cause
    owners = {pod.ref.uid: clique.ref.uid for clique in facts.tree.pod_cliques for pod in clique.pods}
    for stored in facts.foreign:
        cause = causes.get(owners.get(stored.ref.uid, stored.ref.uid))
        if cause is not None and cause.explains(stored):
            continue
        if stored in facts.lagging:
            message = f"{_holds(facts, stored)}; no pod depends on it, so it stays as it is"
            yield base.IDLE.found(stored.ref, stored.field, message)
        else:
            remedy, overridable = _REMEDIES.get(stored.ref.kind, _STUCK), stored.ref.kind in _OVERRIDABLE
            if facts.next_recreates and not facts.recorded:
                remedy = _OVERTAKEN
            if stored.ref.kind == "PodCliqueSet":
                remedy += _pruned(facts)
            message = _holds(facts, stored)
            yield FOREIGN.found(stored.ref, stored.field, message, remedy, overridable=overridable, settles=True)
    yield from (cause.finding for cause in causes.values())


def unknown_places(facts: base.SetFacts) -> Iterator[Finding]:
    """A source hash in a place that no known operator uses, except in objects of other sets: it would stay as it is."""
    tree, old, new = facts.tree, facts.pair.source, facts.pair.target
    moving = {old.generation, *old.templates.values()} - {new.generation, *new.templates.values()}
    for seen in chain.from_iterable(facts.possible_hashes.get(value, ()) for value in sorted(moving)):
        of_others = seen.ref.kind == tree.ref.kind and seen.ref.uid != tree.ref.uid
        near = seen.ref.namespace in {"", tree.ref.namespace} and seen.part_of in {None, tree.ref.name}
        if near and not of_others:
            message = (
                f"holds {seen.value}, a hash of {tree.ref} under {old.scheme}, at {seen.field}, "
                "which is no known place, or in an object without a controller: it would stay as it is"
            )
            yield UNKNOWN_PLACE.found(seen.ref, seen.field, message)


def missing(facts: base.SetFacts) -> Iterator[Finding]:
    """A PodClique or pod without the hash label; a new PodClique's status has no hashes until all its pods are up.

    A pod without the label that names its PodClique is found by its controller alone, as Grove does from alpha.12-rc1
    on.
    """
    field, lacks = places.POD_LABEL.pointer, f"has no label {objects.LABEL_POD_TEMPLATE_HASH}"
    for clique in facts.tree.pod_cliques:
        if clique.terminating:
            continue
        if not clique.template_hash:
            remedy = "let the operator reconcile it"
            yield FOREIGN.found(clique.ref, field, lacks, remedy, overridable=True, settles=True)
        for pod in clique.live:
            if pod.pod_clique_label is None:
                message = f"has no label {objects.LABEL_POD_CLIQUE}, though its controller is {clique.ref}"
                remedy = f"restore the label ({objects.LABEL_POD_CLIQUE}={clique.ref.name}), or delete the pod"
                yield FOREIGN.found(pod.ref, pointer("metadata", "labels", objects.LABEL_POD_CLIQUE), message, remedy)
            if not pod.template_hash and facts.tree.pcs.on_delete:
                yield LEFT_ALONE.found(pod.ref, field, f"{lacks}; it is left alone")
            elif not pod.template_hash:
                remedy = "delete the pod, or restore the label if it was removed"
                yield FOREIGN.found(pod.ref, field, lacks, remedy, overridable=True)


def leftovers(facts: base.SetFacts) -> Iterator[Finding]:
    """OnDelete keeps pods of older templates on purpose; they stay as they are."""
    for stored in facts.values[Verdict.LEFTOVER]:
        message = (
            f"holds {stored.value} in {stored.field}, the hash of an older template; updateStrategy is OnDelete, so it "
            "is left alone and counts as outdated after the upgrade as it does now"
        )
        yield LEFT_ALONE.found(stored.ref, stored.field, message)


def _holds(facts: base.SetFacts, stored: places.StoredHash) -> str:
    text = f"holds {stored.value} in {stored.field}"
    if not facts.values[Verdict.SOURCE] and not facts.values[Verdict.TARGET]:
        return f"{text}, which is not the current spec's hash under any scheme that was tried"
    source, target = (f"{one.scheme}'s {one.of(stored.clique)}" for one in (facts.pair.source, facts.pair.target))
    return f"{text}, which is not {target}" if source == target else f"{text}, which is neither {source} nor {target}"


def _pruned(facts: base.SetFacts) -> str:
    """What else to do if the CRDs of the next release came first: the API server returns no field that they lack.

    If no value is explained, the source may be that of any known release.
    """
    is_known, source, target = bool(facts.values[Verdict.SOURCE]), facts.pair.source.scheme, facts.pair.target.scheme
    minors = {source.minor} if is_known else {scheme.minor for scheme in table.released_schemes()}
    lost = sorted({name for minor in minors for name in layouts.lost(minor, target.minor)})
    if not lost:
        return ""
    return (
        f"; if the next release's CRDs are installed already, they may have removed a field that this hash covers "
        f"({', '.join(lost)}): install the running release's CRDs again, and set the field again if it is gone"
    )


def _not_in_template(facts: base.SetFacts, pod_clique: objects.PodClique) -> _Cause | None:
    if pod_clique.clique in facts.pair.source.templates:
        return None
    what = f"clique {pod_clique.clique}" if pod_clique.clique else "a clique that its labels do not name"
    message = (
        f"is of {what}, which the template of {facts.tree.ref} does not have, so its hashes cannot be "
        "recomputed: the operator is still removing it, or did not make it"
    )
    remedy = "let the operator finish, or delete it"
    field = places.POD_LABEL.pointer
    return _Cause(FOREIGN.found(pod_clique.ref, field, message, remedy, overridable=True, settles=True))


def _suffix_trap(facts: base.SetFacts, pod_clique: objects.PodClique) -> _Cause | None:
    """The PodClique is made from one template and hashed by the name of another.

    The webhook lets nobody rename cliques, and reorders them under AnyOrder only
    (``operator/internal/webhook/admission/pcs/validation/podcliqueset.go:validatePodCliqueUpdate``).
    """
    clique, templates, targets = pod_clique.clique, facts.pair.source.templates, facts.pair.target.templates
    match = quirks.template_by_suffix(facts.tree.pcs, pod_clique.ref.name)
    if templates[match] == templates[clique] and targets[match] == targets[clique]:
        return None
    message = (
        f"is made from the template of clique {match} instead of {clique}, because the operator "
        f"compares name endings and {match} comes first"
    )
    remedy = (
        f"put {clique} before {match} in the PodCliqueSet and let the operator roll that out before the upgrade; where "
        "Grove's webhook allows no other order (a cliqueStartupType other than AnyOrder), recreate the set with other "
        "names, or accept that the upgrade replaces its pods (--skip-refused)"
    )
    finding = FOREIGN.found(pod_clique.ref, places.POD_LABEL.pointer, message, remedy)
    return _Cause(finding, frozenset({templates[match], targets[match]}))


def _mnnvl(facts: base.SetFacts, pod_clique: objects.PodClique) -> _Cause | None:
    """The PodClique has GPUs, and may have been hashed with the claim that its operator injected."""
    pcs, label, old, new = facts.tree.pcs, pod_clique.template_hash or "", facts.pair.source, facts.pair.target
    is_foreign = label not in {"", *(hashes.templates[pod_clique.clique] for hashes in (old, new))}
    has_gpu = any(clique.get("name") == pod_clique.clique and _has_gpu(clique) for clique in pcs.cliques)
    if not is_foreign or not has_gpu or not quirks.hashes_injected_claims(old.scheme, pcs.annotations, pod_clique):
        return None
    message = (
        f"runs GPUs under the annotation {quirks.ANNOTATION_AUTO_MNNVL}=enabled: alpha.6 and alpha.7 "
        "hash the claims that they inject, so this hash and those of its pods cannot be recomputed"
    )
    remedy = (
        "upgrade to alpha.8 first, which hashes as alpha.7 does and still injects the claims, and replace the pods "
        "that keep such a hash (alpha.9 and later ignore the annotation: GM-305)"
    )
    return _Cause(FOREIGN.found(pod_clique.ref, places.POD_LABEL.pointer, message, remedy), frozenset({label}))


def _has_gpu(clique: Mapping[str, Any]) -> bool:
    """Whether a container has a limit of them; a request without one is no pod."""
    pod_spec = objects.pod_spec_of(clique)
    containers = chain(pod_spec.get("containers") or (), pod_spec.get("initContainers") or ())
    return any(whole_units(limits_of(container).get(_GPU)) for container in containers)


GUARDS: Final[tuple[base.Guard, ...]] = (FOREIGN, NEVER_RECONCILED, LEFT_ALONE, UNKNOWN_PLACE)
CHECKS: Final = (never_reconciled, foreign, unknown_places, missing, leftovers)
