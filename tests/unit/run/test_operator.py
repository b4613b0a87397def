"""The operator's installation: what is found, what counts as it, what is only reported, and how it is scaled."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, MigratorError, NotAuthorised, Unreachable, UsageError
from migrator.exact_json import JSONObject
from migrator.planning.model import Severity
from migrator.planning.options import PlanOptions
from migrator.resources import DEPLOYMENTS, PODS, Resource
from tests.support.memory_objects import CONFIG_MAPS
from migrator.run import operator
from migrator.run.context import RunOptions
from migrator.run.observation import Observation
from testbed import operator_installation as installation
from testbed.operator_installation import NAMESPACE
from tests.support.installed import CONFIG, IMAGE, deployment, found_in, installed, look, pod, refusals
from tests.support.memory_store import MemoryStore
from tests.support.tables import table


def manager(**options: Any) -> JSONObject:
    """A Deployment whose container has a name of its own."""
    body = deployment(**options)
    body["spec"]["template"]["spec"]["containers"][1]["name"] = "manager"
    return body


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
    without_labels = manager(name="api", labels={"app": "api"})
    del without_labels["metadata"]["labels"]
    assert look(MemoryStore(manager(name="web", labels={"app": "web"}), without_labels)).operator is None


@pytest.mark.parametrize(
    ("replicas", "observed", "gone"), [(0, 1, False), (0, 2, True), (0, 3, True), (0, None, True), (1, 2, False)]
)
def test_an_operator_is_gone_when_its_controller_has_seen_the_zero(
    replicas: int, observed: int | None, *, gone: bool
) -> None:
    """Zero replicas and no pod mean nothing while the Deployment controller may still act on the generation before."""
    body = deployment(replicas=replicas)
    body["metadata"]["generation"], body["status"] = 2, {"observedGeneration": observed}
    assert found_in(MemoryStore(body, installation.config_map())).gone is gone


def test_other_labels_are_recognised_by_the_container() -> None:
    """A chart whose labels were changed by value still runs a container of the operator's name."""
    labels = {"app": "my-grove"}
    cluster = MemoryStore(deployment(labels=labels), installation.config_map(), pod("own-1", labels=labels))
    assert [p.ref.name for p in found_in(cluster).pods] == ["own-1"]


@pytest.mark.parametrize("replicas", [0, 1])
def test_the_webhook_leads_to_an_operator_under_its_own_labels(replicas: int) -> None:
    """Its Service's selector finds the Deployment by its pod template, at zero too, and its pods; others do not."""
    labels = {"app": "own"}
    cluster = MemoryStore(
        manager(labels=labels, replicas=replicas),
        manager(name="web", labels={"app": "web"}, namespace="tenant"),
        installation.config_map(),
        pod("own-1", labels=labels),
        *installation.webhook(selector=labels),
    )
    _, other = installation.webhook(namespace="tenant")
    cluster.put({**other, "metadata": {"name": "a-tenants"}})
    found = found_in(cluster)
    assert (found.deployment, found.replicas) == ("grove-operator", replicas)
    assert [p.ref.name for p in found.pods] == ["own-1"]


def test_a_webhook_behind_a_url_is_reported() -> None:
    """What is behind it is not seen."""
    _, hook = installation.webhook()
    hook["webhooks"][0]["clientConfig"] = {"url": "https://elsewhere.example"}
    assert any("URL" in finding.message for finding in look(installed(hook)).findings)


def test_a_service_that_may_not_be_read_is_reported() -> None:
    """The operator is found by its labels all the same."""
    cluster = installed(*installation.webhook())
    cluster.fail(NotAuthorised("HTTP 403"), resource=SERVICES)
    found = look(cluster)
    assert found.operator is not None
    assert any("grant `get` on services" in finding.remedy for finding in found.findings)


def test_pods_of_every_replica_set_count_and_strangers_do_not() -> None:
    """Old ReplicaSets' pods and terminating pods may still write; a tenant's pod with those labels is only reported."""
    old = pod("grove-operator-old", image="registry:5000/grove-operator:v0.1.0-alpha.8", terminating=True)
    found = look(installed(old, pod("grove-operator-2", namespace="elsewhere")))
    assert found.operator is not None
    pods = [(pod.ref.name, pod.terminating) for pod in found.operator.pods]
    assert pods == [("grove-operator-1", False), ("grove-operator-old", True)]
    assert [(f.severity, f.ref.name) for f in found.findings if f.ref] == [(Severity.WARNING, "grove-operator-2")]


@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize(("phase", "lives"), [("Failed", 0), ("Succeeded", 0), ("Pending", 1), ("Unknown", 1)])
def test_pods_that_have_ended_do_not_count(phase: str, lives: int, *, terminating: bool) -> None:
    """An evicted pod stays listed for good and runs nothing; one that is still being deleted may."""
    cluster = MemoryStore(deployment(), installation.config_map(), pod("p", phase=phase, terminating=terminating))
    assert len(found_in(cluster).pods) == (1 if terminating else lives)


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
    cluster = MemoryStore(body, installation.config_map(CONFIG), pod("p", labels=labels))
    assert bool(found_in(cluster).pods) is selected


