"""What a run may do, asked before it begins: which rights, how many questions, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from unittest import mock

import pytest
import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised
from migrator.exact_json import JSONObject
from migrator.grove.model import Ref
from migrator.planning.options import PlanOptions
from migrator.planning.patches import Patch
from migrator.resources import Resource
from migrator.run import rights
from migrator.run.context import RunOptions
from migrator.run.operator import Operator
from migrator.run.rights import Right
from migrator.store import DryRun
from tests.simulation.points import GROVE
from tests.simulation.world import World
from tests.support.memory_store import MemoryStore

LOG = structlog.wrap_logger(structlog.ReturnLogger())
Answer = Callable[[dict[str, str]], Any]


class Reviewer(MemoryStore):
    """A cluster that answers SelfSubjectAccessReviews, and keeps what it was asked."""

    def __init__(self, answer: Answer = lambda _asked: True, **options: Any) -> None:
        super().__init__(**options)
        self.answer = answer
        self.asked: list[dict[str, str]] = []
        self.modes: set[DryRun] = set()

    def create(self, resource: Resource, namespace: str, body: JSONObject) -> JSONObject:
        """Answer a review; anything else is not expected here."""
        assert (resource.plural, namespace) == ("selfsubjectaccessreviews", "")
        self.modes.add(self.dry_run)
        asked = body["spec"]["resourceAttributes"]
        self.asked.append(asked)
        answer = self.answer(asked)
        if isinstance(answer, MigratorError):
            raise answer
        return {**body, "status": {"allowed": answer}}


def patch(kind: str, namespace: str, subresource: str = "", name: str = "x") -> Patch:
    """A patch of no changes."""
    return Patch(Ref(kind, namespace, name), subresource, ())


def operator(deployment: str = "grove-operator") -> Operator:
    """An operator as it is found with the chart, or without a Deployment."""
    return Operator("grove", deployment, 1, "", (), "lease")


def texts(found: Iterable[Right]) -> list[str]:
    """Rights as they are told to people."""
    return [str(right) for right in found]


def test_a_right_is_told_as_kubectl_tells_it() -> None:
    """Verb, resource with group and subresource, name and namespace, each only where there is one."""
    assert texts(
        [
            Right("patch", resources.POD_CLIQUES, "status", "team"),
            Right("patch", resources.PODS),
            Right("get", resources.LEASES, "", "grove", "lease"),
        ]
    ) == [
        "patch podcliques/status.grove.io in namespace team",
        "patch pods",
        "get leases.coordination.k8s.io lease in namespace grove",
    ]


def test_patches_need_patch_and_get_once_for_each_kind_and_namespace() -> None:
    """Each subresource is patched, each object read again after a conflict; a hundred pods are no more than one."""
    patches = [
        patch("Pod", "a", name="one"),
        patch("Pod", "a", name="two"),
        patch("Pod", "b"),
        patch("PodClique", "a", "status"),
    ]
    assert texts(rights.of_migration(patches, "grove", None, RunOptions(PlanOptions())))[:6] == [
        "patch pods in namespace a",
        "get pods in namespace a",
        "patch pods in namespace b",
        "get pods in namespace b",
        "patch podcliques/status.grove.io in namespace a",
        "get podcliques.grove.io in namespace a",
    ]


@pytest.mark.parametrize(
    ("found", "stops_it", "deployment"),
    [
        (None, True, []),
        (operator(""), True, []),
        (operator(), False, []),
        (
            operator(),
            True,
            [
                "get deployments.apps grove-operator in namespace grove",
                "patch deployments/scale.apps grove-operator in namespace grove",
            ],
        ),
    ],
)
def test_a_run_needs_the_leases_the_record_and_the_deployment(
    found: Operator | None, deployment: list[str], *, stops_it: bool
) -> None:
    """The Deployment is asked for where there is one, its scale only by a run that stops it."""
    own = ["lease"] if found is not None else []
    assert texts(rights.of_migration((), "grove", found, RunOptions(PlanOptions(), stop_operator=stops_it))) == [
        f"{verb} leases.coordination.k8s.io {name} in namespace grove"
        for name in ("grove-migrator", "grove-operator-leader-election", *own)
        for verb in ("get", "patch")
    ] + [
        "create leases.coordination.k8s.io in namespace grove",
        "get configmaps in namespace grove",
        "list configmaps in namespace grove",
        "create configmaps in namespace grove",
        "delete configmaps in namespace grove",
        "patch configmaps grove-migrator-run in namespace grove",
        *deployment,
    ]


def test_a_question_tells_what_is_meant_and_nothing_is_stored() -> None:
    """A review names verb, group, version, resource, subresource and name, without what is empty, in a dry run."""
    store = Reviewer()
    scale = Right("patch", resources.DEPLOYMENTS, "scale", name="grove-operator")
    rights.check(store, [scale, Right("list", resources.CONFIG_MAPS)], LOG)
    deployment = {"group": "apps", "version": "v1", "resource": "deployments", "name": "grove-operator"}
    assert store.asked == [
        {"verb": "patch", "subresource": "scale", **deployment},
        {"verb": "list", "version": "v1", "resource": "configmaps"},
    ]
    assert store.modes == {DryRun.SERVER}


def test_a_right_everywhere_is_asked_for_once() -> None:
    """A thousand namespaces cost no more questions than one where the right is a ClusterRole's."""
    store = Reviewer()
    rights.check(store, [Right("patch", resources.PODS, "", f"team-{n}") for n in range(1000)], LOG)
    assert store.asked == [{"verb": "patch", "version": "v1", "resource": "pods"}]


