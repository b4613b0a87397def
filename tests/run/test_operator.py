"""The operator's installation: found, stopped, waited for, and told from the target's."""

from __future__ import annotations

from typing import Any

import pytest

from migrator import durations
from migrator.errors import LostRace, LostReply, NotAuthorised, Refused, Unreachable, UsageError
from migrator.exact_json import JSONObject
from migrator.hashing import schemes
from migrator.resources import CONFIG_MAPS, DEPLOYMENTS, PODS
from migrator.run import operator
from tests.support.small_cluster import Clock, SmallCluster

NAMESPACE = "grove-system"
IMAGE = "ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.9"
LABELS = {
    "app.kubernetes.io/component": "operator-deployment",
    "app.kubernetes.io/name": "grove-operator",
    "app.kubernetes.io/part-of": "grove",
}
CONFIG = """
apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
leaderElection:
  enabled: true
  leaseDuration: 15s
  renewDeadline: 10s
  resourceName: grove-operator-leader-election
"""


def pod_spec(image: str = IMAGE, *, config: str = "grove-operator-cm-0a1b2c3d") -> JSONObject:
    """A pod spec as the chart renders it, with a sidecar in front."""
    return {
        "containers": [{"name": "sidecar", "image": "proxy:v9.9.9"}, {"name": "grove-operator", "image": image}],
        "volumes": [
            {"name": "certificates", "secret": {"secretName": "grove-webhook-server-cert"}},
            {"name": "extra", "configMap": {"name": "somebody-elses"}},
            {"name": "operator-config", "configMap": {"name": config}},
        ],
    }


def deployment(**options: Any) -> JSONObject:
    """The chart's Deployment."""
    labels = options.get("labels", LABELS)
    return {
        "metadata": {
            "namespace": options.get("namespace", NAMESPACE),
            "name": options.get("name", "grove-operator"),
            "labels": {**labels, "release": "grove"},
            "generation": options.get("generation", 1),
        },
        "spec": {
            "replicas": options.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(options.get("image", IMAGE))},
        },
        "status": options.get("status", {}),
    }


