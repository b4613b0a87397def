"""Whether we have the rights to a whole run, asked before the operator is stopped.

Every authenticated user may create SelfSubjectAccessReviews (kubernetes.io/docs/reference/access-authn-authz/rbac,
``system:basic-user``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, NotAuthorised, first_of
from migrator.planning.patches import RANKS, RESOURCES, Patch
from migrator.resources import Resource
from migrator.run import record
from migrator.run.admission import ask
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE
from migrator.run.operator import Operator, OperatorFlags, lease_names
from migrator.store import Store

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_NAMED: Final = 8
_BLIND: Final = "it is not known whether an operator runs, and whether something refuses label changes (GM-122, GM-202)"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; an empty ``namespace`` is all of them, an empty ``name`` every object."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    without: str = field(default="", compare=False)  # the effect of its absence; empty if nothing works then

    def __str__(self) -> str:
        what = "/".join(filter(None, (self.resource.plural, self.subresource)))
        group = f".{self.resource.group}" if self.resource.group else ""
        named = f" {self.name}" if self.name else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {what}{group}{named}{where}"


def of_plan(kinds: Collection[Resource], home: str, namespace: str | None = None) -> tuple[Right, ...]:
    """The rights to ``plan`` all sets, or those of a ``namespace``; ``kinds`` are Grove's, ``home`` the operator's."""
    recorded = "the record of an earlier run and the operator's Lease are not known (GM-205, GM-122)"
    return (
        *_lists(kinds, namespace or ""),
        *((Right("list", resources.PODS, without=_BLIND),) if namespace else ()),
        _service(home),
        Right("get", resources.CONFIG_MAPS, namespace=home, without=recorded),
    )


def of_run(
    kinds: Collection[Resource], home: str, operator: Operator | None, flags: OperatorFlags
) -> tuple[Right, ...]:
    """The rights to ``run`` with ``--stop-operator``, whatever the sets are."""
    patched = ((RESOURCES[kind], part, "") for kind, part in RANKS if RESOURCES[kind] in {*kinds, resources.PODS})
    lists = (replace(right, without="") for right in _lists(kinds))
    rights = (*lists, *_of_writes(patched, home, operator, flags, stops_it=True), _service(home))
    return (*rights, Right("create", resources.EVENTS, without="no Events are written about the sets"))


def of_migration(patches: Iterable[Patch], home: str, operator: Operator | None, options: RunOptions) -> list[Right]:
    """The rights to a run that writes these patches."""
    patched = ((RESOURCES[patch.ref.kind], patch.subresource, patch.ref.namespace) for patch in patches)
    return _of_writes(patched, home, operator, options.flags, stops_it=options.stop_operator)


def _of_writes(
    patched: Iterable[tuple[Resource, str, str]],
    home: str,
    operator: Operator | None,
    flags: OperatorFlags,
    *,
    stops_it: bool,
) -> list[Right]:
    found: dict[Right, None] = {}
    for kind, part, namespace in patched:  # what was patched is read again after a conflict
        found |= dict.fromkeys((Right("patch", kind, part, namespace), Right("get", kind, "", namespace)))
    leases = (OWN_LEASE, *lease_names(operator, flags))
    rights = [
        *found,
        *(Right(verb, resources.LEASES, "", home, name) for name in leases for verb in ("get", "patch")),
        Right("create", resources.LEASES, "", home),
        *(Right(verb, resources.CONFIG_MAPS, "", home) for verb in ("get", "list", "create", "delete")),
        Right("patch", resources.CONFIG_MAPS, "", home, record.RUN_NAME),
    ]
    if operator is not None and operator.deployment and stops_it:
        rights.append(Right("get", resources.DEPLOYMENTS, "", operator.namespace, operator.deployment))
        rights.append(Right("patch", resources.DEPLOYMENTS, "scale", operator.namespace, operator.deployment))
    return rights


def _lists(kinds: Collection[Resource], where: str = "") -> Iterator[Right]:
    """The rights to list the sets and their objects, and what may prevent a run."""
    maps = resources.POD_GANG_MAPS in kinds  # without them the hashes in PodGangs are not known ones
    needed = {kind.qualified_name for kind in resources.HOLDERS if maps or kind != resources.POD_GANGS}
    unseen = "it is not known whether an operator keeps hashes there (GM-137)"
    for kind in kinds:
        without = "" if kind.qualified_name in needed else unseen
        yield Right("list", kind, namespace=where if kind.namespaced else "", without=without)
    yield Right("list", resources.PODS, namespace=where)
    yield Right("list", resources.DEPLOYMENTS, without=_BLIND)
    yield Right("list", resources.VALIDATING_WEBHOOK_CONFIGURATIONS, without=_BLIND)


def _service(home: str) -> Right:
    unseen = "an operator with other labels is not seen (GM-122)"
    return Right("get", resources.SERVICES, namespace=home, name="grove-operator", without=unseen)


def check(store: Store, rights: Sequence[Right], log: structlog.typing.FilteringBoundLogger) -> None:
    """Raise :class:`~migrator.errors.NotAuthorised` if a right is missing.

    Nothing is raised if the API server does not answer such questions: then the run finds out by itself.
    """
    try:
        missing = sorted(map(str, _missing(store, rights)))
    except (ApiError, NotAuthorised, LostReply) as error:
        log.info("rights_not_asked", error=str(error))
        return
    if missing:
        raise NotAuthorised(
            f"nothing was begun, because we may not {first_of(missing, _NAMED)}: grant it (manifests/job.yaml "
            "has all that a run needs), then run again"
        )


def _missing(store: Store, rights: Sequence[Right]) -> Iterator[Right]:
    """The rights that we lack; each namespace is asked about only if the answer for all namespaces is no."""
    everywhere: dict[Right, bool] = {}
    for right in rights:
        wide = replace(right, namespace="")
        if wide not in everywhere:
            everywhere[wide] = allowed(store, wide)
        if not everywhere[wide] and (wide == right or not allowed(store, right)):
            yield right


def allowed(store: Store, right: Right) -> bool:
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
