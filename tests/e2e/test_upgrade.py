"""An upgrade as a user makes it, with containers that run: the Job and Helm, back again, and without the Job."""

from __future__ import annotations

import time

import pytest

from testbed import workloads
from testbed.controlplane.client import eventually
from tests.e2e import pods
from tests.e2e.installed import NAMESPACE, NEW, OLD, SECONDS
from tests.e2e.scene import GROVE, JOB, WORKLOADS, Scene

pytestmark = [pytest.mark.kind, pytest.mark.timeout(900)]

QUIET_SECONDS = 5  # many looks of the stand-in operator, which recreates pods within one


def test_with_the_job_nothing_is_recreated_there_or_back_and_without_it_everything(recorded: Scene) -> None:
    """The Job, then helm upgrade; the Job with --revert, then helm rollback: every pod stays. Helm alone: none does."""
    begin(recorded)
    before = recorded.uids()
    recorded.run()
    assert recorded.finish()[-1].code == 0
    recorded.operate(NEW)
    assert quiet(recorded) == before
    recorded.kind.kubectl("--namespace", NAMESPACE, "delete", "job", JOB, "--wait")
    recorded.run("--revert", "--yes")
    assert recorded.finish()[-1].code == 0
    recorded.succeed("rollback", "grove")
    recorded.client.patch(recorded.deployment(), {"spec": {"replicas": 1}})
    recorded.runs_operators(1, OLD)
    assert quiet(recorded) == before
    recorded.operate(NEW)

    def recreated() -> bool:
        after = recorded.uids()
        return before.isdisjoint(after) and len(after) == len(before)

    eventually(recreated, what="pods of before are left", seconds=SECONDS, every=0.5)
    assert recorded.written() == len(before)


def begin(scene: Scene) -> None:
    """Let an operator of alpha.9 make workloads, and wait until all of them run."""
    scene.stop_operator()
    scene.clear()
    scene.operate(OLD)
    for pcs in (workloads.standalone("web", namespace=WORKLOADS), workloads.disaggregated(namespace=WORKLOADS)):
        scene.client.create(pods.small(pcs))
    eventually(lambda: all_run(scene), what="the workloads do not run", seconds=SECONDS, every=0.5)


def all_run(scene: Scene) -> bool:
    """Whether the operator is done with every set, and every pod is running."""
    done = all(pcs.get("status", {}).get("currentGenerationHash") for pcs in scene.client.list(GROVE, "PodCliqueSet"))
    return done and all(pod["status"]["phase"] == "Running" for pod in scene.pods())


def quiet(scene: Scene) -> set[str]:
    """The pods of all sets, by uid, once the operator that runs has looked at everything many times."""
    time.sleep(QUIET_SECONDS)
    eventually(lambda: all_run(scene), what="the workloads do not run", seconds=SECONDS, every=0.5)
    return scene.uids()
