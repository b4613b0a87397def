"""The operator's installation: what is found, what counts as it, what is only reported, and how it is scaled."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, MigratorError, NotAuthorised, Unreachable, UsageError
from migrator.exact_json import JSONObject
from migrator.kinds import DEPLOYMENTS, PODS, Resource
from migrator.planning.guards import operators
from migrator.planning.model import Severity
from migrator.run import operator
from migrator.run.context import RunOptions
from migrator.run.seen import unplanned
from testbed import operator_installation as installation
from testbed.operator_installation import LABELS, NAMESPACE
from tests.support.builders import LATER, options_of
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table

IMAGE, HOME = installation.image("v0.1.0-alpha.9"), "grove-system/grove-operator"


def with_a_sidecar(spec: JSONObject) -> None:
    """Another container comes first, as where a mesh puts its proxy."""
    spec["containers"].insert(0, {"name": "sidecar", "image": "proxy:v9.9.9"})


def deployment(
    *, image: str = IMAGE, name: str = "grove-operator", labels: dict[str, str] = LABELS, **options: Any
) -> JSONObject:
    """The chart's Deployment, with a label more, or other labels."""
    body = installation.deployment(image, **options)
    with_a_sidecar(body["spec"]["template"]["spec"])
    body["metadata"] |= {"name": name, "labels": {**labels, "release": "grove"}}
    body["spec"]["selector"]["matchLabels"] = body["spec"]["template"]["metadata"]["labels"] = labels
    return body


def pod(name: str, *, image: str = IMAGE, terminating: bool = False, phase: str = "Running", **more: Any) -> JSONObject:
    """A pod of the operator, whose metadata may have ``more``."""
    body = installation.pod(image, name=name) | {"status": {"phase": phase}}
    with_a_sidecar(body["spec"])
    body["metadata"] |= more | ({"deletionTimestamp": LATER} if terminating else {})
    return body


def installed(*more: JSONObject, replicas: int = 1) -> MemoryCluster:
    return MemoryCluster(deployment(replicas=replicas), pod("grove-operator-1"), *more)


def look(cluster: MemoryCluster, flag: str | None = None) -> operator.Found:
    return operator.find(cluster, operator.OperatorFlags.parse(flag))


def found_in(cluster: MemoryCluster, flag: str | None = None) -> operator.Operator:
    found = look(cluster, flag).operator
    assert found is not None
    return found


def refusals(cluster: MemoryCluster, flag: str | None = None) -> str:
    found = look(cluster, flag).findings
    return "; ".join(f"{one.code}: {one}" for one in found if one.severity is Severity.REFUSAL)


def test_an_installation_is_found_by_its_labels() -> None:
    """Namespace, Deployment, replicas, image, pods and Lease, from the labels alone."""
    found = found_in(installed(replicas=2))
    assert found.namespace == NAMESPACE
    assert found.deployment == "grove-operator"
    assert found.replicas == 2
    assert found.image == IMAGE
    assert [(p.ref.name, p.image, p.terminating) for p in found.pods] == [("grove-operator-1", IMAGE, False)]
    assert str(found) == "Deployment grove-system/grove-operator"
    assert look(installed()).home == NAMESPACE


@pytest.mark.parametrize(
    ("replicas", "observed", "gone"), [(0, 1, False), (0, 2, True), (0, 3, True), (0, None, True), (1, 2, False)]
)
def test_an_operator_is_gone_when_its_controller_has_seen_the_zero(
    replicas: int, observed: int | None, *, gone: bool
) -> None:
    """Zero replicas and no pod mean nothing while the Deployment controller may still act on the generation before."""
    body = deployment(replicas=replicas)
    body["metadata"]["generation"], body["status"] = 2, {"observedGeneration": observed}
    assert found_in(MemoryCluster(body)).gone is gone


def test_pods_of_every_replica_set_count_and_strangers_do_not() -> None:
    """Old ReplicaSets' pods and terminating pods may still write, elsewhere too, where one acts by itself."""
    old = pod("grove-operator-old", image="registry:5000/grove-operator:v0.1.0-alpha.8", terminating=True)
    found = look(installed(old, pod("grove-operator-2", namespace="elsewhere", terminating=True)))
    assert found.operator is not None
    pods = [(pod.ref.name, pod.terminating) for pod in found.operator.pods]
    assert pods == [("grove-operator-1", False), ("grove-operator-old", True)]
    assert list(found.others) == ["Pod elsewhere/grove-operator-2"]
    assert [f.code for f in found.findings if f.severity is Severity.REFUSAL] == ["GM-203"]


