"""A dump of three objects, what a migration changes in it, and the files that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from migrator.resources import POD_CLIQUE_SETS, PODS, Op
from migrator.stores.dump.store import DumpStore

LABEL = "/metadata/labels/grove.io~1pod-template-hash"
PCS = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "demo", "namespace": "a", "uid": "u1", "generation": 3, "labels": {"app": "web"}},
    "spec": {"template": {"cliques": [{"name": "worker", "text": "abc5 naïve \U0001f600 <&>"}]}},
    "status": {"currentGenerationHash": "abc5"},
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a", "uid": "u2", "labels": {"grove.io/pod-template-hash": "5678"}},
    "spec": {},
}
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
OBJECTS = [PCS, SERVICE, POD]


def as_yaml(value: Any) -> str:
    """Block style, as kubectl prints it."""
    return yaml.safe_dump(value, allow_unicode=True)


def dump(folder: Path, text: str | bytes, name: str = "dump") -> str:
    """A file with that content, byte for byte."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def read(folder: Path, text: str | bytes) -> DumpStore:
    """The store that a file with that content is."""
    return DumpStore.read(dump(folder, text))


def written(folder: Path, store: DumpStore) -> str:
    """What a store writes to a file, line ends included."""
    out = folder / "out"
    store.write(str(out))
    return out.read_bytes().decode()


def swap(path: str, old: str, new: str) -> tuple[Op, Op]:
    """A compare-and-swap."""
    return Op("test", path, old), Op("replace", path, new)


def regenerate(store: DumpStore, old: str = "abc5", new: str = "def6") -> None:
    """Change the hash in the set's status."""
    store.patch(POD_CLIQUE_SETS, "a", "demo", swap("/status/currentGenerationHash", old, new), subresource="status")


def relabel(store: DumpStore, old: str = "5678", new: str = "bcd") -> None:
    """Change the hash in the pod's label."""
    store.patch(PODS, "a", "p", swap(LABEL, old, new))


def migrate(store: DumpStore) -> None:
    """Change one hash in a status and one in a label; the new label looks like a number."""
    regenerate(store)
    relabel(store, new="8765")
