"""Runs whose record a ConfigMap cannot hold."""

from __future__ import annotations

from base64 import b64decode

import pytest
from structlog import ReturnLogger, wrap_logger
from structlog.testing import LogCapture

from migrator.resources import CONFIG_MAPS
from migrator.run import record
from migrator.run.record import RUN_NAME
from tests.faults import cluster
from tests.faults.process import DONE, REFUSED
from tests.faults.world import World


@pytest.fixture
def sizes() -> tuple[int, int]:
    """How many bytes the record of a run has: the run, and the tables with their pods."""
    world = World()
    assert world.run().code == DONE
    body = world.store.read(CONFIG_MAPS, cluster.NAMESPACE, RUN_NAME)
    return len(body["data"]["run.json"]), len(b64decode(body["binaryData"]["tables.json.gz"]))


def test_pods_that_a_record_cannot_hold_are_left_out(sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The migration ends well, and says that pods will not be compared; a rerun and a revert find what they need."""
    monkeypatch.setattr(record, "MOST", sum(sizes) - 1)
    world, said = World(), LogCapture()
    assert world.start(log=wrap_logger(ReturnLogger(), processors=[said])).run().code == DONE
    assert "pods_not_recorded" in {event["event"] for event in said.entries}
    assert (world.grove() == world.after, world.record_state) == (True, "done")
    assert world.run().code == DONE
    assert world.run(revert=True).code == DONE
    assert (world.grove() == world.before, world.replicas) == (True, 1)


def test_a_run_whose_tables_fit_no_record_changes_nothing(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before the first patch: the operator gets its replicas again, and no record is left."""
    of_run, of_tables = sizes
    monkeypatch.setattr(record, "MOST", of_run + of_tables // 2)
    world = World()
    ending = world.run()
    assert ending.code == REFUSED
    assert "cannot migrate so many sets" in str(ending.error)
    assert (world.grove() == world.before, world.replicas, world.records) == (True, 1, [])
