"""A guard's entry, which makes its findings, and the facts by which all guards judge a set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from migrator.grove import objects
from migrator.grove.places import POD_LABEL, StoredHash
from migrator.planning import detect, model


@dataclass(frozen=True, slots=True)
class Guard:
    """The entry of a rule: its code, its name, a short title, and what to do (nothing, if empty).

    It refuses a migration, unless it only ``warns``. ``overridable``: ``--allow`` accepts some of its refusals.
    ``question``: what it asks, if it is not always judged.
    """

    code: str
    name: str
    title: str
    remedy: str = ""
    _: KW_ONLY
    warns: bool = False
    overridable: bool = False
    question: str = ""

    def found(
        self,
        ref: objects.Ref | None,
        field: str | None,
        message: str,
        remedy: str | None = None,
        *,
        overridable: bool = False,
        settles: bool = False,
    ) -> model.Finding:
        """A finding of this guard; its remedy is the guard's, unless another is given.

        ``overridable``: ``--allow`` accepts this refusal, and the remedy says so.
        """
        remedy = self.remedy if remedy is None else remedy
        if overridable:
            remedy = f"{remedy}, or run with --allow {self.code}" if remedy else f"run with --allow {self.code}"
        severity = model.Severity.WARNING if self.warns else model.Severity.REFUSAL
        return model.Finding(self.code, severity, ref, field, message, remedy, overridable=overridable, settles=settles)

    def unjudged(self, reason: str) -> model.NotChecked:
        """That this guard could not be judged, because of what is not there or not allowed."""
        return model.NotChecked(self.code, self.question, reason)


#: Found by two modules: ``values`` finds statuses that lag behind, and ``updates`` updates that never end.
IDLE: Final = Guard("GM-107", "idle-update", "An update is recorded that waits for nothing", warns=True)


@dataclass(frozen=True)
class SetFacts:
    """The input of a guard: one set, its hashes under both schemes, and what its stored values are.

    The source's scheme explains most of the set, or all of it (``explained``); the next operator is one of ``builds``.
    ``recorded``: the source is that of a record. ``now`` is ``None`` for a dump, which has no time;
    ``downtime`` of the operator is in seconds. ``possible_hashes`` are all of the cluster, by value.
    """

    tree: objects.Tree
    pair: detect.HashPair
    builds: Sequence[str]
    explained: bool
    values: Mapping[detect.Verdict, Sequence[StoredHash]]
    recorded: bool
    now: datetime | None
    downtime: float
    possible_hashes: Mapping[str, Sequence[objects.PossibleHash]]

    @property
    def foreign(self) -> Sequence[StoredHash]:
        """The values of neither scheme that OnDelete does not permit."""
        return self.values[detect.Verdict.FOREIGN]

    @cached_property
    def lagging(self) -> frozenset[StoredHash]:
        """The foreign values on which no pod depends."""
        return detect.lagging(self.tree, self.foreign)

    @cached_property
    def next_has_begun(self) -> bool:
        """Whether the next operator has begun the update that a migration prevents."""
        return detect.next_has_begun(self.tree, self.pair)

    @cached_property
    def next_recreates(self) -> bool:
        """Whether that update is going to replace pods of the present template, too."""
        return self.next_has_begun and any(one.place is POD_LABEL for one in self.values[detect.Verdict.SOURCE])

    @property
    def pods_await_replacement(self) -> bool:
        """Whether a pod of an older template is to be replaced: a label is missing, or a foreign value does not lag."""
        return len(self.lagging) < len(self.foreign) or detect.unlabelled(self.tree)
