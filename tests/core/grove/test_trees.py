"""From one set of lists to trees: what belongs together, what belongs to nobody, what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from migrator import resources
from migrator.errors import ClusterError, IncompleteDump, InputError, NotAuthorised, NotFound, Unreachable
from migrator.exact_json import JSONObject
from migrator.grove.model import Snapshot
from migrator.grove.trees import check_complete
from migrator.resources import Resource
from migrator.run.snapshot import take
from migrator.store import DryRun
from tests.support.builders import LATER, World


class Lists:
    """A store that can only list: the objects of a world, or an error for a kind."""

    def __init__(
        self, world: World, *, is_cluster: bool = True, errors: Mapping[str, ClusterError] | None = None
    ) -> None:
        self.is_cluster = is_cluster
        self.dry_run = DryRun.NONE
        self.asked: list[tuple[str, str | None, bool]] = []
        self._world = world
        self._errors = errors or {}

    def list(
        self,
        resource: Resource,
        project: Callable[[JSONObject], Any],
        *,
        label_selector: str | None = None,
        metadata_only: bool = False,
        **options: Any,
    ) -> tuple[Any, ...]:
        """List all objects of a kind, whatever the selector."""
        assert options.get("namespace") is None
        self.asked.append((resource.kind, label_selector, metadata_only))
        if resource.kind in self._errors:
            raise self._errors[resource.kind]
        return tuple(project(o) for o in self._world.all(resource.kind))

    def kinds(self, group: str) -> tuple[Resource, ...]:
        """The kinds that Grove 0.1.0 has."""
        return tuple(r for r in vars(resources).values() if isinstance(r, Resource) and r.group == group)


def read(world: World, **options: Any) -> Snapshot:
    """What one attempt sees."""
    return take(Lists(world, **options))  # type: ignore[arg-type]


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


def test_each_kind_is_listed_once_for_the_whole_cluster() -> None:
    """Everything comes from one list of each kind: pods by Grove's label, pods as metadata alone."""
    store = Lists(World().grow(maps=True))
    take(store)  # type: ignore[arg-type]
    assert sorted(store.asked) == [
        ("Pod", "app.kubernetes.io/managed-by=grove-operator", True),
        ("PodClique", None, False),
        ("PodCliqueScalingGroup", None, False),
        ("PodCliqueSet", None, False),
        ("PodGang", None, False),
        ("PodGangMap", None, False),
    ]


def test_objects_are_joined_by_controller_whatever_their_order() -> None:
    """Trees are the same and sorted, in whatever order the lists come."""
    world = World().grow("web", namespace="b").grow("web", namespace="a", maps=True, pods=1).grow("api", namespace="b")
    expected = shape(read(world))
    assert list(expected) == ["a/web", "b/api", "b/web"]
    assert expected["a/web"] == {
        "web-0-front": ["web-0-front-0"],
        "web-0-sg-0-work": ["web-0-sg-0-work-0"],
        "web-0-sg-1-work": ["web-0-sg-1-work-0"],
        "others": ["web-0-sg", "web-0", "web-0-1767323045000000000", "web-0-1767323045000000001-sg-1"],
    }
    world.objects = world.objects[::-2] + world.objects[-2::-2]
    assert shape(read(world)) == expected


def test_names_are_never_split() -> None:
    """Sets and cliques whose names run into each other are told apart by owner and labels."""
    world = World().grow("a").grow("a-0", pods=1)
    found = shape(read(world))
    assert sorted(found["default/a-0"]) == ["a-0-0-front", "a-0-0-sg-0-work", "a-0-0-sg-1-work", "others"]
    cliques = {clique.ref.name: clique.clique for tree in read(world).trees for clique in tree.pod_cliques}
    assert {cliques["a-0-front"], cliques["a-0-0-front"]} == {"front"}
    assert cliques["a-0-0-sg-1-work"] == "work"


