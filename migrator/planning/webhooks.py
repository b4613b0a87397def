"""The operator's webhooks that would reject our writes while it is at zero, and how an account is left out. Pure.

From alpha.14 on ``podclique-validating-webhook`` matches every update of a PodClique; with the authorizer on so does
``authorizer-webhook``, for pods too. Both fail closed, and the operator serves both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from migrator.exact_json import JSONObject
from migrator.grove.places import RANKS
from migrator.kinds import VALIDATING_WEBHOOK_CONFIGURATIONS as CONFIGURATIONS
from migrator.kinds import Op, Resource, pointer
from migrator.planning.guards.operators import WEBHOOK
from migrator.planning.model import Finding
from migrator.planning.patches import RESOURCES

CONDITION: Final = "grove-migrator"

#: The configurations that we may change (``operator/charts/templates``), and the one that shows where the operator is.
OPENED: Final = ("podclique-validating-webhook", "authorizer-webhook")
_OF_SETS: Final = "podcliqueset-validating-webhook"

_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration, at its place in it."""

    configuration: str
    place: int
    name: str
    service: tuple[str, str] | None  # namespace and name
    fails_closed: bool
    rules: tuple[JSONObject, ...]
    conditions: tuple[JSONObject, ...]

    @property
    def matches_us(self) -> bool:
        """Whether its rules match a write as a run makes it; selectors are not judged."""
        return any(_matches(rule, RESOURCES[kind], sub) for rule in self.rules for kind, sub in RANKS)

    def leaves_out(self, account: str) -> bool:
        """Whether a condition keeps this account's requests away from it."""
        return any(one.get("expression") == expression(account) for one in self.conditions)

    @property
    def ours(self) -> list[int]:
        """The places of the conditions of our name."""
        return [place for place, one in enumerate(self.conditions) if one.get("name") == CONDITION]


def webhooks_of(raw: JSONObject) -> list[Webhook]:
    """The webhooks of a configuration, in their order."""
    name = str(raw["metadata"]["name"])
    return [
        Webhook(
            configuration=name,
            place=place,
            name=str(one.get("name")),
            service=_service(one),
            fails_closed=one.get("failurePolicy") != "Ignore",
            rules=tuple(one.get("rules") or ()),
            conditions=tuple(one.get("matchConditions") or ()),
        )
        for place, one in enumerate(raw.get("webhooks") or ())
    ]


def _service(raw: JSONObject) -> tuple[str, str] | None:
    service = raw["clientConfig"].get("service")
    return (str(service.get("namespace")), str(service.get("name"))) if service else None


def expression(account: str) -> str:
    """The condition that leaves one account out; the account as a CEL string."""
    quoted = account.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"request.userInfo.username != '{quoted}'"


def operator_namespace(webhooks: Iterable[Webhook]) -> str | None:
    """Where the operator is by its own webhook of PodCliqueSets, if that is there."""
    return next((namespace for namespace, _ in _operators(webhooks)), None)


def in_the_way(webhooks: Sequence[Webhook], home: str | None, account: str) -> list[Webhook]:
    """The webhooks of the operator in that namespace that reject our writes while it is at zero.

    They are served by the Service of its webhook of PodCliqueSets. If that is not there, any Service in its namespace
    may be the operator's.
    """
    known = {service for service in _operators(webhooks) if service[0] == home}
    return [
        one
        for one in webhooks
        if one.fails_closed
        and one.service is not None
        and (one.service in known if known else one.service[0] == home)
        and one.matches_us
        and not one.leaves_out(account)
    ]


def _operators(webhooks: Iterable[Webhook]) -> list[tuple[str, str]]:
    return [one.service for one in webhooks if one.configuration == _OF_SETS and one.service is not None]


def names(webhooks: Iterable[Webhook]) -> frozenset[str]:
    """The names of the webhooks that a run may open; until it has done so, their denials are no refusal."""
    return frozenset(one.name for one in webhooks if one.configuration in OPENED)


def findings(blocking: Sequence[Webhook], account: str, *, allowed: bool) -> Iterator[Finding]:
    """GM-202 for each webhook in the way; with ``--allow GM-202`` a warning for those that the run opens."""
    for one in blocking:
        message = f"webhook {one.name} of the operator must approve our writes, and cannot once the operator is stopped"
        ops = f"[{','.join(op.text for op in adding(one, account))}]"
        remedy = (
            "leave this account out of it until the migration has ended: "
            f"`kubectl patch {CONFIGURATIONS.plural} {one.configuration} --type=json -p {shlex.quote(ops)}`"
        )
        opens = one.configuration in OPENED
        found = WEBHOOK.found(None, None, message, remedy, overridable=opens)
        yield found.as_warning if opens and allowed else found


def adding(one: Webhook, account: str) -> Iterator[Op]:
    """What adds our condition to a webhook that matches our writes, in place of a stale one of another account."""
    if not one.matches_us:
        return
    condition = {"name": CONDITION, "expression": expression(account)}
    yield Op("test", pointer("webhooks", one.place, "name"), one.name)
    yield from removing(one)
    if one.conditions:
        yield Op("add", pointer("webhooks", one.place, "matchConditions", "-"), condition)
    else:
        yield Op("add", pointer("webhooks", one.place, "matchConditions"), [condition])


def removing(one: Webhook) -> Iterator[Op]:
    """What removes every condition of our name."""
    for place in reversed(one.ours):
        yield Op("test", pointer("webhooks", one.place, "name"), one.name)
        yield Op("test", pointer("webhooks", one.place, "matchConditions", place, "name"), CONDITION)
        yield Op("remove", pointer("webhooks", one.place, "matchConditions", place))


def _matches(rule: Mapping[str, Any], resource: Resource, subresource: str) -> bool:
    """Whether a rule matches an update (``k8s.io/apiserver`` ``pkg/admission/plugin/webhook/predicates/rules``)."""
    within = (
        ("operations", "UPDATE"),
        ("apiGroups", resource.group),
        ("apiVersions", resource.version),
    )
    if not all({_ANY, value} & set(rule[name]) for name, value in within) or rule.get("scope") == "Cluster":
        return False
    # In a rule, `*` is every resource, and every subresource only after a slash.
    plain = {(found.partition("/")[0], found.partition("/")[2]) for found in rule["resources"]}
    return any(kind in {_ANY, resource.plural} and sub in {_ANY, subresource} for kind, sub in plain)