def test_two_installations_refuse_and_can_be_told_apart() -> None:
    """Both are named with the flag to choose, and the one that is chosen is taken."""
    two = deployment(namespace="other", name="grove-two", replicas=0)
    cluster = installed(two, installation.config_map(namespace="other"))
    assert "GM-203: 2 operator Deployments: grove-system/grove-operator, other/grove-two," in refusals(cluster)
    assert found_in(cluster, namespace="other", name="grove-two").deployment == "grove-two"
    chosen = {"namespace": NAMESPACE, "name": "grove-operator"}
    assert found_in(cluster, **chosen).namespace == NAMESPACE
    assert refusals(cluster, **chosen) == ""


@pytest.mark.parametrize("replicas", [0, 1])
def test_an_operator_that_was_not_chosen_refuses_while_it_has_replicas(replicas: int) -> None:
    """It serves the same sets, and waits for a Lease of its own namespace. One at zero does nothing."""
    cluster = installed(deployment(namespace="other", name="grove-two", replicas=replicas))
    said = "GM-203: Deployment other/grove-two looks like an operator and has replicas, but was not chosen"
    assert refusals(cluster, namespace=NAMESPACE, name="grove-operator").startswith(said * replicas)
    assert bool(refusals(cluster, namespace=NAMESPACE, name="grove-operator")) is bool(replicas)


def test_a_webhook_in_another_namespace_refuses() -> None:
    """Its Service is of another installation, and where the Lease is cannot be told."""
    cluster = installed(*installation.webhook(namespace="elsewhere"))
    assert "GM-203" in refusals(cluster)
    assert look(cluster).home == NAMESPACE


@table(
    "change refuses",
    ("by its name", ({"name": "authorizer.webhooks.grove.io"}, True)),
    ("by what it selects", ({}, True)),
    ("of every operation and resource", ({"rules": [{"operations": ["*"], "resources": ["*/*"]}]}, True)),
    ("a webhook that fails open", ({"failurePolicy": "Ignore"}, False)),
    ("of deletions", ({"rules": [{"operations": ["DELETE"], "resources": ["pods"]}]}, False)),
    ("of subresources", ({"rules": [{"operations": ["UPDATE"], "resources": ["pods/status"]}]}, False)),
    ("of other pods", ({"objectSelector": {"matchLabels": {"app": "web"}}}, False)),
    ("without a selector", ({"objectSelector": None}, False)),
)
def test_an_authorizer_that_fails_closed_refuses(change: JSONObject, *, refuses: bool) -> None:
    """A webhook that rejects every change of Grove's pods while no operator answers, and not one beside it."""
    hook = {
        "name": "renamed.example.test",
        "objectSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}},
        "rules": [{"operations": ["UPDATE"], "resources": ["podcliques"]}],
    }
    _, configuration = installation.webhook()
    configuration |= {"metadata": {"name": "renamed"}, "webhooks": [hook | change]}
    assert ("GM-202" in refusals(installed(configuration))) is refuses


def test_a_named_deployment_needs_no_labels() -> None:
    """What the user names is taken by name."""
    cluster = MemoryStore(deployment(name="mine", labels={"app": "x"}), installation.config_map())
    assert found_in(cluster, name="mine", namespace=NAMESPACE).deployment == "mine"


def test_a_named_deployment_that_does_not_exist_is_an_error() -> None:
    """A typing mistake must not look like a cluster without one; where there is none, it names the namespace."""
    with pytest.raises(UsageError, match=r"--operator grove-system/grove-operatr: .* grove-system/grove-operator"):
        look(installed(), name="grove-operatr", namespace=NAMESPACE)
    assert look(MemoryStore(), name="grove-operator", namespace=NAMESPACE).home == NAMESPACE


@pytest.mark.parametrize("text", ["grove-system", "/grove-operator", "grove-system/", "a/b/c", ""])
def test_a_flag_that_is_no_namespace_and_name_is_an_error(text: str) -> None:
    """The text is repeated, with an example."""
    with pytest.raises(UsageError, match=f"--operator {text}: .* grove-system/grove-operator"):
        operator.OperatorFlags.parse(text)


@table(
    "error resource words",
    (
        "Deployments that may not be listed are not absent.",
        (NotAuthorised("forbidden"), DEPLOYMENTS, "could run unseen"),
    ),
    ("Pods that may not be listed are not absent.", (NotAuthorised("pods: forbidden"), PODS, "pods: forbidden")),
    ("Nor is a configuration that may not be read.", (NotAuthorised("forbidden"), CONFIG_MAPS, "forbidden")),
    ("An API server that does not answer never looks like zero pods.", (Unreachable("no answer"), PODS, "no answer")),
)
def test_what_cannot_be_read_is_not_absent(error: MigratorError, resource: Resource, words: str) -> None:
    """Every failure to read is passed on."""
    cluster = installed(replicas=0)
    cluster.fail(error, resource=resource, times=9)
    with pytest.raises(type(error), match=words):
        look(cluster)


