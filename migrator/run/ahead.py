"""What a run would find and do, read before it begins, for whoever is asked whether it should."""

from __future__ import annotations

from dataclasses import dataclass, replace

from migrator.grove.model import Plan
from migrator.planning.patches import backward, forward
from migrator.run.context import Context, RunOptions
from migrator.run.decisions import Point
from migrator.run.observation import observe, pending, read_sets, refusals_of
from migrator.run.operator import Operator
from migrator.run.record import Recorder
from migrator.store import Store


@dataclass(frozen=True, slots=True)
class Ahead:
    """``patches`` is how many the plan takes; ``continues`` tells that a run of before did not end."""

    operator: Operator | None
    plan: Plan
    patches: int
    continues: bool

    @property
    def writes(self) -> bool:
        """Whether the run would do anything but look: one that is refused, or finds nothing to do, does not."""
        return self.continues or (bool(self.patches) and not refusals_of(self.plan))


def look_ahead(store: Store, options: RunOptions, context: Context) -> Ahead:
    """Read what the run would read first; raises what the run would raise."""
    control = observe(store, options, None, None, everywhere=True)
    if control.found.home is not None:
        control = replace(control, recorded=Recorder(store, control.found.home).load())
    plan = read_sets(store, options, context, control, Point.START).plan
    batches = [backward(tree) if options.revert else forward(tree) for tree in pending(plan)]
    patches = sum(len(batch.patches) for batch in batches)
    return Ahead(control.found.operator, plan, patches, control.recorded.unfinished is not None)
