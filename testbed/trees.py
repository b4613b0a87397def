"""A PodCliqueSet and everything that it owns, as plain JSON, as an operator leaves them.

Names, labels and owner references follow ``operator/api/common/namegen.go`` and ``labels.go``.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from testbed.gangs import gang_name, pod_gangs

Object = dict[str, Any]

CREATED = "2026-01-02T03:04:05Z"
STARTED = "2026-02-01T00:00:00Z"
ENDED = "2026-02-01T00:10:00Z"


class Hashes(Protocol):
    """What the product computes for a PodCliqueSet under one scheme."""

    @property
    def generation(self) -> str: ...  # noqa: D102

    @property
    def templates(self) -> Mapping[str, str]: ...  # noqa: D102


@dataclass(frozen=True)
class State:
    """How far the operator has come.

    ``progress`` names the fields that keep a finished update, if there was one: ``updateProgress`` from alpha.7 on,
    ``rollingUpdateProgress`` up to alpha.8. ``leftovers`` are pods, by clique, that still carry that hash of an older
    template (OnDelete keeps them). ``maps`` adds PodGangs and PodGangMaps. Pods name the ``scheduler``, if any.
    """

    progress: Sequence[str] = ()
    leftovers: Mapping[str, str] = field(default_factory=dict)
    maps: bool = False
    scheduler: str = ""


def grow(pcs: Object, hashes: Hashes, state: State | None = None) -> list[Object]:
    """Every object of the set: itself, its scaling groups, PodCliques, pods and (see State) PodGangs, owners first."""
    grower = _Grower(pcs, hashes, state or State())
    objects = list(grower.objects())
    return [*objects, *grower.gangs(objects)] if grower.state.maps else objects


def of_kind(objects: Sequence[Object], kind: str) -> list[Object]:
    """The objects of one kind."""
    return [item for item in objects if item["kind"] == kind]


def as_list(objects: Sequence[Object]) -> Object:
    """What ``kubectl get -o json`` prints."""
    return {"apiVersion": "v1", "items": list(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


class _Grower:
    def __init__(self, pcs: Object, hashes: Hashes, state: State) -> None:
        self.pcs = copy.deepcopy(pcs)
        self.hashes = hashes
        self.state = state
        self.name = pcs["metadata"]["name"]
        self.namespace = pcs["metadata"].get("namespace", "default")
        self.spec = self.pcs["spec"]
        self.template = self.spec["template"]

    def objects(self) -> Iterator[Object]:
        self.complete(self.pcs, self.name, labels=self.pcs["metadata"].get("labels", {}))
        self.pcs["metadata"].setdefault("annotations", {})
        replicas = self.spec.get("replicas", 1)
        self.pcs["status"] = {
            "observedGeneration": 1,
            "currentGenerationHash": self.hashes.generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": replicas,
            **self.progress(),
        }
        yield self.pcs
        groups = self.template.get("podCliqueScalingGroups") or []
        grouped = {name for group in groups for name in group["cliqueNames"]}
        for replica in range(replicas):
            for clique in self.template["cliques"]:
                if clique["name"] not in grouped:
                    base = f"{self.name}-{replica}"
                    own = {**self.set_labels(replica), "grove.io/podgang": gang_name(base)}
                    yield from self.clique(clique, base, self.pcs, own)
            for group in groups:
                yield from self.group(group, replica)

    def group(self, config: Object, replica: int) -> Iterator[Object]:
        name = f"{self.name}-{replica}-{config['name']}"
        replicas, least = config.get("replicas", 1), config.get("minAvailable", 1)
        spec = {"replicas": replicas, "minAvailable": least, "cliqueNames": list(config["cliqueNames"])}
        labels = {
            **self.set_labels(replica),
            "app.kubernetes.io/name": name,
            "app.kubernetes.io/component": "pcs-podcliquescalinggroup",
        }
        group = self.owned("PodCliqueScalingGroup", name, spec, labels=labels, owner=self.pcs)
        group["status"] = {
            "observedGeneration": 1,
            "currentPodCliqueSetGenerationHash": self.hashes.generation,
            "replicas": replicas,
            "scheduledReplicas": replicas,
            "availableReplicas": replicas,
            "updatedReplicas": replicas,
            "selector": f"app.kubernetes.io/part-of={self.name}",
            **self.progress(generation=True),
        }
        yield group
        base = f"{self.name}-{replica}"
        for index in range(replicas):
            gang = gang_name(base, config["name"], index, least)
            own = {
                **self.set_labels(replica),
                "app.kubernetes.io/component": "pcsg-podclique",
                "grove.io/podcliquescalinggroup": name,
                "grove.io/podcliquescalinggroup-replica-index": str(index),
                "grove.io/podgang": gang,
            }
            if index >= least:
                own["grove.io/base-podgang"] = gang_name(base)
            for clique in self.template["cliques"]:
                if clique["name"] in config["cliqueNames"]:
                    yield from self.clique(clique, f"{name}-{index}", group, own)

    def clique(self, template: Object, prefix: str, owner: Object, labels: Mapping[str, str]) -> Iterator[Object]:
        clique, name = template["name"], f"{prefix}-{template['name']}"
        value = self.hashes.templates[clique]
        spec = copy.deepcopy(template.get("spec") or {})
        replicas = spec.setdefault("replicas", 1)
        spec.setdefault("roleName", clique)
        own = {
            **(template.get("labels") or {}),
            **labels,
            "app.kubernetes.io/name": name,
            "grove.io/pod-template-hash": value,
        }
        pod_clique = self.owned("PodClique", name, spec, labels=own, owner=owner)
        left = self.state.leftovers.get(clique)
        pod_clique["status"] = {
            "observedGeneration": 1,
            "currentPodTemplateHash": left or value,
            "currentPodCliqueSetGenerationHash": self.hashes.generation,
            "replicas": replicas,
            "readyReplicas": replicas,
            "scheduledReplicas": replicas,
            "scheduleGatedReplicas": 0,
            "updatedReplicas": 0 if left else replicas,
            "conditions": [
                {
                    "type": "MinAvailableBreached",
                    "status": "False",
                    "reason": "SufficientReadyPods",
                    "message": "",
                    "lastTransitionTime": CREATED,
                }
            ],
            **self.progress(generation=True, template=value),
        }
        yield pod_clique
        for index in range(replicas):
            yield self.pod(pod_clique, index, left if left and index == 0 else value)

    def pod(self, pod_clique: Object, index: int, value: str) -> Object:
        pod_spec = pod_clique["spec"].get("podSpec") or {}
        containers = [
            {"name": c["name"], "image": c.get("image", "example.test/pause:1")}
            for c in pod_spec.get("containers") or ()
        ]
        spec: Object = {"containers": containers or [{"name": "main", "image": "example.test/pause:1"}]}
        if self.state.scheduler:
            spec["schedulerName"] = self.state.scheduler
        name = pod_clique["metadata"]["name"]
        labels = {
            **pod_clique["metadata"]["labels"],
            "grove.io/podclique": name,
            "grove.io/podclique-pod-index": str(index),
            "grove.io/pod-template-hash": value,
        }
        pod = self.owned("Pod", f"{name}-{_uid(name, str(index))[:5]}", spec, labels=labels, owner=pod_clique)
        del pod["metadata"]["generation"]
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        return pod

    def progress(self, *, generation: bool = False, template: str | None = None) -> Object:
        """The progress of a finished update: it is kept for ever."""
        progress: Object = {"updateStartedAt": STARTED, "updateEndedAt": ENDED}
        if generation:
            progress["podCliqueSetGenerationHash"] = self.hashes.generation
        if template is not None:
            progress["podTemplateHash"] = template
        return {name: dict(progress) for name in self.state.progress}

    def set_labels(self, replica: int) -> dict[str, str]:
        return {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": self.name,
            "app.kubernetes.io/component": "pcs-podclique",
            "grove.io/podcliqueset-replica-index": str(replica),
        }

    def gangs(self, objects: Sequence[Object]) -> Iterator[Object]:
        defaults = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": self.name}
        for gang in pod_gangs(self.pcs, objects):
            metadata = gang["metadata"]
            self.complete(gang, metadata["name"], labels=defaults | metadata["labels"], owner=self.pcs)
            yield gang

    def owned(self, kind: str, name: str, spec: Object, *, labels: Mapping[str, str], owner: Object) -> Object:
        version = "v1" if kind == "Pod" else "grove.io/v1alpha1"
        item: Object = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        self.complete(item, name, labels=labels, owner=owner)
        return item

    def complete(self, item: Object, name: str, *, labels: Mapping[str, str], owner: Object | None = None) -> None:
        metadata = item["metadata"]
        metadata.update(
            name=name,
            namespace=self.namespace,
            uid=_uid(self.namespace, item["kind"], name),
            resourceVersion="1",
            generation=1,
            creationTimestamp=CREATED,
            labels=dict(labels),
        )
        if owner is not None:
            metadata["ownerReferences"] = controlled_by(owner)


def controlled_by(owner: Object) -> list[Object]:
    """The ``ownerReferences`` of what an object controls."""
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def _uid(*parts: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(parts)))
