"""What denies patches on a real API server is found by a dry run, before the operator is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from testbed.controlplane.client import eventually
from tests.cluster.site import NEW, ServedSite
from tests.support.command_line import Invoke

pytestmark = pytest.mark.controlplane

_NAME: Final = "deny.example.test"
_WEBHOOK: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: deny.example.test}
webhooks:
  - name: deny.example.test
    admissionReviewVersions: [v1]
    clientConfig: {url: "https://127.0.0.1:9/nobody-answers"}
    failurePolicy: Fail
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: serving}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
    sideEffects: None
"""
_POLICY: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: deny.example.test}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [grove.io], apiVersions: ["*"], operations: [UPDATE], resources: [podcliques/status]}
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: deny.example.test}
spec: {policyName: deny.example.test, validationActions: [Deny]}
"""


@pytest.fixture(params=[(_WEBHOOK, "Pod", None), (_POLICY, "PodClique", "status")], ids=["a webhook", "a policy"])
def strict(site: ServedSite, request: pytest.FixtureRequest) -> Iterator[ServedSite]:
    """A cluster to migrate, in which every patch of one kind is denied by a webhook or a policy."""
    site.fill()
    text, kind, subresource = request.param
    denying = list(yaml.safe_load_all(text))
    for item in denying:
        site.client.apply(item)
    one = next(item for (found, _), item in site.objects().items() if found == kind)
    change = {"status": {"observedGeneration": 99}} if subresource else {"metadata": {"labels": {"x": "y"}}}

    def is_denied() -> bool:
        return site.client.patch(one, change, subresource=subresource, dry_run=True).status >= 400

    eventually(is_denied, what="nothing is denied")
    yield site
    for item in reversed(denying):
        site.client.delete(item)
    eventually(lambda: not is_denied(), what="something is still denied")


def test_a_patch_that_is_certain_to_be_denied_is_found_before_the_stop(strict: ServedSite, invoke: Invoke) -> None:
    """Exit 3, GM-202 and the name of what denied it; nothing is changed, and the operator was never stopped."""
    operator = strict.deployment()["metadata"]["generation"]
    flags = ("--to", NEW, "--stop-operator", "--kubeconfig", strict.server.kubeconfig)
    with strict.frozen():
        failed = invoke("run", *flags, code=3).failure
    assert "GM-202" in failed["message"]
    assert _NAME in failed["message"]
    assert strict.deployment()["metadata"]["generation"] == operator
