"""Updates that real operators never end, and status that they leave behind: going on recreates no pod.

Each set of :func:`unfinished` is brought into its state by the operator itself. None of it refuses, and the next
operator finds nothing to replace: a real update that waits for somebody goes on where it stood.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from migrator.releases.quirks import INITIAL_SCHEDULE_GRACE
from testbed import workloads
from testbed.controlplane.client import Object, eventually
from tests.cluster.site import WORKLOADS
from tests.e2e.lab import photo, samples
from tests.e2e.lab.builds import Build
from tests.e2e.lab.lab import Lab
from tests.e2e.lab.matrix import SOAK, Pair, change_template
from tests.e2e.lab.photo import Photo

pytestmark = pytest.mark.upgrade

_QUIET: Final = 6.0
_FINALIZER: Final = "grove.io/podclique.grove.io"
_HELD: Final = "example.test/hold"


def _set(name: str, *, replicas: int = 1, group: int = 0) -> Object:
    """A clique alone, one more that can be scaled to zero, and a scaling group if it has replicas."""
    cliques = [workloads.clique("live", replicas=1), workloads.clique("idle", replicas=1)]
    groups = []
    if group:
        cliques.append(workloads.clique("member", replicas=1))
        groups = [{"name": "sg", "cliqueNames": ["member"], "replicas": group, "minAvailable": 1}]
    return workloads.pod_clique_set(name, cliques, namespace=WORKLOADS, replicas=replicas, groups=groups)


def quiet(lab: Lab, holds: Callable[[Photo], object]) -> Photo:
    """Wait until a condition holds and no object has changed for a while, whether updates have ended or not."""
    return lab.settle(holds, at_rest=False, quiet=_QUIET)


def in_flight(now: Photo, name: str) -> bool:
    progress = now.objects[photo.SET, name]["status"].get("updateProgress") or {}
    return bool(progress.get("updateStartedAt")) and not progress.get("updateEndedAt")


def unfinished(lab: Lab) -> Photo:
    """Every set in its state, with the source operator running."""
    alone = (_set(name) for name in ("zero", "frozen", "latched"))
    for pcs in (*alone, _set("both", group=1), _set("behind", replicas=2, group=2)):
        lab.client.create(pcs)
    lab.settle(lambda now: len(now.of(photo.SET)) == 5)
    for name in ("zero", "frozen", "both"):
        lab.scale(photo.CLIQUE, f"{name}-0-idle", 0)
    lab.scale(photo.GROUP, "both-0-sg", 0)
    quiet(lab, lambda now: not [name for name in now.pods().values() if "zero-0-idle" in name or "both-0-sg" in name])
    for name in ("zero", "frozen", "both", "behind", "latched"):
        change_template(lab, name, "1")
    now = quiet(lab, lambda now: all(in_flight(now, name) for name in ("zero", "frozen", "both")))
    assert not in_flight(now, "behind")
    lab.patch(photo.SET, "frozen", {"spec": {"updateStrategy": {"type": "OnDelete"}}})
    _latch(lab, "latched-0-idle")
    return quiet(lab, lambda now: in_flight(now, "frozen"))


def _latch(lab: Lab, name: str) -> None:
    """Leave an older template hash in a PodClique's status, as operators up to alpha.11 do (Grove issue 671)."""
    patch = {"status": {"currentPodTemplateHash": "4445566677788899", "updateProgress": None}}
    lab.patch(photo.CLIQUE, name, patch, subresource="status")


def test_what_never_ends_refuses_nothing_and_costs_no_pod(tmp_path: Path) -> None:
    """alpha.9 to alpha.11 with five unfinished sets: planned and run without a refusal, no pod recreated."""
    source, target = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11").need()
    with Lab(tmp_path / "lab") as lab:
        lab.install(source)
        before = unfinished(lab)
        lagging = _behind(before, "behind")
        assert lagging, "alpha.9 leaves no PodClique behind here"
        assert before.objects[photo.CLIQUE, "latched-0-idle"]["status"]["currentPodTemplateHash"] == "4445566677788899"
        planned = json.loads(lab.tool("plan", *target.target, "-o", "json").out)
        assert planned["refusals"] == []
        assert {tree["state"] for tree in planned["trees"]} == {"migrate"}
        assert {w["code"] for w in planned["warnings"] if w["name"] in lagging} == {"GM-107"}
        with lab.undisturbed():
            lab.migrate(target)
            lab.install(target)
            quiet(lab, lambda now: now.of(photo.SET))
            time.sleep(SOAK)
            after = quiet(lab, lambda now: now.of(photo.SET))
        assert not _behind(after, "behind")
        with lab.diary() as diary:
            for name in ("zero", "both"):
                lab.scale(photo.CLIQUE, f"{name}-0-idle", 1)
            lab.scale(photo.GROUP, "both-0-sg", 1)
            ended = quiet(lab, lambda now: not in_flight(now, "zero") and not in_flight(now, "both"))
        assert diary.deleted == []
        assert len(diary.created) == 3
        assert ended.pods().items() > after.pods().items()
        assert in_flight(ended, "frozen"), "an update that was frozen by OnDelete stays as it is"


