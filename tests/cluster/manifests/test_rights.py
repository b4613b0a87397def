"""The Job's account can do what the run needs, and nothing that the run does not need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from migrator.store import DryRun
from migrator.stores.kube.store import KubeStore
from testbed.controlplane.client import Object, eventually
from tests.cluster.manifests.audit import Audit, used
from tests.cluster.manifests.site import NEW, OLD, Grant, Site, arguments, documents, grants, job_of, role_of
from tests.support.command_line import Invoke
from tests.support.memory_store import in_turn

pytestmark = pytest.mark.controlplane

RIGHTS: Final = documents("job.yaml")
GRANTS: Final = grants(RIGHTS)
COMMAND: Final = arguments(job_of())

#: Without this a run warns, and is as good; everything else it needs. The warning is the value.
WARNED: Final = {"services": "grant `get` on services"}


@pytest.fixture(scope="module")
def untouched(site: Site) -> Object:
    """A cluster to migrate, filled once; every test must leave it as it is."""
    site.fill()
    return {"objects": site.objects(), "operators": _uids(site)}


@pytest.fixture
def without(site: Site, request: pytest.FixtureRequest) -> Iterator[Grant]:
    """The roles of the manifest without one grant."""
    taken: Grant = request.param
    kept = [grant for grant in GRANTS if grant != taken]
    site.admin.apply(role_of(RIGHTS, taken.role, kept))
    eventually(lambda: not site.may(taken), what=f"{taken} is still permitted")
    yield taken
    site.admin.apply(role_of(RIGHTS, taken.role, GRANTS))
    eventually(lambda: site.may(taken), what=f"{taken} is not permitted again")


def test_the_jobs_command_line_migrates_as_the_jobs_account(site: Site, account: Invoke) -> None:
    """With exactly these rights the run ends well: every value new and nothing else, the operator at zero."""
    site.fill()
    before = site.objects()
    assert account(*COMMAND, "-o", "json").json["patches"] > 0
    assert site.objects() == site.expected(before, OLD, NEW)
    assert (site.replicas(), site.operators()) == (0, [])
    assert "grove-migrator-run" in site.names("ConfigMap")


def test_every_request_is_within_the_rules_and_every_rule_is_needed(
    site: Site, account: Invoke, audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the audit log of a run with lost replies, and of its revert: nothing beside the rules, and no rule unused."""
    site.fill()
    before = site.objects()
    monkeypatch.setattr(KubeStore, "patch", _first_of_each_kind_twice())
    monkeypatch.setattr(KubeStore, "patches", _one_by_one)
    account(*COMMAND)
    account(*COMMAND, "--revert", "--yes")
    assert site.objects() == before
    assert used(audit.requests(), GRANTS) == set(GRANTS)


@pytest.mark.parametrize("without", [grant for grant in GRANTS if grant.resource not in WARNED], ids=str, indirect=True)
def test_without_one_right_nothing_is_begun(site: Site, account: Invoke, untouched: Object, without: Grant) -> None:
    """Exit 1, a sentence that names the right, and everything as before: the operator was not even stopped."""
    failure = account(*COMMAND, code=1).failure
    assert failure["code"] == "not-authorised"
    assert without.verb in failure["message"].split()
    named = without.group if without.resource == "*" else without.resource.removesuffix("s")  # or the kind
    assert named in failure["message"].lower()
    assert site.objects() == untouched["objects"]
    assert (site.replicas(), _uids(site)) == (1, untouched["operators"])
    assert site.names("ConfigMap") == site.names("Lease") == []


@pytest.mark.parametrize("without", [grant for grant in GRANTS if grant.resource in WARNED], ids=str, indirect=True)
def test_without_a_right_to_look_or_to_report_the_run_is_as_good(site: Site, account: Invoke, without: Grant) -> None:
    """The Service finds operators under other labels: without it there is only a warning."""
    site.fill()
    before = site.objects()
    done = account(*COMMAND)
    assert site.objects() == site.expected(before, OLD, NEW)
    assert WARNED[without.resource] in done.err


def test_the_roles_permit_no_deletion_and_no_creation_of_workloads() -> None:
    """Deleted are records only, created records and Leases; a wildcard only lists what is Grove's."""
    for grant in GRANTS:
        assert "*" not in (grant.verb, grant.group)
        if grant.resource == "*":
            assert (grant.verb, grant.group in {"grove.io", "scheduler.grove.io"}) == ("list", True)
        assert grant.verb in {"get", "list", "patch", "create", "delete"}
        if grant.verb == "delete":
            assert (grant.role, grant.resource) == ("Role", "configmaps")
        if grant.verb == "create":
            assert grant.resource in {"leases", "configmaps"}


def _uids(site: Site) -> list[str]:
    return sorted(item["metadata"]["uid"] for item in site.operators())


def _first_of_each_kind_twice() -> Any:
    """A patch method whose first reply for each kind is lost: the same request is sent again."""
    seen = set()
    send: Any = KubeStore.patch

    def patch(store: KubeStore, resource: Any, *found: Any, **options: Any) -> Any:
        if store.dry_run is DryRun.NONE and resource not in seen:
            seen.add(resource)
            send(store, resource, *found, **options)
        return send(store, resource, *found, **options)

    return patch


def _one_by_one(store: KubeStore, take: Any, *, concurrency: int) -> Any:
    """A stream of patches as single ones."""
    del concurrency
    return in_turn(store, take)
