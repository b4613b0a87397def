"""From one set of lists to trees: what belongs together, what belongs to nobody, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from migrator.errors import ClusterError, Forbidden, IncompleteDump, NotFound, Unreachable
from migrator.grove.objects import Snapshot
from migrator.run.snapshot import read_snapshot
from tests.support.builders import DELETION, LATER, OLD, World, clique
from tests.support.memory_objects import RESOURCES
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table


def store_of(world: World, errors: Mapping[str, ClusterError] | None = None) -> MemoryCluster:
    """A cluster with the objects of a world, or an error for a kind."""
    store = MemoryCluster(*world.objects)
    for kind, error in (errors or {}).items():
        [resource] = (resource for resource in RESOURCES if resource.kind == kind)
        store.fail(error, resource=resource)
    return store


def read(world: World, **errors: ClusterError) -> Snapshot:
    """What one attempt sees of a cluster."""
    return read_snapshot(store_of(world, errors))


def dumped(world: World) -> Snapshot:
    """What one attempt sees of a dump."""
    store = store_of(world)
    store.is_cluster = False
    return read_snapshot(store)


def shape(snapshot: Snapshot) -> dict[str, dict[str, list[str]]]:
    """Names only: sets, their PodCliques with pods, their other children."""
    return {
        f"{tree.ref.namespace}/{tree.ref.name}": {
            **{clique.ref.name: [pod.ref.name for pod in clique.pods] for clique in tree.pod_cliques},
            "others": [
                *(group.ref.name for group in tree.scaling_groups),
                *(gang_map.ref.name for gang_map in tree.pod_gang_maps),
                *(gang.ref.name for gang in tree.pod_gangs),
            ],
        }
        for tree in snapshot.trees
    }


def test_each_kind_is_listed_once_for_the_whole_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything comes from one list of each kind: pods by their PodClique's label, pods as metadata alone."""
    asked, listed = [], MemoryCluster.list

    def noted(store: MemoryCluster, resource: Any, project: Any, **options: Any) -> tuple[Any, ...]:
        asked.append((resource.kind, options["label_selector"], options["metadata_only"], options["namespace"]))
        return listed(store, resource, project, **options)

    monkeypatch.setattr(MemoryCluster, "list", noted)
    read(World().grow(maps=True))
    kinds = ("PodClique", "PodCliqueScalingGroup", "PodCliqueSet", "PodGang", "PodGangMap")
    assert sorted(asked) == [("Pod", "grove.io/podclique", True, None), *((kind, None, False, None) for kind in kinds)]


def test_objects_are_joined_by_controller_whatever_their_order() -> None:
    """Trees are the same and sorted, in whatever order the lists come."""
    world = World().grow("web", namespace="b").grow("web", namespace="a", maps=True, pods=1).grow("api", namespace="b")
    expected = shape(world.snapshot())
    assert list(expected) == ["a/web", "b/api", "b/web"]
    assert expected["a/web"] == {
        "web-0-front": ["web-0-front-0"],
        "web-0-sg-0-work": ["web-0-sg-0-work-0"],
        "web-0-sg-1-work": ["web-0-sg-1-work-0"],
        "others": ["web-0-sg", "web-0", "web-0-1767323045000000000", "web-0-1767323045000000001-sg-1"],
    }
    world.objects = world.objects[::-2] + world.objects[-2::-2]
    assert shape(world.snapshot()) == expected


def test_a_pod_without_its_label_is_found_beside_one_that_ends() -> None:
    """Grove does not count a pod that is being deleted, so it hides no other."""
    world = World().grow(pods=3).take("Pod", "web-0-front-0", "/metadata/labels/grove.io~1podclique")
    world.put("Pod", "web-0-front-1", DELETION, LATER).put("PodClique", "web-0-front", "/status/replicas", 2)
    assert "web-0-front-0" in shape(read(world))["default/web"]["web-0-front"]


def test_names_are_never_split() -> None:
    """Sets and cliques whose names run into each other are told apart by owner and labels."""
    world = World().grow("a").grow("a-0", pods=1)
    found = shape(world.snapshot())
    assert sorted(found["default/a-0"]) == ["a-0-0-front", "a-0-0-sg-0-work", "a-0-0-sg-1-work", "others"]
    cliques = {clique.ref.name: clique.clique for tree in world.snapshot().trees for clique in tree.pod_cliques}
    assert {cliques["a-0-front"], cliques["a-0-0-front"]} == {"front"}
    assert cliques["a-0-0-sg-1-work"] == "work"


def test_without_grove_there_are_no_trees() -> None:
    """A cluster without Grove's CRDs has nothing to migrate, and one without PodGangs nothing to read of them."""
    missing = NotFound("no such resource")
    store = store_of(World(), {"PodCliqueSet": missing})
    snapshot = read_snapshot(store)
    assert snapshot.trees == ()
    assert snapshot.is_cluster
    assert len(store.requests) == 1
    assert read(World().grow(), PodGangMap=missing, PodGang=missing).forbidden_kinds == ()


