"""The operator's installation: found, scaled, and told from the target's."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, NotAuthorised, Refused, Unreachable, UsageError
from migrator.exact_json import JSONObject
from migrator.grove.model import Severity
from migrator.hashing import schemes
from migrator.planning.images import is_target
from migrator.resources import DEPLOYMENTS, PODS, SERVICES
from migrator.run import operator
from testbed import operator_installation as installation
from testbed.operator_installation import LABELS, NAMESPACE
from tests.support.small_cluster import SmallCluster
from tests.support.tables import table

IMAGE = installation.image("v0.1.0-alpha.9")
CONFIG = installation.configuration()


def cluster_of(*objects: JSONObject) -> SmallCluster:
    """A cluster of these objects."""
    cluster = SmallCluster()
    for body in objects:
        cluster.put(body)
    return cluster


def in_company(body: JSONObject) -> JSONObject:
    """An object of the chart with a sidecar in front, and with volumes that are not the configuration."""
    spec = body["spec"]["template"]["spec"] if body["kind"] == "Deployment" else body["spec"]
    spec["containers"].insert(0, {"name": "sidecar", "image": "proxy:v9.9.9"})
    spec["volumes"][:0] = [
        {"name": "certificates", "secret": {"secretName": "grove-webhook-server-cert"}},
        {"name": "extra", "configMap": {"name": "somebody-elses"}},
    ]
    return body


def deployment(
    *, image: str = IMAGE, name: str = "grove-operator", labels: dict[str, str] = LABELS, **options: Any
) -> JSONObject:
    """The chart's Deployment, with one label more."""
    body = in_company(installation.deployment(image, **options))
    body["metadata"] |= {"name": name, "labels": {**labels, "release": "grove"}}
    body["spec"]["selector"]["matchLabels"] = body["spec"]["template"]["metadata"]["labels"] = labels
    return body


