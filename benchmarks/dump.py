"""Memory of reading a large dump: Grove's scale test as ``kubectl get -o json`` prints it, planned and migrated."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Final

from benchmarks.growth import texts_of
from benchmarks.processes import spend
from benchmarks.rows import Row
from benchmarks.shapes import TARGET
from migrator.exact_json import JSONObject

_KINDS: Final = ("PodCliqueSet", "PodClique", "Pod")
_FIELD_MANAGERS: Final = [
    {
        "manager": "grove-operator",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsV1": {"f:status": {f"f:condition-{number}": {".": {}, "f:type": {}} for number in range(12)}},
    }
]


def measure(pods: int) -> list[Row]:
    """The most memory that ``plan`` and ``run`` need for a dump of so many pods."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dump.json"
        with path.open("w", encoding="utf-8") as file:
            write(file, pods)
        size, what = path.stat().st_size / 1e6, ["-f", str(path), "--to", TARGET]
        rows = []
        for name, arguments in {
            "plan": ["plan", *what],
            "run": ["run", *what, "--write", str(path.with_name("out.json"))],
        }.items():
            figure = f"peak memory: {name} of a dump of {pods:,} pods ({size:,.0f} MB)"
            spent = spend([sys.executable, "-m", "migrator", *arguments], stderr=DEVNULL)
            rows.append(Row(figure, spent.peak_kib / 1024, None, "MiB", "<= 381"))  # 400 MB
    return rows


def write(file: IO[str], pods: int) -> None:
    """Write a dump with so many pods, each with its containers and field managers."""
    file.write('{\n    "apiVersion": "v1",\n    "items": [\n')
    for number, text in enumerate(_items(pods)):
        file.write((",\n" if number else "") + "\n".join(f"        {line}" for line in text.splitlines()))
    file.write('\n    ],\n    "kind": "List",\n    "metadata": {\n        "resourceVersion": ""\n    }\n}\n')


def _items(pods: int) -> Iterator[str]:
    for kind in _KINDS:
        for text in texts_of(pods, kind, _managed):
            yield json.dumps(json.loads(text), indent=4)


def _managed(item: JSONObject) -> None:
    item["metadata"]["managedFields"] = _FIELD_MANAGERS
