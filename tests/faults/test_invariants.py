"""The judges of all other tests here: for each of them something that is wrong, of which it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from migrator import kinds
from migrator.errors import Reverted
from migrator.run.leases import OWN_LEASE
from tests.faults import cluster
from tests.faults.invariants import HashField, HashPair, hash_fields
from tests.faults.operators import MAIN
from tests.faults.process import DONE, FAILED, REFUSED, STUCK, Ending, do_at
from tests.faults.shadow import ShadowedCluster
from tests.faults.steps import of_trees
from tests.faults.world import World
from tests.support.memory_store import Request
from tests.support.tables import table

OWNER: Final = "web-0-router"
POD: Final = f"{OWNER}-78aae"
#: A hash as no template has it.
STRANGE: Final = "5b5b5b"
_LABEL: Final = f"metadata/labels/{cluster.HASH_LABEL}"


@pytest.mark.parametrize("lease", [OWN_LEASE, cluster.LEASE])
def test_a_write_without_a_lease_is_noticed(lease: str) -> None:
    """Somebody else has taken it since the last renewal, which the run cannot know."""
    steals = do_at(of_trees()[3].write, "after", lambda step: step.process.world.hand_lease_to("thief", name=lease))
    with pytest.raises(AssertionError, match=f"'thief' has {'our' if lease == OWN_LEASE else 'the'} Lease"):
        World().run(steals, code=None)


def labelled(value: str) -> Callable[[World, str], object]:
    """Give a pod this hash."""

    def change(world: World, name: str) -> None:
        label = {cluster.HASH_LABEL: value}
        world.store.edit(kinds.PODS, "default", name, lambda pod: pod["metadata"]["labels"].update(label))

    return change


def annotated(world: World, name: str) -> None:
    world.store.edit(kinds.PODS, "default", name, lambda pod: pod["metadata"].update(annotations={"x": "y"}))


def pairs(world: World) -> HashPair:
    """Both hashes of a pod's template."""
    pod = world.store.read(kinds.PODS, "default", POD)
    [(label, _)] = hash_fields(cluster.key_of(pod), pod)
    [pair] = world.checker.table.of(label)
    return pair


def generation(world: World) -> HashPair:
    """Both hashes of a set."""
    [pair] = world.checker.table.of(HashField(("PodCliqueSet", "default", "web"), (), "web", None))
    return pair


@table(
    "change words",
    ("No hash of any template.", (labelled(STRANGE), f"{_LABEL}: .* became {STRANGE}")),
    (
        "A hash of the target, but the set's.",
        (lambda w, pod: labelled(generation(w).new)(w, pod), f"{_LABEL}: .* became"),
    ),
    ("Not only hashes.", (annotated, "more than hashes was changed")),
    ("The pod.", (lambda w, pod: w.store.drop(kinds.PODS, "default", pod), "was deleted by a migrator")),
)
def test_a_write_that_changes_anything_else_is_noticed(change: Callable[[World, str], object], words: str) -> None:
    """A patch of a pod does more than it should."""
    world, done = World(), list[Request]()

    def hook(request: Request) -> None:
        if request.writes and request.resource == kinds.PODS and not done:
            done.append(request)
            change(world, request.name)

    world.store.after.append(hook)
    with pytest.raises(AssertionError, match=words):
        world.run(code=None)


def committed(world: World) -> None:
    """A set has its new hash, which comes last, and nothing else has."""
    world.edit("web", lambda pcs: pcs["status"].update(currentGenerationHash=generation(world).new))


def left_behind(clusters: ShadowedCluster, value: str, of_set: str) -> None:
    """A pod has another hash than its template's, and its PodClique another one than its set's."""
    labelled(value)(clusters.world, POD)
    status = {"currentPodCliqueSetGenerationHash": of_set}
    clusters.world.store.edit(kinds.POD_CLIQUES, "default", OWNER, lambda clique: clique["status"].update(status))


def forgotten(clusters: ShadowedCluster) -> None:
    """A run that ended well has left one pod behind, after an upgrade to an operator that watches idle sets."""
    clusters.world.run()
    clusters.next_line, clusters.upgraded = MAIN, True
    left_behind(clusters, pairs(clusters.world).old, generation(clusters.world).old)


