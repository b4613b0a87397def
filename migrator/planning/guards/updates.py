"""Guards on what the operators have begun or are about to do: updates in flight, and the termination of gangs.

An update is in flight if Grove records it as unfinished, and a pod or PodClique that it waits for is missing or not
ready, but can still become ready. There are three cases:

A. Something old is left to replace: a migration would hide that. GM-102, without an override.
B. Nothing old is left, but something that the update waits for is not there yet: GM-102, ``--allow`` accepts it.
C. It waits for nothing, or its end is impossible by Grove's own rule: GM-107, a warning.

``rollingUpdateProgress`` (alpha.1 to alpha.8) and ``updateProgress`` (alpha.7 and later) are both read; the installed
CRDs decide which of them is visible. An update in both fields is reported once, by the newer field.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final, TypeVar

from migrator.exact_json import integer, seconds
from migrator.grove import objects
from migrator.grove.places import CLIQUE_LABEL, open_progress
from migrator.hashing.schemes import CANONICAL
from migrator.planning.guards import base
from migrator.planning.model import Finding
from migrator.releases import quirks

_WAIT: Final = "let the running operator finish, or run with --wait 10m"
_UNTIL_GONE: Final = f"{_WAIT}; if its node is lost, delete its pods with --force"
_OPEN: Final = "has an update that has not ended"
_IDLE: Final = f"{_OPEN}; once the set is migrated, it replaces no pod"
_BEGUN: Final = "; the next operator has begun to update the set, and recreates what is left if it goes on"
_GO_BACK: Final = "to spare what is left, go back to the old release, let that finish, and run again"
#: How many missing PodCliques of a set are told at most: it may ask for two billion replicas.
_MISSING: Final = 20
T = TypeVar("T")

IN_FLIGHT: Final = base.Guard(
    "GM-102", "update-in-flight", "An update of the set is in flight", _WAIT, overridable=True
)
UNSEEN: Final = base.Guard("GM-105", "unseen-generation", "The operator has not seen the newest generation", _WAIT)
TERMINATION: Final = base.Guard(
    "GM-116",
    "gang-termination",
    "Gang termination would happen during the downtime",
    "bring its pods back first, or raise spec.template.terminationDelay",
    overridable=True,
    question="whether a gang would be terminated during the downtime",
)
REVISIONS: Final = base.Guard(
    "GM-120", "controller-revisions", "ControllerRevisions manage the set", "upgrade without grove-migrator"
)


def in_flight(facts: base.SetFacts) -> Iterator[Finding]:
    """Updates that are recorded as unfinished, and objects that are being deleted; see the cases of this module."""
    tree, deletion = facts.tree, "/metadata/deletionTimestamp"
    terminating = [item for item in (*tree.children, *tree.pod_gang_maps) if item.terminating]
    updates = [(item, name) for item in (tree.pcs, *tree.children) if (name := open_progress(item))]
    if facts.pods_await_replacement:
        for item in terminating:
            yield _old_is_left(facts, item, deletion, "is being deleted", _UNTIL_GONE)
        for item, name in updates:
            yield _old_is_left(facts, item, f"/status/{name}", _OPEN, _WAIT + _if_stuck(facts, item, name))
        return
    ending = "is being deleted, with the pods that it has"
    awaited = [_in_between(facts, item, deletion, ending, _UNTIL_GONE) for item in terminating]
    if not tree.pcs.on_delete:  # which orchestrates nothing
        awaited += _awaited(facts)
    yield from awaited or (base.IDLE.found(item.ref, f"/status/{name}", _IDLE) for item, name in updates)  # case C


def _in_between(
    facts: base.SetFacts, item: objects.GroveObject, field: str | None, message: str, remedy: str = _WAIT
) -> Finding:
    """Case B. An update that the next operator has begun is not waited for: it would recreate what is left."""
    if facts.next_has_begun:
        return IN_FLIGHT.found(item.ref, field, f"{message}{_BEGUN}", "", overridable=True)
    return IN_FLIGHT.found(item.ref, field, message, remedy, overridable=True, settles=True)


def _old_is_left(facts: base.SetFacts, item: objects.GroveObject, field: str, message: str, remedy: str) -> Finding:
    """Case A. If the next operator were to end it, that would cost pods of the present template, too.

    The old operator leaves those alone, but not beside hashes that a run has written: then nothing advises it.
    """
    message = f"{message}, and something old is left to replace"
    if facts.next_recreates:
        return IN_FLIGHT.found(item.ref, field, message + _BEGUN, "" if facts.recorded else _GO_BACK)
    return IN_FLIGHT.found(item.ref, field, message, remedy, settles=True)


def reported(facts: base.SetFacts) -> Iterator[Finding]:
    """Actions that the operator itself reports as under way; none of them deletes a pod because of a hash.

    GangTerminationInProgress stays as long as GPUs are missing
    (alpha.12-rc1: ``podcliquescalinggroup/reconcilestatus.go:mutateMinAvailableBreachedCondition``), and
    PodGangMigrationInProgress may stay for ever (Grove issue 808).
    """
    tree = facts.tree
    for item in (*tree.scaling_groups, tree.pcs):
        name = "PodGangMigrationInProgress" if item is tree.pcs else "GangTerminationInProgress"
        if objects.condition(item, name).get("status") == "True":
            message = f"has the condition {name}; it replaces no pod because of a hash"
            yield base.IDLE.found(item.ref, "/status/conditions", message)
    if tree.pcs.status.get("currentRevision"):
        message = (
            "is managed by ControllerRevisions (status.currentRevision): such an operator adopts old hashes "
            "automatically"
        )
        yield REVISIONS.found(tree.ref, "/status/currentRevision", message)


def observed_generation(facts: base.SetFacts) -> Iterator[Finding]:
    """The operator has not reconciled the newest generation, and the source is canonical by nothing but the hashes.

    The legacy hash of a template whose lists are in canonical order is the canonical hash of that template in any
    order. So a set that was reordered under a legacy operator would look like one of a canonical operator. Under any
    other source an unseen edit shows in the generation hash: GM-101.
    """
    pcs = facts.tree.pcs
    if pcs.is_observed or facts.pair.source.scheme.algorithm != CANONICAL or facts.recorded:
        return
    seen = pcs.status.get("observedGeneration") or "none"
    message = (
        f"is at generation {pcs.generation}, and the operator has seen {seen}; its hash may be a canonical operator's, "
        "or that of a legacy operator which has not seen a reordered list yet"
    )
    yield UNSEEN.found(pcs.ref, "/status/observedGeneration", message, settles=True)


def gang_termination(facts: base.SetFacts) -> Iterator[Finding]:
    """Gangs that the next operator would delete at its start: it judges by the stored condition, and downtime counts.

    Grove: ``podcliqueset/components/podcliquesetreplica/gangterminate.go`` ends a gang once ``terminationDelay - (now -
    lastTransitionTime)`` is not above zero. From alpha.12-rc1 on it leaves some alone.
    """
    tree, now = facts.tree, facts.now
    if now is None:
        return
    delay = tree.pcs.template.get("terminationDelay") or quirks.DEFAULT_TERMINATION_DELAY
    breached = quirks.breaches(tree, spares=quirks.from_rc1_on(facts.builds))
    for item in breached:
        since = objects.condition(item, "MinAvailableBreached").get("lastTransitionTime")
        if quirks.left_to_group(item, tree, breached) or _seconds_left(delay, since, now) > facts.downtime:
            continue
        message = (
            f"is below its minimum since {since} (MinAvailableBreached), and its termination delay of {delay} ends "
            f"within the expected downtime of {facts.downtime:.0f} s: the next operator would delete the gang"
        )
        yield TERMINATION.found(item.ref, "/status/conditions", message, overridable=True)


def _seconds_left(delay: object, since: object, now: datetime) -> float:
    """The seconds until gang termination; ``-inf`` if the operator cannot know them: it acts at once."""
    began, lasts = objects.kubernetes_time(since), seconds(str(delay))
    return -math.inf if began is None or lasts is None else lasts - (now - began).total_seconds()


def _if_stuck(facts: base.SetFacts, item: objects.GroveObject, name: str) -> str:
    """What else helps if PodCliques of a scaling group's selected replica are still old: none deletes them again."""
    selected = item.status[name].get("readyReplicaIndicesSelectedToUpdate")
    if not selected:
        return ""
    index, old = str(selected.get("current", 0)), {one.ref.uid for one in facts.foreign if one.place is CLIQUE_LABEL}
    members = (clique for clique in facts.tree.pod_cliques if clique.owner_uid == item.ref.uid)
    stuck = [str(clique.ref) for clique in members if clique.group_index == index and clique.ref.uid in old]
    return f"; if it does not, delete {', '.join(stuck)}, which it has selected and left behind" if stuck else ""


