"""Webhooks of the operator that fail closed while it is at zero, and the commands of the page that let us pass."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed.controlplane.client import Object, eventually
from tests.cluster.site import NAMESPACE, NEW, WORKLOADS, ServedSite
from tests.support.command_line import Invoke
from tests.support.pages import blocks

pytestmark = pytest.mark.controlplane

SECTION = "Webhooks of the operator"
GUARD = ("podclique-validating-webhook", "podclique.validating.webhooks.grove.io")
AUTHORIZER = ("authorizer-webhook", "authorizer.webhooks.grove.io")
KIND = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
#: Writes what it was asked to do, as JSON, to the file that the test names.
KUBECTL = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["ASKED"], "w") as file:
    json.dump([sys.argv[1:], sys.stdin.read()], file)
"""


def configuration(name: str, webhook: str, **rest: Any) -> Object:
    """A webhook of the operator that nobody answers.

    As in Grove's ``operator/charts/templates``: that of PodCliques from alpha.14 on (Grove PR 831), and the
    authorizer's with the rules for what we write.
    """
    rules = [{"apiGroups": ["grove.io"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"], "scope": "Namespaced"}]
    rules[0]["resources"] = ["podcliques", "podcliques/scale"]
    if (name, webhook) == AUTHORIZER:
        rules[0]["resources"] = ["podcliques"]
        rules.append({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]})
        rest["objectSelector"] = {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}}
    service = {"name": "grove-operator", "namespace": NAMESPACE, "path": "/webhooks/validate"}
    hook = {
        "name": webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "rules": rules,
        "sideEffects": "None",
    }
    metadata = {"name": name}
    return {"apiVersion": KIND[0], "kind": KIND[1], "metadata": metadata, "webhooks": [hook | rest]}


def typed(site: ServedSite, directory: Path, block: int, name: str, webhook: str) -> int:
    """What the API server answers to a command of the section, as a shell reads it."""
    text = blocks("upgrade", SECTION)[block].replace(GUARD[0], name).replace(GUARD[1], webhook)
    (directory / "kubectl").write_text(KUBECTL, encoding="utf-8")
    (directory / "kubectl").chmod(0o755)
    path = f"{directory}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "ASKED": str(directory / "asked"), "NAMESPACE": NAMESPACE}
    subprocess.run(["bash", "-euc", text], check=True, env=variables)
    words, patch = json.loads((directory / "asked").read_text(encoding="utf-8"))
    assert words[:4] == ["patch", "validatingwebhookconfiguration", name, "--type=json"]
    return site.client.patch(site.client.get(*KIND, name), json.loads(patch)).status


def denied(site: ServedSite) -> bool:
    """Whether an administrator's edit of a PodClique is denied."""
    clique = site.client.list("grove.io/v1alpha1", "PodClique", WORKLOADS)[0]
    return site.client.patch(clique, {"metadata": {"labels": {"x": "y"}}}, dry_run=True).status == 500


@pytest.fixture(params=[GUARD, AUTHORIZER], ids=["alpha.14", "the authorizer"])
def guarded(site: ServedSite, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A cluster to migrate, with one of the webhooks; its names."""
    site.fill()
    item = configuration(*request.param)
    site.client.apply(item)
    eventually(lambda: denied(site), what="nothing is denied")
    yield request.param
    site.client.delete(item)
    eventually(lambda: not denied(site), what="something is still denied")


def test_the_commands_of_the_page_let_our_account_pass_and_nobody_else(
    guarded: tuple[str, str], site: ServedSite, account: Invoke, tmp_path: Path
) -> None:
    """Refused without them, migrated with them, and nothing is left of them."""
    before = site.client.get(*KIND, guarded[0])["webhooks"]
    assert "GM-202" in account("run", "--to", NEW, "--stop-operator", code=3).failure["message"]
    assert typed(site, tmp_path, 0, *guarded) == 200
    rehearsal = ("run", "--to", NEW, "--stop-operator", "--dry-run")
    eventually(lambda: account(*rehearsal, code=(0, 3)).out, what="our account is not exempt")
    with site.unharmed():
        account("run", "--to", NEW, "--stop-operator")
    assert denied(site)
    assert typed(site, tmp_path, 1, *guarded) == 200
    assert site.client.get(*KIND, guarded[0])["webhooks"] == before


def test_a_condition_of_somebody_else_is_not_overwritten(
    guarded: tuple[str, str], site: ServedSite, tmp_path: Path
) -> None:
    """The command fails, and the page says what to do then."""
    item = configuration(*guarded, matchConditions=[{"name": "theirs", "expression": "true"}])
    site.client.apply(item)
    assert typed(site, tmp_path, 0, *guarded) == 422
    assert (
        site.client.get(*KIND, guarded[0])["webhooks"][0]["matchConditions"] == item["webhooks"][0]["matchConditions"]
    )
