"""From one raw object to the parts of it that a decision needs.

The objects of an API server have passed its schema; a file may hold anything. So every part that is used later is
checked here, once, and a part of the wrong shape is refused with its object and path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

from migrator.errors import DUMP_COMMAND, InputError
from migrator.exact_json import JSONObject, integer
from migrator.grove import objects
from migrator.kinds import DEFAULT_NAMESPACE

Trimmed = TypeVar("Trimmed", bound=objects.GroveObject)

#: By these a pod names the pod group of another scheduler (Grove issue 837).
_GANG_ANNOTATIONS: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "pod-group-name")

#: What must have which shape where it is set: ``{}`` is an object with these parts, ``[{}]`` a list of such objects,
#: ``({},)`` either of both, ``""`` a string and ``[""]`` a list of strings. :func:`_check` goes through it.
_Shape: TypeAlias = Mapping[str, Any] | list[Any] | tuple[Mapping[str, Any]] | str

_CONTAINERS: Final[_Shape] = [{"resources": {"limits": {}}}]
_TOPOLOGY: Final[Mapping[str, _Shape]] = {"topologyConstraint": {}}
_POD_SPEC: Final[_Shape] = {"containers": _CONTAINERS, "initContainers": _CONTAINERS}


def _status(**parts: _Shape) -> _Shape:
    progress = {"readyReplicaIndicesSelectedToUpdate": {}, **parts}  # guards look for these in every kind
    return {"conditions": [{}], "lastErrors": [{}], "updateProgress": progress, "rollingUpdateProgress": progress}


_SET: Final[Mapping[str, _Shape]] = {
    "spec": {
        "updateStrategy": {},
        "template": {
            **_TOPOLOGY,
            "cliques": [{"name": "", "labels": {}, "annotations": {}, **_TOPOLOGY, "spec": {"podSpec": _POD_SPEC}}],
            "podCliqueScalingGroups": [{"cliqueNames": [""], **_TOPOLOGY}],
        },
    },
    "status": _status(currentlyUpdating=({},)),
}
_GROUP: Final[Mapping[str, _Shape]] = {
    "spec": {"cliqueNames": [""]},
    "status": _status(),
}
_CLIQUE: Final[Mapping[str, _Shape]] = {
    "spec": {},
    "status": _status(readyPodsSelectedToUpdate={"completed": [""]}),
}
_GANG_MAP: Final[Mapping[str, _Shape]] = {"spec": {"entries": [{"epoch": ""}]}}


def pod_clique_set(raw: JSONObject) -> objects.PodCliqueSet:
    """Keep what a PodCliqueSet's hashes and guards need."""
    ref, meta = _identity(raw)
    annotations, generation = _strings(ref, meta, "annotations"), integer(meta.get("generation"))
    edits = tuple(_edits(meta))
    return _trimmed(objects.PodCliqueSet, raw, _SET, annotations=annotations, generation=generation, edits=edits)


def _edits(meta: Mapping[str, Any]) -> Iterator[objects.Edit]:
    """The last write of each manager that owns fields of the template."""
    entries = meta.get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("subresource"):
            continue
        fields, moment = entry.get("fieldsV1"), objects.kubernetes_time(entry.get("time"))
        spec = fields.get("f:spec") if isinstance(fields, dict) else None
        if isinstance(spec, dict) and "f:template" in spec and moment is not None:
            yield objects.Edit(str(entry.get("manager", "")), moment)


def scaling_group(raw: JSONObject) -> objects.GroveObject:
    """Keep what a scaling group's hashes and guards need."""
    return _trimmed(objects.GroveObject, raw, _GROUP)


def pod_clique(raw: JSONObject) -> objects.PodClique:
    """Keep what a PodClique's hashes and guards need: no pod spec, which is never hashed, and Grove's labels only."""
    clique = _trimmed(objects.PodClique, raw, _CLIQUE)
    labels = {key: value for key, value in clique.labels.items() if key.startswith("grove.io/")}
    spec = {key: value for key, value in clique.spec.items() if key != "podSpec"}
    return replace(clique, clique=_clique(clique.ref.name, clique.labels), labels=labels, spec=spec)


def pod_gang_map(raw: JSONObject) -> objects.GroveObject:
    """Keep a PodGangMap's entries."""
    return _trimmed(objects.GroveObject, raw, _GANG_MAP)


def pod_gang(raw: JSONObject) -> objects.GroveObject:
    """Keep a PodGang's metadata."""
    return _trimmed(objects.GroveObject, {"kind": raw["kind"], "metadata": raw["metadata"]}, {})


