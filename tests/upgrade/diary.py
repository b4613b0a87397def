"""What happened to pods, written down from what a watch sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from testbed.controlplane.client import Object
from tests.support.watch import ADDED, DELETED


@dataclass(slots=True)
class PodDiary:
    """What happened to pods of sets since it was opened: which were created, and which deleted."""

    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    _leaving: set[str] = field(default_factory=set)

    def note(self, change: str, pod: Object) -> None:
        """Write a change down; a pod that is asked to go counts as deleted from then on, and once."""
        metadata = pod["metadata"]
        if change == ADDED:
            self.created.append(metadata["name"])
        if (change == DELETED or metadata.get("deletionTimestamp")) and metadata["uid"] not in self._leaving:
            self._leaving.add(metadata["uid"])
            self.deleted.append(metadata["name"])