def pod(name: str, **options: Any) -> JSONObject:
    """A pod of the operator."""
    metadata: JSONObject = {
        "namespace": options.get("namespace", NAMESPACE),
        "name": name,
        "labels": {**options.get("labels", LABELS), "pod-template-hash": name},
    }
    if options.get("terminating"):
        metadata["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    status = {"phase": options.get("phase", "Running")}
    return {"metadata": metadata, "spec": pod_spec(options.get("image", IMAGE)), "status": status}


def config_map(text: str = CONFIG, *, namespace: str = NAMESPACE) -> JSONObject:
    """The operator's configuration."""
    return {
        "metadata": {"namespace": namespace, "name": "grove-operator-cm-0a1b2c3d"},
        "data": {"config.yaml": text},
    }


def installed(config: str = CONFIG, **options: Any) -> SmallCluster:
    """A cluster with one installation and one pod."""
    return SmallCluster(
        (DEPLOYMENTS, deployment(**options)),
        (CONFIG_MAPS, config_map(config)),
        (PODS, pod("grove-operator-1", image=options.get("image", IMAGE))),
    )


def find(
    cluster: SmallCluster, *, namespace: str | None = None, name: str | None = None, lease: str | None = None
) -> operator.Operator | None:
    """Find, with all of the options optional."""
    return operator.find(cluster, namespace=namespace, deployment=name, lease_name=lease)


def found_in(cluster: SmallCluster, **options: str | None) -> operator.Operator:
    """Find what must be there."""
    found = find(cluster, **options)
    assert found is not None
    return found


def replicas_of(cluster: SmallCluster) -> int:
    """The Deployment's replicas as they stand."""
    replicas: int = cluster.read(DEPLOYMENTS, NAMESPACE, "grove-operator")["spec"]["replicas"]
    return replicas


def test_an_installation_is_found_by_its_labels() -> None:
    """Namespace, Deployment, replicas, image, pods and Lease, from the labels alone."""
    found = found_in(installed(replicas=2))
    assert (found.namespace, found.deployment, found.replicas) == (NAMESPACE, "grove-operator", 2)
    assert found.image == IMAGE
    assert found.version == "v0.1.0-alpha.9"
    assert [(p.ref.name, p.image, p.terminating) for p in found.pods] == [("grove-operator-1", IMAGE, False)]
    assert (found.lease_name, found.lease_duration) == ("grove-operator-leader-election", 15.0)
    assert found.leader_election
    assert found.uid
    assert str(found) == "Deployment grove-system/grove-operator"


def test_nothing_installed_is_none() -> None:
    """Neither a Deployment nor a pod: there is no operator."""
    assert find(SmallCluster((DEPLOYMENTS, deployment(name="web", labels={"app": "web"}) | {"spec": {}}))) is None


def test_other_labels_are_recognised_by_the_container() -> None:
    """A chart whose labels were changed by value still runs a container of the operator's name."""
    labels = {"app": "my-grove"}
    cluster = SmallCluster(
        (DEPLOYMENTS, deployment(labels=labels)),
        (CONFIG_MAPS, config_map()),
        (PODS, pod("grove-operator-1", labels=labels)),
    )
    assert [p.ref.name for p in found_in(cluster).pods] == ["grove-operator-1"]


def test_pods_of_every_replica_set_and_namespace_count() -> None:
    """Old ReplicaSets' pods, terminating pods and pods of another namespace may all still write."""
    cluster = installed()
    cluster.add(PODS, pod("grove-operator-old", image="registry:5000/grove-operator:v0.1.0-alpha.8", terminating=True))
    cluster.add(PODS, pod("grove-operator-2", namespace="elsewhere"))
    found = found_in(cluster)
    assert [(p.ref.namespace, p.ref.name, p.terminating) for p in found.pods] == [
        ("elsewhere", "grove-operator-2", False),
        (NAMESPACE, "grove-operator-1", False),
        (NAMESPACE, "grove-operator-old", True),
    ]


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
    cluster = SmallCluster(
        (DEPLOYMENTS, deployment()), (CONFIG_MAPS, config_map()), (PODS, pod("p", phase=phase, terminating=terminating))
    )
    assert bool(found_in(cluster).pods) is counts


def test_two_installations_refuse_and_can_be_told_apart() -> None:
    """Both are named with the flags to choose; a choice by namespace or name is taken."""
    cluster = installed()
    cluster.add(DEPLOYMENTS, deployment(namespace="other", name="grove-two"))
    cluster.add(CONFIG_MAPS, config_map(namespace="other"))
    with pytest.raises(Refused, match=r"GM-203.*grove-system/grove-operator, other/grove-two.*--operator-namespace"):
        find(cluster)
    assert found_in(cluster, namespace="other").deployment == "grove-two"
    assert found_in(cluster, name="grove-operator").namespace == NAMESPACE


def test_a_named_deployment_needs_no_labels() -> None:
    """What the user names is taken by name."""
    cluster = SmallCluster((DEPLOYMENTS, deployment(name="mine", labels={"app": "x"})), (CONFIG_MAPS, config_map()))
    assert found_in(cluster, name="mine", namespace=NAMESPACE).deployment == "mine"


@pytest.mark.parametrize("namespace", [None, NAMESPACE])
def test_a_named_deployment_that_does_not_exist_is_an_error(namespace: str | None) -> None:
    """A typing mistake must not look like a cluster without an operator."""
    with pytest.raises(UsageError, match="--operator-deployment"):
        find(installed(), name="grove-operatr", namespace=namespace)


@pytest.mark.parametrize("namespace", [None, NAMESPACE])
def test_missing_rights_fail_closed(namespace: str | None) -> None:
    """Deployments or pods that may not be listed are not absent."""
    cluster = installed()
    cluster.fail(lambda: NotAuthorised("deployments.apps is forbidden"), verb="list")
    with pytest.raises(NotAuthorised, match="could run unseen"):
        find(cluster, namespace=namespace)
    cluster = SmallCluster()
    cluster.inject(lambda: NotAuthorised("pods is forbidden"), when=lambda r: r.resource == PODS)
    with pytest.raises(NotAuthorised, match="pods is forbidden"):
        find(cluster, namespace=namespace)


def test_pods_without_a_deployment_are_an_operator() -> None:
    """They are found with their Lease, and cannot be scaled."""
    cluster = SmallCluster((PODS, pod("bare")), (CONFIG_MAPS, config_map()))
    found = found_in(cluster)
    assert (found.namespace, found.deployment, found.lease_name) == (NAMESPACE, "", "grove-operator-leader-election")
    assert found.version == "v0.1.0-alpha.9"
    with pytest.raises(Refused, match="grove-system/bare"):
        operator.scale(cluster, found, 0)
    cluster.drop(PODS, NAMESPACE, "bare")
    assert operator.refresh(cluster, found).pods == ()


def test_bare_pods_in_two_namespaces_refuse() -> None:
    """Where the Lease would be is not guessed."""
    cluster = SmallCluster((PODS, pod("a")), (PODS, pod("b", namespace="other")), (CONFIG_MAPS, config_map()))
    with pytest.raises(Refused, match="grove-system, other"):
        find(cluster)
    found = found_in(cluster, namespace=NAMESPACE)
    assert [p.ref.name for p in found.pods] == ["a", "b"]


def test_a_wrong_namespace_does_not_hide_running_pods() -> None:
    """An empty --operator-namespace is refused while operator pods exist elsewhere."""
    with pytest.raises(Refused, match=r"no operator in namespace empty.*grove-system"):
        find(installed(), namespace="empty")


@pytest.mark.parametrize(
    ("config", "lease", "duration", "enabled"),
    [
        ("leaderElection: {enabled: true}", "grove-operator-leader-election", 15.0, True),
        ("leaderElection: {enabled: true, leaseDuration: 1m30s, resourceName: mine}", "mine", 90.0, True),
        ("leaderElection: {enabled: true, leaseDuration: 0s}", "grove-operator-leader-election", 15.0, True),
        ("leaderElection: {enabled: false, leaseDuration: 2s}", "grove-migrator", 2.0, False),
        ("leaderElection: {leaseDuration: 2s}", "grove-migrator", 2.0, False),
        ("runtimeClientConnection: {}", "grove-migrator", 15.0, False),
        ("leaderElection:", "grove-migrator", 15.0, False),
    ],
)
def test_the_lease_is_the_configured_one(config: str, lease: str, duration: float, *, enabled: bool) -> None:
    """Name and duration come from the mounted configuration with the operator's own defaults; ours without one."""
    found = found_in(installed(f"kind: OperatorConfiguration\n{config}\n"))
    assert (found.lease_name, found.lease_duration, found.leader_election) == (lease, duration, enabled)


@pytest.mark.parametrize("release", ["v0.1.0-alpha.1", "0.1.0-alpha.2", "v0.1.0-alpha.3"])
def test_releases_whose_chart_grants_no_lease_get_ours(release: str) -> None:
    """alpha.1 to alpha.3 have leader election on by default and no right to the Lease."""
    found = found_in(installed(image=f"grove-operator:{release}"))
    assert found.lease_name == "grove-migrator"
    assert found.leader_election


def test_a_given_lease_name_wins() -> None:
    """--lease-name overrides whatever is configured, and needs no configuration at all."""
    assert found_in(installed(), lease="given").lease_name == "given"
    assert found_in(installed("kind: OperatorConfiguration"), lease="given").lease_name == "given"
    cluster = SmallCluster((DEPLOYMENTS, deployment()))
    assert found_in(cluster, lease="given").lease_duration == 15.0


@pytest.mark.parametrize(
    "config",
    [
        "kind: [",
        "kind: Other",
        "[]",
        "kind: OperatorConfiguration\nleaderElection: 5",
        "kind: OperatorConfiguration\nleaderElection: {enabled: true, leaseDuration: soon}",
    ],
)
def test_a_configuration_that_cannot_be_read_refuses(config: str) -> None:
    """A wrong guess about the Lease would let an operator start while we write."""
    with pytest.raises(Refused, match=r"ConfigMap grove-system/grove-operator-cm-0a1b2c3d"):
        find(installed(config))


def test_an_absent_configuration_refuses() -> None:
    """Without the ConfigMap the Lease is unknown, and the remedy is named."""
    with pytest.raises(Refused, match="--lease-name"):
        find(SmallCluster((DEPLOYMENTS, deployment())))


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
    config = config_map()
    config["data"] = {"own": CONFIG}
    assert found_in(SmallCluster((DEPLOYMENTS, body), (CONFIG_MAPS, config))).leader_election


def test_expressions_in_the_selector_are_kept() -> None:
    """A selector with expressions is put into the text form that lists take."""
    assert (
        operator._selector(
            {
                "matchLabels": {"a": "b"},
                "matchExpressions": [
                    {"key": "c", "operator": "In", "values": ["d", "e"]},
                    {"key": "f", "operator": "NotIn", "values": ["g"]},
                    {"key": "h", "operator": "Exists"},
                    {"key": "i", "operator": "DoesNotExist"},
                ],
            }
        )
        == "a=b,c in (d,e),f notin (g),h,!i"
    )


def test_refresh_sees_replicas_image_and_pods() -> None:
    """Everything that others may change meanwhile is read again; the Lease stays the one found first."""
    cluster = installed()
    found = found_in(cluster)

    def upgrade(body: JSONObject) -> None:
        body["spec"]["replicas"] = 3
        body["spec"]["template"]["spec"] = pod_spec("grove-operator:v0.1.0-alpha.11", config="another")

    cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", upgrade)
    cluster.drop(PODS, NAMESPACE, "grove-operator-1")
    again = operator.refresh(cluster, found)
    assert (again.replicas, again.version, again.pods) == (3, "v0.1.0-alpha.11", ())
    assert (again.lease_name, again.lease_duration) == (found.lease_name, found.lease_duration)


def test_refresh_of_a_deleted_deployment_still_sees_pods() -> None:
    """Uninstalling does not end its pods at once."""
    cluster = installed()
    found = found_in(cluster)
    cluster.drop(DEPLOYMENTS, NAMESPACE, "grove-operator")
    again = operator.refresh(cluster, found)
    assert (again.replicas, len(again.pods)) == (0, 1)


def test_scaling_goes_through_scale_and_nothing_else() -> None:
    """Down to zero and back: two patches of the subresource, no other write, whatever it costs."""
    cluster = installed(replicas=2)
    found = found_in(cluster)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    operator.scale(cluster, operator.refresh(cluster, found), 2)
    assert replicas_of(cluster) == 2
    assert [(r.verb, r.target) for r in cluster.writes()] == [("patch", "deployments/grove-operator/scale")] * 2


def test_scaling_twice_writes_once() -> None:
    """What is already so is left alone."""
    cluster = installed(replicas=0)
    operator.scale(cluster, found_in(cluster), 0)
    assert cluster.writes() == []


def test_scaling_follows_replicas_that_moved() -> None:
    """A test that fails is read again: the present number goes down to zero."""
    cluster = installed(replicas=1)
    found = found_in(cluster)
    cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda body: body["spec"].update(replicas=3))
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0


