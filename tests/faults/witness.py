"""What must hold whatever happens, found without the product, by the hashes of each spec that a set ever had."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from migrator import resources
from migrator.hashing import podcliqueset, schemes
from migrator.run.leases import OWN_LEASE, PARKED
from testbed.trees import Object
from tests.faults import cluster
from tests.faults.cluster import HASH_LABEL, Key, set_of
from tests.faults.points import GROVE
from tests.faults.process import Step
from tests.faults.tree import clique_of, containers_of
from tests.faults.world import World
from tests.support.memory_objects import copied

Objects = Mapping[Key, Object]
Path = tuple[str, ...]

_LABEL: Final = ("metadata", "labels", HASH_LABEL)
_GENERATIONS: Final = frozenset(
    {"currentGenerationHash", "currentPodCliqueSetGenerationHash", "podCliqueSetGenerationHash"}
)
_TEMPLATES: Final = frozenset({"currentPodTemplateHash", "podTemplateHash"})


@dataclass(frozen=True, slots=True)
class Word:
    """One hash of one spec, under the old scheme and under the new one."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Spot:
    """One field that holds a hash: of a clique's template, or of the whole set (``clique`` is ``None``)."""

    key: Key
    path: Path
    set_name: str
    clique: str | None


class Lexicon:
    """The hashes of every spec that was ever seen, by set and clique."""

    def __init__(self) -> None:
        self._words: dict[tuple[str, str | None], set[Word]] = {}
        self._specs: dict[str, dict[str | None, Word]] = {}

    def learn(self, objects: Objects) -> None:
        """Take in the present specs of all sets."""
        for key, item in objects.items():
            if key[0] == "PodCliqueSet":
                for clique, word in self.present(item).items():
                    self._words.setdefault((key[2], clique), set()).add(word)

    def present(self, pcs: Object) -> dict[str | None, Word]:
        """The words of a set's present spec, by clique; the generation's under ``None``."""
        text = json.dumps(pcs["spec"], sort_keys=False)
        if text not in self._specs:
            old, new = (
                podcliqueset.hash_pod_clique_set(pcs, schemes.by_name(name))
                for name in (cluster.SOURCE, cluster.TARGET)
            )
            found: dict[str | None, Word] = {
                name: Word(value, new.pod_template_hashes[name]) for name, value in old.pod_template_hashes.items()
            }
            self._specs[text] = {**found, None: Word(old.generation_hash, new.generation_hash)}
        return self._specs[text]

    def of(self, spot: Spot) -> set[Word]:
        """All words that may stand there."""
        return self._words.get((spot.set_name, spot.clique), set())


def spots(key: Key, item: Object) -> Iterator[tuple[Spot, str]]:
    """Every field of an object that holds a hash, and its value."""
    name = set_of(item)
    label = item["metadata"].get("labels", {}).get(HASH_LABEL)
    clique = clique_of(item) if key[0] in {"Pod", "PodClique"} else None
    if label is not None:
        yield Spot(key, _LABEL, name, clique), label
    for path, value in _leaves(item.get("status") or {}, ("status",)):
        if path[-1] in _GENERATIONS:
            yield Spot(key, path, name, None), value
        elif path[-1] in _TEMPLATES:
            yield Spot(key, path, name, clique), value


def all_spots(objects: Objects) -> dict[Spot, str]:
    """Those of all objects."""
    return {spot: value for key, item in objects.items() for spot, value in spots(key, item)}