def test_deployments_of_one_namespace_are_enough_where_that_is_named() -> None:
    """Who may not list all of them says where the operator is."""
    cluster = installed()
    cluster.fail(NotAuthorised("forbidden"), resource=DEPLOYMENTS, namespace="", times=9)
    assert found_in(cluster, namespace=NAMESPACE).deployment == "grove-operator"


def test_pods_without_a_deployment_are_an_operator() -> None:
    """In the namespace that the user names they are found with their Lease, and refuse a run that cannot stop them."""
    cluster = MemoryStore(pod("bare"), installation.config_map())
    found = found_in(cluster, namespace=NAMESPACE)
    assert (found.namespace, found.deployment, found.lease_name) == (NAMESPACE, "", "grove-operator-leader-election")
    seen = Observation(RunOptions(PlanOptions(), stop_operator=True), operator.Found(NAMESPACE, found))
    assert ["without a Deployment. Stop it yourself" in str(finding) for finding in seen.findings()] == [True]
    assert look(cluster).operator is None


# --- scaled to zero and back: by its subresource alone, and never against somebody else -------------------------------


def replicas_of(cluster: MemoryStore) -> int:
    """The Deployment's replicas as they stand."""
    return int(cluster.read(DEPLOYMENTS, NAMESPACE, "grove-operator")["spec"]["replicas"])


def test_scaling_goes_through_scale_and_nothing_else() -> None:
    """Down to zero and back: two patches of the subresource, no other write, whatever it costs."""
    cluster = installed(replicas=2)
    found = found_in(cluster)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    operator.scale(cluster, found_in(cluster), 2)
    assert replicas_of(cluster) == 2
    assert [(r.verb, r.target) for r in cluster.writes()] == [("patch", "deployments/grove-operator/scale")] * 2


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


@table(
    "failed lost",
    ("Applied or not, reading tells, and the end is the same.", (0, 1)),
    ("Applied or not, reading tells, and the end is the same.", (1, 0)),
    ("The last attempt may be the one that was applied.", (4, 1)),
)
def test_a_lost_reply_to_scaling_is_found_out(failed: int, lost: int) -> None:
    """So many patches do not arrive, and then the replies of so many are lost."""
    cluster = installed()
    found = found_in(cluster)
    cluster.fail(LostReply("no reply"), verb="patch", times=failed)
    cluster.lose_reply(verb="patch", times=lost)
    operator.scale(cluster, found, 0)
    assert replicas_of(cluster) == 0
    assert len(cluster.writes()) == failed + 1


def test_scaling_against_somebody_else_is_bounded() -> None:
    """Replicas that others keep setting end in a lost race that names the Deployment."""
    cluster = installed()
    found = found_in(cluster)
    numbers = count(2)

    def fight() -> None:
        cluster.edit(DEPLOYMENTS, NAMESPACE, "grove-operator", lambda b: b["spec"].update(replicas=next(numbers)))

    cluster.meanwhile(fight, verb="patch", times=1000)
    with pytest.raises(LostRace, match="grove-system/grove-operator"):
        operator.scale(cluster, found, 0)


# --- the Lease by which it elects its leader, as its mounted configuration names it -----------------------------------


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
    found = found_in(installed(config=f"kind: OperatorConfiguration\n{config}\n"))
    assert found.lease_name == lease
    names = operator.lease_names(found)
    assert names == tuple(sorted({lease or "grove-operator-leader-election", "grove-operator-leader-election"}))


@pytest.mark.parametrize("release", ["v0.1.0-alpha.1", "0.1.0-alpha.2", "v0.1.0-alpha.3"])
def test_the_first_releases_elect_no_leader(release: str) -> None:
    """Their configuration's key is not read, so no Lease keeps them out, which is said."""
    cluster = installed(image=f"grove-operator:{release}")
    assert found_in(cluster).lease_name is None
    assert [f.code for f in look(cluster).findings if "leader election" in f.message] == [operator.NO_ELECTION]


BROKEN = ("kind: [", "kind: Other", "[]", "kind: OperatorConfiguration\nleaderElection: 5")


@table(
    "config_map said",
    *(("It is none.", (installation.config_map(config), "grove-operator-cm-0123abcd, key")) for config in BROKEN),
    ("It has another key.", ({**installation.config_map(), "data": {"unrelated": "x"}}, "restore the ConfigMap")),
    ("It is absent.", ({**installation.config_map(), "metadata": {"name": "other"}}, "restore the ConfigMap")),
)
def test_a_configuration_that_cannot_be_read_refuses(config_map: JSONObject, said: str) -> None:
    """A wrong guess about the Lease would let an operator start while we write: what to mend is named."""
    assert said in refusals(MemoryStore(deployment(), config_map))


def test_items_rename_the_configuration_key() -> None:
    """The key is the one that the volume mounts as config.yaml."""
    body = deployment()
    body["spec"]["template"]["spec"]["volumes"][-1]["configMap"]["items"] = [{"key": "own", "path": "config.yaml"}]
    config = installation.config_map()
    config["data"] = {"own": CONFIG}
    assert found_in(MemoryStore(body, config)).lease_name
