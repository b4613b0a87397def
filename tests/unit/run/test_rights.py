"""The rights of a plan and a run: which there are, how they are asked for, and what becomes of the answers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final

import pytest
import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised
from migrator.run import rights
from migrator.run.rights import Right
from migrator.store import DryRun
from tests.faults.steps import GROVE
from tests.faults.world import World
from tests.support.clock import SILENT
from tests.support.memory_store import MemoryStore, Request
from tests.support.tables import table

HOOKS: Final = Right("list", resources.VALIDATING_WEBHOOK_CONFIGURATIONS)


def asked(store: MemoryStore) -> list[dict[str, str]]:
    """What an API server was asked."""
    return [request.body["spec"]["resourceAttributes"] for request in store.requests]


def test_a_right_is_told_as_kubectl_tells_it() -> None:
    """Verb, resource with group and subresource, name and namespace, each only where there is one."""
    told = {
        Right("patch", resources.POD_CLIQUES, "status", "team"): "patch podcliques/status.grove.io in namespace team",
        Right("patch", resources.PODS): "patch pods",
        Right("get", resources.LEASES, "", "grove", "id"): "get leases.coordination.k8s.io id in namespace grove",
    }
    assert {right: str(right) for right in told} == told


def test_a_question_tells_what_is_meant_and_nothing_is_stored() -> None:
    """A review names verb, group, version, resource, subresource and name, without what is empty, in a dry run."""
    store = MemoryStore()
    scale = Right("patch", resources.DEPLOYMENTS, "scale", name="grove-operator")
    rights.check(store, [scale, Right("list", resources.CONFIG_MAPS)], SILENT)
    deployment = {"group": "apps", "version": "v1", "resource": "deployments", "name": "grove-operator"}
    assert asked(store) == [
        {"verb": "patch", "subresource": "scale", **deployment},
        {"verb": "list", "version": "v1", "resource": "configmaps"},
    ]
    assert {request.dry_run for request in store.requests} == {DryRun.SERVER}


def on_pods(*namespaces: str) -> list[Right]:
    """The right to patch pods in some namespaces."""
    return [Right("patch", resources.PODS, "", namespace) for namespace in namespaces]


@table(
    "granted_in wanted questions lacking",
    (
        "A thousand namespaces cost no more questions than one where the right is a ClusterRole's.",
        ({None}, on_pods(*(f"team-{n}" for n in range(1000))), [None], ""),
    ),
    (
        "Denied for all namespaces, each is asked about by itself, and only those that lack the right are named.",
        ({"mine"}, on_pods("mine", "theirs"), [None, "mine", "theirs"], "to patch pods in namespace theirs: grant"),
    ),
    (
        "Denied, a question about a cluster-wide object is not asked a second time.",
        (set(), [HOOKS], [None], "lacks permission to"),
    ),
)
def test_a_right_is_asked_for_in_each_namespace_only_where_it_is_denied_everywhere(
    granted_in: set[str | None], wanted: list[Right], questions: list[str | None], lacking: str
) -> None:
    """So many questions, each about a namespace or about all of them."""
    store = MemoryStore()
    store.allows = lambda attributes: attributes.get("namespace") in granted_in
    with pytest.raises(NotAuthorised, match=lacking) if lacking else nullcontext():
        rights.check(store, wanted, SILENT)
    assert [attributes.get("namespace") for attributes in asked(store)] == questions


def test_all_that_is_missing_is_named_up_to_eight() -> None:
    """Missing rights are named together, sorted; of many the rest is counted, and the remedy is told."""
    store = MemoryStore()
    store.allows = lambda attributes: attributes["verb"] != "patch"
    wanted = [Right(verb, resources.PODS, "", f"n{number}") for number in range(10) for verb in ("get", "patch")]
    with pytest.raises(NotAuthorised) as caught:
        rights.check(store, wanted, SILENT)
    named = "; ".join(f"patch pods in namespace n{number}" for number in range(8))
    assert str(caught.value) == (
        f"this account lacks permission to {named}; and 2 more: grant it (see manifests/job.yaml)"
    )


@table(
    "answer",
    ("An error.", (ApiError("HTTP 404"),)),
    ("Forbidden.", (NotAuthorised("HTTP 403"),)),
    ("No reply.", (LostReply("no answer"),)),
    ("No verdict.", (None,)),
)
def test_what_cannot_be_asked_does_not_refuse(answer: MigratorError | None) -> None:
    """Where the API server gives no verdict the run goes on, finds out by itself, and the log says so."""
    store = MemoryStore()
    no_verdict: Any = None
    store.allows = lambda _attributes: no_verdict
    if answer is not None:
        store.fail(answer)
    with structlog.testing.capture_logs() as logs:
        rights.check(store, [Right("get", resources.PODS)], structlog.get_logger())
    assert [entry["event"] for entry in logs] == ["permission_check_skipped"]


@pytest.mark.parametrize("revert", [False, True], ids=["run", "revert"])
def test_every_write_of_a_run_was_asked_for(*, revert: bool) -> None:
    """What a run patches, creates and deletes it has asked for before the first of those writes."""
    known: set[tuple[str, str, str, str]] = set()

    def note(request: Request) -> None:
        if request.resource.plural == "selfsubjectaccessreviews":
            what = request.body["spec"]["resourceAttributes"]
            known.add((what["verb"], what["resource"], what.get("subresource", ""), what.get("name", "")))

    world = World()
    assert not revert or world.run().code == 0
    world.store.before.append(note)
    sent = len(world.store.writes())
    assert world.run(revert=revert).code == 0
    writes = world.store.writes()[sent:]
    assert {write.resource for write in writes} > GROVE
    for write in writes:
        named = (write.verb, write.resource.plural, write.subresource, write.name)
        assert named in known or (*named[:3], "") in known, write.target


def test_a_missing_right_disturbs_nothing() -> None:
    """Without one right the run ends with exit 1 before it wrote anything."""
    world = World()
    world.store.allows = lambda attributes: attributes["resource"] != resources.LEASES.plural
    ending = world.run()
    assert isinstance(ending.error, NotAuthorised)
    assert (ending.code, world.replicas, world.grove() == world.before) == (1, 1, True)
    assert (world.records, world.store.writes()) == ([], [])