def outdated(clusters: ShadowedCluster) -> None:
    """Hashes are those of a template of long ago, so that the old operator begins an update."""
    left_behind(clusters, cluster.OLDER, cluster.OLDER)
    clusters.world.edit("web", lambda pcs: pcs["status"].update(currentGenerationHash=cluster.OLDER))


def hidden(clusters: ShadowedCluster) -> None:
    """After a run a pod runs another program than its template's, and has the template's hash."""
    clusters.world.run()
    image = {"image": "another:1"}
    clusters.world.store.edit(kinds.PODS, "default", POD, lambda pod: pod["spec"]["containers"][0].update(image))
    clusters.new_operator()


def rolling(clusters: ShadowedCluster) -> None:
    """The pods of a set are replaced in one cluster only."""
    clusters.world.edit("patient", lambda pcs: pcs["spec"].pop("updateStrategy"))


def rolled(clusters: ShadowedCluster) -> None:
    rolling(clusters)
    clusters.new_operator()


def ends(ending: Ending, *edited: str) -> Callable[[ShadowedCluster], object]:
    """A run ends so, and has written to one pod; sets were edited meanwhile."""

    def judge(clusters: ShadowedCluster) -> None:
        clusters.moved.update(edited)
        labelled(pairs(clusters.world).new)(clusters.world, POD)
        clusters.check_ending(ending, revert=False)

    return judge


@table(
    "happens words",
    ("A hash of nobody.", (lambda clusters: labelled(STRANGE)(clusters.world, POD), "strange values")),
    ("A hash that comes last is there first.", (lambda clusters: committed(clusters.world), "early commits")),
    ("A pod of a set that is done would be replaced.", (forgotten, "replaced by the next operator, though committed")),
    ("A pod would be replaced that is left alone without us.", (rolling, "replaced by the next operator: ")),
    ("One would be by the operator that was there.", (outdated, "replaced by the old operator")),
    ("Something else is different.", (lambda clusters: annotated(clusters.world, POD), "not as without us")),
    ("A pod is replaced that is left alone without us.", (rolled, "replaced by an operator")),
    ("One is not, though its template is another.", (hidden, "rollouts that were hidden")),
    ("A new hash is there after everything was restored.", (ends(Ending(REFUSED, Reverted("x"))), "left by 3")),
    ("An edit of another clique does not excuse it.", (ends(Ending(REFUSED, Reverted("x")), "web"), "left by 3")),
    ("The old operator runs beside a new hash.", (ends(Ending(FAILED)), "the old operator may run after 1")),
    ("No run ends so.", (ends(Ending(7)), "7: ")),
)
def test_what_is_worse_than_without_us_is_noticed(happens: Callable[[ShadowedCluster], object], words: str) -> None:
    """In one of the two clusters something has happened that only a migrator can have done."""
    clusters = ShadowedCluster(cluster.grown())
    clusters.look()

    def judged() -> None:
        happens(clusters)
        clusters.look()

    with pytest.raises(AssertionError, match=words):
        judged()


def test_an_operator_that_is_awake_beside_strange_hashes_is_noticed() -> None:
    """At the next step of time."""
    world = World()
    world.forbid_unknown_hashes()
    world.advance(20)
    labelled(STRANGE)(world, POD)
    with pytest.raises(AssertionError, match="is awake beside hashes that it does not know"):
        world.advance(20)


@table(
    "code does words",
    ("All is new: nothing was done.", (DONE, lambda _: None, "not as claimed")),
    ("All is new: the operator was not stopped.", (DONE, lambda _: None, "replicas are 1")),
    ("Nothing is changed: all is new.", (FAILED, World.run, "not as claimed")),
    ("Some are new: so is the operator's set.", (STUCK, committed, "is committed, and")),
    ("Some are new: the old operator runs.", (STUCK, committed, "the old operator may run beside what is migrated")),
)
def test_an_exit_code_that_lies_is_noticed(code: int, does: Callable[[World], object], words: str) -> None:
    """It says what must be there."""
    world = World()
    does(world)
    assert any(words in said for said in world.lies(Ending(code)))