def test_without_grove_there_are_no_trees() -> None:
    """A cluster without Grove's CRDs has nothing to migrate."""
    store = Lists(World(), errors={"PodCliqueSet": NotFound("no such resource")})
    snapshot = take(store)  # type: ignore[arg-type]
    assert (snapshot.trees, snapshot.is_cluster, len(store.asked)) == ((), True, 1)


def test_pod_gangs_and_their_maps_need_not_be_installed() -> None:
    """Where the CRDs are missing there is nothing to read of them."""
    errors = {kind: NotFound("no such resource") for kind in ("PodGangMap", "PodGang")}
    assert take(Lists(World().grow(), errors=errors)).unlisted == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("maps", [True, False])
def test_a_kind_that_may_not_be_listed_is_named(*, maps: bool) -> None:
    """Without maps, PodGangs hold no hash, and that they may not be listed is only named; with maps it is an error."""
    store = Lists(World().grow(maps=maps), errors={"PodGang": NotAuthorised("podgangs: forbidden")})
    if maps:
        with pytest.raises(NotAuthorised):
            take(store)  # type: ignore[arg-type]
    else:
        assert take(store).unlisted == ("podgangs.scheduler.grove.io",)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodCliqueScalingGroup", "PodClique", "Pod", "PodGangMap", "PodGang"])
def test_an_outage_never_looks_like_nothing(kind: str) -> None:
    """Whatever list fails for another reason than a missing CRD, reading fails."""
    with pytest.raises(Unreachable):
        read(World().grow(maps=True), errors={kind: Unreachable("no answer")})


@pytest.mark.parametrize("kind", ["PodCliqueScalingGroup", "PodClique", "Pod"])
def test_half_a_grove_is_an_error(kind: str) -> None:
    """Where PodCliqueSets exist, their children's resources must too."""
    with pytest.raises(NotFound):
        read(World().grow(), errors={kind: NotFound("no such resource")})


def orphans(world: World) -> dict[str, str]:
    """Name and reason of everything that belongs to nobody."""
    return {orphan.ref.name: orphan.reason for orphan in read(world).orphans}


def test_what_belongs_to_nobody_is_reported() -> None:
    """Children without a controller that was read are orphans, each with the reason; none is guessed into a tree."""
    world = World().grow(maps=True, group_replicas=1)
    names = ("web-0-sg", "web-0", "web-0-1767323045000000000", "web-0-front")
    for kind, name in zip(("PodCliqueScalingGroup", "PodGangMap", "PodGang", "PodClique"), names, strict=True):
        world.of(kind, name)["metadata"]["ownerReferences"][0]["uid"] = "gone"
    found = orphans(world)
    assert set(found) == {*names, "web-0-sg-0-work"}
    assert found["web-0-front"].endswith("(it has 2 pods)")
    (tree,) = read(world).trees
    assert (tree.pod_cliques, tree.scaling_groups, tree.pod_gang_maps, tree.pod_gangs) == ((), (), (), ())


@pytest.mark.parametrize(
    "owners",
    [
        None,
        [],
        [{"kind": "PodClique", "uid": "uid-default-PodClique-web-0-front"}],
        [{"kind": "PodClique", "uid": "uid-default-PodClique-web-0-front", "controller": False}],
        [{"kind": "PodClique", "uid": 5, "controller": True}],
        ["PodClique"],
    ],
)
def test_only_a_controller_owns(owners: object) -> None:
    """An owner reference that is not the controller's, or names no uid, joins nothing."""
    world = World().grow()
    world.of("Pod", "web-0-front-0")["metadata"]["ownerReferences"] = owners
    assert orphans(world) == {"web-0-front-0": "its controller is not a PodClique that was read"}


# --- dumps ------------------------------------------------------------------------------------------------------------


def test_a_complete_dump_is_accepted() -> None:
    """What kubectl prints of a settled cluster is complete."""
    assert not read(World().grow(replicas=2), is_cluster=False).is_cluster


