"""What must hold whatever happens, found without the product, by the hashes of each spec that a set ever had."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from migrator import kinds
from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from migrator.grove.places import HASH_FIELDS
from migrator.kinds import Resource
from migrator.run.leases import OWN_LEASE, PARKED
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.cluster import Key, set_of
from tests.faults.ownership import clique_of, containers_of
from tests.support.memory_objects import copied

if TYPE_CHECKING:
    from tests.faults.process import Step
    from tests.faults.world import World

Objects = Mapping[Key, Object]
Path = tuple[str, ...]

_LABEL: Final = ("metadata", "labels", LABEL_POD_TEMPLATE_HASH)
_IN_STATUS: Final = [place for place in HASH_FIELDS if place.subresource]
_GENERATIONS: Final = frozenset(place.path[-1] for place in _IN_STATUS if not place.template)
_TEMPLATES: Final = frozenset(place.path[-1] for place in _IN_STATUS if place.template)


@dataclass(frozen=True, slots=True)
class HashPair:
    """One hash of one spec, under the old scheme and under the new one."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class HashField:
    """One field that holds a hash: of a clique's template, or of the whole set (``clique`` is ``None``)."""

    key: Key
    path: Path
    set_name: str
    clique: str | None


class HashTable:
    """The hashes of every spec that was ever seen, by set and clique, under the schemes of one migration."""

    def __init__(self, source: str = cluster.SOURCE, target: str = cluster.TARGET) -> None:
        self._schemes = source, target
        self._pairs: dict[tuple[str, str | None], set[HashPair]] = {}

    def learn(self, sets: Iterable[Object]) -> None:
        for pcs in sets:
            for clique, pair in self.present(pcs).items():
                self._pairs.setdefault((pcs["metadata"]["name"], clique), set()).add(pair)

    def present(self, pcs: Object) -> dict[str | None, HashPair]:
        """The pairs of a set's present spec, by clique; the generation's under ``None``."""
        old, new = (cluster.computed(json.dumps(pcs["spec"]), scheme) for scheme in self._schemes)
        found: dict[str | None, HashPair] = {
            name: HashPair(value, new.templates[name]) for name, value in old.templates.items()
        }
        return {**found, None: HashPair(old.generation, new.generation)}

    def of(self, hash_field: HashField) -> set[HashPair]:
        """The pairs of which one value may stand in a field."""
        return self._pairs.get((hash_field.set_name, hash_field.clique), set())


def hash_fields(key: Key, item: Object) -> Iterator[tuple[HashField, str]]:
    """Every field of an object that holds a hash, and its value."""
    name = set_of(item)
    label = item["metadata"].get("labels", {}).get(LABEL_POD_TEMPLATE_HASH)
    clique = clique_of(item) if key[0] in {"Pod", "PodClique"} else None
    if label is not None:
        yield HashField(key, _LABEL, name, clique), label
    for path, value in _leaves(item.get("status") or {}, ("status",)):
        if path[-1] in _GENERATIONS:
            yield HashField(key, path, name, None), value
        elif path[-1] in _TEMPLATES:
            yield HashField(key, path, name, clique), value


def all_hash_fields(objects: Objects) -> dict[HashField, str]:
    return {hash_field: value for key, item in objects.items() for hash_field, value in hash_fields(key, item)}


@dataclass
class InvariantChecker:
    """Checks every write of all migrators in a cluster; ``wrongs`` fail the test when a process has ended."""

    world: World
    table: HashTable = field(default_factory=HashTable)
    wrongs: list[str] = field(default_factory=list)
    _before: dict[str, Object | None] = field(default_factory=dict)

    def learn(self) -> None:
        self.table.learn(self.world.store.everything(kinds.POD_CLIQUE_SETS))

    def before_write(self, write: Step) -> None:
        """Before a write: its process must hold our Lease, and to write to Grove's objects the operator's is parked."""
        if write.resource == kinds.LEASES:
            return
        holder = (self.world.lease(OWN_LEASE).get("spec") or {}).get("holderIdentity")
        if holder != write.process.name:
            self.wrongs.append(f"{write.process.name} writes {write.target}, and {holder!r} has our Lease")
        if write.is_grove and self.world.holder != PARKED:
            self.wrongs.append(f"{write.process.name} writes {write.target}, and {self.world.holder!r} has the Lease")

    def remember(self, write: Step) -> None:
        """Right before the write is applied, and after other events of that moment."""
        if write.is_grove:
            self.learn()
            self._before[write.process.name] = self._read(write.resource, write.name)

    def after_write(self, write: Step) -> None:
        """After a write: only hashes changed, from the old one of that field to its new one or back."""
        if not write.is_grove:
            return
        before, after = self._before.pop(write.process.name), self._read(write.resource, write.name)
        if before is None or after is None:
            self.wrongs.append(f"{write.target} was {'created' if before is None else 'deleted'} by a migrator")
            return
        key = cluster.key_of(before)
        old, new = dict(hash_fields(key, before)), dict(hash_fields(key, after))
        for hash_field in old.keys() | new.keys():
            change = (old.get(hash_field), new.get(hash_field))
            if change[0] != change[1] and change not in {
                way for pair in self.table.of(hash_field) for way in ((pair.old, pair.new), (pair.new, pair.old))
            }:
                self.wrongs.append(f"{write.target}: {'/'.join(hash_field.path)}: {change[0]} became {change[1]}")
        if _without_hashes(before) != _without_hashes(after):
            self.wrongs.append(f"{write.target}: more than hashes was changed")

    def _read(self, resource: Resource | None, name: str) -> Object | None:
        try:
            return self.world.store.read(resource, "default", name) if resource else None
        except KeyError:
            return None


