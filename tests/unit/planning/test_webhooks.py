"""Which webhooks stand in the way of a run, and the condition that leaves one account out of them."""

from __future__ import annotations

import json
import shlex
from typing import Any

from migrator.planning import webhooks
from migrator.planning.model import Severity
from tests.support.server_patch import apply_ops
from tests.support.tables import table

HOME, ACCOUNT = "grove-system", "system:serviceaccount:grove-system:grove-migrator"
RULE = {
    "operations": ["UPDATE"],
    "apiGroups": ["grove.io"],
    "apiVersions": ["v1alpha1"],
    "resources": ["podcliques", "podcliques/scale"],
    "scope": "Namespaced",
}
PODS = {**RULE, "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
OURS = {"name": "grove-migrator", "expression": f"request.userInfo.username != '{ACCOUNT}'"}
HIS = {"name": "his", "expression": "true"}


def configuration(rule: dict[str, Any] | None = None, name: str = webhooks.OPENED[0], **more: Any) -> dict[str, Any]:
    """A webhook configuration as alpha.14's chart has it, with one webhook."""
    service = {"name": "grove-operator", "namespace": HOME, "path": "/webhooks/validate-podclique"}
    hook = {"name": "podclique.validating.webhooks.grove.io", "failurePolicy": "Fail", "rules": [rule or RULE]}
    return {"metadata": {"name": name}, "webhooks": [{**hook, "clientConfig": {"service": service}, **more}]}


def blocking(raw: dict[str, Any]) -> list[webhooks.Webhook]:
    return webhooks.in_the_way(webhooks.webhooks_of(raw), HOME, ACCOUNT)


@table(
    "change blocks",
    ("alpha.14's.", ({}, True)),
    ("Of pods, as the authorizer's.", (PODS, True)),
    ("Of a status that we write.", ({"resources": ["podcliquescalinggroups/status"]}, True)),
    ("Of every status.", ({"resources": ["*/status"]}, True)),
    ("Of everything.", ({"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}, True)),
    ("Of sets, of which only the status is written.", ({"resources": ["podcliquesets"]}, False)),
    ("Of every resource, but no subresource, of another group.", ({"apiGroups": ["apps"], "resources": ["*"]}, False)),
    ("Of deletions.", ({"operations": ["DELETE"]}, False)),
    ("Of scales.", ({"resources": ["podcliques/scale"]}, False)),
    ("Of another version.", ({"apiVersions": ["v1"]}, False)),
    ("Of what has no namespace.", ({"scope": "Cluster"}, False)),
)
def test_a_webhook_blocks_if_it_matches_a_write_as_we_make_it(change: dict[str, Any], *, blocks: bool) -> None:
    """By the rules of the API server: `*` is every resource, and every subresource only after a slash."""
    assert bool(blocking(configuration({**RULE, **change}))) is blocks


@table(
    "more blocks",
    ("It fails open.", ({"failurePolicy": "Ignore"}, False)),
    ("Its Service is in another namespace.", ({"clientConfig": {"service": {"namespace": "tenant"}}}, False)),
    ("It is behind a URL.", ({"clientConfig": {"url": "https://elsewhere.example"}}, False)),
    ("Our account is left out.", ({"matchConditions": [OURS]}, False)),
    ("So it is under another name.", ({"matchConditions": [{**OURS, "name": "by-hand"}]}, False)),
    ("Another account is left out.", ({"matchConditions": [{**OURS, "expression": "true"}]}, True)),
)
def test_a_webhook_blocks_if_the_operator_serves_it_and_it_fails_closed(more: dict[str, Any], *, blocks: bool) -> None:
    """Anybody else's answers, whatever we stop."""
    assert bool(blocking(configuration(**more))) is blocks


@table(
    "known service blocks",
    ("The operator's.", (True, "grove-operator", True)),
    # KAI-Scheduler's matches every update of a pod (pkg/operator/operands/admission/resources.go).
    ("Of something else in its namespace, as KAI's.", (True, "admission", False)),
    ("Of whatever is in its namespace, if no webhook of PodCliqueSets shows the operator's.", (False, "x", True)),
)
def test_a_webhook_blocks_if_its_service_is_the_operators(service: str, *, known: bool, blocks: bool) -> None:
    """That is the Service of its webhook of PodCliqueSets; what another one serves answers during the stop."""
    raw = configuration(PODS, name="any", clientConfig={"service": {"namespace": HOME, "name": service}})
    sets = configuration({**RULE, "resources": ["podcliquesets"]}, name="podcliqueset-validating-webhook")
    found = [one for item in (raw, *([sets] if known else [])) for one in webhooks.webhooks_of(item)]
    assert bool(webhooks.in_the_way(found, HOME, ACCOUNT)) is blocks


@table(
    "account quoted",
    ("A service account.", (ACCOUNT, f"'{ACCOUNT}'")),
    ("A quote.", ("o'neill", r"'o\'neill'")),
    ("A backslash.", (r"corp\me", r"'corp\\me'")),
    ("A newline.", ("a\nb", r"'a\nb'")),
)
def test_an_account_is_quoted_as_a_cel_string(account: str, quoted: str) -> None:
    """A name may hold anything that a certificate or an identity provider may."""
    assert webhooks.expression(account) == f"request.userInfo.username != {quoted}"


@table(
    "before after",
    ("There is none.", (None, [OURS])),
    (
        "One of ours is left, of another account, before somebody else's.",
        ([{**OURS, "expression": "false"}, HIS], [HIS, OURS]),
    ),
)
def test_our_condition_is_added_and_removed(before: list[Any] | None, after: list[Any]) -> None:
    """Others' conditions stay, and so does everything else."""
    raw = configuration(**({} if before is None else {"matchConditions": before}))
    (hook,) = webhooks.webhooks_of(raw)
    opened = apply_ops(raw, tuple(webhooks.adding(hook, ACCOUNT)))
    assert opened["webhooks"][0]["matchConditions"] == after
    (hook,) = webhooks.webhooks_of(opened)
    closed = apply_ops(opened, tuple(webhooks.removing(hook)))
    others = [one for one in before or () if one["name"] != webhooks.CONDITION]
    assert closed["webhooks"][0]["matchConditions"] == others


def test_the_remedy_can_be_pasted() -> None:
    """Whoever may not let us change webhooks gets the command that leaves us out."""
    raw = configuration()
    (finding,) = webhooks.findings(blocking(raw), ACCOUNT, allowed=False)
    assert finding.code == "GM-202"
    assert finding.severity == Severity.REFUSAL
    assert finding.overridable
    words = shlex.split(finding.remedy.partition("`")[2].partition("`")[0])
    assert words[:4] == ["kubectl", "patch", "validatingwebhookconfigurations", webhooks.OPENED[0]]
    test, add = json.loads(words[-1])
    assert test["op"] == "test"
    assert add == {"op": "add", "path": "/webhooks/0/matchConditions", "value": [OURS]}


def test_only_two_configurations_are_opened() -> None:
    """--allow GM-202 turns the refusal of those into a warning, and of no other."""
    ours, other = blocking(configuration()), blocking(configuration(name="renamed"))
    assert [f.severity for f in webhooks.findings(ours, ACCOUNT, allowed=True)] == [Severity.WARNING]
    assert [(f.severity, f.overridable) for f in webhooks.findings(other, ACCOUNT, allowed=True)] == [
        (Severity.REFUSAL, False)
    ]


@table(
    "name names",
    ("One that a run opens.", (webhooks.OPENED[0], {"podclique.validating.webhooks.grove.io"})),
    ("One that it does not.", ("renamed", set())),
)
def test_denials_of_what_is_opened_are_no_refusal(name: str, names: set[str]) -> None:
    """Under --allow GM-202, until the run has opened it."""
    assert webhooks.names(webhooks.webhooks_of(configuration(name=name))) == names


def test_a_webhook_that_is_not_in_the_way_stays_as_it_is() -> None:
    """A configuration that is opened may hold others."""
    (hook,) = webhooks.webhooks_of(configuration({**RULE, "operations": ["DELETE"]}))
    assert list(webhooks.adding(hook, ACCOUNT)) == []
