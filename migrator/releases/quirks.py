"""How the builds of Grove's operator differ: one function each, most with its source in Grove. Pure.

Hashes show the scheme of an operator, not its release, so a question is about all builds that it may be. The sources
are below ``operator/internal/controller``, if nothing else is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from migrator.exact_json import integer
from migrator.grove import objects
from migrator.hashing.schemes import LEGACY, Scheme
from migrator.releases.table import is_before

_FIRST_ON_DELETE: Final = "v0.1.0-alpha.7"
_RC1: Final = "v0.1.0-alpha.12-rc1"

#: A condition that was set at most this many seconds after its object was made counts as its first
#: (``common/component/utils/podclique.go:InitialScheduleGrace``).
INITIAL_SCHEDULE_GRACE: Final = 5.0

#: Grove's default from alpha.2 on, which its webhook stores in every set (alpha.1's: 30 seconds);
#: ``operator/internal/webhook/admission/pcs/defaulting``.
DEFAULT_TERMINATION_DELAY: Final = "4h0m0s"

ANNOTATION_AUTO_MNNVL: Final = "grove.io/auto-mnnvl"
_MNNVL_MINOR: Final = "1.34"  # of alpha.6 and alpha.7; those before have no MNNVL, those after copy the template


def knows_on_delete(names: Sequence[str]) -> bool:
    """Whether one of these leaves the pods of a set with ``updateStrategy: OnDelete`` alone; an unknown build may."""
    return not names or not is_before(names[-1], _FIRST_ON_DELETE)


def from_rc1_on(names: Sequence[str]) -> bool:
    """Whether all of these are alpha.12-rc1 or newer; an unknown one may be older.

    These compare a standalone PodClique with its set's generation hash even if the set is idle
    (``podclique/reconcilespec.go:shouldCheckPendingUpdatesForPCLQ``). They count a member that is scaled below its
    minimum as a breach, and leave some gangs alone (Grove PR 614): :func:`gangs_below_minimum`, :func:`spared`.
    """
    return bool(names) and not is_before(names[0], _RC1)


def updates_without_progress(names: Sequence[str]) -> bool:
    """Whether the build begins an update of each standalone PodClique that stores no progress, whatever its hash is.

    alpha.12-rc1 alone: ``podclique/reconcilespec.go:shouldResetOrTriggerUpdate``, until Grove PR 757.
    """
    return set(names) == {_RC1}


def spared(item: objects.GroveObject) -> bool:
    """Whether operators from alpha.12-rc1 on ignore this member's breach.

    It never was healthy (``WasPCLQEverScheduled``, ``WasPCSGEverHealthy``), or its gang was ended already, and it has
    not recovered (``podcliqueset/components/podcliquesetreplica/gangterminate.go:getMinAvailableBreachedPCSGInfo``). A
    PodClique without that condition is not spared here.
    """
    if objects.condition(item, "GangTerminationInProgress").get("status") == "True":
        return True
    is_clique = isinstance(item, objects.PodClique)
    kind, status = ("PodCliqueScheduled", "False") if is_clique else ("MinAvailableBreached", "True")
    found = objects.condition(item, kind)
    since, created = objects.kubernetes_time(found.get("lastTransitionTime")), objects.kubernetes_time(item.created)
    if found.get("status") != status or since is None or created is None:
        return False
    return (since - created).total_seconds() <= INITIAL_SCHEDULE_GRACE


def gangs_below_minimum(tree: objects.Tree) -> Iterator[tuple[objects.GroveObject, Sequence[objects.PodClique]]]:
    """Members below ``minAvailable``, as wanted or as scheduled, each with the PodCliques that end with it.

    From alpha.12-rc1 on each is a breach of its ``minAvailable`` (``podclique/reconcilestatus.go`` and
    ``podcliquescalinggroup/reconcilestatus.go:computeMinAvailableBreachedCondition``), which after
    ``terminationDelay`` ends the replica of the set, finished pods too, unless it is :func:`spared`. A PodClique of a
    scaling group ends its replica of that group alone, or nothing (:func:`left_to_group`). Without pods there is
    nothing to end. Older operators report no breach at zero.
    """
    below = [item for item in tree.children if _is_below_minimum(item) and not spared(item)]
    if not below:  # as in nearly every set
        return
    breached = [*below, *breaches(tree, spares=True)]
    for item in below:
        ended = [clique for clique in tree.pod_cliques if _ends_with(clique, item)]
        if any(clique.live for clique in ended) and not left_to_group(item, tree, breached):
            yield item, ended


def _is_below_minimum(item: objects.GroveObject) -> bool:
    least, numbers = integer(item.spec.get("minAvailable"), 1), [item.spec.get("replicas")]
    if objects.condition(item, "MinAvailableBreached").get("status") == "False":
        numbers.append(item.status.get("scheduledReplicas"))
    return any(integer(number, least) < least for number in numbers)


def breaches(tree: objects.Tree, *, spares: bool) -> Sequence[objects.GroveObject]:
    """The members that an operator has found below ``minAvailable``; ``spares``: the next one ignores some of them."""
    found = (item for item in tree.children if objects.condition(item, "MinAvailableBreached").get("status") == "True")
    return [item for item in found if not (spares and spared(item))]


def _ends_with(clique: objects.PodClique, item: objects.GroveObject) -> bool:
    if isinstance(item, objects.PodClique) and not item.standalone:
        return (clique.owner_uid, clique.group_index) == (item.owner_uid, item.group_index)
    return clique.set_index == item.set_index


def left_to_group(item: objects.GroveObject, tree: objects.Tree, breached: Sequence[objects.GroveObject]) -> bool:
    """Whether a PodClique's breach ends nothing by itself: without such replicas its group is below its minimum.

    Then the group's own condition decides. Grove: ``podcliquescalinggroup/components/podclique/sync.go``,
    ``processMinAvailableBreachedPCSGReplicas``.
    """
    group = next((group for group in tree.scaling_groups if group.ref.uid == item.owner_uid), None)
    if group is None:
        return False
    members = (one for one in breached if isinstance(one, objects.PodClique) and one.owner_uid == group.ref.uid)
    ended = {member.group_index for member in members}
    return integer(group.spec.get("replicas"), 1) - len(ended) < integer(group.spec.get("minAvailable"), 1)


def template_by_suffix(pcs: objects.PodCliqueSet, name: str) -> str:
    """The clique whose template every operator uses for a PodClique of that name: the first whose name ends its name.

    Its hash is that of the clique with the exact name, though: ``strings.HasSuffix`` in ``buildResource`` of
    ``podclique.go``, in ``podcliqueset/components/podclique`` and in ``podcliquescalinggroup/components/podclique``.
    """
    names = (str(entry.get("name") or "") for entry in pcs.cliques)
    return next(clique for clique in names if name.endswith(clique))


def hashes_injected_claims(scheme: Scheme, annotations: Mapping[str, Any], clique: objects.PodClique) -> bool:
    """Whether the operator may have hashed a standalone PodClique with the IMEX claim that it injects.

    alpha.6 and alpha.7: ``pclq.Spec = pclqTemplateSpec.Spec`` in ``buildResource`` makes no copy of the template, and
    ``operator/internal/mnnvl:InjectMNNVLIntoPodSpec`` changes containers with GPUs.
    """
    is_old = (scheme.algorithm, scheme.minor) == (LEGACY, _MNNVL_MINOR)
    return is_old and clique.standalone and annotations.get(ANNOTATION_AUTO_MNNVL) == "enabled"
