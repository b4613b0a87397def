"""An upgrade as a user makes it, with containers that run: workloads, the Job or the chart, Helm, and back again."""

from __future__ import annotations

import time

import pytest

from testbed import workloads
from testbed.controlplane.client import eventually
from tests.cluster.helm.wrapper import OURS
from tests.e2e import images, pods
from tests.e2e.installed import NEW, OLD, SECONDS, arguments
from tests.e2e.scene import GROVE, JOB, WORKLOADS, Scene

pytestmark = [pytest.mark.kind, pytest.mark.timeout(900)]

QUIET_SECONDS = 5  # many looks of the stand-in operator, which recreates pods within one


@pytest.fixture
def served(recorded: Scene) -> Scene:
    """The cluster with an operator of alpha.9 and the workloads that it has made, all of which run."""
    recorded.stop_operator()
    recorded.clear()
    recorded.operate(OLD)
    for pcs in (workloads.standalone("web", namespace=WORKLOADS), workloads.disaggregated(namespace=WORKLOADS)):
        recorded.client.create(pods.small(pcs))
    eventually(lambda: all_run(recorded), what="the workloads do not run", seconds=SECONDS, every=0.5)
    return recorded


def all_run(scene: Scene) -> bool:
    """Whether the operator is done with every set, and every pod is running."""
    done = all(pcs.get("status", {}).get("currentGenerationHash") for pcs in scene.client.list(GROVE, "PodCliqueSet"))
    return done and all(pod["status"]["phase"] == "Running" for pod in scene.pods())


def quiet(scene: Scene) -> set[str]:
    """The pods of all sets, by uid, once the operator that runs has looked at everything many times."""
    time.sleep(QUIET_SECONDS)
    eventually(lambda: all_run(scene), what="the workloads do not run", seconds=SECONDS, every=0.5)
    return scene.uids()


def test_with_the_job_nothing_is_recreated_and_back_neither(served: Scene) -> None:
    """The Job, then helm upgrade: every pod stays; the Job with --revert, then helm rollback: every pod stays."""
    before = served.uids()
    served.run()
    assert served.finish()[-1].code == 0
    served.operate(NEW)
    assert quiet(served) == before
    served.kind.kubectl("--namespace", "grove-system", "delete", "job", JOB, "--wait")
    served.run("--revert", "--yes")
    assert served.finish()[-1].code == 0
    served.succeed("rollback", "grove")
    served.client.patch(served.deployment(), {"spec": {"replicas": 1}})
    served.runs_operators(1, OLD)
    assert quiet(served) == before


def test_with_the_chart_nothing_is_recreated(served: Scene) -> None:
    """Our chart as a release of its own, then helm upgrade: every pod stays."""
    before = served.uids()
    repository, _, tag = images.OURS.rpartition(":")
    values = arguments([f"target={NEW}", f"image.repository={repository}", f"image.tag={tag}"])
    served.withdraw()
    try:
        served.succeed("install", "grove-migrator", str(OURS), *values)
        assert served.finish()[-1].code == 0
        served.operate(NEW)
        assert quiet(served) == before
    finally:
        served.helm("uninstall", "grove-migrator", "--no-hooks")
        served.grant()


def test_without_us_everything_is_recreated(served: Scene) -> None:
    """Helm upgrade alone: not one pod of before is left."""
    before = served.uids()
    served.operate(NEW)
    after: set[str] = set()

    def recreated() -> bool:
        after.clear()
        after.update(served.uids())
        return before.isdisjoint(after) and len(after) == len(before)

    eventually(recreated, what="pods of before are left", seconds=SECONDS, every=0.5)
    assert served.written() == len(before)
