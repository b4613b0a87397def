"""The invariants of the two clusters, and what the exit code of a run claims about them."""

from __future__ import annotations

from collections import Counter

from tests.simulation import cluster, users, witness
from tests.simulation.lines import ALPHA_9, Line
from tests.simulation.operators import would_roll
from tests.simulation.process import KILLED, Ending
from tests.simulation.truth import DONE, FAILED, LOST, NO_RECORD, REFUSED, REVERTED, STUCK
from tests.simulation.twins import Twins, committed, none, set_in


def look(twins: Twins) -> None:
    """Check the invariants.

    A migrator deletes no pod, changes no spec and creates nothing; it writes only hashes, the old or the new one of
    that field, and only under the Lease. No object holds any other hash that was not there before. A commit comes last.
    """
    none("wrong writes", twins.witness.wrongs)
    none("strange values", witness.strange(twins.here, twins.lexicon, twins.others))
    if not twins.upgraded:  # an operator commits first, and then updates
        none("early commits", witness.half_committed(twins.here, twins.lexicon))
    _next_operator_rolls_no_more(twins)
    if not twins.upgraded:
        _old_operator_rolls_no_more(twins)


def _next_operator_rolls_no_more(twins: Twins) -> None:
    """Of a committed set it replaces nothing, except pods that a user gave another hash."""
    here, there = (_rolled(objects, cluster.TARGET, twins.next_line) for objects in (twins.here, twins.there))
    none("replaced by the next operator", witness.more(here, there, lambda name: set_in(name) not in twins.odd))
    safe = {name for name, pcs in twins.sets.items() if witness.is_committed(pcs, twins.lexicon)} - twins.marked
    none("replaced by the next operator, though committed", [name for name in here if set_in(name) in safe])


def _old_operator_rolls_no_more(twins: Twins) -> None:
    """Of every set once all is reverted; before that, of each set that is neither committed nor edited."""
    here, there = (_rolled(objects, cluster.SOURCE, ALPHA_9) for objects in (twins.here, twins.there))
    dirty = twins.translated()
    # An update that the old operator has begun continues beside half-migrated children. If it was interrupted here,
    # it replaces later what it has replaced already in the other cluster.
    going_on = _updating(twins.here) if dirty or twins.meddled else set()
    safe = set(users.NAMES) - twins.odd - going_on - (committed(dirty) | twins.moved if dirty else set())
    none("replaced by the old operator", witness.more(here, there, lambda name: set_in(name) in safe))
    if not dirty and not twins.meddled:
        none("not as without us", witness.differences(twins.here, twins.there))


def claim(twins: Twins, ending: Ending, *, revert: bool = False) -> None:
    """Check that what an ending claims is true."""
    assert ending.code in {DONE, FAILED, NO_RECORD, REFUSED, LOST, REVERTED, STUCK, KILLED}, str(ending)
    # The run was killed or lost the Lease after everything was done and recorded.
    closed = ending.code in {KILLED, LOST} and twins.world.record_state == "done" and twins.translated()
    if (ending.code == DONE or closed) and not revert:
        twins.done, twins.pending = True, False
    left = twins.left()
    if ending.code == REVERTED and not twins.done:
        none(f"left by {ending}", left)
    if twins.world.replicas and ending.code != KILLED and not twins.upgraded and not twins.restored:
        none(f"the old operator may run after {ending}, beside", left)


def _rolled(objects: witness.Objects, scheme: str, line: Line) -> Counter[str]:
    """How many pods of each PodClique an operator would replace."""
    return witness.by_pod_clique(would_roll(objects, scheme, line))


def _updating(objects: witness.Objects) -> set[str]:
    """The sets with an update that has not ended, of their own or of a PodClique."""
    found = ((key[2], item.get("status", {}).get("updateProgress")) for key, item in objects.items() if key[0] != "Pod")
    return {set_in(name) for name, progress in found if progress and not progress.get("updateEndedAt")}
