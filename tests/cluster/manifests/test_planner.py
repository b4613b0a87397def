"""People who only plan: with the roles for them, and with rights in one namespace alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed import workloads
from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.audit import Audit, used
from tests.cluster.manifests.site import (
    NAMESPACE,
    NEW,
    WORKLOADS,
    Site,
    add_namespace,
    documents,
    grants,
    kubeconfig_of,
    made,
    of_kind,
)
from tests.support.command_line import Invoke, Printed

pytestmark = pytest.mark.controlplane

PLANNER: Final = "planner.yaml"
RBAC: Final = "rbac.authorization.k8s.io"
TO: Final = ("--to", NEW)


class Person:
    """Somebody with an account of their own, at the command line."""

    def __init__(self, site: Site, directory: Path, name: str, invoke: Invoke) -> None:
        self.site, self.name, self._invoke = site, name, invoke
        self.user = f"system:serviceaccount:{WORKLOADS}:{name}"
        site.admin.apply(made("v1", "ServiceAccount", name, WORKLOADS))
        token = site.admin.service_account_token(WORKLOADS, name)
        self._kubeconfig = kubeconfig_of(site.server, token, directory / name)

    def bound(self, objects: list[Object], *arguments: str) -> None:
        """Apply roles and bindings with this account in place of whom they name, and wait for their effect."""
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": WORKLOADS}
        for item in objects:
            self.site.admin.apply({**item, "subjects": [subject]} if "subjects" in item else item)
        eventually(lambda: self._may_plan(*arguments), what=f"{self.name} may not plan yet")

    def _may_plan(self, *arguments: str) -> bool:
        out = self.type("plan", *TO, *arguments, code=(0, 1)).out
        return bool(out) and (bool(arguments) or "not checked" not in out)

    def type(self, *arguments: str, code: int | tuple[int, ...] = 0) -> Printed:
        """Run a command, which must exit with this code."""
        return self._invoke(*arguments, "--kubeconfig", self._kubeconfig, code=code)

    def plan(self, *arguments: str) -> Object:
        """A plan as JSON, without its time."""
        document: Object = self.type("plan", *TO, *arguments, "-o", "json").json
        document.pop("time")
        return document


@pytest.fixture
def planner(site: Site, tmp_path: Path, invoke: Invoke) -> Iterator[Person]:
    """Somebody with the roles of manifests/planner.yaml and nothing else."""
    site.fill()
    found = Person(site, tmp_path, "planner", invoke)
    found.bound(documents(PLANNER))
    yield found
    for item in documents(PLANNER):
        site.admin.delete(item)


@pytest.fixture
def tenant(site: Site, tmp_path: Path, invoke: Invoke) -> Iterator[Person]:
    """Somebody for whom the ClusterRole is bound in one namespace."""
    site.fill()
    found = Person(site, tmp_path, "tenant", invoke)
    [role] = of_kind(documents(PLANNER), "ClusterRole")
    named = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]}
    binding = made(f"{RBAC}/v1", "RoleBinding", "tenant", WORKLOADS, roleRef=named, subjects=[])
    found.bound([role, binding], "-n", WORKLOADS)
    yield found
    site.admin.delete(binding)
    site.admin.delete(role)


def test_a_planner_sees_what_the_administrator_sees(site: Site, planner: Person, invoke: Invoke) -> None:
    """Sets, numbers and the operator that runs are the same, and nothing is said to be unseen."""
    found = planner.plan()
    expected = invoke("plan", *TO, "-o", "json", "--kubeconfig", site.server.kubeconfig).json
    expected.pop("time")
    assert found == expected
    assert found["summary"]["podCliqueSets"] == 2
    assert {warning["code"] for warning in found["warnings"]} == {"GM-122"}
    assert found["notChecked"] == []


def test_a_planner_needs_every_right_and_can_do_nothing_else(site: Site, planner: Person) -> None:
    """By the audit log a plan uses each right and no other; a run has not begun when it says what is lacking."""
    granted = grants(documents(PLANNER))
    audit = Audit(site, planner.user)
    planner.plan()
    assert used(audit.requests(), granted) == set(granted)
    before = site.objects()
    planner.type("run", *TO, "--stop-operator", code=1)
    assert (site.objects(), site.replicas(), site.names("Lease")) == (before, 1, [])


def test_one_namespace_is_enough_to_plan_it(tenant: Person) -> None:
    """`plan -n` plans its sets in full and names what it does not see; without -n it says how to go on."""
    for arguments in (TO, ()):
        out = tenant.type("plan", *arguments, "-n", WORKLOADS).out
        assert "GM-201 whether other sets need this migration too" in " ".join(out.split())
    found = tenant.plan("-n", WORKLOADS)
    numbers = found["summary"]
    assert (numbers["podCliqueSets"], numbers["podsRecreatedWithoutMigration"], numbers["refusals"]) == (2, 15, 0)
    assert {warning["code"] for warning in found["warnings"]} == {"GM-137"}
    assert {unchecked["code"] for unchecked in found["notChecked"]} == {"GM-122", "GM-201", "GM-202", "GM-205"}
    refused = tenant.type("plan", *TO, code=1)
    assert refused.out == ""
    assert "plan that one with -n" in refused.message


def test_sets_elsewhere_do_not_change_the_plan_of_a_namespace(site: Site, tenant: Person) -> None:
    """With rights in one namespace, a set in another one is not in its numbers and refuses nothing."""
    add_namespace(site.admin, "elsewhere")
    before = tenant.plan("-n", WORKLOADS)
    created = site.admin.create(workloads.standalone("other", namespace="elsewhere"))
    after = tenant.plan("-n", WORKLOADS)
    site.admin.delete(created)
    assert before == after


def test_a_namespace_without_sets_is_said(site: Site, invoke: Invoke) -> None:
    """A mistyped namespace is not a plan of nothing: stderr says that no set is there."""
    site.fill()
    [event] = invoke("plan", *TO, "-n", NAMESPACE, "--kubeconfig", site.server.kubeconfig).events
    assert event["event"] == "empty_selection"
