"""Faults of runs that a real API server shows too; they are those of ``tests/faults/test_faults_of_the_run.py``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http import HTTPStatus

import pytest

from testbed.trees import Object
from tests.faults import cluster, harm
from tests.faults.live import LiveCluster
from tests.faults.proxy import Exchange, Schedule
from tests.faults.test_faults_of_the_run import hashes
from tests.faults.truth import DONE, REFUSED, STUCK, lies

pytestmark = [pytest.mark.controlplane, pytest.mark.faults]

_API = "admissionregistration.k8s.io/v1"
_NAME = {"metadata": {"name": "no-podclique-status.example.test"}}
_RULE = {
    "apiGroups": ["grove.io"],
    "apiVersions": ["*"],
    "resources": ["podcliques/status"],
    "operations": ["UPDATE"],
}
POLICY: Object = {
    "apiVersion": _API,
    "kind": "ValidatingAdmissionPolicy",
    **_NAME,
    "spec": {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "false"}]},
}
BINDING: Object = {
    "apiVersion": _API,
    "kind": "ValidatingAdmissionPolicyBinding",
    **_NAME,
    "spec": {"policyName": _NAME["metadata"]["name"], "validationActions": ["Deny"]},
}


def before(number: int, method: str, start: str, action: Callable[[], object]) -> Schedule:
    """Somebody else acts before that request arrives."""

    def act(exchange: Exchange) -> None:
        assert action()
        exchange.pass_on()

    return harm.once(act, harm.nth(number, method, start))


def patched(live: LiveCluster, kind: str, name: str, body: Object, subresource: str | None = None) -> bool:
    """Merge something into an object of the default namespace; whether the API server took it."""
    item: Object = {
        "apiVersion": "v1" if kind == "Pod" else "grove.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
    }
    item["metadata"]["namespace"] = "default"
    return live.client.patch(item, body, subresource=subresource).status < HTTPStatus.BAD_REQUEST


def test_a_foreign_value_after_the_writes_is_seen(live: LiveCluster) -> None:
    """Somebody writes another hash on migrated pods before the last commit: 6, never 0."""
    pods = [name for kind, _, name in live.before if kind == "Pod"]
    label = {"metadata": {"labels": {cluster.HASH_LABEL: "f0re16n"}}}
    run = live.run(
        before(3, "PATCH", "podcliquesets/", lambda: all(patched(live, "Pod", name, label) for name in pods))
    )
    assert run.code == STUCK, str(run)


def test_a_scale_during_the_run_is_no_edit(live: LiveCluster) -> None:
    """`kubectl scale` of one set before its commit: 0, and every hash is the target's."""
    scale = {"spec": {"replicas": 2}}
    run = live.run(
        before(1, "PATCH", "podcliquesets/web", lambda: patched(live, "PodCliqueSet", "web", scale, "scale"))
    )
    assert (run.code, hashes(live.grove()) == hashes(live.after)) == (DONE, True), str(run)


@pytest.fixture
def strict(live: LiveCluster) -> Iterator[LiveCluster]:
    """An API server with a policy that denies every status patch of a PodClique."""
    for item in (POLICY, BINDING):
        live.client.apply(item)
    clique = next(name for kind, _, name in live.before if kind == "PodClique")
    until = time.monotonic() + 30
    while patched(live, "PodClique", clique, {"status": {}}, "status") and time.monotonic() < until:
        time.sleep(0.2)
    yield live
    for item in (BINDING, POLICY):
        live.client.delete(item)


def test_a_patch_that_is_certain_to_be_rejected_is_found_before_the_stop(strict: LiveCluster) -> None:
    """A policy denies status patches of PodCliques: 3, and the operator was never stopped."""
    run = strict.run()
    assert (run.code, [seen for seen in run.proxy.writes if seen.plural == "deployments"]) == (REFUSED, []), str(run)
    assert lies(strict, run) == []