def none(what: str, found: Collection[object]) -> None:
    """Raise ``AssertionError`` if any of this was found."""
    if found:
        raise AssertionError(f"{what}: {found}")


def strange(objects: Objects, table: HashTable, others: set[str]) -> list[str]:
    """Fields that hold neither an old nor a new hash of any spec of theirs, nor what somebody else put there."""
    return [
        f"{hash_field.key}: {'/'.join(hash_field.path)} is {value}"
        for hash_field, value in all_hash_fields(objects).items()
        if value not in others and all(value not in {pair.old, pair.new} for pair in table.of(hash_field))
    ]


def half_committed(objects: Objects, table: HashTable) -> list[str]:
    """Sets whose commit record is the new hash of their present spec, and fields that still hold an old one of it."""
    committed = {key[2]: pcs for key, pcs in objects.items() if key[0] == "PodCliqueSet" and is_committed(pcs, table)}
    return [
        f"{found.set_name} is committed, and {found.key} has the old {'/'.join(found.path)}"
        for found, value in all_hash_fields(objects).items()
        if found.set_name in committed and value == table.present(committed[found.set_name])[found.clique].old
    ]


def is_committed(pcs: Object, table: HashTable) -> bool:
    """Whether a set's commit record is the new hash of its present spec."""
    value = (pcs.get("status") or {}).get("currentGenerationHash")
    return bool(value == table.present(pcs)[None].new)


def translated(objects: Objects, without: Objects, table: HashTable) -> dict[HashField, str]:
    """The fields that hold a new hash which they do not hold where no migrator ever ran."""
    other = all_hash_fields(without)
    return {
        hash_field: value
        for hash_field, value in all_hash_fields(objects).items()
        if other.get(hash_field) != value and any(pair.new == value for pair in table.of(hash_field))
    }


def hidden(objects: Objects) -> list[str]:
    """Pods that do not run their template after an operator has worked to its end: a rollout was hidden."""
    templates = {
        (key[2], template["name"]): containers_of(template["spec"])
        for key, pcs in objects.items()
        if key[0] == "PodCliqueSet" and (pcs["spec"].get("updateStrategy") or {}).get("type") != "OnDelete"
        for template in pcs["spec"]["template"]["cliques"]
    }
    return [
        f"{key[2]} runs {pod['spec']['containers']}"
        for key, pod in objects.items()
        if key[0] == "Pod"
        and pod["spec"]["containers"] != templates.get((set_of(pod), clique_of(pod)), pod["spec"]["containers"])
    ]


def by_pod_clique(pods: frozenset[str] | list[str]) -> Counter[str]:
    return Counter(name.rpartition("-")[0] for name in pods)


def more(here: Counter[str], there: Counter[str], only: Callable[[str], bool]) -> dict[str, str]:
    return {
        name: f"{number} instead of {there[name]}"
        for name, number in here.items()
        if number > there[name] and only(name)
    }


def differences(here: Objects, there: Objects) -> list[str]:
    """Where two clusters differ in which the same has happened, if not at the same second."""
    return [
        f"{key}: {_untimed(here.get(key))} here, {_untimed(there.get(key))} there"
        for key in sorted(here.keys() | there.keys())
        if _untimed(here.get(key)) != _untimed(there.get(key))
    ]


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _untimed(item) for key, item in value.items() if key not in {"creationTimestamp", "uid"}}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, str):
        yield path, value


def _without_hashes(item: Object) -> Object:
    kept = copied(item)
    for name in ("resourceVersion", "managedFields"):
        kept["metadata"].pop(name, None)
    for hash_field, _ in hash_fields(cluster.key_of(item), item):
        here: Any = kept
        for part in hash_field.path[:-1]:
            here = here[part]
        del here[hash_field.path[-1]]
    return kept