def pod(
    name: str, *, image: str = IMAGE, labels: dict[str, str] = LABELS, terminating: bool = False, **options: Any
) -> JSONObject:
    """A pod of the operator."""
    phase = options.pop("phase", "Running")
    body = in_company(installation.pod(image, name=name, **options)) | {"status": {"phase": phase}}
    body["metadata"]["labels"] = {**labels, "pod-template-hash": name}
    if terminating:
        body["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    return body


def installed(config: str = CONFIG, **options: Any) -> SmallCluster:
    """A cluster with one installation and one pod."""
    return cluster_of(
        deployment(**options),
        installation.config_map(config),
        pod("grove-operator-1", image=options.get("image", IMAGE)),
    )


def look(
    cluster: SmallCluster, *, namespace: str | None = None, name: str | None = None, lease: str | None = None
) -> operator.Found:
    """Find, with all of the options optional."""
    return operator.find(cluster, operator.Flags(namespace, name, lease))


def find(cluster: SmallCluster, **options: str | None) -> operator.Operator | None:
    """The operator, if there is one."""
    return look(cluster, **options).operator


def found_in(cluster: SmallCluster, **options: str | None) -> operator.Operator:
    """Find what must be there."""
    found = find(cluster, **options)
    assert found is not None
    return found


def refusals(cluster: SmallCluster, **options: str | None) -> str:
    """What the findings refuse, as one text."""
    findings = look(cluster, **options).findings
    return "; ".join(f"{f.code}: {f.message}" for f in findings if f.severity is Severity.REFUSAL)


def replicas_of(cluster: SmallCluster) -> int:
    """The Deployment's replicas as they stand."""
    replicas: int = cluster.read(DEPLOYMENTS, NAMESPACE, "grove-operator")["spec"]["replicas"]
    return replicas


def test_an_installation_is_found_by_its_labels() -> None:
    """Namespace, Deployment, replicas, image, pods and Lease, from the labels alone."""
    found = found_in(installed(replicas=2))
    assert (found.namespace, found.deployment, found.replicas) == (NAMESPACE, "grove-operator", 2)
    assert found.image == IMAGE
    assert [(p.ref.name, p.image, p.terminating) for p in found.pods] == [("grove-operator-1", IMAGE, False)]
    assert found.lease_name == "grove-operator-leader-election"
    assert str(found) == "Deployment grove-system/grove-operator"
    assert look(installed()).home == NAMESPACE


def test_nothing_installed_is_none() -> None:
    """Without a Deployment and without a pod there is no operator."""
    assert find(cluster_of(deployment(name="web", labels={"app": "web"}) | {"spec": {}})) is None


def test_other_labels_are_recognised_by_the_container() -> None:
    """A chart whose labels were changed by value still runs a container of the operator's name."""
    labels = {"app": "my-grove"}
    cluster = cluster_of(
        deployment(labels=labels),
        installation.config_map(),
        pod("grove-operator-1", labels=labels),
    )
    assert [p.ref.name for p in found_in(cluster).pods] == ["grove-operator-1"]


@pytest.mark.parametrize("replicas", [0, 1])
def test_the_webhook_leads_to_an_operator_under_its_own_labels(replicas: int) -> None:
    """Its Service's selector finds the Deployment by its pod template, at zero too, and the pods."""
    labels = {"app": "own"}
    body = deployment(labels=labels, replicas=replicas)
    body["spec"]["template"]["spec"]["containers"][1]["name"] = "manager"
    cluster = cluster_of(
        body,
        deployment(name="web", labels={"app": "web"}, namespace="tenant") | {"spec": {}},
        installation.config_map(),
        pod("own-1", labels=labels),
        *installation.webhook(selector=labels),
    )
    found = found_in(cluster)
    assert (found.deployment, found.replicas, [p.ref.name for p in found.pods]) == (
        "grove-operator",
        replicas,
        ["own-1"],
    )


def test_a_webhook_behind_a_url_is_reported() -> None:
    """What is behind it is not seen."""
    cluster = installed()
    _, hook = installation.webhook()
    hook["webhooks"][0]["clientConfig"] = {"url": "https://elsewhere.example"}
    cluster.put(hook)
    assert any("URL" in finding.message for finding in look(cluster).findings)


def test_a_service_that_may_not_be_read_is_reported() -> None:
    """The operator is found by its labels all the same."""
    cluster = installed()
    for body in installation.webhook():
        cluster.put(body)
    cluster.inject(lambda: NotAuthorised("HTTP 403"), when=lambda r: r.resource == SERVICES)
    found = look(cluster)
    assert found.operator is not None
    assert any("grant `get` on services" in finding.message for finding in found.findings)


def test_pods_of_every_replica_set_count_and_strangers_do_not() -> None:
    """Old ReplicaSets' pods and terminating pods may still write; a tenant's pod with those labels is only reported."""
    cluster = installed()
    cluster.put(pod("grove-operator-old", image="registry:5000/grove-operator:v0.1.0-alpha.8", terminating=True))
    cluster.put(pod("grove-operator-2", namespace="elsewhere"))
    found = look(cluster)
    assert found.operator is not None
    assert [(p.ref.name, p.terminating) for p in found.operator.pods] == [
        ("grove-operator-1", False),
        ("grove-operator-old", True),
    ]
    assert [(f.severity, f.ref.name) for f in found.findings if f.ref] == [(Severity.WARNING, "grove-operator-2")]


@pytest.mark.parametrize(
    ("phase", "terminating", "counts"),
    [
        ("Failed", False, False),
        ("Succeeded", False, False),
        ("Failed", True, True),
        ("Pending", False, True),
        ("Unknown", False, True),
    ],
)
def test_pods_that_have_ended_do_not_count(phase: str, *, terminating: bool, counts: bool) -> None:
    """An evicted pod stays listed for good and runs nothing; one that is still being deleted may."""
    cluster = cluster_of(deployment(), installation.config_map(), pod("p", phase=phase, terminating=terminating))
    assert bool(found_in(cluster).pods) is counts


def test_two_installations_refuse_and_can_be_told_apart() -> None:
    """Both are named with the flags to choose; a choice by namespace or name is taken."""
    cluster = installed()
    cluster.put(deployment(namespace="other", name="grove-two"))
    cluster.put(installation.config_map(namespace="other"))
    said = refusals(cluster)
    assert "GM-203" in said
    assert "grove-system/grove-operator, other/grove-two" in said
    assert found_in(cluster, namespace="other").deployment == "grove-two"
    assert found_in(cluster, name="grove-operator").namespace == NAMESPACE
    assert refusals(cluster, name="grove-operator") == ""


def test_a_named_deployment_needs_no_labels() -> None:
    """What the user names is taken by name."""
    cluster = cluster_of(deployment(name="mine", labels={"app": "x"}), installation.config_map())
    assert found_in(cluster, name="mine", namespace=NAMESPACE).deployment == "mine"


@pytest.mark.parametrize("namespace", [None, NAMESPACE])
def test_a_named_deployment_that_does_not_exist_is_an_error(namespace: str | None) -> None:
    """A typing mistake must not look like a cluster without an operator."""
    with pytest.raises(UsageError, match="--operator-deployment"):
        find(installed(), name="grove-operatr", namespace=namespace)


def test_missing_rights_fail_closed() -> None:
    """Deployments or pods that may not be listed are not absent."""
    cluster = installed()
    cluster.inject(lambda: NotAuthorised("forbidden"), when=lambda r: r.resource == DEPLOYMENTS, times=9)
    with pytest.raises(NotAuthorised, match="could run unseen"):
        find(cluster)
    cluster = installed()
    cluster.inject(lambda: NotAuthorised("pods is forbidden"), when=lambda r: r.resource == PODS)
    with pytest.raises(NotAuthorised, match="pods is forbidden"):
        find(cluster)


def test_deployments_of_one_namespace_are_enough_where_that_is_named() -> None:
    """Who may not list all of them says where the operator is."""
    cluster = installed()
    cluster.inject(
        lambda: NotAuthorised("forbidden"), when=lambda r: r.resource == DEPLOYMENTS and not r.namespace, times=9
    )
    assert found_in(cluster, namespace=NAMESPACE).deployment == "grove-operator"


def test_pods_without_a_deployment_are_an_operator() -> None:
    """In the namespace that the user names they are found with their Lease, and cannot be scaled."""
    cluster = cluster_of(pod("bare"), installation.config_map())
    found = found_in(cluster, namespace=NAMESPACE)
    assert (found.namespace, found.deployment, found.lease_name) == (NAMESPACE, "", "grove-operator-leader-election")
    with pytest.raises(Refused, match="grove-system/bare"):
        operator.scale(cluster, found, 0)
    assert find(cluster) is None


def test_a_flag_that_contradicts_what_is_found_refuses() -> None:
    """The Lease and the record are where the operator is, not where a flag says."""
    assert "namespace grove-system" in refusals(installed(), namespace="empty")


@pytest.mark.parametrize(
    ("config", "lease"),
    [
        ("leaderElection: {enabled: true}", "grove-operator-leader-election"),
        ("leaderElection: {enabled: true, leaseDuration: 1m30s, resourceName: mine}", "mine"),
        ("leaderElection: {enabled: false, leaseDuration: 2s}", None),
        ("runtimeClientConnection: {}", None),
        ("leaderElection:", None),
    ],
)
def test_the_lease_is_the_configured_one(config: str, lease: str | None) -> None:
    """Its name comes from the mounted configuration, with the operator's own default; none without election."""
    found = found_in(installed(f"kind: OperatorConfiguration\n{config}\n"))
    assert found.lease_name == lease
    names = operator.lease_names(found, operator.Flags())
    assert names == tuple(sorted({lease or "grove-operator-leader-election", "grove-operator-leader-election"}))
    assert operator.kept_out(found, names) is (lease is not None)


@pytest.mark.parametrize("release", ["v0.1.0-alpha.1", "0.1.0-alpha.2", "v0.1.0-alpha.3"])
def test_the_first_releases_elect_no_leader(release: str) -> None:
    """Their configuration's key is not read, so no Lease keeps them out."""
    assert found_in(installed(image=f"grove-operator:{release}")).lease_name is None


def test_a_given_lease_name_wins() -> None:
    """--lease-name overrides whatever is configured, and needs no configuration at all."""
    assert found_in(installed(), lease="given").lease_name == "given"
    assert refusals(cluster_of(deployment()), lease="given") == ""


@pytest.mark.parametrize("config", ["kind: [", "kind: Other", "[]", "kind: OperatorConfiguration\nleaderElection: 5"])
def test_a_configuration_that_cannot_be_read_refuses(config: str) -> None:
    """A wrong guess about the Lease would let an operator start while we write."""
    assert "ConfigMap grove-system/grove-operator-cm-0123abcd" in refusals(installed(config))


def test_an_absent_configuration_refuses() -> None:
    """Without the ConfigMap the Lease is unknown, and the remedy is named."""
    assert "--lease-name" in refusals(cluster_of(deployment()))


def test_a_configuration_that_may_not_be_read_fails_closed() -> None:
    """A missing right on ConfigMaps is reported as such."""
    cluster = installed()
    cluster.fail(lambda: NotAuthorised("configmaps is forbidden"), verb="get")
    with pytest.raises(NotAuthorised):
        find(cluster)


def test_items_rename_the_configuration_key() -> None:
    """The key is the one that the volume mounts as config.yaml."""
    body = deployment()
    body["spec"]["template"]["spec"]["volumes"][-1]["configMap"]["items"] = [{"key": "own", "path": "config.yaml"}]
    config = installation.config_map()
    config["data"] = {"own": CONFIG}
    assert found_in(cluster_of(body, config)).lease_name


@pytest.mark.parametrize(
    ("labels", "selected"),
    [
        ({"a": "b", "c": "d", "h": ""}, True),
        ({"a": "b", "c": "e", "h": "x", "f": "other"}, True),
        ({"a": "x", "c": "d", "h": ""}, False),
        ({"a": "b", "h": ""}, False),
        ({"a": "b", "c": "d", "h": "", "f": "g"}, False),
        ({"a": "b", "c": "d"}, False),
        ({"a": "b", "c": "d", "h": "", "i": ""}, False),
    ],
)
def test_expressions_in_the_selector_count(labels: dict[str, str], *, selected: bool) -> None:
    """A pod is the operator's if every term of its Deployment's selector holds."""
    body = deployment(labels={})
    body["spec"]["selector"] = {
        "matchLabels": {"a": "b"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["d", "e"]},
            {"key": "f", "operator": "NotIn", "values": ["g"]},
            {"key": "h", "operator": "Exists"},
            {"key": "i", "operator": "DoesNotExist"},
        ],
    }
    cluster = cluster_of(body, installation.config_map(CONFIG), pod("p", labels=labels))
    assert bool(found_in(cluster).pods) is selected