def test_replicas_that_came_back_by_another_hand_are_left() -> None:
    """Scaling from one number straight to another would leave a field owner that blocks Helm."""
    cluster = installed(replicas=0)
    found = found_in(cluster)
    cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda body: body["spec"].update(replicas=1))
    operator.scale(cluster, found, 3)
    assert replicas_of(cluster) == 1


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


def test_waiting_ends_when_no_pod_is_left() -> None:
    """Pods are listed until there are none, terminating ones included."""
    cluster, clock = installed(replicas=0), Clock()
    found = found_in(cluster)
    gone_at = clock() + 7
    clock.on_sleep.append(lambda _: cluster.drop(PODS, NAMESPACE, "grove-operator-1") if clock() >= gone_at else None)
    left = operator.wait_until_gone(cluster, found, clock=clock, sleep=clock.sleep, deadline=clock() + 60)
    assert left.pods == ()
    assert 7 <= sum(clock.slept) <= 9


def test_waiting_is_bounded_and_names_the_pods() -> None:
    """A pod that stays ends the wait at the deadline."""
    cluster, clock = installed(replicas=0), Clock()
    with pytest.raises(LostRace, match=r"grove-system/grove-operator-1.*alpha\.9"):
        operator.wait_until_gone(cluster, found_in(cluster), clock=clock, sleep=clock.sleep, deadline=clock() + 20)
    assert 19 <= sum(clock.slept) <= 22


