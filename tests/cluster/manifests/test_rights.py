"""The Job's account can do what the run needs, and nothing that the run does not need."""

from __future__ import annotations

from typing import Any, Final

import pytest

from migrator.kube.store import KubeCluster
from tests.cluster.manifests.audit import Grant, asked, grants, used
from tests.cluster.site import ServedSite, arguments, documents, job_of
from tests.cluster.webhooks import AUTHORIZER, GUARD, opted_in
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

RIGHTS: Final = documents("job.yaml")
GRANTS: Final = grants(RIGHTS)
COMMAND: Final = arguments(job_of())


def test_the_jobs_command_line_needs_every_rule_and_no_other(
    site: ServedSite, account: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exactly these rights every value is new and nothing else, the operator at zero; and a revert restores all.

    By the audit log, though replies are lost: nothing beside the rules, and no rule unused.
    """
    site.fill()
    monkeypatch.setattr(KubeCluster, "patch", _first_of_each_kind_twice())
    before = len(asked(site))
    with site.frozen():
        with site.unharmed():
            assert account(*COMMAND, "-o", "json").json["patches"] > 0
        assert site.replicas() == 0
        assert site.operators() == []
        assert site.records() == ["grove-migrator"]
        account(*COMMAND, "--revert", "--yes")
    assert used(asked(site)[before:], GRANTS) == set(GRANTS)


def test_the_roles_permit_no_deletion_and_no_creation_of_workloads() -> None:
    """Nothing is deleted, Leases alone are created and got; a wildcard only lists what is Grove's.

    With ``--allow GM-202`` two named configurations of webhooks may be got and patched besides.
    """
    more = set(grants(opted_in())) - set(GRANTS)
    webhooks = ("admissionregistration.k8s.io", "validatingwebhookconfigurations", (GUARD[0], AUTHORIZER[0]))
    assert more == {Grant("ClusterRole", verb, *webhooks) for verb in ("get", "patch")}
    for grant in GRANTS:
        assert "*" not in (grant.verb, grant.group)
        if grant.resource == "*":
            assert grant.verb == "list"
            assert grant.group in {"grove.io", "scheduler.grove.io"}
        assert grant.verb in {"get", "list", "patch", "create"}
        if grant.verb in {"create", "get"}:
            assert grant.role == "Role"
            assert grant.resource == "leases"


def _first_of_each_kind_twice() -> Any:
    """A patch method whose first reply for each kind is lost: the same request is sent again."""
    seen = set()
    send: Any = KubeCluster.patch

    def patch(store: KubeCluster, resource: Any, *found: Any, **options: Any) -> Any:
        if not store.dry_run and resource not in seen:
            seen.add(resource)
            send(store, resource, *found, **options)
        return send(store, resource, *found, **options)

    return patch
