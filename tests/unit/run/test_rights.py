"""The rights of a plan and a run: which there are, how they are asked for, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final

import pytest
import structlog
import yaml

from migrator import resources
from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised
from migrator.exact_json import JSONObject
from migrator.grove.objects import Ref
from migrator.planning.patches import RANKS, Patch
from migrator.resources import Resource
from migrator.run import rights
from migrator.run.operator import Operator
from migrator.run.rights import Right
from migrator.store import DryRun
from tests.faults.steps import GROVE
from tests.faults.world import World
from tests.support.memory_store import MemoryStore, Request
from tests.support.paths import ROOT
from tests.support.tables import table

LOG = structlog.wrap_logger(structlog.ReturnLogger())
HOME: Final = "grove-system"
KINDS: Final = (
    resources.POD_CLIQUE_SETS,
    resources.POD_CLIQUE_SCALING_GROUPS,
    resources.POD_CLIQUES,
    resources.POD_GANG_MAPS,
    resources.POD_GANGS,
    Resource("grove.io", "v1alpha1", "clustertopologybindings", "ClusterTopologyBinding", namespaced=False),
)
OPERATOR: Final = Operator(HOME, "grove-operator", 1, "example.test/grove-operator:v0.1.0-alpha.9", (), None)
UNDER_ANOTHER_LEASE: Final = replace(OPERATOR, lease_name="lease")
Granted = tuple[str, str, str, str, str]
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
    assert texts(rights.of_migration(patches, "grove", None, stops_it=True))[:6] == [
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
        (replace(UNDER_ANOTHER_LEASE, deployment=""), True, []),
        (UNDER_ANOTHER_LEASE, False, []),
        (
            UNDER_ANOTHER_LEASE,
            True,
            ["get deployments.apps grove-operator", "patch deployments/scale.apps grove-operator"],
        ),
    ],
)
def test_a_run_needs_the_leases_the_record_and_the_deployment(
    found: Operator | None, deployment: list[str], *, stops_it: bool
) -> None:
    """The Deployment is asked for where there is one, its scale only by a run that stops it."""
    names = ("grove-migrator", "grove-operator-leader-election", *(["lease"] if found is not None else []))
    wanted = [f"{verb} leases.coordination.k8s.io {name}" for name in names for verb in ("get", "patch")]
    wanted += ["create leases.coordination.k8s.io"]
    wanted += ["get configmaps", "create configmaps"]
    wanted += ["patch configmaps grove-migrator-run", "delete configmaps grove-migrator-run", *deployment]
    assert texts(rights.of_migration((), HOME, found, stops_it=stops_it)) == [
        f"{right} in namespace {HOME}" for right in wanted
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


# --- the manifests grant these rights ------------------------------------------------------------------------------


def granted(file: str) -> set[Granted]:
    """Namespace (empty for all), verb, group, resource with subresource, and name, of each right in a manifest."""
    objects = yaml.safe_load_all((ROOT / "manifests" / file).read_text(encoding="utf-8"))
    return {
        (role["metadata"].get("namespace", ""), verb, group, resource, name)
        for role in objects
        if role["kind"] in {"Role", "ClusterRole"}
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for pattern in rule["resources"]
        for resource in ([kind.plural for kind in KINDS if kind.group == group] if pattern == "*" else [pattern])
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def key_of(right: Right) -> Granted:
    """The same of a right that is needed."""
    resource = "/".join(filter(None, (right.resource.plural, right.subresource)))
    return right.namespace, right.verb, right.resource.group, resource, right.name


def test_the_manifest_grants_what_a_run_needs() -> None:
    """Every right that a run of any patch asks for is in the role of its account."""
    patches = [patch(kind, "", part) for kind, part in RANKS]
    needs = rights.of_migration(patches, HOME, OPERATOR, stops_it=True)
    assert {key_of(right) for right in needs} <= granted("job.yaml")
