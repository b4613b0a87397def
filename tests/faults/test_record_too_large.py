"""Runs whose record a ConfigMap cannot hold."""

from __future__ import annotations

from secrets import token_hex

import pytest
from structlog import ReturnLogger, wrap_logger
from structlog.testing import LogCapture

from migrator.run import observation, record
from migrator.run.record import MOST
from tests.faults.process import DONE, REFUSED
from tests.faults.world import World


def test_pods_that_a_record_cannot_hold_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration ends well, and says that pods will not be compared; a rerun and a revert find what they need."""
    many = {"a": tuple(token_hex(8) for _ in range(MOST // 8))}
    monkeypatch.setattr(observation, "pods_of", lambda _tree: many)
    world, said = World(), LogCapture()
    assert world.start(log=wrap_logger(ReturnLogger(), processors=[said])).run().code == DONE
    assert "pods_not_recorded" in {event["event"] for event in said.entries}
    assert (world.grove() == world.after, world.record_state) == (True, "done")
    assert world.run().code == DONE
    assert world.run(revert=True).code == DONE
    assert (world.grove() == world.before, world.replicas) == (True, 1)


def test_a_run_whose_tables_fit_no_record_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before the first patch: the operator gets its replicas again, and no record is left."""
    monkeypatch.setattr(record, "MOST", 1000)  # the run alone has 600 bytes, with its tables 1,400
    world = World()
    ending = world.run()
    assert ending.code == REFUSED
    assert "cannot migrate so many sets" in str(ending.error)
    assert (world.grove() == world.before, world.replicas, world.records) == (True, 1, [])
