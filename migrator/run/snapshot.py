"""Read the cluster, or a dump of it, once: every kind in one list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from migrator import kinds
from migrator.cluster import Cluster
from migrator.errors import Forbidden, NotAuthorised, NotFound
from migrator.exact_json import JSONObject, integer
from migrator.grove import parse, trees
from migrator.grove.objects import LABEL_POD_CLIQUE, Pod, PodClique, Snapshot
from migrator.grove.places import GROUPS, HashSearch
from migrator.kinds import Resource

T = TypeVar("T")


def read_snapshot(cluster: Cluster, *, search: bool = False, namespace: str | None = None) -> Snapshot:
    """List each kind once, in the whole cluster, and join the objects.

    If the whole cluster may not be read, only ``namespace`` is read, if one is given; ``Snapshot.only`` names it.

    No Grove CRDs means no sets. A kind that holds no known hash and cannot be listed is named in
    ``forbidden_kinds``; of one namespace PodGangMaps and PodGangs, too. Any other failure to read is raised: an API
    outage must never look like "no pods". With ``search`` each object is searched for hashes in places that are not
    known. Raises :class:`~migrator.errors.IncompleteDump` where a dump lacks what its sets must have.
    """
    try:
        return _read_kinds(cluster, search=search)
    except NotAuthorised:
        if namespace is None:
            raise
        return replace(_read_kinds(cluster, search=search, only=namespace), only=namespace)


def _read_kinds(cluster: Cluster, *, search: bool, only: str | None = None) -> Snapshot:
    lists = _Lists(cluster, only, search=search)
    try:
        sets = lists.read(kinds.POD_CLIQUE_SETS, parse.pod_clique_set)
    except NotFound:
        return Snapshot(trees=(), is_cluster=cluster.is_cluster, installed=False)
    gang_maps = lists.read_if_there(kinds.POD_GANG_MAPS, parse.pod_gang_map, needed=only is None)
    groups = lists.read(kinds.POD_CLIQUE_SCALING_GROUPS, parse.scaling_group)
    # If there are maps, PodGangs hold a hash that the migration rewrites, so a run must read them.
    gangs = lists.read_if_there(kinds.POD_GANGS, parse.pod_gang, needed=bool(gang_maps) and only is None)
    cliques = lists.read(kinds.POD_CLIQUES, parse.pod_clique)
    pods = lists.read(kinds.PODS, parse.pod)
    lists.refuse()
    pods += _unlabelled(cluster, cliques, pods)
    objects = trees.Objects(sets=sets, groups=groups, cliques=cliques, pods=pods, gang_maps=gang_maps, gangs=gangs)
    others = (kind for group in GROUPS for kind in cluster.kinds(group) if kind not in kinds.HOLDERS)
    for kind in others if search else ():
        lists.read_if_there(kind, lambda _raw: None, needed=False)  # only its strings are searched
    snapshot = replace(
        trees.build(objects, is_cluster=cluster.is_cluster),
        possible_hashes=lists.swept.possible_hashes,
        forbidden_kinds=tuple(lists.forbidden_kinds),
    )
    if not cluster.is_cluster:
        trees.check_complete(snapshot)
        snapshot = replace(snapshot, missing_kinds=trees.missing_kinds(snapshot))
    return snapshot


class _Lists:
    """Lists kinds; what may not be listed is collected, so that all missing permissions are told at once."""

    def __init__(self, cluster: Cluster, only: str | None, *, search: bool) -> None:
        self._cluster, self._only, self._search = cluster, only, search
        self._refused: dict[str, Forbidden] = {}
        self.swept = HashSearch()
        self.forbidden_kinds: list[str] = []

    def read(self, resource: Resource, project: Callable[[JSONObject], T]) -> tuple[T, ...]:
        """The objects of a kind that must be there; of pods the metadata."""
        try:
            return self._cluster.list(
                resource,
                self.swept.searching(project) if self._search else project,
                namespace=self._only if resource.namespaced else None,
                # From alpha.12-rc1 on Grove finds them by their controller, so see :func:`_unlabelled`.
                label_selector=LABEL_POD_CLIQUE if resource == kinds.PODS else None,
                metadata_only=resource == kinds.PODS,
            )
        except Forbidden as error:
            self._refused[resource.qualified_name] = error
            return ()

    def read_if_there(self, resource: Resource, project: Callable[[JSONObject], T], *, needed: bool) -> tuple[T, ...]:
        """Those of a kind that some releases do not have; one that is not ``needed`` may be forbidden, too."""
        try:
            found = self.read(resource, project)
        except NotFound:
            return ()
        if not needed and self._refused.pop(resource.qualified_name, None) is not None:
            self.forbidden_kinds.append(resource.qualified_name)
        return found

    def refuse(self) -> None:
        """Raise :class:`~migrator.errors.Forbidden` if a kind may not be listed that must be."""
        if self._refused:
            first, *others = self._refused
            also = f". It cannot list {', '.join(others)} either" if others else ""
            raise Forbidden(f"{self._refused[first]}{also}")


def _unlabelled(cluster: Cluster, cliques: Sequence[PodClique], pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """The pods that a PodClique controls though they lack the label by which pods are listed; a guard refuses them.

    A namespace is searched only if a PodClique counts more pods there than were listed. If none is found, the count is
    late: the operator is at zero, or a pod has just gone.
    """
    # Grove does not count one that ends.
    seen = Counter((pod.ref.namespace, pod.owner_uid) for pod in pods if not pod.terminating)
    counted = ((item.ref.namespace, item.ref.uid, integer(item.status.get("replicas"))) for item in cliques)
    short = {namespace for namespace, uid, count in counted if count > seen[namespace, uid]}
    uids = {clique.ref.uid for clique in cliques}
    found = (cluster.list(kinds.PODS, parse.pod, namespace=name, metadata_only=True) for name in sorted(short))
    return tuple(pod for pod in chain.from_iterable(found) if pod.pod_clique_label is None and pod.owner_uid in uids)
