"""What denies patches on a real API server: it is found before the stop, and the operator's webhooks are opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from testbed.controlplane.client import Object, eventually
from tests.cluster.site import NEW, ServedSite
from tests.cluster.webhooks import AUTHORIZER, GUARD, KIND, conditions, denied, served
from tests.support.command_line import Invoke
from tests.support.pages import blocks
from tests.support.shell import Shell

pytestmark = pytest.mark.controlplane

SECTION: Final = "Webhooks of the operator"
RUN: Final = ("run", "--to", NEW, "--stop-operator")


def command(number: int, name: str, webhook: str) -> str:
    """A command of the section, for a webhook and its configuration."""
    return blocks("upgrade", SECTION)[number].replace(GUARD[0], name).replace(GUARD[1], webhook)


@pytest.fixture(params=[GUARD, AUTHORIZER], ids=["alpha.14", "the authorizer"])
def guarded(site: ServedSite, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A cluster to migrate, with one of the webhooks; its names."""
    site.fill()
    with served(site, request.param):
        yield request.param


def test_the_commands_of_the_page_let_our_account_pass_and_nobody_else(
    guarded: tuple[str, str], site: ServedSite, account: Invoke, tmp_path: Path
) -> None:
    """Refused before anything is touched without them, migrated with them, and nothing is left of them."""
    before, operator = site.client.get(*KIND, guarded[0])["webhooks"], site.deployment()["metadata"]["generation"]
    with site.frozen():
        assert "GM-202" in account(*RUN, code=3).failure["message"]
    assert site.deployment()["metadata"]["generation"] == operator
    shell = Shell(tmp_path / "shell", site.server.kubeconfig)
    shell.paste(command(0, *guarded))
    eventually(lambda: account(*RUN, "--dry-run", code=(0, 3)).out, what="our account is not exempt")
    with site.unharmed():
        account(*RUN)
    assert denied(site)
    shell.paste(command(1, *guarded))
    assert site.client.get(*KIND, guarded[0])["webhooks"] == before


def test_a_condition_of_somebody_else_is_not_overwritten(
    guarded: tuple[str, str], site: ServedSite, tmp_path: Path
) -> None:
    """The command fails, and the page says what to do then."""
    theirs = {"name": "theirs", "expression": "true"}
    add = [{"op": "add", "path": "/webhooks/0/matchConditions", "value": [theirs]}]
    assert site.client.patch(site.client.get(*KIND, guarded[0]), add).status == 200
    with pytest.raises(AssertionError, match="The request is invalid"):
        Shell(tmp_path / "shell", site.server.kubeconfig).paste(command(0, *guarded))
    assert conditions(site.client) == [theirs]


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


@pytest.mark.parametrize(
    ("text", "kind", "change"),
    [
        (_WEBHOOK, "Pod", {"metadata": {"labels": {"x": "y"}}}),
        (_POLICY, "PodClique", {"status": {"observedGeneration": 99}}),
    ],
    ids=["a webhook", "a policy"],
)
def test_a_patch_that_is_certain_to_be_denied_is_found_before_the_stop(
    site: ServedSite, invoke: Invoke, text: str, kind: str, change: Object
) -> None:
    """Exit 3, GM-202 and the name of what denied it; nothing is changed, and the operator was never stopped."""
    site.fill()
    denying = list(yaml.safe_load_all(text))
    for item in denying:
        site.client.apply(item)
    one = next(item for (found, _), item in site.objects().items() if found == kind)

    def is_denied() -> bool:
        to = "status" if "status" in change else None
        return site.client.patch(one, change, subresource=to, dry_run=True).status >= 400

    eventually(is_denied, what="nothing is denied")
    operator = site.deployment()["metadata"]["generation"]
    try:
        with site.frozen():
            failed = invoke(*RUN, "--kubeconfig", site.server.kubeconfig, code=3).failure
    finally:
        for item in reversed(denying):
            site.client.delete(item)
    eventually(lambda: not is_denied(), what="something is still denied")
    assert "GM-202" in failed["message"]
    assert "deny.example.test" in failed["message"]
    assert site.deployment()["metadata"]["generation"] == operator
