"""A dump of three objects, what a migration changes in it, and the files that hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from migrator.dump import Dump

#: The end of its text separates lines in Unicode, and not in JSON.
PCS = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "PodCliqueSet",
    "metadata": {"name": "demo", "namespace": "a", "uid": "u1", "generation": 3, "labels": {"app": "web"}},
    "spec": {"template": {"cliques": [{"name": "worker", "text": "abc5 naïve \U0001f600 <&> \u2028\u2029\x85"}]}},
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
LIST = {"apiVersion": "v1", "items": OBJECTS, "kind": "List", "metadata": {"resourceVersion": ""}}


def as_yaml(value: Any) -> str:
    """Block style, as kubectl prints it."""
    return yaml.safe_dump(value, allow_unicode=True)


def dump(folder: Path, text: str | bytes, name: str = "dump") -> str:
    """A file with that content, byte for byte."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def read(folder: Path, text: str | bytes) -> Dump:
    """The store that a file with that content is."""
    return Dump.read(dump(folder, text))