def _awaited(facts: base.SetFacts) -> Iterator[Finding]:
    """Case B: the PodCliques for which an open update waits: the set's, their scaling group's or their own."""
    tree, replicas = facts.tree, _updating(facts.tree.pcs)
    groups = {group.ref.uid for group in tree.scaling_groups if open_progress(group)}
    for clique in tree.pod_cliques:
        of_set = clique.standalone and _number(clique.set_index) in replicas
        is_awaited = of_set or clique.owner_uid in groups or open_progress(clique)
        if is_awaited and (lacks := _lacks(clique)) and not clique.terminating:
            yield _in_between(facts, clique, "/status/readyReplicas", f"{lacks}, and an update waits for it")
    for owner, name in islice(_missing(tree, replicas), _MISSING):
        yield _in_between(facts, owner, None, f"lacks {name}, and an update waits for it")


def _lacks(clique: objects.PodClique) -> str | None:
    """What a PodClique lacks and can still get; Grove never ends an update of one that is scaled below its minimum."""
    live, replicas = len(clique.live), integer(clique.spec.get("replicas"), 1)
    if live < replicas:
        return f"has {live} of its {replicas} pods"
    ready, least = integer(clique.status.get("readyReplicas")), integer(clique.spec.get("minAvailable"), 1)
    needed = max(least if least <= replicas else 0, min(_selected_pods(clique), replicas))
    return f"has {ready} of at least {needed} ready pods" if ready < needed else None


