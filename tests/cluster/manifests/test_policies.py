"""What the policies let the Job's account change in the objects that RBAC lets it write.

The account is made an administrator here, and so is another one, whose equal requests all pass: whatever is denied to
the first is denied by the policies, not because the request is wrong. Every request is a dry run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pytest

from testbed.controlplane.client import JSON_PATCH, MERGE_PATCH, Answer, Client, Object, eventually
from tests.cluster.manifests.policy_requests import BINDING, DENIED, LEASE, OTHER, PERMITTED, Request
from tests.cluster.site import ACCOUNT, NAMESPACE, ServedSite, made

pytestmark = pytest.mark.controlplane


@dataclass(frozen=True, slots=True)
class Accounts:
    """Our account and another one, both with every right, and the objects that requests are about."""

    admin: Client
    ours: Client
    others: Client
    planted: Sequence[Object]

    def send(self, client: Client, request: Request) -> Answer:
        """Send a request that changes nothing."""
        item = self._object(request)
        metadata, body = item["metadata"], request.body
        name = None if item is body else metadata["name"]
        path = client.kind_of(item).path(metadata.get("namespace"), name, request.subresource)
        content_type = "application/json"
        if request.method == "PATCH":
            content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        return client.request(request.method, path, body, query={"dryRun": "All"}, content_type=content_type)

    def _object(self, request: Request) -> Object:
        if request.method == "POST" and not request.subresource:
            created: Object = request.body
            return created
        kind, _, name = request.to.partition("/")
        return next(
            item for item in reversed(self.planted) if item["kind"] == kind and name in ("", item["metadata"]["name"])
        )


@pytest.fixture(scope="module")
def accounts(site: ServedSite) -> Iterator[Accounts]:
    """Both accounts as administrators, and one object of each kind that requests are about."""
    site.fill()
    both = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE} for name in (ACCOUNT, OTHER)]
    created = [
        site.client.create(item)
        for item in (
            made("v1", "ServiceAccount", OTHER),
            made("v1", "ConfigMap", "grove-migrator-run", data={"x": "y"}),
            made(LEASE, "Lease", ACCOUNT, spec={"holderIdentity": "us"}),
            made(LEASE, "Lease", "grove-operator-leader-election", spec={"holderIdentity": ""}),
            made(LEASE, "Lease", "somebody-elses", spec={"holderIdentity": "x"}),
            {**BINDING, "metadata": {"name": "policies-alone"}, "subjects": both},
        )
    ]
    there = [
        site.client.get("v1", "ConfigMap", "grove-operator-cm-0123abcd", NAMESPACE),
        site.deployment(),
    ]
    ours, others = (
        site.server.client(token=site.client.service_account_token(NAMESPACE, name)) for name in (ACCOUNT, OTHER)
    )
    found = Accounts(site.client, ours, others, [*site.planted, *created, *there])
    probe = Request("may it?", "Pod", {"metadata": {"annotations": {"x": "y"}}})
    eventually(lambda: found.send(found.others, probe).status == 200, what="the other account is not an administrator")
    eventually(lambda: by_policy(found.send(found.ours, probe)), what="our account is not an administrator")
    yield found
    for item in reversed(created):
        site.client.delete(item)
    secrets = partial(ours.request, "GET", "/api/v1/secrets")
    eventually(lambda: secrets().status == 403, what="our account is still an administrator")
    ours.close()
    others.close()


def by_policy(answer: Answer) -> bool:
    """Whether one of our policies denied the request."""
    message = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
    return answer.status == 403 and "ValidatingAdmissionPolicy 'grove-migrator-" in message


@pytest.mark.parametrize("request_", PERMITTED, ids=str)
def test_what_a_run_does_is_permitted(accounts: Accounts, request_: Request) -> None:
    """No policy stands in the way of the one thing that the account is for.

    An object that is there already is a conflict, which the API server finds after the policies.
    """
    answer = accounts.send(accounts.ours, request_)
    assert answer.status in ({200, 201, 409} if request_.method == "POST" else {200}), answer.body


@pytest.mark.parametrize("request_", DENIED, ids=str)
def test_everything_else_is_denied_to_the_account_and_to_nobody_else(accounts: Accounts, request_: Request) -> None:
    """A policy of ours denies it with 403, whatever RBAC grants; the same request of another account passes."""
    ours = accounts.send(accounts.ours, request_)
    assert by_policy(ours), (ours.status, ours.body)
    others = accounts.send(accounts.others, request_)
    assert others.status in {200, 201}, others.body


@pytest.mark.parametrize(
    ("before", "after", "permitted"),
    [(0, 3, True), (3, 0, True), (1, 0, True), (1, 1, True), (0, 4, False), (4, 0, False), (1, 2, False)],
)
def test_the_operator_is_stopped_and_comes_back_within_three_replicas(
    site: ServedSite, accounts: Accounts, *, before: int, after: int, permitted: bool
) -> None:
    """Zero and back, and nothing else; an operator that could not be given back its replicas is not even stopped."""
    operator = site.deployment()
    scale = Request("scale", "Deployment/grove-operator", {"spec": {"replicas": after}}, "scale")
    assert site.client.patch(operator, {"spec": {"replicas": before}}, subresource="scale").status == 200
    try:
        answer = accounts.send(accounts.ours, scale)
        assert (answer.status == 200) is permitted, answer.body
        assert by_policy(answer) is not permitted
    finally:
        assert site.client.patch(operator, {"spec": {"replicas": 1}}, subresource="scale").status == 200