def test_scaling_goes_through_scale_and_nothing_else() -> None:
    """Down to zero and back: two patches of the subresource, no other write, whatever it costs."""
    cluster = installed(replicas=2)
    found = found_in(cluster)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    operator.scale(cluster, found_in(cluster), 2)
    assert replicas_of(cluster) == 2
    assert [(r.verb, r.target) for r in cluster.writes()] == [("patch", "deployments/grove-operator/scale")] * 2


def test_scaling_twice_writes_once() -> None:
    """What is already so is left alone."""
    cluster = installed(replicas=0)
    operator.scale(cluster, found_in(cluster), 0)
    assert cluster.writes() == []


@table(
    "found moved wanted left",
    ("A test that fails is read again: the present number goes down to zero.", (1, 3, 0, 0)),
    ("Scaling from one number straight to another would leave a field owner that blocks Helm.", (0, 1, 3, 1)),
)
def test_scaling_follows_replicas_that_moved(found: int, moved: int, wanted: int, left: int) -> None:
    """Somebody else set the replicas since they were read: zero is insisted on, and any other number is theirs."""
    cluster = installed(replicas=found)
    seen = found_in(cluster)
    cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda body: body["spec"].update(replicas=moved))
    operator.scale(cluster, seen, wanted)
    assert replicas_of(cluster) == left


