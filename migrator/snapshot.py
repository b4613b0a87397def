"""From raw objects to trees: what one attempt decides upon, from one set of lists.

Objects are joined by owner references and cross-checked by labels, never by splitting names
(Grove: ``operator/api/common/namegen.go`` joins with ``-``, which names may contain).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from migrator import store as resources
from migrator.errors import IncompleteDump, InputError, NotFound
from migrator.jsonvalue import JSONObject
from migrator.model import (
    LABEL_MANAGED_BY,
    LABEL_POD_CLIQUE,
    LABEL_POD_TEMPLATE_HASH,
    MANAGED_BY_GROVE,
    Orphan,
    Pod,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodGang,
    PodGangMap,
    Ref,
    Snapshot,
    Tree,
)
from migrator.store import Listing, Resource, Store

T = TypeVar("T")
Owned = TypeVar("Owned", PodCliqueScalingGroup, PodGangMap, PodGang)

_MANAGED: Final = f"{LABEL_MANAGED_BY}={MANAGED_BY_GROVE}"


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one set of lists, trimmed."""

    sets: tuple[PodCliqueSet, ...] = ()
    groups: tuple[PodCliqueScalingGroup, ...] = ()
    cliques: tuple[PodClique, ...] = ()
    pods: tuple[Pod, ...] = ()
    gang_maps: tuple[PodGangMap, ...] = ()
    gangs: tuple[PodGang, ...] = ()


def take(store: Store) -> Snapshot:
    """List each kind once, whole cluster, and join what was read.

    No Grove CRDs means no trees. Any other failure to read is raised: an API outage must never look like
    "no pods". Raises :class:`~migrator.errors.IncompleteDump` where a dump lacks what its sets must have.
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
        sets = read(resources.POD_CLIQUE_SETS, project_set)
    except NotFound:
        return Snapshot(trees=(), is_cluster=store.is_cluster)
    gang_maps = _if_installed(lambda: read(resources.POD_GANG_MAPS, project_gang_map))
    objects = Objects(
        sets=sets,
        groups=read(resources.POD_CLIQUE_SCALING_GROUPS, project_group),
        cliques=read(resources.POD_CLIQUES, project_clique),
        pods=read(resources.PODS, project_pod, selector=_MANAGED, metadata_only=True),
        gang_maps=gang_maps,
        gangs=read(resources.POD_GANGS, project_gang, metadata_only=True) if gang_maps else (),
    )
    snapshot = build(objects, is_cluster=store.is_cluster)
    if not store.is_cluster:
        check_complete(snapshot)
    return replace(snapshot, resource_versions=versions)


def build(objects: Objects, *, is_cluster: bool = True) -> Snapshot:
    """Join objects to trees. What belongs to nobody is reported as an orphan, not guessed."""
    orphans: list[Orphan] = []
    clique_uids = {clique.ref.uid for clique in objects.cliques}
    group_owner = {group.ref.uid: group.owner_uid for group in objects.groups}
    set_uids = {pcs.ref.uid for pcs in objects.sets}

    pods: dict[str, list[Pod]] = defaultdict(list)
    for pod in objects.pods:
        if pod.owner_uid in clique_uids:
            pods[pod.owner_uid].append(pod)
        else:
            orphans.append(Orphan(pod.ref, "its controller is no PodClique that was read"))

    def of_sets(items: Iterable[Owned]) -> Mapping[str, list[Owned]]:
        owned: dict[str, list[Owned]] = defaultdict(list)
        for item in sorted(items, key=_by_ref):
            if item.owner_uid in set_uids:
                owned[item.owner_uid].append(item)
            else:
                orphans.append(Orphan(item.ref, "its controller is no PodCliqueSet that was read"))
        return owned

    groups, gang_maps, gangs = of_sets(objects.groups), of_sets(objects.gang_maps), of_sets(objects.gangs)

    cliques: dict[str, list[PodClique]] = defaultdict(list)
    for clique in objects.cliques:
        owner = group_owner.get(clique.owner_uid or "", clique.owner_uid)
        if owner in set_uids:
            own = tuple(sorted(pods.get(clique.ref.uid, ()), key=_by_ref))
            cliques[owner].append(replace(clique, pods=own))
        else:
            orphans.append(Orphan(clique.ref, "its controller is no PodCliqueSet or scaling group that was read"))

    trees = tuple(
        Tree(
            pcs=pcs,
            scaling_groups=tuple(groups.get(pcs.ref.uid, ())),
            pod_cliques=tuple(sorted(cliques.get(pcs.ref.uid, ()), key=_by_ref)),
            pod_gang_maps=tuple(gang_maps.get(pcs.ref.uid, ())),
            pod_gangs=tuple(gangs.get(pcs.ref.uid, ())),
        )
        for pcs in sorted(objects.sets, key=_by_ref)
    )
    return Snapshot(trees=trees, orphans=tuple(orphans), is_cluster=is_cluster)


def check_complete(snapshot: Snapshot) -> None:
    """Refuse a dump that lacks objects which its PodCliqueSets must have.

    Raises :class:`~migrator.errors.IncompleteDump`, naming the first such object.
    """
    for tree in snapshot.trees:
        pcs = tree.pcs
        if pcs.generation_hash is None or pcs.terminating or not _count(pcs.spec.get("replicas")):
            continue
        if not tree.pod_cliques:
            raise _incomplete(pcs.ref, "none of its PodCliques", "podcliques")
        if pcs.template.get("podCliqueScalingGroups") and not tree.scaling_groups:
            raise _incomplete(pcs.ref, "none of its PodCliqueScalingGroups", "podcliquescalinggroups")
        for clique in tree.pod_cliques:
            if _count(clique.status.get("replicas")) and not clique.pods:
                raise _incomplete(clique.ref, "none of its pods", "pods")


def project_set(raw: JSONObject) -> PodCliqueSet:
    """Keep what a PodCliqueSet's hashes and guards need."""
    meta = _metadata(raw)
    return PodCliqueSet(
        ref=_ref(raw, meta),
        labels=_strings(raw, meta, "labels"),
        annotations=_strings(raw, meta, "annotations"),
        generation=_count(meta.get("generation")),
        terminating=bool(meta.get("deletionTimestamp")),
        spec=_part(raw, "spec"),
        status=_part(raw, "status"),
    )


