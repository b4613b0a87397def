"""A model of what Grove's operator does to hashes and pods, comparison by comparison (K1 to K15).

Each is cited as ``file:function`` under ``operator/internal/controller`` where it is modelled, in
:mod:`tests.simulation.updates` and :mod:`tests.simulation.statuses`. All pods are ready at once, a pod that is being
deleted is gone, and the replicas of a set are updated all at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Final

from migrator.hashing import podcliqueset, schemes
from testbed.trees import Object
from tests.simulation import updates
from tests.simulation.cluster import Key
from tests.simulation.lines import ALPHA_11, Line
from tests.simulation.statuses import OneSet
from tests.simulation.tree import FOREVER, Tree
from tests.support.memory_objects import copied

_SETTLED: Final = 5


class Operator:
    """An operator that speaks one scheme, at work on Grove's ``objects``, which it changes in place.

    ``now`` is what it writes as the time.
    """

    def __init__(
        self, objects: dict[Key, Object], scheme: str, line: Line = ALPHA_11, now: str = "2026-04-01T00:00:00Z"
    ) -> None:
        self.objects = objects
        self.scheme = scheme
        self.line = line
        self._tree = Tree(objects, now)

    @property
    def deleted(self) -> list[str]:
        """The names of the pods that it has replaced."""
        return self._tree.deleted

    def reconcile(self, replacing: int = FOREVER) -> list[str]:
        """Reconcile everything once, as at a start (K15), or until so many pods were replaced; returns their names."""
        self._tree.left = replacing
        before = len(self.deleted)
        for item in list(self.objects.values()):
            if item["metadata"].get("deletionTimestamp"):
                self._tree.remove(item)
        for pcs in self._tree.all("PodCliqueSet"):
            updates.reconcile(OneSet(self._tree, pcs, _computed(json.dumps(pcs["spec"]), self.scheme), self.line))
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


def would_roll(objects: Mapping[Key, Object], scheme: str, line: Line = ALPHA_11) -> frozenset[str]:
    """The pods that an operator of this scheme and line would replace if it were started now, by name."""
    model = Operator(copied(dict(objects)), scheme, line)
    return frozenset(model.settle()) & {key[2] for key in objects if key[0] == "Pod"}


@cache
def _computed(spec: str, scheme: str) -> podcliqueset.PodCliqueSetHashes:
    return podcliqueset.hash_pod_clique_set({"spec": json.loads(spec)}, schemes.by_name(scheme))
