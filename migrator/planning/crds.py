"""The CRDs of Grove that cannot be served at the same time, and the commands that change them (GM-312). Pure.

A short name belongs to one kind of an API group. A CRD that claims a name that is taken is not established, so the
API server does not serve it and discovery does not show it (Kubernetes, ``apiextensions-apiserver/pkg/controller``:
``status/naming_controller.go``). Helm never deletes a CRD, so that of a former kind stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from migrator.grove.objects import Ref
from migrator.planning.model import Advice, KnownIssue
from migrator.planning.verification import Problem
from migrator.releases.table import Named, is_before

CLASHING: Final = KnownIssue(
    code="GM-312",
    title="Two CRDs claim one short name",
    effect="while the old CRD exists, the API server does not serve the new one, without which the next operator exits",
    source="Grove issue 801, fixed by PR 812",
    remedy="delete the CRD of the release that you leave, with the command that `plan` prints",
    confidence="tried with both operators",
)
#: The API group of both kinds.
GROUP: Final = "grove.io"


@dataclass(frozen=True, slots=True)
class TopologyKind:
    """A kind that describes topologies, and its CRD's short name, in the builds from ``since`` on.

    The operator ends at its start if the kind is not served: ``operator/cmd/main.go`` calls
    ``operator/internal/clustertopology/clustertopology.go:SynchronizeTopology``, which reads or deletes such objects.
    """

    since: str
    kind: str
    plural: str
    short_name: str

    @property
    def crd(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"


#: By build, oldest first; builds before the first have none. Grove: ``operator/api/core/v1alpha1/crds``, line 14, at
#: 095d5297 (``grove.io_clustertopologies.yaml``) and at f40687ad (``grove.io_clustertopologybindings.yaml``); PR 812.
TOPOLOGY_KINDS: Final = (
    TopologyKind("v0.1.0-alpha.4", "ClusterTopology", "clustertopologies", "ct"),
    TopologyKind("v0.1.0-alpha.9", "ClusterTopologyBinding", "clustertopologybindings", "ct"),
    TopologyKind("v0.1.0-alpha.13", "ClusterTopologyBinding", "clustertopologybindings", "ctb"),
)


def topology_kind(build: str) -> TopologyKind | None:
    """The kind that a build needs; ``None`` for builds before alpha.4."""
    return next((kind for kind in reversed(TOPOLOGY_KINDS) if not is_before(build, kind.since)), None)


def _needed_and_clashing(
    target: Named, served: Mapping[str, str] | None, sources: Collection[str] = ()
) -> tuple[TopologyKind | None, TopologyKind | None]:
    """The kind that the target needs, ``None`` if its builds differ, and another one that is there with its short name.

    ``served`` are the plurals of a cluster by short name. Without it, for a dump, the ``sources`` that may be running
    show what is there.
    """
    kinds, there = set(map(topology_kind, target.builds)), set(map(topology_kind, sources))
    if served is not None:
        there = {kind for kind in TOPOLOGY_KINDS if served.get(kind.short_name) == kind.plural}
    needed = kinds.pop() if len(kinds) == 1 else None
    others = (one for one in there if one and needed and one != needed and one.short_name == needed.short_name)
    return needed, next(others, None)


def advise(target: Named, served: Mapping[str, str] | None, sources: Collection[str] = ()) -> Iterator[Advice]:
    """The known issue, if the CRD that the target needs clashes with one that is there; see `_needed_and_clashing`."""
    needed, clashing = _needed_and_clashing(target, served, sources)
    if needed is not None and clashing is not None:
        remedy = (
            "once `run` has ended with 0, save its objects, delete it with them, and recreate by hand those that "
            f"you need, as {needed.kind}: `{removal(clashing)}`"
        )
        yield CLASHING.advice(Ref("CustomResourceDefinition", "", clashing.crd), remedy=remedy)


def removal(kind: TopologyKind) -> str:
    """The command that saves the objects of a kind, and then deletes its CRD and with it these objects.

    It appends to the file: if it is run again, when nothing is left to save, what is in it stays.
    """
    return f"kubectl get {kind.crd} -o yaml >> {kind.plural}.yaml && kubectl delete crd {kind.crd}"


def application(version: str) -> str:
    """The command that applies the CRDs of Grove in a version of Grove's chart, or of one that has it as a subchart.

    Other CRDs of such a chart, Dynamo's and KAI's, have files of other names. Helm 4.2.1 to 4.2.3 print on stdout what
    they pull (Helm issue 32215), so nothing that Helm prints is read.
    """
    return (
        f'CRDS=$(mktemp -d) && helm pull "$CHART" --version {version} --untar --untardir "$CRDS" && '
        """find "$CRDS" -name '*grove.io_*.yaml' -exec cat {} + | kubectl apply --server-side --force-conflicts -f -"""
    )


def steps(target: Named, served: Mapping[str, str]) -> tuple[str, ...]:
    """The commands between a run and an operator of the target, on a cluster that serves these kinds."""
    _, clashing = _needed_and_clashing(target, served)
    return (*([removal(clashing)] if clashing is not None else []), application(target.chart_version))


def problems_of(target: Named, served: Mapping[str, str]) -> Iterator[Problem]:
    """The CRD without which an operator of the target does not start, if it is not served.

    It stays so while another CRD has its short name.
    """
    needed, clashing = _needed_and_clashing(target, served)
    if needed is None or needed.plural in served.values():
        return
    why, remedy = "", "Apply its CRDs"
    if clashing is not None:
        why = f" while {clashing.crd} has its short name {clashing.short_name}"
        remedy = f"Delete that CRD, apply the new ones, and recreate its objects by hand ({CLASHING.code})"
    message = f"{needed.crd} is not served{why}, so the operator exits at its start. {remedy}"
    ref = Ref("CustomResourceDefinition", "", needed.crd)
    yield Problem(ref, None, message, settles=clashing is None, commands=steps(target, served))
