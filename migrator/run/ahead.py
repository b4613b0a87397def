"""What a run would find and do, read before it begins: the user is shown it, and asked."""

from __future__ import annotations

from dataclasses import dataclass

from migrator.grove.model import Plan
from migrator.run.context import Context, RunOptions
from migrator.run.decisions import Phase
from migrator.run.observation import batches_of, glance, read_sets, refusals_of
from migrator.run.operator import Operator
from migrator.store import Store


@dataclass(frozen=True, slots=True)
class Ahead:
    """``patches`` is how many the plan takes; ``continues``: an earlier run did not end."""

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
    control = glance(store, options)
    plan = read_sets(store, options, context, control, Phase.START).plan
    patches = sum(len(batch.patches) for batch in batches_of(plan, options))
    return Ahead(control.found.operator, plan, patches, control.recorded.unfinished is not None)