def test_a_kind_that_may_not_be_listed_is_named() -> None:
    """Without maps, PodGangs hold no hash, and that they may not be listed is only named; with maps it is an error."""
    forbidden = Forbidden("podgangs: forbidden")
    assert read(World().grow(), PodGang=forbidden).forbidden_kinds == ("podgangs.scheduler.grove.io",)
    with pytest.raises(Forbidden):
        read(World().grow(maps=True), PodGang=forbidden)


@pytest.mark.parametrize("kind", ["PodGangMap", "PodGang"])
def test_with_one_namespace_no_kind_of_gangs_must_be_listed(kind: str) -> None:
    """Its sets are planned without it, and it is named."""
    store = store_of(World().grow(maps=True), {"PodCliqueSet": Forbidden("in the whole cluster")})
    (resource,) = (resource for resource in RESOURCES if resource.kind == kind)
    store.fail(Forbidden("forbidden"), times=2, resource=resource)
    (named,) = read_snapshot(store, namespace="default").forbidden_kinds
    assert named.startswith(f"{kind.lower()}s.")


def test_every_object_that_is_read_is_searched_for_hashes() -> None:
    """Of each kind, in a field that no operator is known to use; a reading that is not told to search finds none."""
    world = World().grow(maps=True)
    for item in world.objects:
        item["metadata"].setdefault("annotations", {})["unknown"] = OLD
    found = read_snapshot(store_of(world), search=True).possible_hashes
    assert {(item.ref.kind, item.ref.name) for item in found[OLD]} == {
        (item["kind"], item["metadata"]["name"]) for item in world.objects
    }
    assert read(world).possible_hashes == {}


OUTAGE = "An outage never looks like nothing: whatever list fails for another reason than a missing CRD, reading fails."
HALF = "Half of Grove is an error: where PodCliqueSets exist, their children's resources must too."


@table(
    "kind error",
    *(
        (OUTAGE, (kind, Unreachable("no answer")))
        for kind in ("PodCliqueSet", "PodCliqueScalingGroup", "PodClique", "Pod", "PodGangMap", "PodGang")
    ),
    *((HALF, (kind, NotFound("no such resource"))) for kind in ("PodCliqueScalingGroup", "PodClique", "Pod")),
)
def test_a_list_that_fails_fails_the_reading(kind: str, error: ClusterError) -> None:
    """The error is raised as it is."""
    with pytest.raises(type(error)):
        read(World().grow(maps=True), **{kind: error})


def test_what_belongs_to_nobody_joins_no_tree() -> None:
    """The owner of a child whose controller was not read is never guessed."""
    world = World().grow(maps=True, group_replicas=1)
    names = ("web-0-sg", "web-0", "web-0-1767323045000000000", "web-0-front")
    for kind, name in zip(("PodCliqueScalingGroup", "PodGangMap", "PodGang", "PodClique"), names, strict=True):
        world.of(kind, name)["metadata"]["ownerReferences"][0]["uid"] = "gone"
    (tree,) = world.snapshot().trees
    assert tree.pod_cliques == ()
    assert tree.scaling_groups == ()
    assert tree.pod_gang_maps == ()
    assert tree.pod_gangs == ()


def test_what_names_an_owner_in_another_namespace_joins_no_tree() -> None:
    """The API server takes any uid there, and Kubernetes knows no such owner: a tenant would refuse another's set."""
    world = World().grow(maps=True)
    expected = shape(world.snapshot())
    for item in [item for item in world.objects if item["kind"] != "PodCliqueSet"]:
        world.objects.append({**item, "metadata": {**item["metadata"], "namespace": "tenant", "uid": "forged"}})
    assert shape(world.snapshot()) == expected


@pytest.mark.parametrize("gone", ["grove.io~1podclique", "app.kubernetes.io~1managed-by"])
def test_a_pod_is_groves_by_its_pod_clique_whatever_else_its_labels_say(gone: str) -> None:
    """Grove finds pods by their controller from alpha.12-rc1 on, so one that lacks a label is read like any other."""
    world = World().grow().take("Pod", "web-0-front-0", f"/metadata/labels/{gone}")
    (tree,) = read(world).trees
    assert sum(len(clique.pods) for clique in tree.pod_cliques) == len(world.all("Pod"))


@pytest.mark.parametrize(("counted", "lists"), [(2, 1), (3, 2)])
def test_pods_without_the_label_are_looked_for_only_where_some_are_missing(counted: int, lists: int) -> None:
    """A count that is late, because a pod has just gone, costs one list more and refuses nothing."""
    world = World().grow().put("PodClique", "web-0-front", "/status/replicas", counted)
    store = store_of(world)
    (tree,) = read_snapshot(store).trees
    assert sum(request.resource.kind == "Pod" for request in store.requests) == lists
    assert sum(len(clique.pods) for clique in tree.pod_cliques) == len(world.all("Pod"))