def _selected_pods(clique: objects.PodClique) -> int:
    """How many pods the PodClique's own open update has selected so far; so many new ones must be ready to go on.

    Grove: ``podclique/components/pod/rollingupdate.go:isCurrentPodUpdateComplete``, the same from alpha.2 to
    alpha.12-rc1. A replica of a scaling group is replaced as a whole instead.
    """
    name = open_progress(clique)
    selected = clique.status[name].get("readyPodsSelectedToUpdate") or {} if name and clique.standalone else {}
    return len(selected.get("completed") or ()) + 1 if selected.get("current") else 0


def _missing(tree: objects.Tree, replicas: Iterable[int]) -> Iterator[tuple[objects.GroveObject, str]]:
    """The PodCliques for which an open update waits and that do not exist, with their owners."""
    there = {(clique.set_index, clique.clique) for clique in tree.pod_cliques}
    for index, clique in _pairs(replicas, tree.pcs.standalone):
        if (str(index), clique.get("name")) not in there:
            yield tree.pcs, f"PodClique {clique.get('name')} of replica {index}"
    members = {(clique.owner_uid, clique.group_index, clique.clique) for clique in tree.pod_cliques}
    for group in filter(open_progress, tree.scaling_groups):
        names = group.spec.get("cliqueNames") or ()
        for index, name in _pairs(range(integer(group.spec.get("replicas"))), names):
            if (group.ref.uid, str(index), name) not in members:
                yield group, f"PodClique {name} of its replica {index}"


def _updating(pcs: objects.PodCliqueSet) -> Sequence[int]:
    """The indices of the replicas that an open update of the set works on: those that it names, otherwise all.

    ``currentlyUpdating`` is an object in ``rollingUpdateProgress`` and a list in ``updateProgress``. An entry that has
    ended stays until the operator goes on to the next replica.
    """
    name = open_progress(pcs)
    if name is None:
        return ()
    updating: Any = pcs.status[name].get("currentlyUpdating") or []
    entries: list[Mapping[str, Any]] = updating if isinstance(updating, list) else [updating]
    named = {integer(entry.get("replicaIndex")) for entry in entries if not entry.get("updateEndedAt")}
    replicas = range(integer(pcs.spec.get("replicas")))
    return [one for one in sorted(named) if one in replicas] if named else replicas


def _number(index: str | None) -> int:
    """A replica's index by its label; -1, which no replica has, if it is none."""
    return int(index) if index is not None and index.isdecimal() else -1


def _pairs(replicas: Iterable[int], members: Sequence[T]) -> Iterator[tuple[int, T]]:
    """Each replica with each member, made one by one: a set may ask for two billion replicas."""
    return ((index, member) for member in members for index in replicas)


GUARDS: Final[tuple[base.Guard, ...]] = (IN_FLIGHT, UNSEEN, base.IDLE, TERMINATION, REVISIONS)
CHECKS: Final = (in_flight, reported, observed_generation, gang_termination)
