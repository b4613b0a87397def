"""The rights of a plan and a run: which there are, how they are asked for, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, Final

import pytest
import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised
from migrator.exact_json import JSONObject
from migrator.resources import Resource
from migrator.run import rights
from migrator.run.rights import Right
from migrator.store import DryRun
from tests.faults.steps import GROVE
from tests.faults.world import World
from tests.support.memory_store import MemoryStore, Request
from tests.support.tables import table

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


HOOKS: Final = Right("list", resources.VALIDATING_WEBHOOK_CONFIGURATIONS)


def on_pods(*namespaces: str) -> list[Right]:
    """The right to patch pods in some namespaces."""
    return [Right("patch", resources.PODS, "", namespace) for namespace in namespaces]


@table(
    "granted_in wanted asked lacking",
    (
        "A thousand namespaces cost no more questions than one where the right is a ClusterRole's.",
        ({None}, on_pods(*(f"team-{n}" for n in range(1000))), [None], ""),
    ),
    (
        "Denied for all namespaces, each is asked about by itself, and only those that lack the right are named.",
        (
            {"mine"},
            on_pods("mine", "theirs"),
            [None, "mine", "theirs"],
            "lacks permission to patch pods in namespace theirs: grant",
        ),
    ),
    (
        "Denied, a question about a cluster-wide object is not asked a second time.",
        (set(), [HOOKS], [None], "lacks permission to"),
    ),
)
def test_a_right_is_asked_for_in_each_namespace_only_where_it_is_denied_everywhere(
    granted_in: set[str | None], wanted: list[Right], asked: list[str | None], lacking: str
) -> None:
    """So many questions, each about a namespace or about all of them."""
    store = Reviewer(lambda attributes: attributes.get("namespace") in granted_in)
    with pytest.raises(NotAuthorised, match=lacking) if lacking else nullcontext():
        rights.check(store, wanted, LOG)
    assert [attributes.get("namespace") for attributes in store.asked] == asked


def test_all_that_is_missing_is_named_up_to_eight() -> None:
    """Missing rights are named together, sorted; of many the rest is counted, and the remedy is told."""
    store = Reviewer(lambda asked: asked["verb"] != "patch")
    wanted = [Right(verb, resources.PODS, "", f"n{number}") for number in range(10) for verb in ("get", "patch")]
    with pytest.raises(NotAuthorised) as caught:
        rights.check(store, wanted, LOG)
    named = "; ".join(f"patch pods in namespace n{number}" for number in range(8))
    assert str(caught.value) == (
        f"this account lacks permission to {named}; and 2 more: grant it (see manifests/job.yaml)"
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda _asked: ApiError("HTTP 404"),
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
    assert [entry["event"] for entry in logs] == ["permission_check_skipped"]


@pytest.mark.parametrize("revert", [False, True], ids=["run", "revert"])
def test_every_write_of_a_run_was_asked_for(*, revert: bool) -> None:
    """What a run patches, creates and deletes it has asked for before the first of those writes."""
    asked: set[tuple[str, str, str, str]] = set()

    def note(request: Request) -> None:
        if request.resource.plural == "selfsubjectaccessreviews":
            what = request.body["spec"]["resourceAttributes"]
            asked.add((what["verb"], what["resource"], what.get("subresource", ""), what.get("name", "")))

    world = World()
    assert not revert or world.run().code == 0
    world.store.before.append(note)
    sent = len(world.store.writes())
    assert world.run(revert=revert).code == 0
    writes = world.store.writes()[sent:]
    assert {write.resource for write in writes} > GROVE
    for write in writes:
        named = (write.verb, write.resource.plural, write.subresource, write.name)
        assert named in asked or (*named[:3], "") in asked, write.target


def test_a_missing_right_disturbs_nothing() -> None:
    """Without one right the run ends with exit 1 before it wrote anything."""
    world = World()
    world.store.allows = lambda asked: asked["resource"] != resources.LEASES.plural
    ending = world.run()
    assert isinstance(ending.error, NotAuthorised)
    assert (ending.code, world.replicas, world.grove() == world.before) == (1, 1, True)
    assert (world.records, world.store.writes()) == ([], [])
