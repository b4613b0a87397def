"""Whether we have the permissions for a whole run, asked before the operator is stopped.

Every authenticated user may create SelfSubjectAccessReviews (kubernetes.io/docs/reference/access-authn-authz/rbac,
``system:basic-user``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, NotAuthorised, first_of
from migrator.planning.patches import RESOURCES, Patch
from migrator.resources import Resource
from migrator.run import record
from migrator.run.admission import ask
from migrator.run.leases import OWN_LEASE
from migrator.run.observation import Observation, pending
from migrator.run.operator import Operator, lease_names
from migrator.store import Store

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; an empty ``namespace`` is all of them, an empty ``name`` every object."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.resource.plural, self.subresource)))
        group = f".{self.resource.group}" if self.resource.group else ""
        named = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{group}{named}{where}"


def of_migration(patches: Iterable[Patch], home: str, operator: Operator | None, *, stops_it: bool) -> list[Right]:
    """The permissions for a run that writes these patches, and with ``stops_it`` scales the operator."""
    patched = ((RESOURCES[patch.ref.kind], patch.subresource, patch.ref.namespace) for patch in patches)
    found: dict[Right, None] = {}
    for kind, part, namespace in patched:  # what was patched is read again after a conflict
        found |= dict.fromkeys((Right("patch", kind, part, namespace), Right("get", kind, "", namespace)))
    leases = (OWN_LEASE, *lease_names(operator))
    rights = [
        *found,
        *(Right(verb, resources.LEASES, "", home, name) for name in leases for verb in ("get", "patch")),
        Right("create", resources.LEASES, "", home),
        *(Right(verb, resources.CONFIG_MAPS, "", home) for verb in ("get", "create")),
        *(Right(verb, resources.CONFIG_MAPS, "", home, record.RUN_NAME) for verb in ("patch", "delete")),
    ]
    if operator is not None and operator.deployment and stops_it:
        rights.append(Right("get", resources.DEPLOYMENTS, "", operator.namespace, operator.deployment))
        rights.append(Right("patch", resources.DEPLOYMENTS, "scale", operator.namespace, operator.deployment))
    return rights


def check_run(store: Store, seen: Observation, log: structlog.typing.FilteringBoundLogger) -> None:
    """Check the permissions for the run that an observation leads to, if that writes to a set."""
    if pending(seen.plan):
        stops_it = seen.options.stop_operator
        check(store, of_migration(seen.patches, seen.home, seen.operator, stops_it=stops_it), log)


def check(store: Store, rights: Sequence[Right], log: structlog.typing.FilteringBoundLogger) -> None:
    """Raise :class:`~migrator.errors.NotAuthorised` if a permission is missing.

    Nothing is raised if the API server does not answer such questions: then the run finds out by itself.
    """
    try:
        missing = sorted(map(str, _missing(store, rights)))
    except (ApiError, NotAuthorised, LostReply) as error:
        log.info("permission_check_skipped", error=str(error))
        return
    if missing:
        raise NotAuthorised(
            f"this account lacks permission to {first_of(missing, _NAMED)}: grant it (see manifests/job.yaml)"
        )


def _missing(store: Store, rights: Sequence[Right]) -> Iterator[Right]:
    """The permissions that we lack; each namespace is asked about only if the answer for all namespaces is no."""
    everywhere: dict[Right, bool] = {}
    for right in rights:
        wide = replace(right, namespace="")
        if wide not in everywhere:
            everywhere[wide] = _allowed(store, wide)
        if not everywhere[wide] and (wide == right or not _allowed(store, right)):
            yield right


def _allowed(store: Store, right: Right) -> bool:
    """Whether the API server would let us; nothing is stored."""
    attributes = {
        "verb": right.verb,
        "group": right.resource.group,
        "version": right.resource.version,
        "resource": right.resource.plural,
        "subresource": right.subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    asked = {"resourceAttributes": {key: value for key, value in attributes.items() if value}}
    allowed = ask(store, _REVIEWS, spec=asked).get("allowed")
    if not isinstance(allowed, bool):
        raise ApiError("the answer to a SelfSubjectAccessReview has no status.allowed")
    return allowed