def test_replicas_that_come_back_end_the_wait_at_once() -> None:
    """GitOps self-heal is named instead of waited for."""
    cluster, clock = installed(replicas=0), Clock()
    found = found_in(cluster)
    clock.on_sleep.append(
        lambda _: cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda b: b["spec"].update(replicas=1))
    )
    with pytest.raises(LostRace, match="1 replicas again"):
        operator.wait_until_gone(cluster, found, clock=clock, sleep=clock.sleep, deadline=clock() + 60)
    assert len(clock.slept) == 1


def test_a_controller_that_has_not_seen_the_zero_is_waited_for() -> None:
    """No pod at the moment is not enough while one could still be created."""
    cluster, clock = installed(replicas=0, generation=5, status={"observedGeneration": 4}), Clock()
    cluster.drop(PODS, NAMESPACE, "grove-operator-1")
    found = found_in(cluster)
    assert not found.settled
    with pytest.raises(LostRace, match="has not acted"):
        operator.wait_until_gone(cluster, found, clock=clock, sleep=clock.sleep, deadline=clock() + 5)
    clock.on_sleep.append(
        lambda _: cluster.edit(
            DEPLOYMENTS, NAMESPACE, "grove-operator", lambda b: b["status"].update(observedGeneration=5)
        )
    )
    assert operator.wait_until_gone(cluster, found, clock=clock, sleep=clock.sleep, deadline=clock() + 5).settled