@dataclass
class Witness:
    """Checks every write of the migrators, and keeps what is wrong in ``wrongs``."""

    world: World
    lexicon: Lexicon
    wrongs: list[str] = field(default_factory=list)
    _before: dict[str, Object | None] = field(default_factory=dict)

    def arrive(self, write: Step) -> None:
        """Before a write: its process must hold our Lease, and to write to Grove's objects the operator's is parked."""
        if write.resource == resources.LEASES:
            return
        holder = (self.world.lease(OWN_LEASE).get("spec") or {}).get("holderIdentity")
        if holder != write.process.name:
            self.wrongs.append(f"{write.process.name} writes {write.target}, and {holder!r} has our Lease")
        if write.resource in GROVE and self.world.holder != PARKED:
            self.wrongs.append(f"{write.process.name} writes {write.target}, and {self.world.holder!r} has the Lease")

    def stash(self, write: Step) -> None:
        """Right before the write is applied, and after other events of that moment."""
        self._before[write.process.name] = self._read(write)

    def applied(self, write: Step) -> None:
        """After a write: only hashes changed, from the old one of that field to its new one or back."""
        if write.resource not in GROVE:
            return
        before, after = self._before.pop(write.process.name), self._read(write)
        if before is None or after is None:
            self.wrongs.append(f"{write.target} was {'created' if before is None else 'deleted'} by a migrator")
            return
        key = cluster.key_of(before)
        old, new = dict(spots(key, before)), dict(spots(key, after))
        for spot in old.keys() | new.keys():
            pair = (old.get(spot), new.get(spot))
            if pair[0] != pair[1] and pair not in {
                way for word in self.lexicon.of(spot) for way in ((word.old, word.new), (word.new, word.old))
            }:
                self.wrongs.append(f"{write.target}: {'/'.join(spot.path)}: {pair[0]} became {pair[1]}")
        if _without_hashes(before) != _without_hashes(after):
            self.wrongs.append(f"{write.target}: more than hashes was changed")

    def _read(self, write: Step) -> Object | None:
        if write.resource is None or write.resource not in GROVE:
            return None
        try:
            return self.world.store.read(write.resource, "default", write.name)
        except KeyError:
            return None


def strange(objects: Objects, lexicon: Lexicon, others: set[str]) -> list[str]:
    """Fields that hold neither an old nor a new hash of any spec of theirs, nor what somebody else put there."""
    return [
        f"{spot.key}: {'/'.join(spot.path)} is {value}"
        for spot, value in all_spots(objects).items()
        if value not in others and all(value not in {word.old, word.new} for word in lexicon.of(spot))
    ]


def half_committed(objects: Objects, lexicon: Lexicon) -> list[str]:
    """Sets whose commit record is the new hash of their present spec, and fields that still hold an old one of it."""
    found = all_spots(objects)
    wrong = []
    for key, pcs in objects.items():
        if key[0] == "PodCliqueSet" and is_committed(pcs, lexicon):
            words = lexicon.present(pcs)
            wrong += [
                f"{key[2]} is committed, and {spot.key} has the old {'/'.join(spot.path)}"
                for spot, value in found.items()
                if spot.set_name == key[2] and value == words[spot.clique].old
            ]
    return wrong


def is_committed(pcs: Object, lexicon: Lexicon) -> bool:
    """Whether a set's commit record is the new hash of its present spec."""
    value = (pcs.get("status") or {}).get("currentGenerationHash")
    return bool(value == lexicon.present(pcs)[None].new)


def translated(objects: Objects, without: Objects, lexicon: Lexicon) -> dict[Spot, str]:
    """The fields that hold a new hash which they do not hold where no migrator ever ran."""
    other = all_spots(without)
    return {
        spot: value
        for spot, value in all_spots(objects).items()
        if other.get(spot) != value and any(word.new == value for word in lexicon.of(spot))
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
    """How many of these pods each PodClique has."""
    return Counter(name.rpartition("-")[0] for name in pods)


def more(here: Counter[str], there: Counter[str], only: Callable[[str], bool] = lambda _name: True) -> dict[str, str]:
    """Where there is more here than there."""
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
    for spot, _ in spots(cluster.key_of(item), item):
        here: Any = kept
        for part in spot.path[:-1]:
            here = here[part]
        del here[spot.path[-1]]
    return kept
