"""What an account asked of an API server, by its audit log, and what roles permit it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.controlplane.client import Object
from tests.cluster.site import NAMESPACE, USER, ServedSite, of_kind


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb on one resource, of one role; ``names`` are the objects to which it is limited, if it is."""

    role: str  # Role or ClusterRole
    verb: str
    group: str
    resource: str
    names: tuple[str, ...] = ()

    def covers(self, request: Object) -> bool:
        """Whether a request of the audit log is one that this permits."""
        what = request.get("objectRef") or {}
        resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
        return (
            (request["verb"], what.get("apiGroup", "")) == (self.verb, self.group)
            and self.resource in ("*", resource)
            and (self.role == "ClusterRole" or what.get("namespace") == NAMESPACE)
            and (not self.names or what.get("name") in self.names)
        )


def grants(objects: Sequence[Object]) -> list[Grant]:
    """Everything that the roles among objects permit, one by one."""
    return [
        Grant(role["kind"], verb, group, resource, tuple(rule.get("resourceNames", ())))
        for role in of_kind(objects, "Role", "ClusterRole")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def asked(site: ServedSite, user: str = USER) -> list[Object]:
    """The requests of an account so far that are answered, apart from discovery."""
    log = site.server.audit_log.read_text(encoding="utf-8")
    return [
        item
        for item in map(json.loads, log.splitlines())
        if item["user"]["username"] == user
        and item["stage"] == "ResponseComplete"
        and "objectRef" in item  # discovery has none
    ]


def used(requests: Sequence[Object], granted: Sequence[Grant]) -> set[Grant]:
    """The grants that requests needed; asserts that each was allowed, and that none is beyond the grants."""
    found = set()
    for request in requests:
        assert request["annotations"]["authorization.k8s.io/decision"] == "allow", request
        covering = [grant for grant in granted if grant.covers(request)]
        assert covering, (request["verb"], request["objectRef"])
        found.update(covering)
    return found