# --- dumps ------------------------------------------------------------------------------------------------------------


def without(world: World, kind: str) -> World:
    return World([o for o in world.objects if o["kind"] != kind])


def grouped(replicas: int) -> World:
    """A set that is made of one scaling group, with so many replicas; it and the group come first."""
    world = World().grow(cliques=[clique("work")], groups={"sg": ["work"]}, group_replicas=replicas)
    return world.put("PodCliqueScalingGroup", "web-0-sg", "/status/replicas", replicas)


WHOLE = World().grow(groups={}).put("PodCliqueSet", "web", "/spec/template/podCliqueScalingGroups", None)
BARE = World().grow().pcs
DELETED = {"metadata": {"name": "web", "uid": "u", "deletionTimestamp": LATER}}
FAILED = {"currentGenerationHash": OLD, "lastErrors": [{}]}


@table(
    "objects",
    ("What kubectl prints of a settled cluster is complete.", (World().grow(replicas=2).objects,)),
    ("Scaling groups are missed only where the template declares some.", (WHOLE.objects,)),
    ("An empty List is simply no PodCliqueSets.", ([],)),
    ("No replicas are wanted.", ([{**BARE, "spec": {**BARE["spec"], "replicas": 0}}],)),
    ("No number of replicas is stored.", ([{**BARE, "spec": {"template": BARE["spec"]["template"]}}],)),
    ("Its only scaling group is at zero.", (grouped(0).objects[:2],)),
    ("The set was not reconciled yet.", ([{**BARE, "status": {}}],)),
    ("The set is being deleted.", ([{**BARE, **DELETED}],)),
    ("A set whose reconciliation failed before its children were made has none.", ([{**BARE, "status": FAILED}],)),
)
def test_a_complete_dump_is_accepted(objects: list[dict[str, Any]]) -> None:
    """Every set of it is planned."""
    snapshot = dumped(World(objects))
    assert not snapshot.is_cluster
    assert len(snapshot.trees) == sum(o["kind"] == "PodCliqueSet" for o in objects)


CLIQUES = "PodCliqueSet default/web, but none of its PodCliques;"
GROUPS = "PodCliqueSet default/web, but none of its PodCliqueScalingGroups;"
NO_PODS = "PodClique default/web-0-front, but none of its pods;"


@table(
    "world missing",
    ("A dump of only some kinds lacks its PodCliques.", (without(World().grow(), "PodClique"), CLIQUES)),
    ("Of a scaling group alone.", (without(grouped(2), "PodClique"), CLIQUES)),
    ("Or its scaling groups.", (without(World().grow(), "PodCliqueScalingGroup"), GROUPS)),
    ("Or its pods.", (without(World().grow(), "Pod"), NO_PODS)),
    (
        "Standalone cliques are missed once the operator made them: without an error of its own.",
        (World([{**WHOLE.pcs, "status": {"currentGenerationHash": OLD}}]), CLIQUES),
    ),
    ("Or if replicas are counted.", (World([{**WHOLE.pcs, "status": {**FAILED, "availableReplicas": 1}}]), CLIQUES)),
    (
        "A PodClique that counts pods must have some, even under a set that is scaled to zero.",
        (without(World().grow(groups={}), "Pod").put("PodCliqueSet", "web", "/spec/replicas", 0), NO_PODS),
    ),
)
def test_a_dump_without_a_kind_is_incomplete(world: World, missing: str) -> None:
    """A dump that lacks objects of its sets is refused by name; on a cluster the same is not an error."""
    with pytest.raises(IncompleteDump) as caught:
        dumped(world)
    assert missing in str(caught.value)
    assert len(read(world).trees) == 1


@table(
    "world missing",
    ("Every operator makes PodGangs for its pods, and the newest a map of them.", (World().grow(maps=True), ())),
    ("Without either, both may be there.", (World().grow(), ("PodGang", "PodGangMap"))),
    ("The PodGangs are of a release with maps.", (without(World().grow(maps=True), "PodGangMap"), ("PodGangMap",))),
    ("Without pods none is missed.", (World([WHOLE.pcs]).put("PodCliqueSet", "web", "/status", {}), ())),
)
def test_a_dump_without_a_kind_that_the_cluster_must_have_is_noticed(world: World, missing: tuple[str, ...]) -> None:
    """The sets are whole, and so is their plan, but for the hashes in such objects."""
    assert dumped(world).missing_kinds == missing
    assert read(world).missing_kinds == ()


@pytest.mark.parametrize(("field", "value"), [("/status/replicas", 0), ("/status", {}), (DELETION, LATER)])
def test_a_clique_without_pods_need_not_have_any(field: str, value: object) -> None:
    """A PodClique that counts no pods, or is being deleted, is complete without."""
    world = without(World().grow(groups={}), "Pod")
    for pclq in world.all("PodClique"):
        world.put("PodClique", pclq["metadata"]["name"], field, value)
    assert len(dumped(world).trees) == 1
