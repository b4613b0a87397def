"""Read the cluster, or a dump of it, once: every kind in one list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from migrator import resources
from migrator.errors import NotFound
from migrator.exact_json import JSONObject
from migrator.grove import parsing
from migrator.grove.model import LABEL_MANAGED_BY, MANAGED_BY_GROVE, Snapshot
from migrator.grove.trees import Objects, build, check_complete, check_distinct
from migrator.resources import Resource
from migrator.store import Listing, Store

T = TypeVar("T")

_MANAGED: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY_GROVE}"


def take(store: Store) -> Snapshot:
    """List each kind once, whole cluster, and join what was read.

    No Grove CRDs means no trees. Any other failure to read is raised: an API outage must never look like
    "no pods". Raises :class:`~migrator.errors.IncompleteDump` where a dump lacks what its sets must have, and
    :class:`~migrator.errors.InputError` where it tells of one object twice.
    """
    versions: dict[str, str] = {}

    def read(
        resource: Resource,
        project: Callable[[JSONObject], T],
        *,
        selector: str | None = None,
        metadata_only: bool = False,
    ) -> tuple[T, ...]:
        listing: Listing[T] = store.list(resource, project, label_selector=selector, metadata_only=metadata_only)
        versions[resource.qualified_name] = listing.resource_version
        return listing.items

    try:
        sets = read(resources.POD_CLIQUE_SETS, parsing.pod_clique_set)
    except NotFound:
        return Snapshot(trees=(), is_cluster=store.is_cluster)
    gang_maps = _if_installed(lambda: read(resources.POD_GANG_MAPS, parsing.pod_gang_map))
    objects = Objects(
        sets=sets,
        groups=read(resources.POD_CLIQUE_SCALING_GROUPS, parsing.scaling_group),
        cliques=read(resources.POD_CLIQUES, parsing.pod_clique),
        pods=read(resources.PODS, parsing.pod, selector=_MANAGED, metadata_only=True),
        gang_maps=gang_maps,
        gangs=read(resources.POD_GANGS, parsing.pod_gang, metadata_only=True) if gang_maps else (),
    )
    snapshot = build(objects, is_cluster=store.is_cluster)
    if not store.is_cluster:
        check_distinct(objects)
        check_complete(snapshot)
    return replace(snapshot, resource_versions=versions)


def _if_installed(read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    try:
        return read()
    except NotFound:
        return ()