def test_an_outage_is_not_absence() -> None:
    """An API server that does not answer never looks like zero pods."""
    cluster, clock = installed(replicas=0), Clock()
    found = found_in(cluster)
    cluster.fail(lambda: Unreachable("connection refused"), verb="list")
    with pytest.raises(Unreachable):
        operator.wait_until_gone(cluster, found, clock=clock, sleep=clock.sleep, deadline=clock() + 60)


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
    assert operator.is_target(image, schemes.by_name("legacy-1.35"), None) is expected


def test_hashes_in_names_are_never_a_target() -> None:
    """alpha.10-rc1 hashes like alpha.9, but cannot be migrated to."""
    assert operator.is_target("o:v0.1.0-alpha.9", schemes.by_name("legacy-1.34"), None)
    assert not operator.is_target("o:v0.1.0-alpha.10-rc1", schemes.by_name("legacy-1.34"), None)


def test_a_given_target_image_is_taken_literally() -> None:
    """--target-image names one image, the same text and nothing near it."""
    target = schemes.by_name("canonical-1.35")
    assert operator.is_target("mine/op@sha256:00", target, "mine/op@sha256:00")
    assert not operator.is_target("mine/op@sha256:01", target, "mine/op@sha256:00")


@pytest.mark.parametrize(
    ("image", "version"),
    [("o:v0.1.0-alpha.9", "v0.1.0-alpha.9"), ("o:1.2.3", "1.2.3"), ("o:latest", None), ("o@sha256:00", None)],
)
def test_a_version_is_a_tag_that_looks_like_one(image: str, version: str | None) -> None:
    """What the last log line calls the operator's version."""
    assert found_in(installed(image=image)).version == version


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m30s", 90),
        ("4h0m0s", 14400),
        ("1m0.5s", 60.5),
        ("100ms", 0.1),
        ("0", 0),
        ("-2s", -2),
        ("+.5h", 1800),
    ],
)
def test_go_durations_are_read(text: str, seconds: float) -> None:
    """The grammar of Go's time.ParseDuration."""
    assert durations.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "15", "s", "15 s", "1d", "1s2", ".s", "--1s", "1e3s"])
def test_what_go_refuses_is_refused(text: str) -> None:
    """Numbers without a unit, foreign units and blanks are errors, as in Go."""
    with pytest.raises(ValueError, match="Go duration"):
        durations.parse(text)
