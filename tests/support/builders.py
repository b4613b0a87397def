"""Small Grove families as the API server returns them, with the hashes that a scheme gives them.

``World.grow`` adds one PodCliqueSet with everything that it owns; a test then changes what it is about, by name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import jsonpatch

from migrator.grove import parsing
from migrator.grove.model import Change, Finding, Plan, Severity, Snapshot, TreePlan
from migrator.grove.places import stored_hashes
from migrator.grove.trees import Objects, build
from migrator.hashing import podcliqueset, schemes
from migrator.planning.baseline import table_of
from migrator.planning.options import PlanOptions, Selection
from migrator.planning.planner import make_plan
from migrator.planning.revert import make_revert
from migrator.planning.tables import Table

JSON = dict[str, Any]

HASH_LABEL = "grove.io/pod-template-hash"
GENERATION_LABEL = "grove.io/podcliqueset-generation-hash"
EARLIER, LATER = "2026-01-02T03:04:05Z", "2026-01-02T04:04:05Z"
NOW = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
ENDED: JSON = {"updateStartedAt": EARLIER, "updateEndedAt": LATER}


def clique(name: str, *, image: str = "app:1", containers: Sequence[str] = ("b", "a"), gpus: object = None) -> JSON:
    """A clique of a template. Two containers out of order, so that canonical and legacy hashes differ."""
    limits = {"limits": {"nvidia.com/gpu": gpus}} if gpus is not None else {}
    return {
        "name": name,
        "spec": {
            "roleName": name,
            "replicas": 2,
            "podSpec": {
                "containers": [{"name": c, "image": f"{name}-{image}", "resources": limits} for c in containers],
            },
        },
    }


def hashes_of(pcs: JSON, scheme: str) -> podcliqueset.PodCliqueSetHashes:
    """The hashes that a scheme gives a set."""
    return podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(scheme))


@dataclass(frozen=True)
class _Family:
    pcs: JSON
    hashes: podcliqueset.PodCliqueSetHashes
    pods: int
    progress: Sequence[str]


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
        cliques = [clique("front"), clique("work")] if cliques is None else cliques
        groups = {"sg": ["work"]} if groups is None else groups
        pcs = self._add("PodCliqueSet", name, namespace, None, {})
        pcs["spec"] = {
            "replicas": replicas,
            "template": {
                "cliques": cliques,
                "cliqueStartupType": startup or "CliqueStartupTypeAnyOrder",
                "terminationDelay": "4h0m0s",
                "podCliqueScalingGroups": [{"name": g, "cliqueNames": members} for g, members in groups.items()],
            },
        }
        if on_delete:
            pcs["spec"]["updateStrategy"] = {"type": "OnDelete"}
        found = hashes_of(pcs, scheme)
        family = _Family(pcs, found, pods, progress)
        pcs["status"] = {"observedGeneration": 1, "currentGenerationHash": found.generation_hash, "replicas": replicas}
        pcs["status"] |= {key: dict(ENDED) for key in progress}
        grouped = {member for members in groups.values() for member in members}
        for index in range(replicas):
            place = {"grove.io/podcliqueset-replica-index": str(index)}
            for entry in cliques:
                if entry["name"] not in grouped:
                    self._grow_clique(family, pcs, entry["name"], f"{name}-{index}", place)
            for group, members in groups.items():
                self._grow_group(family, group, members, place, group_replicas)
            if maps:
                self._grow_gangs(pcs, index, found.generation_hash)
        return self

    def _grow_group(
        self, family: _Family, group: str, members: Sequence[str], place: dict[str, str], replicas: int
    ) -> None:
        pcs, found = family.pcs, family.hashes
        name, namespace = pcs["metadata"]["name"], pcs["metadata"]["namespace"]
        prefix = f"{name}-{place['grove.io/podcliqueset-replica-index']}"
        pcsg = self._add("PodCliqueScalingGroup", f"{prefix}-{group}", namespace, pcs, {**place, **_managed(name)})
        pcsg["spec"] = {"replicas": replicas, "minAvailable": 1, "cliqueNames": list(members)}
        pcsg["status"] = {
            "observedGeneration": 1,
            "currentPodCliqueSetGenerationHash": found.generation_hash,
            **{key: {**ENDED, "podCliqueSetGenerationHash": found.generation_hash} for key in family.progress},
        }
        for replica in range(replicas):
            labels = {
                **place,
                "grove.io/podcliquescalinggroup": pcsg["metadata"]["name"],
                "grove.io/podcliquescalinggroup-replica-index": str(replica),
            }
            for member in members:
                prefix = f"{pcsg['metadata']['name']}-{replica}"
                self._grow_clique(family, pcsg, member, prefix, labels)

    def _grow_clique(self, family: _Family, owner: JSON, clique_name: str, prefix: str, labels: dict[str, str]) -> None:
        pcs, found, pods = family.pcs, family.hashes, family.pods
        name, namespace = f"{prefix}-{clique_name}", pcs["metadata"]["namespace"]
        template = found.pod_template_hashes[clique_name]
        labels = {**labels, **_managed(pcs["metadata"]["name"]), HASH_LABEL: template}
        pclq = self._add("PodClique", name, namespace, owner, labels)
        pclq["spec"] = {"replicas": pods, "minAvailable": 1, "podSpec": {"containers": []}}
        both = {"podCliqueSetGenerationHash": found.generation_hash, "podTemplateHash": template}
        pclq["status"] = {
            "observedGeneration": 1,
            "replicas": pods,
            "scheduledReplicas": pods,
            "scheduleGatedReplicas": 0,
            "currentPodTemplateHash": template,
            "currentPodCliqueSetGenerationHash": found.generation_hash,
            **{key: {**ENDED, **both} for key in family.progress},
        }
        for number in range(pods):
            self._add("Pod", f"{name}-{number}", namespace, pclq, {**labels, "grove.io/podclique": name})

    def _grow_gangs(self, pcs: JSON, index: int, generation: str) -> None:
        name, namespace = pcs["metadata"]["name"], pcs["metadata"]["namespace"]
        labels = _managed(name)
        gang_map = self._add("PodGangMap", f"{name}-{index}", namespace, pcs, labels)
        gang_map["spec"] = {
            "podCliqueSetReplicaIndex": index,
            "entries": [
                {"epoch": "1788454964123456789", "podCliqueSetGenerationHash": generation, "role": "Anchor"},
                {"epoch": "1788454964123456790", "podCliqueSetGenerationHash": generation, "role": "ScaleOut"},
            ],
        }
        epoch = f"{name}-{index}-1788454964123456789"
        self._add("PodGang", epoch, namespace, pcs, {**labels, GENERATION_LABEL: generation})

    def _add(self, kind: str, name: str, namespace: str, owner: JSON | None, labels: dict[str, str]) -> JSON:
        created: JSON = {
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{namespace}-{kind}-{name}",
                "generation": 1,
                "creationTimestamp": EARLIER,
                "labels": labels,
            },
        }
        if owner is not None:
            uid = owner["metadata"]["uid"]
            created["metadata"]["ownerReferences"] = [{"kind": owner["kind"], "uid": uid, "controller": True}]
        self.objects.append(created)
        return created

    # --- what a test reaches for ---------------------------------------------------------------------------------

    def of(self, kind: str, name: str) -> JSON:
        """The one object of that kind and name, to be changed in place."""
        (found,) = (o for o in self.objects if o["kind"] == kind and o["metadata"]["name"] == name)
        return found

    def all(self, kind: str) -> list[JSON]:
        """Every object of a kind."""
        return [o for o in self.objects if o["kind"] == kind]

    @property
    def pcs(self) -> JSON:
        """The only PodCliqueSet."""
        (found,) = self.all("PodCliqueSet")
        return found

    def hashes(self, scheme: str) -> podcliqueset.PodCliqueSetHashes:
        """The hashes of the only PodCliqueSet under a scheme."""
        return hashes_of(self.pcs, scheme)

    def edit(self, name: str, image: str) -> None:
        """Change a clique's image, as a user would; nothing else moves."""
        (found,) = (c for c in self.pcs["spec"]["template"]["cliques"] if c["name"] == name)
        found["spec"]["podSpec"]["containers"][0]["image"] = image

    def remove(self, *names: str) -> None:
        """Take objects away, by name."""
        self.objects = [o for o in self.objects if o["metadata"]["name"] not in names]

    def copy(self) -> World:
        """The same objects, apart."""
        return World(copy.deepcopy(self.objects))

    # --- what the migrator makes of it ---------------------------------------------------------------------------

    def snapshot(self, *, is_cluster: bool = True) -> Snapshot:
        """The trees."""
        return build(
            Objects(
                sets=tuple(parsing.pod_clique_set(o) for o in self.all("PodCliqueSet")),
                groups=tuple(parsing.scaling_group(o) for o in self.all("PodCliqueScalingGroup")),
                cliques=tuple(parsing.pod_clique(o) for o in self.all("PodClique")),
                pods=tuple(parsing.pod(o) for o in self.all("Pod")),
                gang_maps=tuple(parsing.pod_gang_map(o) for o in self.all("PodGangMap")),
                gangs=tuple(parsing.pod_gang(o) for o in self.all("PodGang")),
            ),
            is_cluster=is_cluster,
        )

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
        selection: Selection | None = None,
        tables: dict[str, Table] | None = None,
        now: datetime | None = NOW,
        downtime: float = 600.0,
        is_cluster: bool = True,
    ) -> Plan:
        """What a run would do."""
        options = PlanOptions(
            source=source,
            target=target,
            allow=frozenset(allow),
            skip_refused=skip_refused,
            selection=selection or Selection(),
            downtime=downtime,
        )
        return make_plan(self.snapshot(is_cluster=is_cluster), options, tables=tables, now=now)

    def decide(self, source: str = "auto", target: str = "legacy-1.35", **options: Any) -> TreePlan:
        """What a run would do with the only tree."""
        (found,) = self.plan(source, target, **options).trees
        return found

    def findings(self, source: str = "auto", target: str = "legacy-1.35", **options: Any) -> list[Finding]:
        """Everything that is said of the only tree."""
        return list(self.decide(source, target, **options).findings)

    def revert(self, source: str = "auto", target: str = "legacy-1.35", **options: Any) -> Plan:
        """What undoes that run."""
        tables = options.pop("tables", None)
        return make_revert(self.snapshot(), PlanOptions(source=source, target=target, **options), tables=tables)

    def apply(self, changes: Iterable[Change]) -> None:
        """Write changes as an API server would: test the old value, then replace it."""
        by_uid = {o["metadata"]["uid"]: o for o in self.objects}
        for change in changes:
            operations = [
                {"op": "test", "path": change.field, "value": change.old},
                {"op": "replace", "path": change.field, "value": change.new},
            ]
            jsonpatch.apply_patch(by_uid[change.ref.uid], operations, in_place=True)

    def tables(self, source: str = "auto", target: str = "legacy-1.35") -> dict[str, Table]:
        """What a run would record before its first write."""
        return {p.tree.ref.uid: table_of(p) for p in self.plan(source, target).trees if p.changes}


def _managed(part_of: str) -> dict[str, str]:
    return {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": part_of}


def refusals(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None]]:
    """Code, object and field of everything that refuses."""
    return [_brief(f) for f in findings if f.severity is Severity.REFUSAL]


def warnings(findings: Iterable[Finding]) -> list[tuple[str, str | None, str | None]]:
    """Code, object and field of everything that warns."""
    return [_brief(f) for f in findings if f.severity is Severity.WARNING]


def _brief(finding: Finding) -> tuple[str, str | None, str | None]:
    return (finding.code, finding.ref.name if finding.ref else None, finding.field)
