"""Small Grove families as the API server returns them, with the hashes that a scheme gives them.

``World.grow`` adds one PodCliqueSet with everything that it owns; a test then changes what it is about, by name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import jsonpatch

from migrator.grove import parse
from migrator.grove.objects import Snapshot
from migrator.grove.places import HashSearch, stored_hashes
from migrator.grove.trees import Objects, build
from migrator.hashing import podcliqueset, schemes
from migrator.planning.guards import allowed_codes
from migrator.planning.model import Change, Finding, Plan, SetPlan, Severity
from migrator.planning.options import PlanOptions, source_of
from migrator.planning.outlook import Target, plans_for_all_releases
from migrator.planning.planner import Known, make_plan, plan_revert
from migrator.releases.table import named
from testbed import trees
from testbed.trees import STARTED, State, grow
from testbed.workloads import pod_clique_set

JSON = dict[str, Any]

#: The field of that label in a pod or a PodClique, and of the mark of an object that is being deleted.
LABEL = "/metadata/labels/grove.io~1pod-template-hash"
DELETION = "/metadata/deletionTimestamp"
#: A hash of no template that a test grows.
OLD = "4445566677788899"
EARLIER, LATER = "2026-01-02T03:04:05Z", "2026-01-02T04:04:05Z"
NOW = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
ENDED: JSON = {"updateStartedAt": STARTED, "updateEndedAt": trees.ENDED}


def clique(
    name: str, *, image: str = "app:1", containers: Sequence[str] = ("b", "a"), gpus: object = None, replicas: int = 2
) -> JSON:
    """A clique of a template. Two containers out of order, so that canonical and legacy hashes differ."""
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus is not None else {}
    return {
        "name": name,
        "spec": {
            "roleName": name,
            "replicas": replicas,
            "podSpec": {
                "containers": [{"name": c, "image": f"{name}-{image}", "resources": limits} for c in containers],
            },
        },
    }


def options_of(target: str = "legacy-1.35", source: str = "auto", **more: Any) -> PlanOptions:
    """The options of a plan, schemes and releases by their names."""
    return PlanOptions(named(target), source_of(source), **more)


def outlook_of(snapshot: Snapshot, running: str | None = None) -> list[Target]:
    """A plan of these sets for every scheme that a release uses."""
    known = Known(running=running)
    return list(plans_for_all_releases(lambda target: make_plan(snapshot, PlanOptions(target), known), running))


def hashes_of(pcs: JSON, scheme: str) -> podcliqueset.SetHashes:
    return podcliqueset.SetHasher(pcs).under(schemes.by_name(scheme))


@dataclass
class World:
    """Raw objects of a cluster, and what the migrator makes of them."""

    objects: list[JSON] = field(default_factory=list)

    def grow(
        self,
        name: str = "web",
        *,
        cliques: Sequence[JSON] | None = None,
        groups: dict[str, list[str]] | None = None,
        scheme: str = "legacy-1.34",
        namespace: str = "default",
        replicas: int = 1,
        group_replicas: int = 2,
        pods: int = 2,
        progress: Sequence[str] = ("updateProgress",),
        on_delete: bool = False,
        startup: str | None = None,
        maps: bool = False,
    ) -> World:
        """Add a PodCliqueSet at rest under ``scheme``: clique ``front`` alone, ``work`` in scaling group ``sg``."""
        cliques = copy.deepcopy([clique("front"), clique("work")] if cliques is None else list(cliques))
        for entry in cliques:
            entry["spec"]["replicas"] = pods
        members = {"sg": ["work"]} if groups is None else groups
        pcs = pod_clique_set(
            name,
            cliques,
            namespace=namespace,
            replicas=replicas,
            groups=[{"name": g, "cliqueNames": m, "replicas": group_replicas} for g, m in members.items()],
            startup=startup or "CliqueStartupTypeAnyOrder",
            on_delete=on_delete,
        )
        state = State(progress, maps=maps)
        grown = [copy.deepcopy(item) for item in grow(pcs, hashes_of(pcs, scheme), state)]  # which share parts
        for item in grown:  # names that a test can write down
            if item["kind"] == "Pod":
                labels = item["metadata"]["labels"]
                item["metadata"]["name"] = f"{labels['grove.io/podclique']}-{labels['grove.io/podclique-pod-index']}"
        self.objects += grown
        return self

    # --- what a test reaches for ---------------------------------------------------------------------------------

    def of(self, kind: str, name: str) -> JSON:
        """The one object of that kind and name, to be changed in place."""
        (found,) = (o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name)
        return found

    def all(self, kind: str) -> list[JSON]:
        return [o for o in self.objects if o["kind"] == kind]

    @property
    def pcs(self) -> JSON:
        (found,) = self.all("PodCliqueSet")
        return found

    def hashes(self, scheme: str) -> podcliqueset.SetHashes:
        return hashes_of(self.pcs, scheme)

    def edit(self, name: str = "front") -> World:
        """Change a clique's image, as a user would; nothing else moves."""
        (found,) = (c for c in self.pcs["spec"]["template"]["cliques"] if c["name"] == name)
        found["spec"]["podSpec"]["containers"][0]["image"] = "app:2"
        return self

    def put(self, kind: str, name: str, field: str, value: Any = OLD) -> World:
        """Write a value where a JSON Pointer leads in the one object of that kind and name."""
        operation = {"op": "add", "path": field, "value": copy.deepcopy(value)}
        jsonpatch.apply_patch(self.of(kind, name), [operation], in_place=True)
        return self

    def put_generation_of(self, scheme: str) -> World:
        """Give the only PodCliqueSet the generation hash of a scheme; nothing else moves."""
        return self.put("PodCliqueSet", "web", "/status/currentGenerationHash", self.hashes(scheme).generation)

    def take(self, kind: str, name: str, field: str) -> World:
        """Remove what a JSON Pointer leads to in the one object of that kind and name."""
        jsonpatch.apply_patch(self.of(kind, name), [{"op": "remove", "path": field}], in_place=True)
        return self

    def remove(self, *names: str) -> None:
        """Take objects away, by name."""
        self.objects = [o for o in self.objects if o["metadata"]["name"] not in names]

    def at_zero(self, name: str) -> World:
        """Take a PodClique that once ran to zero."""
        self.put("PodClique", name, "/spec/replicas", 0).put("PodClique", name, "/status/readyReplicas", 0)
        self.objects = [o for o in self.objects if not o["metadata"]["name"].startswith(f"{name}-")]
        return self

    def finish(self, *names: str) -> World:
        """Let the containers of these pods end for good, or without names of all pods."""
        for number, pod in enumerate(pod for pod in self.all("Pod") if not names or pod["metadata"]["name"] in names):
            pod["status"] = {"phase": ("Failed", "Succeeded")[number % 2]}
        return self

    def copy(self) -> World:
        return World(copy.deepcopy(self.objects))

    # --- what the migrator makes of it ---------------------------------------------------------------------------

    def snapshot(self, *, is_cluster: bool = True) -> Snapshot:
        """The trees, and every string that may be a hash."""
        sweep = HashSearch()
        for item in self.objects:
            sweep.scan(item)
        found = build(
            Objects(
                sets=tuple(parse.pod_clique_set(o) for o in self.all("PodCliqueSet")),
                groups=tuple(parse.scaling_group(o) for o in self.all("PodCliqueScalingGroup")),
                cliques=tuple(parse.pod_clique(o) for o in self.all("PodClique")),
                pods=tuple(parse.pod(o) for o in self.all("Pod")),
                gang_maps=tuple(parse.pod_gang_map(o) for o in self.all("PodGangMap")),
                gangs=tuple(parse.pod_gang(o) for o in self.all("PodGang")),
            ),
            is_cluster=is_cluster,
        )
        return replace(found, possible_hashes=sweep.possible_hashes)

    def values(self) -> dict[tuple[str, str, str], str]:
        """Every stored hash, by kind, name and field."""
        return {
            (item.ref.kind, item.ref.name, item.field): item.value
            for tree in self.snapshot().trees
            for item in stored_hashes(tree)
        }

    def plan(
        self,
        source: str = "auto",
        target: str = "legacy-1.35",
        *,
        allow: Iterable[str] = (),
        skip_refused: bool = False,
        namespace: str | None = None,
        resumes: bool = False,
        recorded: schemes.Scheme | None = None,
        now: datetime | None = NOW,
        is_cluster: bool = True,
    ) -> Plan:
        options = options_of(target, source, allow=allowed_codes(allow), skip_refused=skip_refused, namespace=namespace)
        known = Known(now, resumes=resumes, recorded=recorded)
        return make_plan(self.snapshot(is_cluster=is_cluster), options, known)

    def decide(self, source: str = "auto", target: str = "legacy-1.35", **options: Any) -> SetPlan:
        (found,) = self.plan(source, target, **options).set_plans
        return found

    def findings(self, source: str = "auto", target: str = "legacy-1.35", **options: Any) -> list[Finding]:
        return list(self.decide(source, target, **options).findings)

    def revert(self, source: str = "legacy-1.34", target: str = "legacy-1.35") -> Plan:
        """What undoes that run."""
        return plan_revert(self.snapshot(), options_of(target, source), None)

    def apply(self, changes: Iterable[Change]) -> None:
        """Write changes as an API server would: test the old value, then replace it."""
        by_uid = {o["metadata"]["uid"]: o for o in self.objects}
        for change in changes:
            operations = [
                {"op": "test", "path": change.field, "value": change.old},
                {"op": "replace", "path": change.field, "value": change.new},
            ]
            jsonpatch.apply_patch(by_uid[change.ref.uid], operations, in_place=True)


def refusals(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None]]:
    """Code, object and field of everything that refuses."""
    return [_brief(f) for f in findings if f.severity is Severity.REFUSAL]


def warnings(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None]]:
    """Code, object and field of everything that warns."""
    return [_brief(f) for f in findings if f.severity is Severity.WARNING]


def _brief(finding: Finding) -> tuple[str, str | None, str | None]:
    return (finding.code, finding.ref.name if finding.ref else None, finding.field)