def test_a_right_in_one_namespace_is_enough_there() -> None:
    """Denied for all namespaces, each is asked about by itself, and only those that lack the right are named."""
    store = Reviewer(lambda asked: asked.get("namespace") == "mine")
    wanted = [Right("patch", resources.PODS, "", "mine"), Right("patch", resources.PODS, "", "theirs")]
    with pytest.raises(NotAuthorised) as caught:
        rights.check(store, wanted, LOG)
    assert "may not patch pods in namespace theirs: grant it" in str(caught.value)
    assert [asked.get("namespace") for asked in store.asked] == [None, "mine", "theirs"]


def test_a_right_on_what_has_no_namespace_is_asked_for_once() -> None:
    """Denied, a question about a cluster-wide object is not asked a second time."""
    store = Reviewer(lambda _asked: False)
    with pytest.raises(NotAuthorised):
        rights.check(store, [Right("get", resources.VALIDATING_WEBHOOK_CONFIGURATIONS, name="closed")], LOG)
    assert len(store.asked) == 1


def test_all_that_is_missing_is_named_up_to_eight() -> None:
    """Missing rights are named together, sorted; of many the rest is counted, and the remedy is told."""
    store = Reviewer(lambda asked: asked["verb"] != "patch")
    wanted = [Right(verb, resources.PODS, "", f"n{number}") for number in range(10) for verb in ("get", "patch")]
    with pytest.raises(NotAuthorised) as caught:
        rights.check(store, wanted, LOG)
    named = "; ".join(f"patch pods in namespace n{number}" for number in range(8))
    assert str(caught.value) == (
        f"nothing was begun, because we may not {named}; and 2 more: grant it (manifests/base/rbac.yaml has all that a "
        "run needs), then run again"
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda _asked: ApiError("HTTP 404", status=404),
        lambda _asked: NotAuthorised("HTTP 403"),
        lambda _asked: LostReply("no answer"),
        lambda _asked: None,
    ],
    ids=["an error", "forbidden", "no reply", "no verdict"],
)
def test_what_cannot_be_asked_does_not_refuse(answer: Answer) -> None:
    """Where the API server gives no verdict the run goes on, finds out by itself, and the log says so."""
    with structlog.testing.capture_logs() as logs:
        rights.check(Reviewer(answer), [Right("get", resources.PODS)], structlog.get_logger())
    assert [entry["event"] for entry in logs] == ["rights_not_asked"]


@pytest.mark.parametrize("revert", [False, True], ids=["run", "revert"])
def test_every_write_of_a_run_was_asked_for(*, revert: bool) -> None:
    """What a run patches, creates and deletes, Events aside, it has asked for before the first of those writes."""
    asked: set[tuple[str, str, str, str]] = set()

    def allow(_store: object, right: Right) -> bool:
        asked.add((right.verb, right.resource.plural, right.subresource, right.name))
        return True

    with mock.patch.object(rights, "allowed", allow):
        world = World()
        assert world.run().code == 0
        sent = len(world.store.writes())
        if revert:
            asked.clear()
            assert world.run(revert=True).code == 0
            sent = len(world.store.writes()) - sent
        writes = [write for write in world.store.writes()[-sent:] if write.resource != resources.EVENTS]
    assert {write.resource for write in writes} > GROVE
    for write in writes:
        named = (write.verb, write.resource.plural, write.subresource, write.name)
        assert named in asked or (*named[:3], "") in asked, write.target


def test_a_missing_right_disturbs_nothing() -> None:
    """Without one right the run ends with exit 1 before it stopped the operator or wrote anything."""
    with mock.patch.object(rights, "allowed", lambda _store, right: right.resource != resources.LEASES):
        world = World()
        ending = world.run()
    assert isinstance(ending.error, NotAuthorised)
    assert (ending.code, world.replicas, world.grove() == world.before) == (1, 1, True)
    assert world.records == []
    assert world.store.writes() == world.store.writes(resources.EVENTS)
