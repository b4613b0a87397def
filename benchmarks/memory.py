"""Memory of reading a large dump: Grove's scale test as ``kubectl get -o json`` prints it, with managers of fields."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

from benchmarks.processes import Row, spend
from benchmarks.scale import TARGET, scale_test

#: About 440 MB.
PODS: Final = 50_000
_FIELDS: Final[dict[str, object]] = {f"f:condition-{number}": {".": {}, "f:type": {}} for number in range(12)}
_MANAGER: Final = {"manager": "grove-operator", "operation": "Update", "fieldsV1": {"f:status": _FIELDS}}


def measure() -> list[Row]:
    """The most memory that ``plan`` needs for the dump, and its time."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dump.json"
        with path.open("w", encoding="utf-8") as file:
            before = '{\n    "apiVersion": "v1",\n    "items": [\n'
            for item in scale_test(PODS):
                item["metadata"]["managedFields"] = [_MANAGER]
                file.write(before + json.dumps(item, indent=4).replace("\n", "\n        "))
                before = ",\n"
            file.write('\n    ],\n    "kind": "List"\n}\n')
        size, flags = path.stat().st_size / 1e6, ["-f", str(path), "--to", TARGET]
        spent = spend([sys.executable, "-m", "migrator", "plan", *flags], stderr=DEVNULL)
    memory = Row(f"plan -f: memory, a dump of {size:,.0f} MB", spent.peak_kib / 1024, None, "MiB", "<= 400")
    return [memory, Row("plan -f: time", spent.seconds, None, "s")]