@pytest.mark.parametrize("arrives", [True, False])
def test_a_lost_reply_to_scaling_is_found_out(*, arrives: bool) -> None:
    """Applied or not, reading tells, and the end is the same."""
    cluster = installed()
    found = found_in(cluster)
    if arrives:
        cluster.lose_reply(verb="patch")
    else:
        cluster.fail(lambda: LostReply("no reply"), verb="patch")
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0


def test_scaling_against_somebody_else_is_bounded() -> None:
    """Replicas that others keep setting end in a lost race that names the Deployment."""
    cluster = installed()
    found = found_in(cluster)
    number = [1]

    def fight() -> None:
        number[0] += 1
        cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda b: b["spec"].update(replicas=number[0]))

    cluster.meanwhile(fight, verb="patch", times=1000)
    with pytest.raises(LostRace, match="grove-system/grove-operator"):
        operator.scale(cluster, found, 0)


def test_an_outage_is_not_absence() -> None:
    """An API server that does not answer never looks like zero pods."""
    cluster = installed(replicas=0)
    cluster.fail(lambda: Unreachable("no answer"), verb="list", times=9)
    with pytest.raises(Unreachable):
        find(cluster)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.11", True),
        ("grove-operator:0.1.0-alpha.11", True),
        ("registry.local:5000/grove/grove-operator:v0.1.0-alpha.10", True),
        ("registry.local:5000/grove/grove-operator:v0.1.0-alpha.10@sha256:00", True),
        ("grove-operator:main-fcc3b3bb", True),
        ("grove-operator:v0.1.0-alpha.9", False),
        ("grove-operator:v0.1.0-alpha.10-rc1", False),
        ("grove-operator:v0.1.0-alpha.99", False),
        ("grove-operator:legacy-1.35", False),
        ("grove-operator:latest", False),
        ("grove-operator@sha256:00", False),
        ("registry.local:5000/grove-operator", False),
        ("", False),
    ],
)
def test_the_target_is_told_by_its_release(image: str, *, expected: bool) -> None:
    """A tag that is a release of the target's scheme; no guess for anything else."""
    assert is_target(image, schemes.by_name("legacy-1.35"), None) is expected


def test_hashes_in_names_are_never_a_target() -> None:
    """alpha.10-rc1 hashes like alpha.9, but cannot be migrated to."""
    assert is_target("o:v0.1.0-alpha.9", schemes.by_name("legacy-1.34"), None)
    assert not is_target("o:v0.1.0-alpha.10-rc1", schemes.by_name("legacy-1.34"), None)


def test_a_given_target_image_is_taken_literally() -> None:
    """--target-image names one image, the same text and nothing near it."""
    target = schemes.by_name("canonical-1.35")
    assert is_target("mine/op@sha256:00", target, "mine/op@sha256:00")
    assert not is_target("mine/op@sha256:01", target, "mine/op@sha256:00")