def test_an_update_that_waits_refuses_and_may_be_allowed(tmp_path: Path) -> None:
    """alpha.9 to alpha.11, states 3, 5 and 12: 3 and nothing is touched; with --allow no pod is recreated either.

    A set waits for a pod that cannot be scheduled yet, and of another a scaling group's PodClique is being deleted.
    """
    source, target = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11").need()
    with Lab(tmp_path / "lab") as lab:
        lab.install(source)
        for pcs in (_set("waiting"), _set("leaving", group=2), samples.busybox()):
            lab.client.create(pcs)
        lab.settle(lambda now: len(now.of(photo.SET)) == 3)
        selector = {"op": "add", "path": "/spec/template/cliques/0/spec/podSpec/nodeSelector", "value": {"no": "node"}}
        lab.patch(photo.SET, "waiting", [selector])
        leaving = "leaving-0-sg-1-member"
        lab.patch(photo.CLIQUE, leaving, {"metadata": {"finalizers": [_HELD, _FINALIZER]}})
        lab.scale(photo.GROUP, "leaving-0-sg", 1)
        eventually(lambda: in_flight(lab.photo(), "waiting") and _is_leaving(lab.photo(), leaving), what="it ends")
        time.sleep(_QUIET)  # it never comes to rest: alpha.9 looks again and again
        with lab.undisturbed() as before:
            planned = json.loads(lab.tool("plan", *target.target, "-o", "json").out)
            assert {tree["name"]: tree["state"] for tree in planned["trees"]} == {
                "busybox": "migrate",
                "leaving": "refused",
                "waiting": "refused",
            }
            assert {(found["code"], found["name"]) for found in planned["refusals"]} == {
                ("GM-102", "waiting-0-live"),
                ("GM-102", leaving),
            }
            refused = lab.tool("run", *target.target, "--stop-operator")
            assert refused.code == 3, refused.err
            assert not lab.has_ended(source), refused.err
            lab.migrate(target, "--allow", "GM-102")
            lab.install(target)
            time.sleep(SOAK)
        lab.patch(photo.CLIQUE, leaving, {"metadata": {"finalizers": None}})
        [pod] = [pod for pod in before.of(photo.POD) if pod["metadata"]["name"].startswith("waiting-0-live-")]
        lab.kubelet.place(pod)
        ended = lab.settle(lambda now: not in_flight(now, "waiting"))
        assert {uid: name for uid, name in before.pods().items() if not name.startswith(leaving)} == ended.pods()


def test_an_update_in_flight_between_releases_that_hash_alike_refuses_nothing(tmp_path: Path) -> None:
    """alpha.11 to alpha.12-rc1 in mid-update: a run writes nothing and ends with 0, and the update goes on."""
    source, target = Pair("v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1").need()
    with Lab(tmp_path / "lab") as lab:
        lab.install(source)
        lab.client.create(_set("zero"))
        lab.settle(lambda now: now.of(photo.SET))
        # A PodClique that goes to zero earlier counts as never scheduled, for Grove and so for us.
        time.sleep(INITIAL_SCHEDULE_GRACE)
        lab.scale(photo.CLIQUE, "zero-0-idle", 0)
        change_template(lab, "zero", "1")
        quiet(lab, lambda now: in_flight(now, "zero"))
        planned = json.loads(lab.tool("plan", *target.target, "-o", "json").out)
        assert planned["refusals"] == []
        assert [tree["state"] for tree in planned["trees"]] == ["done"]
        assert "GM-301" in {advice["id"] for advice in planned["advisories"]}
        with lab.undisturbed():
            lab.migrate(target)
            lab.install(target)
            quiet(lab, lambda now: now.of(photo.SET))


