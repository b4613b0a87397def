"""Every field that stores a hash, in one table: :func:`stored_hashes` reads these, and :class:`HashSearch` all others.

Grove: ``operator/api/core/v1alpha1/{podcliqueset,podclique,scalinggroup}.go`` and ``operator/api/common/labels.go``. A
field that is absent or empty holds no hash and is left absent. A hash is 64 bits wide, so a string that equals a hash
is one: outside this table an operator keeps hashes in a place that is unknown here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from migrator.exact_json import JSONObject
from migrator.grove import objects
from migrator.grove.parse import controller_uid
from migrator.kinds import pointer

#: ``updateProgress`` since alpha.7, ``rollingUpdateProgress`` up to alpha.8; an object may have both.
PROGRESS_FIELDS: Final = ("updateProgress", "rollingUpdateProgress")

#: The API groups whose objects are searched; of a pod it is the metadata.
GROUPS: Final = ("grove.io", "scheduler.grove.io")

#: Stands in a path for every entry of a list.
_EACH: Final = "*"
#: The characters of a hash, one for each decimal digit (``operator/internal/utils/kubernetes/pod.go:ComputeHash``).
_DIGITS: Final = "456789bcdf"
#: A hash of fewer digits occurs once in 10**9 templates; a shorter string means something else.
_SHORTEST: Final = 11
_LONGEST: Final = 20
#: A hash behind a dash, and before another one or the end.
_IN_A_NAME: Final = re.compile(rf"(?<=-)[{_DIGITS}]{{{_SHORTEST},{_LONGEST}}}(?![^-])")

Item: TypeAlias = objects.Pod | objects.GroveObject
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class HashField:
    """One field of a kind, by its JSON Pointer: ``*`` stands for each index of a list.

    It holds the hash of a ``template`` or else of a generation. ``leftover``: under OnDelete, pods of older templates
    run on, so it may keep an older hash.
    """

    kind: str
    pointer: str
    template: bool = False
    leftover: bool = False
    path: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        steps = (step.replace("~1", "/").replace("~0", "~") for step in self.pointer.split("/")[1:])
        object.__setattr__(self, "path", tuple(steps))

    @property
    def subresource(self) -> str:
        """The subresource that accepts a change of this field."""
        return subresource_of(self.pointer)


def subresource_of(field: str) -> str:
    """The subresource that accepts a change of a field by its JSON Pointer: labels and status never mix."""
    return "status" if field.startswith("/status/") else ""


_TEMPLATE_LABEL: Final = pointer("metadata", "labels", objects.LABEL_POD_TEMPLATE_HASH)
_GENERATION_LABEL: Final = pointer("metadata", "labels", objects.LABEL_GENERATION_HASH)
_GENERATION: Final = "podCliqueSetGenerationHash"
_CURRENT: Final = "/status/currentPodCliqueSetGenerationHash"

#: It decides which pods an update deletes, and which a scale-in deletes first.
POD_LABEL: Final = HashField("Pod", _TEMPLATE_LABEL, template=True, leftover=True)
#: New pods copy it.
CLIQUE_LABEL: Final = HashField("PodClique", _TEMPLATE_LABEL, template=True)
#: The commit record of a set, written last: a set counts as migrated once it has the new hash. If it differs from what
#: the operator computes, that starts an update.
SET_GENERATION: Final = HashField("PodCliqueSet", "/status/currentGenerationHash")

#: Every field that stores a hash, in the order of writing. The hashes of a finished update count as well: the operator
#: copies them back. Those of one kind and subresource stand together, because one patch writes them.
#: ``grove.parse`` must keep what a path leads to, and ``policy.yaml`` of the chart must permit it.
HASH_FIELDS: Final = (
    POD_LABEL,
    CLIQUE_LABEL,
    HashField("PodClique", "/status/currentPodTemplateHash", template=True, leftover=True),
    HashField("PodClique", _CURRENT, leftover=True),
    *(
        HashField("PodClique", pointer("status", progress, key), template=key != _GENERATION)
        for progress in PROGRESS_FIELDS
        for key in ("podTemplateHash", _GENERATION)
    ),
    HashField("PodCliqueScalingGroup", _CURRENT, leftover=True),
    *(HashField("PodCliqueScalingGroup", pointer("status", progress, _GENERATION)) for progress in PROGRESS_FIELDS),
    HashField("PodGangMap", pointer("spec", "entries", _EACH, _GENERATION), leftover=True),
    HashField("PodGang", _GENERATION_LABEL, leftover=True),
    SET_GENERATION,
)

#: The rank of each kind and subresource in the order of writing.
RANKS: Final = {
    key: rank for rank, key in enumerate(dict.fromkeys((place.kind, place.subresource) for place in HASH_FIELDS))
}

_KNOWN: Final = frozenset((place.kind, place.path) for place in HASH_FIELDS)


class StoredHash(NamedTuple):  # tens of thousands are made for one set
    """One (object, field) that holds a hash: of the template of ``clique``, or the generation hash if that is ``None``.

    ``identity`` is what else a patch must test if ``field`` has a position in a list: (JSON Pointer, value).
    ``may_be_old``: its set is under OnDelete, so it may be the hash of an older template.
    """

    ref: objects.Ref
    place: HashField
    field: str  # JSON Pointer
    value: str
    clique: str | None
    identity: tuple[str, str] | None = None
    may_be_old: bool = False


def open_progress(item: objects.GroveObject) -> str | None:
    """The field with an update of this object that has not ended, newest form first; ``None`` if there is none."""
    progresses = ((name, item.status.get(name)) for name in PROGRESS_FIELDS)
    return next((name for name, found in progresses if found is not None and not found.get("updateEndedAt")), None)


def stored_hashes(tree: objects.Tree) -> Iterator[StoredHash]:
    """Yield every stored hash of a set in the order in which a migration writes them.

    Pods and PodGangs that are being deleted hold no hash. So such a pod keeps its old label, by which the next operator
    takes it for the one too many (GM-314), and not a pod that has replaced it.
    """
    on_delete = tree.pcs.on_delete
    for (kind, _), places in groupby(HASH_FIELDS, key=lambda place: (place.kind, place.subresource)):
        fields = tuple(places)
        for item, clique in _items(tree, kind):
            for place in fields:
                for at, value, identity in _values(item, place):
                    template_of, may_be_old = clique if place.template else None, on_delete and place.leftover
                    yield StoredHash(item.ref, place, at, value, template_of, identity, may_be_old)


def _items(tree: objects.Tree, kind: str) -> Iterable[tuple[Item, str | None]]:
    """The objects of a kind, and the clique that each belongs to."""
    if kind == "PodClique":
        return ((clique, clique.clique) for clique in tree.pod_cliques)
    if kind == "Pod":
        return ((pod, clique.clique) for clique in tree.pod_cliques for pod in clique.live)
    others: Mapping[str, Iterable[Item]] = {
        "PodCliqueScalingGroup": tree.scaling_groups,
        "PodGangMap": tree.pod_gang_maps,
        "PodGang": (gang for gang in tree.pod_gangs if not gang.terminating),
        "PodCliqueSet": (tree.pcs,),
    }
    return ((item, None) for item in others[kind])


def _values(item: Item, place: HashField) -> Iterator[tuple[str, str, tuple[str, str] | None]]:
    """The pointer, value and identity of each hash that an object holds in a place; an ``epoch`` identifies entries."""
    part, *steps = place.path
    root: Any = {"labels": item.labels} if part == "metadata" else getattr(item, part)
    if _EACH not in steps:
        value = _value(root, steps)
        if value and isinstance(value, str):
            yield place.pointer, value, None
        return
    above, below = steps[: steps.index(_EACH)], steps[steps.index(_EACH) + 1 :]
    for index, entry in enumerate(_value(root, above) or ()):
        value, epoch, at = _value(entry, below), entry.get("epoch"), (part, *above, index)
        if value and isinstance(value, str):
            identity = (pointer(*at, "epoch"), epoch) if epoch else None
            yield pointer(*at, *below), value, identity


def _value(node: Any, steps: Iterable[str]) -> Any:  # noqa: ANN401 - any JSON value
    for step in steps:
        node = node.get(step) if node else None
    return node


class HashSearch:
    """Collects the possible hashes in every object that it is shown, each once."""

    def __init__(self) -> None:
        self._found: dict[tuple[objects.Ref, str], objects.PossibleHash] = {}

    @property
    def possible_hashes(self) -> Mapping[str, Sequence[objects.PossibleHash]]:
        """Those that were found, by value, because anybody can write 100,000 into one object."""
        by_value: dict[str, list[objects.PossibleHash]] = defaultdict(list)
        for found in self._found.values():
            by_value[found.value].append(found)
        return dict(by_value)

    def searching(self, project: Callable[[JSONObject], T]) -> Callable[[JSONObject], T]:
        """The same function, which also searches the object that it is given."""

        def searched(raw: JSONObject) -> T:
            kept = project(raw)
            self.scan(raw)
            return kept

        return searched

    def scan(self, raw: JSONObject) -> None:
        """Search the values of one object's fields; of a pod only the metadata."""
        kind, meta = raw["kind"], raw["metadata"]
        labels = meta["labels"] if isinstance(meta.get("labels"), dict) else {}
        part_of = labels.get(objects.LABEL_PART_OF)
        # A hash in a known place is migrated only if its object is part of a tree: joined to it by its controller.
        in_a_tree = kind in {"Pod", "PodCliqueSet"} or controller_uid(meta) is not None
        searched = {"metadata": {key: value for key, value in meta.items() if key != "managedFields"}}
        fields = searched if kind == "Pod" else raw | searched
        for path, value in chain(_hashes(fields), _hashes_in_names(meta["name"], labels)):
            if in_a_tree and (kind, tuple(_EACH if step.isdigit() else step for step in path)) in _KNOWN:
                continue
            ref = objects.Ref(kind, str(meta.get("namespace") or ""), meta["name"], str(meta.get("uid") or ""))
            at, of = pointer(*path), part_of if isinstance(part_of, str) else None
            self._found[ref, at] = objects.PossibleHash(ref, at, value, of)


def _hashes_in_names(name: str, labels: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every hash between dashes in the name or a label of an object.

    alpha.10-rc1 names PodGangs after it: ``operator/api/common/namegen.go:GeneratePodGangName`` at fe4b7ba1.
    """
    texts = {("metadata", "name"): name} | {("metadata", "labels", key): value for key, value in labels.items()}
    for path, text in texts.items():
        if isinstance(text, str) and (found := _IN_A_NAME.search(text)):
            yield path, found[0]


def _hashes(root: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every string in ``root`` that looks like a hash, with its path; any depth, as some fields may hold anything."""
    waiting: list[tuple[tuple[str, ...], str | dict[str, Any] | list[Any]]] = [((), root)]
    while waiting:
        at, node = waiting.pop()
        if isinstance(node, str):
            if _SHORTEST <= len(node) <= _LONGEST and not node.strip(_DIGITS):
                yield at, node
            continue
        parts = node.items() if isinstance(node, dict) else enumerate(node)
        below = [((*at, str(key)), part) for key, part in parts if isinstance(part, str | dict | list)]
        waiting += reversed(below)
