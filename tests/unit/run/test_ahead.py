"""What a run would do, before it begins."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from migrator.errors import Interrupted, Refused
from migrator.planning.options import PlanOptions
from migrator.run import migration
from migrator.run.context import Context, RunOptions
from migrator.run.observation import look_ahead
from migrator.run.record import Recorded, Recorder, RecordState, RunRecord
from migrator.store import DryRun
from tests.support.clock import context_of
from tests.support.memory_site import NEW, Site

OPTIONS = RunOptions(PlanOptions(target=NEW), stop_operator=True)


def context(clock: Callable[[], float] = lambda: 0.0) -> Context:
    """A clock that stands still, and a log that nobody reads."""
    return context_of(clock, lambda: datetime(2026, 1, 1, tzinfo=UTC), "here", sleep=lambda _: None)


def test_it_finds_what_the_run_finds_and_writes_nothing() -> None:
    """Operator, sets and the number of patches are those of the run that follows."""
    site = Site()
    ahead = look_ahead(site.store, OPTIONS, context())
    assert ahead.operator is not None
    assert (ahead.operator.replicas, len([*ahead.patches]), ahead.continues, ahead.writes) == (1, 43, False, True)
    assert site.store.writes() == []
    assert migration.run(site.store, OPTIONS, context()).patches == 43
    after = look_ahead(site.store, OPTIONS, context())
    assert ([*after.patches], after.continues, after.writes) == ([], False, False)


def test_what_is_refused_writes_nothing() -> None:
    """A live operator that is not to be stopped refuses the run."""
    ahead = look_ahead(Site().store, replace(OPTIONS, stop_operator=False), context())
    assert (len([*ahead.patches]), ahead.writes) == (43, False)


def test_a_rehearsal_waits_only_for_what_may_end_without_help() -> None:
    """A live operator that may not be stopped is refused at once, whatever ``--wait`` says."""
    waits = replace(OPTIONS, stop_operator=False, wait=60.0)
    with pytest.raises(Refused, match="GM-122"):
        migration.run(
            Site().store.in_dry_run(DryRun.CLIENT), waits, replace(context(), sleep=lambda _: pytest.fail("it waits"))
        )


def test_a_rehearsal_that_is_told_to_end_is_no_success() -> None:
    """Sets that were not tried are neither proven nor wrong."""

    class SecondTime(threading.Event):
        asked = 0

        def is_set(self) -> bool:
            self.asked += 1
            return self.asked > 1

    with pytest.raises(Interrupted, match="after 1 of 3 sets"):
        migration.run(Site().store.in_dry_run(DryRun.SERVER), OPTIONS, replace(context(), stop=SecondTime()))


def test_a_run_that_did_not_end_is_gone_on_with() -> None:
    """With an open record there is something to do, refused or not: to finish, or to put back."""
    site = Site()
    now = datetime(2026, 1, 1, tzinfo=UTC)
    opened = RunRecord("dead", "dead", "1.0", "auto", NEW, now, finished=None, state=RecordState.STOPPING)
    Recorder(site.store, "grove-system").save(Recorded(opened))
    ahead = look_ahead(site.store, replace(OPTIONS, stop_operator=False), context())
    assert (ahead.continues, ahead.writes) == (True, True)
