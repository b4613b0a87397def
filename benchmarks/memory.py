"""Memory of reading a large dump: Grove's scale test as ``kubectl get -o json`` prints it."""

from __future__ import annotations

import copy
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Final

from benchmarks.processes import Row, spend
from benchmarks.shapes import TARGET, scale_test

#: About 440 MB.
PODS: Final = 50_000
_MOST: Final = "<= 400"
_PODS_OF_A_CLIQUE: Final = 2
_INDEX: Final = '"grove.io/podcliqueset-replica-index": "%d"'
_FIELD_MANAGERS: Final = [
    {
        "manager": "grove-operator",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsV1": {"f:status": {f"f:condition-{number}": {".": {}, "f:type": {}} for number in range(12)}},
    }
]


def measure() -> list[Row]:
    """The most memory that ``plan`` needs for the dump, and its time."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dump.json"
        with path.open("w", encoding="utf-8") as file:
            write(file, PODS)
        size, flags = path.stat().st_size / 1e6, ["-f", str(path), "--to", TARGET]
        spent = spend([sys.executable, "-m", "migrator", "plan", *flags], stderr=DEVNULL)
    return [
        Row(f"plan -f: memory, a dump of {size:,.0f} MB", spent.peak_kib / 1024, None, "MiB", _MOST),
        Row("plan -f: time", spent.seconds, None, "s"),
    ]


def write(file: IO[str], pods: int) -> None:
    """Write a dump with so many pods, each with its containers and field managers."""
    file.write('{\n    "apiVersion": "v1",\n    "items": [\n')
    for number, text in enumerate(_items(pods)):
        file.write((",\n" if number else "") + text)
    file.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def _items(pods: int) -> Iterator[str]:
    """The JSON of every object, made from those of the first replica."""
    first = scale_test(_PODS_OF_A_CLIQUE)
    first[0]["spec"]["replicas"] = pods // _PODS_OF_A_CLIQUE
    uids = [item["metadata"]["uid"] for item in first if item["kind"] in {"PodClique", "Pod"}]
    for kind in ("PodCliqueSet", "PodClique", "Pod"):
        items = [copy.deepcopy(item) for item in first if item["kind"] == kind]
        for item in items:
            item["metadata"]["managedFields"] = _FIELD_MANAGERS
        texts = [json.dumps(item, indent=4).replace("\n", "\n        ") for item in items]
        for number in range(1 if kind == "PodCliqueSet" else pods // _PODS_OF_A_CLIQUE):
            for text in texts:
                own = text.replace("scale-test-0", f"scale-test-{number}").replace(_INDEX % 0, _INDEX % number)
                for uid in uids:
                    own = own.replace(uid, f"{number:08x}{uid[8:]}")
                yield f"        {own}"
