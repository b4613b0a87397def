"""What denies patches on a real API server is found by a dry run, before the operator is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.site import NEW, WORKLOADS, ServedSite, made
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

_API: Final = "admissionregistration.k8s.io/v1"
_NAME: Final = "deny.example.test"


def _rules(*resources: str) -> list[Any]:
    groups = {"apiGroups": ["", "grove.io"], "apiVersions": ["*"]}
    return [{**groups, "operations": ["UPDATE"], "resources": list(resources)}]


_WEBHOOK: Final = {
    "name": _NAME,
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://127.0.0.1:9/nobody-answers"},
    "failurePolicy": "Fail",
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": WORKLOADS}},
    "rules": _rules("pods"),
    "sideEffects": "None",
}
#: What denies, and the kind and subresource of a patch that it denies.
_DENIALS: Final[dict[str, tuple[list[Object], str, str | None]]] = {
    "a webhook that nobody answers": (
        [made(_API, "ValidatingWebhookConfiguration", _NAME, None, webhooks=[_WEBHOOK])],
        "Pod",
        None,
    ),
    "a policy": (
        [
            made(
                _API,
                "ValidatingAdmissionPolicy",
                _NAME,
                None,
                spec={
                    "matchConstraints": {"resourceRules": _rules("podcliques/status")},
                    "validations": [{"expression": "false"}],
                },
            ),
            made(
                _API,
                "ValidatingAdmissionPolicyBinding",
                _NAME,
                None,
                spec={"policyName": _NAME, "validationActions": ["Deny"]},
            ),
        ],
        "PodClique",
        "status",
    ),
}


@pytest.fixture(params=_DENIALS)
def strict(site: ServedSite, request: pytest.FixtureRequest) -> Iterator[ServedSite]:
    """A cluster to migrate, in which every patch of one kind is denied."""
    site.fill()
    denying, kind, subresource = _DENIALS[request.param]
    for item in denying:
        site.client.apply(item)
    one = next(item for (found, _), item in site.objects().items() if found == kind)
    change = {"status": {"observedGeneration": 99}} if subresource else {"metadata": {"labels": {"x": "y"}}}
    eventually(
        lambda: site.client.patch(one, change, subresource=subresource, dry_run=True).status >= 400,
        what="nothing is denied",
    )
    yield site
    for item in reversed(denying):
        site.client.delete(item)


def test_a_patch_that_is_certain_to_be_denied_is_found_before_the_stop(strict: ServedSite, invoke: Invoke) -> None:
    """Exit 3, GM-202 and the name of what denied it; nothing is changed, and the operator was never stopped."""
    operator = strict.deployment()["metadata"]["generation"]
    with strict.frozen():
        failed = invoke("run", "--to", NEW, "--stop-operator", "--kubeconfig", strict.server.kubeconfig, code=3).failure
    assert "GM-202" in failed["message"]
    assert _NAME in failed["message"]
    assert strict.deployment()["metadata"]["generation"] == operator
