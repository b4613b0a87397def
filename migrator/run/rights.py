"""Whether we may do all that a run is going to do: asked before anything is disturbed.

A right that is missing would otherwise show in the middle of a run, with the operator stopped and half of a set
written. Asked are SelfSubjectAccessReviews, which every authenticated user may create
(kubernetes.io/docs/reference/access-authn-authz/rbac, ``system:basic-user``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from migrator import resources
from migrator.errors import ApiError, LostReply, NotAuthorised
from migrator.planning.patches import RESOURCES, Patch
from migrator.resources import Resource
from migrator.run import record
from migrator.run.admission import ask
from migrator.run.context import RunOptions
from migrator.run.leases import OWN_LEASE
from migrator.run.operator import Flags, Operator, lease_names
from migrator.store import Store

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_NAMED: Final = 8
_BLIND: Final = "it is not seen whether an operator runs, and what refuses label changes (GM-122, GM-202)"

#: What a run patches: an object, or its status.
_PATCHED: Final = (
    (resources.PODS, ""),
    (resources.POD_CLIQUES, ""),
    (resources.POD_CLIQUES, "status"),
    (resources.POD_CLIQUE_SCALING_GROUPS, "status"),
    (resources.POD_GANG_MAPS, ""),
    (resources.POD_GANGS, ""),
    (resources.POD_CLIQUE_SETS, "status"),
)
#: Kinds without which nothing is known of a set, by their qualified names; PodGangs where there are PodGangMaps.
_NEEDED: Final = frozenset(
    {"podcliquesets.grove.io", "podcliquescalinggroups.grove.io", "podcliques.grove.io", "podgangmaps.grove.io"}
)


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


@dataclass(frozen=True, slots=True)
class Need:
    """A right, and what goes on without it; ``without`` is empty where nothing does."""

    right: Right
    without: str = ""


def of_plan(kinds: Iterable[Resource], home: str, namespace: str | None = None) -> tuple[Need, ...]:
    """What ``plan`` takes; ``kinds`` are all of Grove's, ``home`` is the operator's namespace.

    With a ``namespace`` these are the rights to plan its sets alone, and what is not seen otherwise.
    """
    recorded = "it is not seen what an earlier run recorded, and by which Lease the operator elects (GM-205, GM-122)"
    return (
        *_lists(kinds, namespace or ""),
        *((Need(Right("list", resources.PODS), _BLIND),) if namespace else ()),
        _service(home),
        Need(Right("get", resources.CONFIG_MAPS, namespace=home), recorded),
    )


def of_run(kinds: Iterable[Resource], home: str, operator: Operator | None, flags: Flags) -> tuple[Need, ...]:
    """What ``run`` takes, with ``--stop-operator`` and whatever the sets are."""
    known = tuple(kinds)
    patched = ((kind, part, "") for kind, part in _PATCHED if not kind.group or kind in known)
    rights = (*(need.right for need in _lists(known)), *of_writes(patched, home, operator, flags))
    events = Need(Right("create", resources.EVENTS), "no Events are written about the sets")
    return (*map(Need, rights), _service(home), events)


def of_migration(patches: Iterable[Patch], home: str, operator: Operator | None, options: RunOptions) -> list[Right]:
    """What a run takes to write these patches."""
    patched = ((RESOURCES[patch.ref.kind], patch.subresource, patch.ref.namespace) for patch in patches)
    return of_writes(patched, home, operator, options.flags, stops_it=options.stop_operator)


def of_writes(
    patched: Iterable[tuple[Resource, str, str]],
    home: str,
    operator: Operator | None,
    flags: Flags,
    *,
    stops_it: bool = True,
) -> list[Right]:
    """What is written: kinds, subresources and namespaces that are patched, Leases, record and operator.

    Each object is read again after a conflict. Leases and record are in ``home``.
    """
    found: dict[Right, None] = {}
    for kind, part, namespace in patched:
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


def _lists(kinds: Iterable[Resource], where: str = "") -> Iterator[Need]:
    """What shows the sets, and what stands in the way of a run."""
    known = tuple(kinds)
    needed = _NEEDED | ({resources.POD_GANGS.qualified_name} if resources.POD_GANG_MAPS in known else set())
    for kind in known:
        unseen = (
            "" if kind.qualified_name in needed else "it is not seen whether an operator keeps hashes there (GM-137)"
        )
        yield Need(Right("list", kind, namespace=where if kind.namespaced else ""), unseen)
    yield Need(Right("list", resources.PODS, namespace=where))
    yield Need(Right("list", resources.DEPLOYMENTS), _BLIND)
    yield Need(Right("list", resources.VALIDATING_WEBHOOK_CONFIGURATIONS), _BLIND)


def _service(home: str) -> Need:
    right = Right("get", resources.SERVICES, namespace=home, name="grove-operator")
    return Need(right, "an operator under labels of its own is not seen (GM-122)")


def check(store: Store, rights: Sequence[Right], log: structlog.typing.FilteringBoundLogger) -> None:
    """Raise :class:`~migrator.errors.NotAuthorised` naming every right that is missing.

    Where the API server does not answer such questions nothing is raised: the run finds out by itself.
    """
    try:
        missing = sorted(map(str, _missing(store, rights)))
    except (ApiError, NotAuthorised, LostReply) as error:
        log.info("rights_not_asked", error=str(error))
        return
    if missing:
        named = "; ".join(missing[:_NAMED])
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise NotAuthorised(
            f"nothing was begun, because we may not {named}{more}: grant it (manifests/base/rbac.yaml has all that a "
            "run needs), then run again"
        )


def _missing(store: Store, rights: Sequence[Right]) -> Iterator[Right]:
    """One question for all namespaces; only where the answer is no, one for each namespace."""
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
