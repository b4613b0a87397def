"""The CRDs of Grove that cannot be served beside each other, and the commands that change them (GM-312). Pure.

A short name belongs to one kind of an API group. A CRD that claims a name that is taken is not established, so the
API server does not serve it and discovery does not show it (Kubernetes ``apiextensions-apiserver/pkg/controller/status/
naming_controller.go``). Helm deletes no CRD, so that of a former kind stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from migrator.grove.objects import Ref
from migrator.planning.model import Advice, KnownIssue
from migrator.planning.verification import Problem
from migrator.releases.table import is_before, span

CLASHING: Final = KnownIssue(
    code="GM-312",
    title="Two CRDs claim one short name",
    effect="while the old CRD exists, the API server does not serve the new one, without which the next operator exits",
    source="Grove issue 801, fixed by PR 812",
    remedy="delete the CRD of the release that you leave, with the command of the advice",
    confidence="tried with both operators",
)
#: The API group of both kinds.
GROUP: Final = "grove.io"


@dataclass(frozen=True, slots=True)
class TopologyKind:
    """A kind that describes topologies, and its CRD's short name, in the builds from ``since`` to ``until``.

    The operator ends at its start if the kind is not served: ``operator/cmd/main.go`` calls
    ``operator/internal/clustertopology/clustertopology.go:SynchronizeTopology``, which reads or deletes such objects.
    """

    since: str
    until: str | None
    kind: str
    plural: str
    short_name: str

    @property
    def span(self) -> str:
        """The builds that need it."""
        return span(self.since, self.until)

    @property
    def crd(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{GROUP}"

    def clashes_with(self, other: TopologyKind) -> bool:
        """Whether both claim one short name."""
        return self.short_name == other.short_name and self.plural != other.plural


#: By build, oldest first; builds before the first have none. Grove: ``operator/api/core/v1alpha1/crds``, line 14, at
#: 095d5297 (``grove.io_clustertopologies.yaml``) and at f40687ad (``grove.io_clustertopologybindings.yaml``); PR 812.
TOPOLOGY_KINDS: Final = (
    TopologyKind("v0.1.0-alpha.4", "v0.1.0-alpha.8", "ClusterTopology", "clustertopologies", "ct"),
    TopologyKind("v0.1.0-alpha.9", "v0.1.0-alpha.12", "ClusterTopologyBinding", "clustertopologybindings", "ct"),
    TopologyKind("v0.1.0-alpha.13", None, "ClusterTopologyBinding", "clustertopologybindings", "ctb"),
)


def topology_kind(build: str) -> TopologyKind | None:
    """The kind that a build needs; ``None`` for builds before alpha.4."""
    return next((kind for kind in reversed(TOPOLOGY_KINDS) if not is_before(build, kind.since)), None)


def _served(served: Mapping[str, str]) -> list[TopologyKind]:
    """The kinds of a cluster; ``served`` are its plurals by short name."""
    return [kind for kind in TOPOLOGY_KINDS if served.get(kind.short_name) == kind.plural]


def _needed(targets: Collection[str], served: Mapping[str, str]) -> tuple[TopologyKind | None, TopologyKind | None]:
    """The kind that each of these builds needs, ``None`` if they differ, and a served one that has its short name."""
    kinds = {topology_kind(build) for build in targets}
    needed = kinds.pop() if len(kinds) == 1 else None
    return needed, next((kind for kind in _served(served) if needed and kind.clashes_with(needed)), None)


def advise(served: Mapping[str, str] | None, sources: Collection[str], targets: Collection[str]) -> Iterator[Advice]:
    """The known issue, for each pair of CRDs that clash.

    ``served`` are the plurals of a cluster by short name. Without it, for a dump, the ``sources`` that may be running
    show what is there.
    """
    wanted = dict.fromkeys(map(topology_kind, targets))
    there = dict.fromkeys(map(topology_kind, sources) if served is None else _served(served))
    for present, needed in product(there, wanted):
        if present and needed and present.clashes_with(needed):
            conditions = [f"the old release is {present.span}"] if served is None and len(there) > 1 else []
            conditions += [f"the new release is {needed.span}"] if len(wanted) > 1 else []
            effect = (
                f"while it exists, the API server does not serve {needed.crd}, without which the next operator exits"
            )
            remedy = (
                "once `run` has ended with 0, save its objects, delete it with them, and recreate by hand those that "
                f"you need, as {needed.kind}: `{removal(present)}`"
            )
            yield CLASHING.advice(Ref("CustomResourceDefinition", "", present.crd), conditions, effect, remedy)


def removal(kind: TopologyKind) -> str:
    """The command that saves the objects of a kind, and then deletes its CRD and with it these objects.

    It appends to the file: whoever types it again, when nothing is left to save, keeps what is in it.
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


def steps(targets: Collection[str], served: Mapping[str, str], version: str) -> tuple[str, ...]:
    """The commands between a run and an operator that is one of ``targets``, on a cluster that serves these kinds."""
    _, present = _needed(targets, served)
    return (*([removal(present)] if present is not None else []), application(version))


def problems_of(targets: Collection[str], served: Mapping[str, str]) -> Iterator[Problem]:
    """The CRD without which an operator that is one of ``targets`` does not start, if it is not served.

    It stays so while another CRD has its short name.
    """
    needed, present = _needed(targets, served)
    if needed is None or needed.plural in served.values():
        return
    # No chart has the name of a build of the main branch.
    version = next((one for one in targets if len(targets) == 1 and not one.startswith("main-")), '"$VERSION"')
    why, remedy = "", "Apply its CRDs"
    if present is not None:
        why = f" while {present.crd} has its short name {present.short_name}"
        remedy = (
            "Delete that CRD with its objects, apply the new CRDs, and recreate by hand the objects that you need, as "
            f"{needed.kind} ({CLASHING.code})"
        )
    message = f"{needed.crd} is not served{why}, so the operator exits at its start. {remedy}"
    ref, commands = Ref("CustomResourceDefinition", "", needed.crd), steps(targets, served, version)
    yield Problem(ref, None, message, settles=present is None, commands=commands)
