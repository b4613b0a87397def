"""A run as a process that is killed at its writes, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from migrator.planning.webhooks import expression
from testbed.controlplane.client import Object
from tests.cluster.running import killed
from tests.cluster.site import ACCOUNT, NAMESPACE, NEW, OLD, USER, ServedSite, kubeconfig_of
from tests.cluster.webhooks import AUTHORIZER, GUARD, conditions, denied, permitted, served
from tests.support.command_line import Invoke
from tests.support.translation import migrated

pytestmark = pytest.mark.controlplane

RUN: Final = ("run", "--to", NEW, "--stop-operator", "--allow", "GM-202")
LEASE: Final = ("coordination.k8s.io/v1", "Lease")
OURS: Final = {"name": ACCOUNT, "expression": expression(USER)}


@pytest.fixture
def opened(site: ServedSite) -> Iterator[ServedSite]:
    """A cluster to migrate with both webhooks, and the permission to be left out of them."""
    site.fill()
    with permitted(site), served(site, GUARD, AUTHORIZER):
        yield site


def leases(site: ServedSite) -> dict[str, int]:
    """How long each Lease in the operator's namespace lasts."""
    found = site.client.list(*LEASE, NAMESPACE)
    return {item["metadata"]["name"]: item["spec"]["leaseDurationSeconds"] for item in found}


def owners_of_replicas(site: ServedSite) -> list[Object]:
    """Who owns the replicas of the operator's Deployment by its scale."""
    fields = site.deployment()["metadata"]["managedFields"]
    return [entry for entry in fields if entry.get("subresource") == "scale" and "f:spec" in entry["fieldsV1"]]


def test_a_killed_run_is_finished_or_undone(opened: ServedSite, account: Invoke, tmp_path: Path) -> None:
    """Killed before each write of a webhook but the first, and among those of pods.

    What it leaves of webhooks concerns our account alone, and others are refused. A rerun finishes it, or a revert
    gives back the very objects and the operator, by turns; then no condition is there, and each Lease is free.
    """
    site = opened
    token = site.client.service_account_token(NAMESPACE, ACCOUNT)
    kubeconfig = kubeconfig_of(site.server, token, tmp_path / "killed")
    before = site.objects()
    after, left, half = migrated(before, OLD, NEW), set[int](), 0
    for at in count(2):
        if not killed(at, *RUN, "--kubeconfig", kubeconfig):
            break
        found = conditions(site.client)
        assert all(one == OURS for one in found)
        assert denied(site)
        left.add(len(found))
        if before != site.objects() != after:
            half += 1
            assert set(leases(site).values()) == {60, 3600}, "its own Lease lasts a minute, and the operator's an hour"
        for item in site.client.list(*LEASE, NAMESPACE):  # it would be waited for
            site.client.patch(item, {"spec": {"holderIdentity": ""}})
        if at % 2:
            account(*RUN)
            assert site.objects() == after
            assert conditions(site.client) == []
            assert site.replicas() == 0
        account(*RUN, "--revert", "--yes")
        assert site.objects() == before
        assert conditions(site.client) == []
        assert site.replicas() == 1
        assert set(leases(site).values()) == {1}
        assert owners_of_replicas(site) == []
    assert site.objects() == after
    assert left == {1, 2}
    assert half == 2
    assert owners_of_replicas(site) == []
