"""Two clusters in which the same happens, except that migrators run in the first one only, and what must hold there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeVar

from migrator.errors import Reverted
from testbed.trees import Object
from tests.faults import cluster, invariants, users
from tests.faults.invariants import none
from tests.faults.operators import ALPHA_9, ALPHA_11, Line, would_roll
from tests.faults.process import DONE, FAILED, KILLED, NO_RECORD, REFUSED, STUCK, Ending
from tests.faults.world import World

T = TypeVar("T")

_LATE: Final = 60.0


class ShadowedCluster:
    """The clusters ``world``, with migrators, and ``shadow``; and what has happened to them.

    ``next_line`` is the next operator's; once ``upgraded``, the old one never runs again. ``done``: a run has succeeded
    and was not reverted. ``meddled``: an old operator was awake beside half-migrated sets, so that the clusters differ
    in what it did. ``moved``: sets that were edited while they had new hashes, or that the old operator saw committed.
    ``begun``: committed sets of which the old operator has begun an update; it replaces hashes there that no revert
    restores. ``marked``: sets in which a user wrote a hash. ``planted``: values that were the target's from the
    beginning, and ``unplanted`` the sets in which a migrator gave one of them the old value (W1). ``returned``: new
    hashes of an earlier template that became those of the present one again (W14). ``pending``: something happened
    since a run succeeded. ``restored``: a user gave the operator its replicas back.
    """

    def __init__(self, objects: Sequence[Object], line: Line = ALPHA_11, *, planted: bool = False) -> None:
        self.next_line = line
        self.world, self.shadow = World(objects), World(objects)
        self._read: dict[int, tuple[str, invariants.Objects]] = {}
        self.table = self.world.checker.table
        self.upgraded = self.done = self.meddled = self.restored = False
        self.pending = True
        self.moved: set[str] = set()
        self.begun: set[str] = set()
        self.marked: set[str] = set()
        self.planted = set(invariants.all_hash_fields(self.here).items()) if planted else set()
        self.unplanted: set[str] = set()
        self.returned: set[invariants.HashField] = set()
        self.others = {cluster.OLDER, users.FOREIGN, *(value for _, value in self.planted)}

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def here(self) -> invariants.Objects:
        return self._seen(self.world)

    @property
    def there(self) -> invariants.Objects:
        return self._seen(self.shadow)

    @property
    def sets(self) -> dict[str, Object]:
        return {key[2]: pcs for key, pcs in self.here.items() if key[0] == "PodCliqueSet"}

    @property
    def odd(self) -> set[str]:
        """Sets whose update the old operator has begun, and that hold values which no revert restores.

        After the upgrade also every set in which a user wrote a hash: without us the upgrade replaced that pod, with us
        the next update of its set does.
        """
        odd = self.begun if self.planted else self.begun & self.marked
        return odd | self.marked if self.upgraded else odd

    def _seen(self, world: World) -> invariants.Objects:
        """Grove's objects but for pods that are being deleted, read once after each write."""
        version, found = self._read.get(id(world), ("", {}))
        if version != world.store.version:
            found = {k: item for k, item in world.grove().items() if not item["metadata"].get("deletionTimestamp")}
            self._read[id(world)] = (world.store.version, found)
        return found

    def translated(self) -> dict[invariants.HashField, str]:
        """The new hashes that migrators wrote."""
        return dict(invariants.translated(self.here, self.there, self.table).items() - self.planted)

    def left(self) -> dict[invariants.HashField, str]:
        """The new hashes that matter to an old operator.

        Hashes of an earlier template do not matter in a set that an old operator saw committed, or that was edited
        while it had new hashes: they are outdated by either scheme, and the record of a run after an edit does not have
        them.
        """
        sets = self.sets

        def is_present(hash_field: invariants.HashField, value: str) -> bool:
            if hash_field.set_name not in sets:
                return True
            pair = self.table.present(sets[hash_field.set_name]).get(hash_field.clique)
            return pair is None or pair.new == value

        found, edited = self.translated(), self.begun | self.moved
        return {s: value for s, value in found.items() if s.set_name not in edited or is_present(s, value)}

    # --- what happens to both ---------------------------------------------------------------------------------------

    def happens(self, kind: str, choice: int, number: int, *, written: bool = False) -> None:
        """A user or a node acts in both clusters.

        ``written``: during a run, which may write after an edit what it planned before: only the set's own patch tests
        the spec, and that one comes last.
        """
        name = users.set_named(choice)
        self.pending = True
        if kind in users.EDITS and (any(hash_field.set_name == name for hash_field in self.translated()) or written):
            self.moved.add(name)
        if kind == "mark":
            self.marked |= users.marks(self.world, choice)
        outdated = self.translated().keys() - self.left().keys()
        self._both(lambda world: users.act(world, kind, choice, number))
        self.returned |= outdated & self.left().keys()

    def old_operator(self, replacing: int | None) -> None:
        """Start the old operator, which ends after so many replaced pods; beside new hashes before it replaces any.

        docs/upgrade.md forbids to let it work there.
        """
        if dirty := self.translated():
            replacing, self.meddled = 0, True
            self.moved |= committed(dirty)
            self.begun |= committed(dirty)
        elif self.meddled or self.unplanted:  # an update continues here, or a pod is old here: its one pod is another
            replacing = None
        self._wake(cluster.SOURCE, ALPHA_9, cluster.OLD_IMAGE, replacing)
        if replacing == 0:
            self.world.deploy(replicas=0)
            self.world.advance(_LATE)

    def new_operator(self) -> None:
        """Start the next operator, which works to its end."""
        self._wake(cluster.TARGET, self.next_line, cluster.NEW_IMAGE, None, but=self.unplanted)
        self.upgraded = True
        none("rollouts that were hidden", invariants.hidden(self.here))

    def _wake(
        self, scheme: str, line: Line, image: str, replacing: int | None, *, but: Collection[str] = frozenset()
    ) -> None:
        self.world.deploy(replicas=1, image=image)
        self.world.advance(_LATE)
        odd = self.odd.union(but)
        replaced = self._both(lambda world: world.operate(scheme, line, replacing=replacing))
        here, there = map(invariants.by_pod_clique, replaced)
        none("replaced by an operator", invariants.more(here, there, lambda name: set_in(name) not in odd))

    def _both(self, action: Callable[[World], T]) -> tuple[T, T]:
        """The same in both clusters, at the same time."""
        self.shadow.seconds = self.world.seconds
        done = action(self.world), action(self.shadow)
        self.world.checker.learn()
        return done

    # --- what must hold ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check the invariants.

        No object holds a hash that is neither of its own nor was there before, and the hash of a set comes last.
        """
        if not self.translated() and not self.upgraded:  # all is as without us
            self.moved.clear()
            self.returned.clear()
            self.done, self.pending = False, True
        self._note_unplanted()
        none("strange values", invariants.strange(self.here, self.table, self.others))
        if not self.upgraded:  # an operator commits first, and then updates
            again = {field.set_name for field in self.returned}  # W14: what an edit hid from a revert is current again
            here = {key: item for key, item in self.here.items() if cluster.set_of(item) not in again}
            none("early commits", invariants.half_committed(here, self.table))
        self._next_operator_rolls_no_more()
        if not self.upgraded:
            self._old_operator_rolls_no_more()

    def _note_unplanted(self) -> None:
        """W1, accepted: a revert gives the target's values from before the run the old value too."""
        here, there = map(invariants.all_hash_fields, (self.here, self.there))
        old = (field for field, value in self.planted if there.get(field) == value != here.get(field, value))
        self.unplanted |= {field.set_name for field in old}

    def _next_operator_rolls_no_more(self) -> None:
        """Of a committed set it replaces nothing, except pods that a user gave another hash; and but for W1."""
        here, there = (_rolled(objects, cluster.TARGET, self.next_line) for objects in (self.here, self.there))
        odd = self.odd | self.unplanted
        none("replaced by the next operator", invariants.more(here, there, lambda name: set_in(name) not in odd))
        safe = {name for name, pcs in self.sets.items() if invariants.is_committed(pcs, self.table)} - self.marked
        safe -= {field.set_name for field in self.returned}
        none("replaced by the next operator, though committed", [name for name in here if set_in(name) in safe])

    def _old_operator_rolls_no_more(self) -> None:
        """Of every set once all is reverted; before that, of each set that is neither committed nor edited."""
        here, there = (_rolled(objects, cluster.SOURCE, ALPHA_9) for objects in (self.here, self.there))
        dirty = self.translated()
        # An update that the old operator has begun continues beside half-migrated children. If it was interrupted here,
        # it replaces later what it has replaced already in the other cluster.
        going_on = _updating(self.here) if dirty or self.meddled else set()
        safe = set(users.NAMES) - self.odd - going_on - (committed(dirty) | self.moved if dirty else set())
        none("replaced by the old operator", invariants.more(here, there, lambda name: set_in(name) in safe))
        if not dirty and not self.meddled and not self.unplanted:
            none("not as without us", invariants.differences(self.here, self.there))

    def check_ending(self, ending: Ending, *, revert: bool) -> None:
        assert ending.code in {DONE, FAILED, NO_RECORD, REFUSED, STUCK, KILLED}, str(ending)
        # The run was killed or lost the Lease after everything was done and recorded.
        closed = ending.code in {KILLED, STUCK} and self.world.record_state == "done" and self.translated()
        if (ending.code == DONE or closed) and not revert:
            self.done, self.pending = True, False
        left = self.left()
        if isinstance(ending.error, Reverted) and not self.done:
            none(f"left by {ending}", left)
        if self.world.replicas and ending.code != KILLED and not self.upgraded and not self.restored:
            none(f"the old operator may run after {ending}, beside", left.keys() - self.returned)


def _rolled(objects: invariants.Objects, scheme: str, line: Line) -> Counter[str]:
    return invariants.by_pod_clique(would_roll(objects, scheme, line))


def _updating(objects: invariants.Objects) -> set[str]:
    """The sets with an update that has not ended, of their own or of a PodClique."""
    found = ((key[2], item.get("status", {}).get("updateProgress")) for key, item in objects.items() if key[0] != "Pod")
    return {set_in(name) for name, progress in found if progress and not progress.get("updateEndedAt")}


def committed(translated: Iterable[invariants.HashField]) -> set[str]:
    """The sets whose commit record is among what was translated."""
    return {hash_field.set_name for hash_field in translated if hash_field.path[-1] == "currentGenerationHash"}


def set_in(name: str) -> str:
    return name.partition("-")[0]
