"""Grove's authorizer webhook: seen, proven, and left with one exemption at most."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import structlog

from migrator.errors import ApiError, LostReply, MigratorError, NotAuthorised, Refused, Unreachable
from migrator.exact_json import JSONObject
from migrator.grove.model import POINTER_TEMPLATE_HASH_LABEL, Change, Place, Ref
from migrator.resources import POD_CLIQUES, PODS, VALIDATING_WEBHOOK_CONFIGURATIONS
from migrator.run import authorizer
from migrator.run.context import Context
from migrator.run.execute import Patch
from migrator.store import Deadline, DryRun
from tests.support.memory_store import Request
from tests.support.small_cluster import Clock, SmallCluster

USER = "system:serviceaccount:grove-system:grove-migrator"
ENTRY = {
    "name": "exclude-grove-migrator",
    "expression": f'request.userInfo.username != "{USER}"',
}
FOREIGN = {"name": "foreign", "expression": "true"}
UNREACHABLE = (
    'Internal error occurred: failed calling webhook "authorizer.webhooks.grove.io": failed to call webhook: '
    'Post "https://grove-operator.grove-system.svc:9443/": no endpoints available for service "grove-operator"'
)


def webhook(**options: Any) -> JSONObject:
    """The authorizer as the chart renders it."""
    found: JSONObject = {
        "name": options.get("name", "authorizer.webhooks.grove.io"),
        "failurePolicy": options.get("policy", "Fail"),
        "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": options.get("selects", "grove-operator")}},
        "rules": [
            {"operations": options.get("operations", ["UPDATE"]), "resources": options.get("resources", ["pods"])}
        ],
    }
    if "conditions" in options:
        found["matchConditions"] = options["conditions"]
    return found


def cluster_with(*webhooks: JSONObject, name: str = "authorizer-webhook") -> SmallCluster:
    """A cluster with one ValidatingWebhookConfiguration."""
    cluster = SmallCluster()
    cluster.add(VALIDATING_WEBHOOK_CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": list(webhooks)})
    return cluster


def conditions(cluster: SmallCluster, index: int = 0) -> Any:
    """The matchConditions as they stand."""
    body = cluster.read(VALIDATING_WEBHOOK_CONFIGURATIONS, "", "authorizer-webhook")
    return body["webhooks"][index].get("matchConditions")


@pytest.fixture
def context() -> Context:
    """A context with a silent log."""
    clock = Clock()
    return Context(
        clock=clock,
        now=clock.now,
        sleep=clock.sleep,
        identity="we_1",
        run_id="r",
        log=structlog.wrap_logger(structlog.ReturnLogger()),
        stop=threading.Event(),
        deadline=Deadline(clock),
    )


def label_patch(kind: str, namespace: str, name: str) -> Patch:
    """One planned change of the hash label."""
    ref = Ref(kind, namespace, name, f"uid-{name}")
    change = Change(ref, Place.POD_LABEL, POINTER_TEMPLATE_HASH_LABEL, "444", "555")
    return Patch(ref, "", (change,), 0)


def put_labelled(cluster: SmallCluster, patch: Patch, value: str = "444") -> None:
    """The object that a patch is meant for."""
    resource = PODS if patch.ref.kind == "Pod" else POD_CLIQUES
    metadata = {
        "namespace": patch.ref.namespace,
        "name": patch.ref.name,
        "uid": patch.ref.uid,
        "labels": {"grove.io/pod-template-hash": value},
    }
    cluster.add(resource, {"metadata": metadata})


@pytest.mark.parametrize(
    ("found", "blocks"),
    [
        (webhook(), True),
        (webhook(policy="Ignore"), False),
        (webhook(conditions=[FOREIGN]), True),
        (webhook(conditions=[FOREIGN, ENTRY]), False),
        (webhook(name="renamed.example.com"), True),
        (webhook(name="renamed.example.com", resources=["podcliques"], operations=["*"]), True),
        (webhook(name="renamed.example.com", resources=["*"]), True),
        (webhook(name="renamed.example.com", resources=["pods/status"]), False),
        (webhook(name="renamed.example.com", operations=["CREATE", "DELETE"]), False),
        (webhook(name="renamed.example.com", selects="somebody-else"), False),
        ({"name": "authorizer.webhooks.grove.io"}, True),
        ({"name": "policy.example.com", "rules": [{"operations": ["*"], "resources": ["*"]}]}, False),
    ],
)
def test_the_webhook_is_seen_by_name_or_by_what_it_selects(found: JSONObject, *, blocks: bool) -> None:
    """Whatever fails closed on updates of Grove's pods or PodCliques blocks, unless we are exempt from it."""
    assert (authorizer.blocking(cluster_with(found)) is not None) is blocks