def project_group(raw: JSONObject) -> PodCliqueScalingGroup:
    """Keep what a scaling group's hashes and guards need."""
    meta = _metadata(raw)
    return PodCliqueScalingGroup(
        ref=_ref(raw, meta),
        owner_uid=_controller(meta),
        labels=_strings(raw, meta, "labels"),
        generation=_count(meta.get("generation")),
        terminating=bool(meta.get("deletionTimestamp")),
        spec=_part(raw, "spec"),
        status=_part(raw, "status"),
    )


def project_clique(raw: JSONObject) -> PodClique:
    """Keep what a PodClique's hashes and guards need: its pod spec is never hashed, so it goes."""
    meta = _metadata(raw)
    spec = {key: value for key, value in _part(raw, "spec").items() if key != "podSpec"}
    return PodClique(
        ref=_ref(raw, meta),
        owner_uid=_controller(meta),
        labels=_strings(raw, meta, "labels"),
        generation=_count(meta.get("generation")),
        terminating=bool(meta.get("deletionTimestamp")),
        spec=spec,
        status=_part(raw, "status"),
    )


def project_pod(raw: JSONObject) -> Pod:
    """Keep a pod's hash, owner and age; the rest of its labels as a digest."""
    meta = _metadata(raw)
    labels = _strings(raw, meta, "labels")
    value = labels.get(LABEL_POD_TEMPLATE_HASH)
    owner = _controller(meta)
    return Pod(
        ref=_ref(raw, meta),
        owner_uid=sys.intern(owner) if owner else None,
        template_hash=sys.intern(value) if value else None,
        created=str(meta.get("creationTimestamp") or ""),
        terminating=bool(meta.get("deletionTimestamp")),
        pod_clique_label=labels.get(LABEL_POD_CLIQUE),
        other_labels=hash(frozenset(item for item in labels.items() if item[0] != LABEL_POD_TEMPLATE_HASH)),
    )


def project_gang_map(raw: JSONObject) -> PodGangMap:
    """Keep a PodGangMap's entries."""
    meta = _metadata(raw)
    return PodGangMap(
        ref=_ref(raw, meta),
        owner_uid=_controller(meta),
        labels=_strings(raw, meta, "labels"),
        terminating=bool(meta.get("deletionTimestamp")),
        spec=_part(raw, "spec"),
    )


def project_gang(raw: JSONObject) -> PodGang:
    """Keep a PodGang's labels."""
    meta = _metadata(raw)
    return PodGang(
        ref=_ref(raw, meta),
        owner_uid=_controller(meta),
        labels=_strings(raw, meta, "labels"),
        terminating=bool(meta.get("deletionTimestamp")),
    )


def _if_installed(read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
    try:
        return read()
    except NotFound:
        return ()


def _by_ref(
    item: PodCliqueSet | PodClique | Pod | PodCliqueScalingGroup | PodGangMap | PodGang,
) -> tuple[str, str]:
    return item.ref.namespace, item.ref.name


def _ref(raw: JSONObject, meta: Mapping[str, Any]) -> Ref:
    kind, name = str(raw.get("kind", "")), meta.get("name")
    if not isinstance(name, str) or not name:
        raise InputError(f"a {kind or 'document'} has no metadata.name")
    uid = meta.get("uid")
    if not isinstance(uid, str) or not uid:
        raise InputError(f"{kind} {name} has no metadata.uid: a dump of live objects is needed, not a manifest")
    return Ref(kind, sys.intern(str(meta.get("namespace") or "default")), name, uid)


def _metadata(raw: JSONObject) -> Mapping[str, Any]:
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        raise InputError(f"a {raw.get('kind') or 'document'} has no metadata")
    return meta


def _part(raw: JSONObject, key: str) -> Mapping[str, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"{_describe(raw)}: {key} is not an object")
    return value


def _strings(raw: JSONObject, meta: Mapping[str, Any], key: str) -> Mapping[str, str]:
    value = meta.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
        raise InputError(f"{_describe(raw)}: metadata.{key} is not a map of strings")
    return value


def _describe(raw: JSONObject) -> str:
    meta = raw.get("metadata") or {}
    return f"{raw.get('kind')} {meta.get('namespace') or 'default'}/{meta.get('name')}"


def _controller(meta: Mapping[str, Any]) -> str | None:
    owners: Iterable[Any] = meta.get("ownerReferences") or ()
    for owner in owners:
        if isinstance(owner, Mapping) and owner.get("controller") is True:
            uid = owner.get("uid")
            return uid if isinstance(uid, str) else None
    return None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _incomplete(ref: Ref, lacking: str, plural: str) -> IncompleteDump:
    return IncompleteDump(
        f"incomplete dump: {ref} is there, but {lacking} ({plural}); dump again with "
        "`kubectl get podcliquesets,podcliques,podcliquescalinggroups,pods -A -o yaml`"
    )