@pytest.mark.parametrize(
    ("kind", "missing"),
    [
        ("PodClique", "PodCliqueSet default/web is there, but none of its PodCliques (podcliques)"),
        (
            "PodCliqueScalingGroup",
            "PodCliqueSet default/web is there, but none of its PodCliqueScalingGroups (podcliquescalinggroups)",
        ),
        ("Pod", "PodClique default/web-0-front is there, but none of its pods (pods)"),
    ],
)
def test_a_dump_without_a_kind_is_incomplete(kind: str, missing: str) -> None:
    """A dump that lacks objects of its sets is refused by name; on a cluster the same is not an error."""
    world = World().grow()
    world.objects = [o for o in world.objects if o["kind"] != kind]
    with pytest.raises(IncompleteDump) as caught:
        read(world, is_cluster=False)
    assert missing in str(caught.value)
    assert len(read(world).trees) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"replicas": 0, "template": {}}},
        {"spec": {"template": {}}},
        {"status": {}},
        {"metadata": {"name": "web", "uid": "u", "deletionTimestamp": LATER}},
    ],
)
def test_a_set_that_need_not_have_children_is_complete_without(change: dict[str, Any]) -> None:
    """No replicas, no reconciliation yet, or deletion: then there need be no children."""
    world = World().grow()
    world.objects = [{**world.pcs, **change}]
    assert read(world, is_cluster=False).trees[0].pod_cliques == ()


@pytest.mark.parametrize(
    ("status", "complete"),
    [({}, False), ({"lastErrors": [{}]}, True), ({"lastErrors": [{}], "availableReplicas": 1}, False)],
)
def test_standalone_cliques_are_missed_once_the_operator_made_them(status: dict[str, Any], *, complete: bool) -> None:
    """A set whose reconciliation failed before its children were made has none; one that counts replicas has them."""
    world = World().grow(groups={})
    world.objects = [world.pcs]
    generation_hash = world.pcs["status"]["currentGenerationHash"]
    world.pcs["status"] = {"currentGenerationHash": generation_hash, **status}
    if complete:
        check_complete(read(world))
    else:
        with pytest.raises(IncompleteDump, match="none of its PodCliques"):
            check_complete(read(world))


def test_a_set_without_groups_needs_none() -> None:
    """Scaling groups are missed only where the template declares some."""
    assert read(World().grow(groups={}), is_cluster=False).trees[0].scaling_groups == ()


def test_pods_are_missed_whatever_the_set_says() -> None:
    """A PodClique that counts pods must have some, even under a set that is scaled to zero."""
    world = World().grow(groups={})
    world.pcs["spec"]["replicas"] = 0
    world.objects = [o for o in world.objects if o["kind"] != "Pod"]
    with pytest.raises(IncompleteDump, match="none of its pods"):
        read(world, is_cluster=False)


@pytest.mark.parametrize("change", [{"status": {"replicas": 0}}, {"status": {}}, {"deletionTimestamp": LATER}])
def test_a_clique_without_pods_need_not_have_any(change: dict[str, Any]) -> None:
    """A PodClique that counts no pods, or is being deleted, is complete without."""
    world = World().grow(groups={})
    world.objects = [o for o in world.objects if o["kind"] != "Pod"]
    for pclq in world.all("PodClique"):
        for key, value in change.items():
            (pclq["metadata"] if key == "deletionTimestamp" else pclq)[key] = value
    check_complete(read(world))


def test_one_object_twice_is_refused_in_a_dump() -> None:
    """Two states of one object prove nothing, so a file that holds both is refused."""
    world = World().grow()
    world.objects.append(world.copy().of("Pod", "web-0-front-0"))
    with pytest.raises(InputError, match="the dump has Pod default/web-0-front-0 twice"):
        read(world, is_cluster=False)


def test_an_empty_dump_has_no_trees() -> None:
    """An empty List is simply no PodCliqueSets."""
    assert read(World(), is_cluster=False).trees == ()