def test_a_pod_with_the_labels_of_the_chart_counts_beside_a_deployment_that_selects_others() -> None:
    """A Deployment that was deleted without its pods has left it."""
    named = deployment(labels={"app": "another"})
    found = found_in(MemoryCluster(named, pod("selected", labels={"app": "another"}), pod("left")), HOME)
    assert [one.ref.name for one in found.pods] == ["left", "selected"]


def test_pods_of_other_workloads_in_its_namespace_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run looks every few seconds, and with the Dynamo platform all models may be in that namespace."""
    plain, read = MemoryCluster.list, list[str]()

    def listed(self: MemoryCluster, resource: Resource, project: Any, **asked: Any) -> Any:
        found = plain(self, resource, project, **asked)
        read.extend(one.ref.name for one in found if resource == PODS)
        return found

    monkeypatch.setattr(MemoryCluster, "list", listed)
    look(installed(pod("model-1", labels={"app": "model"})))
    assert set(read) == {"grove-operator-1"}


@pytest.mark.parametrize("terminating", [False, True])
@pytest.mark.parametrize(("phase", "lives"), [("Failed", 0), ("Succeeded", 0), ("Pending", 1), ("Unknown", 1)])
def test_pods_that_have_ended_do_not_count(phase: str, lives: int, *, terminating: bool) -> None:
    """An evicted pod stays listed for good and runs nothing; one that is still being deleted may."""
    cluster = MemoryCluster(deployment(), pod("p", phase=phase, terminating=terminating))
    assert len(found_in(cluster).pods) == (1 if terminating else lives)


def test_pods_that_the_expressions_of_a_selector_leave_out_count_too() -> None:
    """More are waited for, and never fewer; the chart's selector has labels alone."""
    body = deployment(labels={})
    body["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    assert [one.ref.name for one in found_in(MemoryCluster(body, pod("p", labels={"b": "c"})), HOME).pods] == ["p"]


def test_two_installations_refuse_and_can_be_told_apart() -> None:
    """Both are named with the flag to choose, and the one that is chosen is taken."""
    two = deployment(namespace="other", name="grove-two", replicas=0)
    cluster = installed(two)
    said = refusals(cluster)
    assert "GM-203: 2 operator Deployments: grove-system/grove-operator, other/grove-two, and" in said
    assert "with --operator, and scale the others to zero or remove them" in said
    assert found_in(cluster, "other/grove-two").deployment == "grove-two"
    assert found_in(cluster, HOME).namespace == NAMESPACE
    assert refusals(cluster, HOME) == ""


@pytest.mark.parametrize("replicas", [0, 1])
def test_an_operator_that_was_not_chosen_refuses_while_it_has_replicas(replicas: int) -> None:
    """It serves the same sets, and waits for a Lease of its own namespace. One at zero does nothing."""
    cluster = installed(deployment(namespace="other", name="grove-two", replicas=replicas))
    said = "GM-203: Deployment other/grove-two looks like an operator and runs, and every operator serves"
    assert refusals(cluster, HOME).startswith(said * replicas)
    assert bool(refusals(cluster, HOME)) is bool(replicas)


@table(
    "webhook moving code",
    ("Neither shows anything.", (None, (), "")),
    ("Both show the same.", (NAMESPACE, (NAMESPACE,), "")),
    ("The webhook's Service is elsewhere.", ("elsewhere", (), "GM-203")),
    ("Somebody renews an operator's Lease elsewhere.", (None, ("elsewhere",), "GM-203")),
)
def test_two_witnesses_must_not_contradict(webhook: str | None, moving: tuple[str, ...], code: str) -> None:
    """What is not there contradicts nothing; what is there must be where the operator was found."""
    found = operator.contradictions(look(installed()), webhook, moving)
    assert "".join(one.code for one in found) == code
    assert all("--operator" in one.remedy for one in found)


def test_an_operator_without_the_labels_is_not_absent() -> None:
    """W9: its webhook shows it, so a run refuses and asks for --operator."""
    (found,) = operator.contradictions(look(MemoryCluster()), "somewhere", ())
    assert found.code == "GM-203"
    assert "not found by the chart's labels" in found.message


def test_a_named_deployment_that_does_not_exist_is_an_error() -> None:
    """A typing mistake must not look like a cluster without one; where there is none, it names the namespace."""
    with pytest.raises(UsageError, match=r"--operator grove-system/grove-operatr: .* grove-system/grove-operator"):
        look(installed(), "grove-system/grove-operatr")
    assert look(MemoryCluster(), HOME).home == NAMESPACE


def test_a_typing_mistake_is_an_error_after_a_run_too() -> None:
    """The Lease of a run shows that Grove has moved only if no operator is installed in its namespace any more."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}}
    cluster = installed(lease | {"metadata": {"name": "grove-migrator", "namespace": NAMESPACE}})
    with pytest.raises(UsageError, match=r"the operator seems to be grove-system/grove-operator"):
        look(cluster, "grove-system/grove-operatr")


@pytest.mark.parametrize("text", ["grove-system", "/grove-operator", "grove-system/", "a/b/c", ""])
def test_a_flag_that_is_no_namespace_and_name_is_an_error(text: str) -> None:
    """The text is repeated, with an example."""
    with pytest.raises(UsageError, match=f"--operator {text}: .* grove-system/grove-operator"):
        operator.OperatorFlags.parse(text)


@table(
    "error resource words",
    ("Deployments that may not be listed are not absent.", (NotAuthorised("forbidden"), DEPLOYMENTS, "forbidden")),
    ("Pods that may not be listed are not absent.", (NotAuthorised("pods: forbidden"), PODS, "pods: forbidden")),
    ("An API server that does not answer never looks like zero pods.", (Unreachable("no answer"), PODS, "no answer")),
)
def test_what_cannot_be_read_is_not_absent(error: MigratorError, resource: Resource, words: str) -> None:
    """Every failure to read is passed on."""
    cluster = installed(replicas=0)
    cluster.fail(error, resource=resource, times=9)
    with pytest.raises(type(error), match=words):
        look(cluster)


def test_pods_without_a_deployment_are_an_operator() -> None:
    """They are found by their labels, and refuse a run that cannot stop them."""
    found = found_in(MemoryCluster(pod("bare")))
    assert found.namespace == NAMESPACE
    assert found.deployment == ""
    seen = replace(unplanned(RunOptions(options_of(), stop_operator=True)), found=operator.Found(NAMESPACE, found))
    said = [str(finding) for finding in seen.findings() if finding.code == "GM-122"]
    assert ["belongs to an operator that has no Deployment. Stop it yourself" in one for one in said] == [True]


def test_our_own_namespace_is_the_last_resort() -> None:
    """A Job in the operator's namespace finds the record after `helm uninstall`."""
    assert operator.find(MemoryCluster(), operator.OperatorFlags(), own=NAMESPACE).home == NAMESPACE


# --- scaled to zero and back: by its subresource alone, and never against somebody else -------------------------------


def replicas_of(cluster: MemoryCluster) -> int:
    return int(cluster.read(DEPLOYMENTS, NAMESPACE, "grove-operator")["spec"]["replicas"])


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
    ("It was applied, which reading tells.", (0, 1)),
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


# --- the Lease by which it elects its leader --------------------------------------------------------------------------


@table(
    "holder terminating elects",
    ("One of its pods holds the Lease.", ("grove-operator-1_0f3c", False, True)),
    ("Somebody else does.", ("another_0f3c", False, False)),
    ("Nobody does.", ("", False, False)),
    ("A pod that ends does.", ("grove-operator-1_0f3c", True, False)),
)
def test_an_operator_elects_if_one_of_its_pods_holds_the_lease(holder: str, *, terminating: bool, elects: bool) -> None:
    """Else GM-207 says that perhaps no Lease keeps it out."""
    cluster = MemoryCluster(deployment(), pod("grove-operator-1", terminating=terminating))
    metadata = {"name": "grove-operator-leader-election", "namespace": NAMESPACE}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    cluster.put({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})
    found = look(cluster)
    assert found.operator is not None
    assert found.operator.elects is elects
    assert [f.code for f in found.findings] == ([] if elects else [operators.NO_ELECTION.code])