def test_an_upgrade_without_the_tool_is_ended_before_it_has_replaced_the_rest(tmp_path: Path) -> None:
    """alpha.9 to alpha.11: its update waits for new pods that cannot be scheduled; with --allow all others stay."""
    source, target = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11").need()
    with Lab(tmp_path / "lab") as lab:
        lab.install(source)
        pcs = samples.gang("begun", alone=4, grouped=3)
        for clique in pcs["spec"]["template"]["cliques"]:
            clique["spec"]["podSpec"]["nodeSelector"] = {"no": "node"}
        lab.client.create(pcs)
        eventually(lambda: _place(lab) == 16, what="the set does not run")
        before = lab.settle()
        lab.apply_crds(target)
        lab.upgrade(target)
        quiet(lab, lambda now: in_flight(now, "begun") and now.pods() != before.pods())
        with lab.undisturbed() as begun:
            refused = lab.tool("run", *target.target, "--stop-operator")
            assert (refused.code, "--allow GM-102" in refused.err) == (3, True), refused.err
            lab.migrate(target, "--allow", "GM-102")
            time.sleep(SOAK)
        assert len(before.pods().keys() & begun.pods().keys()) > 8
        eventually(lambda: _place(lab) == 16, what="the new pods do not run")
        assert lab.settle().pods() == begun.pods()


@contextmanager
def _scaled_in(directory: Path, source: Build) -> Iterator[tuple[Lab, Photo]]:
    """A PodClique with one pod too many, which is being deleted and does not end within the block."""
    with Lab(directory) as lab:
        lab.install(source)
        lab.client.create(_set("drained"))
        lab.settle(lambda now: len(now.pods()) == 2)
        lab.scale(photo.CLIQUE, "drained-0-live", 3)
        before = lab.settle(lambda now: len(now.pods()) == 4)
        for pod in before.of(photo.POD):
            lab.client.patch(pod, {"metadata": {"finalizers": [_HELD]}})
        lab.scale(photo.CLIQUE, "drained-0-live", 2)
        eventually(lambda: len(lab.photo().pods()) == 3, what="no pod is deleted")
        yield lab, before
        _let_go(lab, before)


def _let_go(lab: Lab, before: Photo) -> None:
    for pod in before.of(photo.POD):
        lab.client.patch(pod, {"metadata": {"finalizers": None}})


def test_a_pod_that_ends_keeps_its_hash_and_is_the_one_too_many(tmp_path: Path) -> None:
    """alpha.9 to alpha.12-rc1 after a scale-in whose pod does not end: the next operator spares those that serve."""
    source, target = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.12-rc1").need()
    with _scaled_in(tmp_path / "lab", source) as (lab, _):
        planned = json.loads(lab.tool("plan", *target.target, "-o", "json").out)
        assert [found["name"] for found in planned["advisories"] if found["id"] == "GM-314"] == ["drained-0-live"]
        with lab.undisturbed():
            lab.migrate(target)
            lab.install(target)
            time.sleep(SOAK)


def test_a_revert_starts_the_old_operator_once_a_pod_that_ends_is_gone(tmp_path: Path) -> None:
    """alpha.9, started beside that pod, deletes another one, because all have one hash (GM-314).

    The pod ends later than the revert would start the operator.
    """
    source, target = Pair("v0.1.0-alpha.9", "v0.1.0-alpha.12-rc1").need()
    with _scaled_in(tmp_path / "lab", source) as (lab, before):
        serving = lab.photo().pods()
        lab.migrate(target)
        threading.Timer(90, lambda: _let_go(lab, before)).start()
        assert lab.tool("run", "--revert", *target.target, "--stop-operator").code == 0
        time.sleep(SOAK)
        assert lab.photo().pods() == serving


def _place(lab: Lab) -> int:
    """Run the pods that wait for a node; returns how many of the others there are."""
    pods = lab.photo().of(photo.POD)
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    for pod in waiting:
        if not pod["spec"].get("schedulingGates"):
            lab.kubelet.place(pod)
    return len(pods) - len(waiting)


def _is_leaving(now: Photo, name: str) -> bool:
    return bool(now.objects[photo.CLIQUE, name]["metadata"].get("deletionTimestamp"))


def _behind(now: Photo, name: str) -> set[str]:
    """The PodCliques of a set whose generation hash is not the set's."""
    wanted = now.objects[photo.SET, name]["status"]["currentGenerationHash"]
    return {
        key[1]
        for key in now.of_set(name)
        if key[0] == photo.CLIQUE and now.objects[key]["status"].get("currentPodCliqueSetGenerationHash") != wanted
    }