def test_what_blocks_says_where_and_what_to_do() -> None:
    """The refusal names the configuration, the two-step upgrade and the flag."""
    found = authorizer.blocking(cluster_with(webhook()))
    assert found is not None
    for part in ("authorizer-webhook", "config.authorizer.enabled=false", "replicaCount=0", "--exempt-from-authorizer"):
        assert part in found.remedy


def test_no_webhook_blocks_nothing() -> None:
    """Without configurations, and on a dump, there is nothing in the way."""
    assert authorizer.blocking(SmallCluster()) is None
    dump = cluster_with(webhook())
    dump.is_cluster = False
    assert authorizer.blocking(dump) is None
    assert dump.requests == []


def test_configurations_that_may_not_be_read_fail_closed() -> None:
    """A missing right must not look like a missing webhook."""
    cluster = cluster_with(webhook())
    cluster.fail(lambda: NotAuthorised("forbidden"), verb="list")
    with pytest.raises(NotAuthorised):
        authorizer.blocking(cluster)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, [ENTRY]),
        ([FOREIGN], [FOREIGN, ENTRY]),
        ([ENTRY], [ENTRY]),
        ([FOREIGN, {"name": ENTRY["name"], "expression": "other"}], [FOREIGN, ENTRY]),
    ],
)
def test_the_exemption_is_added_once(
    context: Context, before: list[JSONObject] | None, after: list[JSONObject]
) -> None:
    """Added to none or beside others', corrected where it is stale, and the same however often it is asked for."""
    cluster = cluster_with(webhook() if before is None else webhook(conditions=before))
    assert authorizer.exempt(cluster, context)
    assert conditions(cluster) == after
    sent = len(cluster.writes(VALIDATING_WEBHOOK_CONFIGURATIONS))
    assert authorizer.exempt(cluster, context)
    assert len(cluster.writes(VALIDATING_WEBHOOK_CONFIGURATIONS)) == sent
    assert authorizer.blocking(cluster) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [([ENTRY], []), ([FOREIGN, ENTRY], [FOREIGN]), ([ENTRY, FOREIGN], [FOREIGN]), ([FOREIGN], [FOREIGN])],
)
def test_withdrawing_leaves_others_conditions(
    context: Context, before: list[JSONObject], after: list[JSONObject]
) -> None:
    """Only our entry goes, and going twice is fine."""
    cluster = cluster_with(webhook(conditions=before))
    assert authorizer.withdraw(cluster, context.log) == int(ENTRY in before)
    assert authorizer.withdraw(cluster, context.log) == 0
    assert conditions(cluster) == after


def test_the_right_webhook_of_several_is_patched(context: Context) -> None:
    """The position is read from the configuration, and only what blocks is exempted."""
    cluster = cluster_with(
        webhook(name="first.example.com", selects="x"), webhook(), webhook(policy="Ignore", name="z")
    )
    assert authorizer.exempt(cluster, context)
    assert [conditions(cluster, index) for index in range(3)] == [None, [ENTRY], None]


def test_without_an_authorizer_there_is_nothing_to_withdraw(context: Context) -> None:
    """The flag does no harm where it is not needed."""
    assert not authorizer.exempt(SmallCluster(), context)
    assert not authorizer.exempt(cluster_with(webhook(policy="Ignore")), context)