def pod(raw: JSONObject) -> objects.Pod:
    """Keep a pod's hash and owner."""
    ref, meta = _identity(raw)
    labels, annotations = _strings(ref, meta, "labels"), meta.get("annotations")
    status = raw.get("status")  # there is none where only metadata was read
    status = status if isinstance(status, dict) else {}
    return objects.Pod(
        ref=ref,
        owner_uid=controller_uid(meta),
        template_hash=labels.get(objects.LABEL_POD_TEMPLATE_HASH) or None,
        terminating=bool(meta.get("deletionTimestamp")),
        pod_clique_label=labels.get(objects.LABEL_POD_CLIQUE),
        in_other_gang=isinstance(annotations, dict) and not annotations.keys().isdisjoint(_GANG_ANNOTATIONS),
        created=str(meta.get("creationTimestamp") or ""),
        loading=_loading(status.get("conditions")),
    )


def _loading(conditions: object) -> float | None:
    """How many seconds a ready pod took from being scheduled to being ready."""
    times = {
        str(one.get("type")): objects.kubernetes_time(one.get("lastTransitionTime"))
        for one in (conditions if isinstance(conditions, list) else ())
        if isinstance(one, dict) and one.get("status") == "True"
    }
    scheduled, ready = times.get("PodScheduled"), times.get("Ready")
    return (ready - scheduled).total_seconds() if scheduled and ready else None


def _trimmed(kind: type[Trimmed], raw: JSONObject, shapes: Mapping[str, _Shape], **own: Any) -> Trimmed:  # noqa: ANN401
    """An object of that kind; ``own`` are the fields that no other kind has."""
    ref, meta = _identity(raw)
    _check(ref, raw, shapes)
    return kind(
        ref=ref,
        owner_uid=controller_uid(meta),
        labels=_strings(ref, meta, "labels"),
        created=str(meta.get("creationTimestamp") or ""),
        terminating=bool(meta.get("deletionTimestamp")),
        spec=raw.get("spec") or {},
        status=raw.get("status") or {},
        **own,
    )


def _check(ref: objects.Ref, holder: JSONObject, shapes: Mapping[str, _Shape], path: str = "") -> None:
    """Refuse the first part that is set and has another shape than it must have."""
    for key, shape in shapes.items():
        part = holder.get(key)
        if part is None:
            continue
        item_shape: Any = shape[0] if isinstance(shape, list | tuple) else shape
        items = part if isinstance(part, list) else [part]
        is_single_or_list = isinstance(shape, tuple) or isinstance(part, list) == isinstance(shape, list)
        if not is_single_or_list or not all(isinstance(item, type(item_shape)) for item in items):
            raise InputError(f"{ref}: {path}{key} is not {_name(shape)}")
        for item in items if item_shape else ():
            _check(ref, item, item_shape, f"{path}{key}.")


def _name(shape: _Shape) -> str:
    if isinstance(shape, list):
        return "a list of strings" if shape == [""] else "a list of objects"
    if isinstance(shape, str):
        return "a string"
    return "an object or a list of objects" if isinstance(shape, tuple) else "an object"


def _clique(name: str, labels: Mapping[str, str]) -> str:
    """The clique of a PodClique. Names may contain ``-``.

    Grove: ``operator/internal/utils/componentname.go:GetPodCliqueNameFromPodCliqueFQN``.
    """
    owner, replica = objects.LABEL_PART_OF, objects.LABEL_SET_REPLICA_INDEX
    if objects.LABEL_SCALING_GROUP in labels:
        owner, replica = objects.LABEL_SCALING_GROUP, objects.LABEL_SCALING_GROUP_REPLICA_INDEX
    prefix = f"{labels.get(owner)}-{labels.get(replica)}-"
    return name[len(prefix) :] if replica in labels and name.startswith(prefix) else ""


def _identity(raw: JSONObject) -> tuple[objects.Ref, Mapping[str, Any]]:
    """An object's reference and metadata. Whatever a store lists has a kind and a name."""
    kind, meta = raw["kind"], raw["metadata"]
    namespace, name, uid = str(meta.get("namespace") or DEFAULT_NAMESPACE), meta["name"], meta.get("uid")
    if not isinstance(uid, str) or not uid:
        what = f"{kind} {namespace}/{name}"
        raise InputError(f"{what} has no metadata.uid: it is a manifest, not a dump; dump with `{DUMP_COMMAND}`")
    return objects.Ref(kind, namespace, name, uid), meta


def _strings(ref: objects.Ref, meta: Mapping[str, Any], key: str) -> Mapping[str, str]:
    value = meta.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict) or not set(map(type, value.values())) <= {str}:
        raise InputError(f"{ref}: metadata.{key} is not a map of strings")
    return value


def controller_uid(meta: Mapping[str, Any]) -> str | None:
    """The uid of the controller of an object with this metadata."""
    owners = meta.get("ownerReferences")
    for owner in owners if isinstance(owners, list) else ():
        if isinstance(owner, dict) and owner.get("controller") is True:
            uid = owner.get("uid")
            return uid if isinstance(uid, str) else None
    return None
