"""People who only plan: with the roles for them, and with rights in one namespace alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.audit import asked, grants, used
from tests.cluster.site import NAMESPACE, NEW, WORKLOADS, ServedSite, documents, kubeconfig_of, made, of_kind
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

PLANNER: Final = "planner.yaml"
RBAC: Final = "rbac.authorization.k8s.io"
TO: Final = ("--to", NEW)
PERSON: Final = "somebody"


@pytest.fixture
def person(site: ServedSite, tmp_path: Path, invoke: Invoke) -> Invoke:
    """Somebody with an account of their own and no rights, at the command line; there are two sets."""
    site.fill()
    site.client.apply(made("v1", "ServiceAccount", PERSON, WORKLOADS))
    token = site.client.service_account_token(WORKLOADS, PERSON)
    return invoke.given("--kubeconfig", kubeconfig_of(site.server, token, tmp_path / PERSON))


@pytest.fixture
def planner(site: ServedSite, person: Invoke) -> Iterator[Invoke]:
    """Somebody with the roles of manifests/planner.yaml and nothing else."""
    yield from _bound(site, person, documents(PLANNER))


@pytest.fixture
def tenant(site: ServedSite, person: Invoke) -> Iterator[Invoke]:
    """Somebody for whom the ClusterRole is bound in one namespace."""
    [role] = of_kind(documents(PLANNER), "ClusterRole")
    named = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]}
    binding = made(f"{RBAC}/v1", "RoleBinding", "tenant", WORKLOADS, roleRef=named, subjects=[])
    yield from _bound(site, person, [role, binding], "-n", WORKLOADS)


def _bound(site: ServedSite, person: Invoke, objects: list[Object], *arguments: str) -> Iterator[Invoke]:
    """Apply roles and bindings with this account in place of whom they name, wait for their effect, and undo that."""
    subject = {"kind": "ServiceAccount", "name": PERSON, "namespace": WORKLOADS}

    def may_plan() -> bool:
        out = person("plan", *TO, *arguments, code=(0, 1)).out
        return bool(out) and (bool(arguments) or "unchecked" not in out)

    for item in objects:
        site.client.apply({**item, "subjects": [subject]} if "subjects" in item else item)
    eventually(may_plan, what="nobody may plan yet")
    yield person
    for item in reversed(objects):
        site.client.delete(item)


def plan(person: Invoke, *arguments: str | Path) -> Object:
    """A plan as JSON, without its time."""
    document: Object = person("plan", *TO, *arguments, "-o", "json").json
    document.pop("time")
    return document


def test_a_planner_sees_what_the_administrator_sees(site: ServedSite, planner: Invoke, invoke: Invoke) -> None:
    """Sets, numbers and the operator that runs are the same, and nothing is said to be unseen."""
    found = plan(planner)
    assert found == plan(invoke, "--kubeconfig", site.server.kubeconfig)
    assert found["summary"]["podCliqueSets"] == 2
    assert {warning["code"] for warning in found["warnings"]} == {"GM-207"}
    assert found["notChecked"] == []


def test_a_planner_needs_every_right_and_can_do_nothing_else(site: ServedSite, planner: Invoke) -> None:
    """By the audit log a plan uses each right and no other; a run has not begun when it says what is lacking."""
    granted = grants(documents(PLANNER))
    user = f"system:serviceaccount:{WORKLOADS}:{PERSON}"
    before = len(asked(site, user))
    plan(planner)
    assert used(asked(site, user)[before:], granted) == set(granted)
    with site.frozen():
        planner("run", *TO, "--stop-operator", code=1)
    assert site.replicas() == 1
    assert site.client.list("coordination.k8s.io/v1", "Lease", NAMESPACE) == []


def test_one_namespace_is_enough_to_plan_it(tenant: Invoke) -> None:
    """`plan -n` plans its sets in full and names what it does not see; without -n it says how to go on."""
    for arguments in (TO, ()):
        out = tenant("plan", *arguments, "-n", WORKLOADS).out
        assert "GM-201 whether other sets need this migration too" in " ".join(out.split())
    found = plan(tenant, "-n", WORKLOADS)
    numbers = found["summary"]
    assert numbers["podCliqueSets"] == 2
    assert numbers["podsRecreatedWithoutMigration"] == 15
    assert numbers["refusals"] == 0
    assert found["warnings"] == []
    unchecked = {unchecked["code"] for unchecked in found["notChecked"]}
    assert unchecked == {"GM-122", "GM-137", "GM-201", "GM-202", "GM-205"}
    refused = tenant("plan", *TO, code=1)
    assert refused.out == ""
    assert "plan that one with -n" in refused.message