@pytest.mark.parametrize("user", ["admin", "system:node:n1", None])
def test_only_a_service_account_is_exempted(context: Context, user: str | None) -> None:
    """A person keeps what the webhook demands of persons."""
    cluster = cluster_with(webhook())
    cluster.user = user  # type: ignore[assignment]
    with pytest.raises(Refused, match="ServiceAccount"):
        authorizer.exempt(cluster, context)
    with pytest.raises(Refused, match=r"GM-202.*ServiceAccount"):
        authorizer.check_user(cluster)
    assert cluster.writes(VALIDATING_WEBHOOK_CONFIGURATIONS) == []


def test_who_we_are_matters_only_where_there_is_an_authorizer() -> None:
    """A ServiceAccount may be exempted, and anybody may ask for what nobody needs."""
    cluster = cluster_with(webhook())
    authorizer.check_user(cluster)
    nobody = SmallCluster()
    nobody.user = "admin"
    authorizer.check_user(nobody)


def test_a_server_that_drops_the_field_refuses(context: Context) -> None:
    """What is not read back does not count (API servers before 1.28), and nothing is left behind."""
    cluster = cluster_with(webhook())

    def drop(request: Request) -> None:
        if request.verb == "patch":
            cluster.add(
                VALIDATING_WEBHOOK_CONFIGURATIONS,
                {"metadata": {"name": "authorizer-webhook"}, "webhooks": [webhook()]},
            )

    cluster.after.append(drop)
    with pytest.raises(Refused, match="does not stay"):
        authorizer.exempt(cluster, context)
    assert conditions(cluster) is None


def test_a_failure_in_between_leaves_no_exemption(context: Context) -> None:
    """Two authorizers, and the second cannot be patched: the first entry is taken back."""
    cluster = cluster_with(webhook(), webhook(name="second.example.com"))
    second = "/webhooks/1/name"
    cluster.inject(lambda: Unreachable("connection refused"), when=lambda r: bool(r.ops) and r.ops[0].path == second)
    with pytest.raises(Unreachable):
        authorizer.exempt(cluster, context)
    assert conditions(cluster) == []


@pytest.mark.parametrize("arrives", [True, False])
def test_lost_replies_are_found_out(context: Context, *, arrives: bool) -> None:
    """Adding and removing read before they repeat."""
    cluster = cluster_with(webhook())

    def lose() -> None:
        if arrives:
            cluster.lose_reply(verb="patch")
        else:
            cluster.fail(lambda: LostReply("no reply"), verb="patch")

    lose()
    assert authorizer.exempt(cluster, context)
    assert conditions(cluster) == [ENTRY]
    lose()
    assert authorizer.withdraw(cluster, context.log) == 1
    assert conditions(cluster) == []


def test_a_list_that_moves_is_read_again(context: Context) -> None:
    """Somebody adds a condition in front of ours between our read and our removal."""
    cluster = cluster_with(webhook(conditions=[ENTRY]))
    moved = {"matchConditions": [FOREIGN, ENTRY]}
    cluster.meanwhile(
        lambda: cluster.edit(
            VALIDATING_WEBHOOK_CONFIGURATIONS, "", "authorizer-webhook", lambda body: body["webhooks"][0].update(moved)
        ),
        verb="patch",
    )
    authorizer.withdraw(cluster, context.log)
    assert conditions(cluster) == [FOREIGN]


def test_an_exemption_that_cannot_be_removed_is_an_error(context: Context) -> None:
    """It is named, because it has to be removed by hand."""
    cluster = cluster_with(webhook(conditions=[ENTRY]))
    cluster.fail(lambda: LostReply("no reply"), verb="patch", times=100)
    with pytest.raises(ApiError, match=r"exclude-grove-migrator.*authorizer-webhook.*by hand"):
        authorizer.withdraw(cluster, context.log)


def test_a_dead_runs_exemption_is_removed_or_reported(context: Context) -> None:
    """Any later run removes it, and one without the right to do so says so and goes on."""
    cluster = cluster_with(webhook(conditions=[ENTRY]))
    cluster.fail(lambda: NotAuthorised("forbidden"), verb="patch")
    with structlog.testing.capture_logs() as logs:
        authorizer.withdraw_stale(cluster, structlog.get_logger())
    assert [entry["event"] for entry in logs] == ["exemption_not_removed"]
    authorizer.withdraw_stale(cluster, context.log)
    assert conditions(cluster) == []


