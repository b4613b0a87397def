"""The model of an operator that the fault tests use does what the real operator does, on the same states."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pytest

from migrator.grove.objects import LABEL_POD_CLIQUE, LABEL_POD_TEMPLATE_HASH
from testbed.controlplane.client import Object
from tests.cluster.site import WORKLOADS
from tests.e2e.lab import photo
from tests.e2e.lab.builds import Build
from tests.e2e.lab.lab import Lab
from tests.e2e.lab.matrix import TWO, Pair, prepare
from tests.e2e.lab.photo import Photo
from tests.faults.cluster import Key
from tests.faults.operators import ALPHA_9, ALPHA_11, ALPHA_12_RC1, Operator

pytestmark = pytest.mark.upgrade

#: In what the newer builds differ, as the model knows it; the older ones are all like alpha.9 in that.
LINES = {"v0.1.0-alpha.11": ALPHA_11, "v0.1.0-alpha.12-rc1": ALPHA_12_RC1}
FOREIGN: Final = "4567b"  # the hash of no template

Change = tuple[Object, str, Any]  # an object, the subresource ("" for none), and a merge patch
State = Callable[[Photo], Iterable[Change]]


@pytest.fixture(scope="module", params=TWO, ids=lambda pair: pair.name)
def rested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, Pair]]:
    """A cluster in which the first of a pair has no more to do; the last test leaves it to the other."""
    pair: Pair = request.param
    pair.need()
    with Lab(tmp_path_factory.mktemp("model") / "lab") as lab:
        prepare(lab, pair.builds[0])
        yield lab, pair


def untouched(_: Photo) -> Iterable[Change]:
    return ()


def generation_hash(now: Photo) -> Iterable[Change]:
    """K1: a set's stored generation hash is no longer that of its templates; everything below it is right."""
    yield now.objects[photo.SET, "busybox"], "status", {"status": {"currentGenerationHash": FOREIGN}}


def one_pod_of_each(now: Photo) -> Iterable[Change]:
    """K1, K2 and K3: besides, the PodCliques' hashes are foreign, and one pod of each carries another, and must go.

    Without the last of these, alpha.3 has nothing to replace, and was seen to leave the update of such a set in flight,
    because no event comes: the PodCliques' updates end at once, and nobody stores their generation hashes. The model
    does not follow it there.
    """
    yield from generation_hash(now)
    pods = _of_set(now, photo.POD, "busybox")
    for clique in _of_set(now, photo.CLIQUE, "busybox"):
        yield clique, "status", {"status": _with_progress(clique, {"currentPodCliqueSetGenerationHash": FOREIGN})}
        name = clique["metadata"]["name"]
        pod = next(pod for pod in pods if pod["metadata"]["labels"][LABEL_POD_CLIQUE] == name)
        yield pod, "", {"metadata": {"labels": {LABEL_POD_TEMPLATE_HASH: FOREIGN}}}


@pytest.mark.parametrize(
    ("state", "upgraded"),
    [(untouched, False), (generation_hash, False), (one_pod_of_each, False), (untouched, True)],
    ids=["untouched", "generation_hash", "one_pod_of_each", "upgraded"],
)
def test_the_model_replaces_the_pods_that_the_operator_replaces(
    state: State, rested: tuple[Lab, Pair], *, upgraded: bool
) -> None:
    """Started on the same state, model and operator replace the same pods, and begin an update of the same sets."""
    lab, pair = rested
    build = pair.builds[1 if upgraded else 0]
    lab.stop_operator()
    for item, subresource, patch in state(lab.photo()):
        answer = lab.client.patch(item, patch, subresource=subresource or None)
        assert answer.status == 200, answer.body
    before = lab.photo()
    model = _modelled(before, build)
    may_stall = upgraded and pair.may_stall
    with lab.diary() as diary:
        lab.install(build)
        if may_stall:
            after = lab.settle(lambda _: diary.deleted, at_rest=False, quiet=60.0)
        else:
            after = lab.settle(lambda _: len(diary.deleted) >= len(model.deleted))
    # alpha.3 was seen to replace a pod that it had just made as well; the model speaks of those that were there.
    replaced = set(before.pods().values()) & set(diary.deleted)
    stalled = may_stall and after.unrest()
    assert replaced <= set(model.deleted) if stalled else replaced == set(model.deleted)
    modelled = Photo({(kind, name): item for (kind, _, name), item in model.objects.items()})
    assert _begun(before, after) == _begun(before, modelled)


def _modelled(found: Photo, build: Build) -> Operator:
    """The model after it has reconciled these objects."""
    objects: dict[Key, Object] = {}
    for (kind, name), item in copy.deepcopy(dict(found.objects)).items():
        status = item["status"]
        if "rollingUpdateProgress" in status:  # the name until alpha.8
            status["updateProgress"] = status.pop("rollingUpdateProgress")
        objects[kind, WORKLOADS, name] = item
    model = Operator(objects, build.scheme, LINES.get(build.name, ALPHA_9))
    model.reconcile()
    return model


def _begun(before: Photo, after: Photo) -> set[str]:
    old = before.updates()
    return {name for (kind, name), at in after.updates().items() if kind == photo.SET and old.get((kind, name)) != at}


def _with_progress(clique: Object, status: Object) -> Object:
    """A status in which the hash of a finished update, too, is foreign."""
    for name in photo.PROGRESS:
        if clique["status"].get(name):
            status[name] = {"podCliqueSetGenerationHash": FOREIGN}
    return status


def _of_set(now: Photo, kind: str, name: str) -> list[Object]:
    return [item for item in now.of(kind) if (kind, item["metadata"]["name"]) in now.of_set(name)]