def test_a_probe_needs_a_dry_run() -> None:
    """A probe through a store that writes is a bug, and writes nothing."""
    cluster = SmallCluster()
    patch = label_patch("Pod", "ns", "p")
    put_labelled(cluster, patch)
    with pytest.raises(ValueError, match="dry run"):
        authorizer.probe(cluster, [patch])
    assert cluster.requests == []


def test_a_probe_asks_once_per_kind_and_namespace() -> None:
    """One pod and one PodClique of each namespace, label patches only, and nothing is written."""
    cluster = SmallCluster()
    patches = [
        label_patch(kind, namespace, f"{namespace}-{number}")
        for namespace in ("a", "b")
        for kind in ("Pod", "PodClique")
        for number in range(3)
    ]
    for patch in patches:
        put_labelled(cluster, patch)
    status = Patch(patches[0].ref, "status", patches[0].changes, 2)
    pcs = Patch(Ref("PodCliqueSet", "a", "s"), "", (), 6)
    cluster.dry_run = DryRun.SERVER
    assert authorizer.probe(cluster, [status, pcs, *patches]) == 4
    assert [(r.resource.plural, r.namespace) for r in cluster.requests] == [
        ("pods", "a"),
        ("podcliques", "a"),
        ("pods", "b"),
        ("podcliques", "b"),
    ]
    assert cluster.read(PODS, "a", "a-0")["metadata"]["labels"]["grove.io/pod-template-hash"] == "444"


def test_a_failed_test_proves_nothing() -> None:
    """It is answered before any webhook is asked, so the next object is tried, and none left means no proof."""
    cluster = SmallCluster()
    patches = [label_patch("Pod", "ns", f"p{number}") for number in range(3)]
    put_labelled(cluster, patches[0], "999")
    put_labelled(cluster, patches[2])
    cluster.dry_run = DryRun.SERVER
    assert authorizer.probe(cluster, patches) == 1
    assert authorizer.probe(cluster, patches[:2]) == 0


@pytest.mark.parametrize(
    "error",
    [
        lambda: ApiError(UNREACHABLE, status=500, reason="InternalError"),
        lambda: NotAuthorised('admission webhook "authorizer.webhooks.grove.io" denied the request: no'),
    ],
)
def test_a_denial_refuses(error: Callable[[], MigratorError]) -> None:
    """A webhook that cannot be called or says no refuses with its own words and the remedy."""
    cluster = SmallCluster()
    patch = label_patch("Pod", "ns", "p")
    put_labelled(cluster, patch)
    cluster.dry_run = DryRun.SERVER
    cluster.fail(error, verb="patch")
    with pytest.raises(Refused, match=r"GM-202.*Pod ns/p.*webhook.*config\.authorizer\.enabled=false"):
        authorizer.probe(cluster, [patch])
    assert len(cluster.requests) == 1


def test_other_errors_are_no_denial() -> None:
    """A missing right of ours, or an API server that is away, keeps its own name."""
    cluster = SmallCluster()
    patch = label_patch("Pod", "ns", "p")
    put_labelled(cluster, patch)
    cluster.dry_run = DryRun.SERVER
    cluster.fail(lambda: NotAuthorised("pods is forbidden"), verb="patch")
    with pytest.raises(NotAuthorised):
        authorizer.probe(cluster, [patch])


def test_a_fresh_exemption_is_given_time() -> None:
    """Not every API server knows it at once: with a sleep the denial is asked again, bounded."""
    cluster, clock = SmallCluster(), Clock()
    patch = label_patch("Pod", "ns", "p")
    put_labelled(cluster, patch)
    cluster.dry_run = DryRun.SERVER
    cluster.fail(lambda: ApiError(UNREACHABLE, status=500), verb="patch", times=5)
    assert authorizer.probe(cluster, [patch], sleep=clock.sleep) == 1
    assert 2 <= sum(clock.slept) <= 3
    cluster.fail(lambda: ApiError(UNREACHABLE, status=500), verb="patch", times=1000)
    with pytest.raises(Refused):
        authorizer.probe(cluster, [patch], sleep=clock.sleep)
    assert sum(clock.slept) < 30
