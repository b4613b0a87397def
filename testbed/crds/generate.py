"""Generate the CRDs of all lines with controller-gen, as Grove's own are made: ``python -m testbed.crds.generate``.

The schema of podSpec, its defaults and pruning are therefore the real ones. Descriptions are left out.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.crds.lines import GENERATED, HERE, LINES, Line
from testbed.go_programs import GoProgram, environment

_TYPES: Final = HERE / "types"
_GENERATOR: Final = "crd:maxDescLen=0,allowDangerousTypes=true"

#: In the version that types/go.mod names.
CONTROLLER_GEN: Final = GoProgram("controller-gen", _TYPES, "sigs.k8s.io/controller-tools/cmd/controller-gen")


def crds(line: Line, controller_gen: Path) -> list[dict[str, Any]]:
    """Return what controller-gen makes of a line's types, sorted by name."""
    with tempfile.TemporaryDirectory() as temporary:
        source, output = Path(temporary) / "types", Path(temporary) / "crds"
        # A copy, because the API minor is a matter of go.mod, and controller-gen reads no file of another name.
        shutil.copytree(_TYPES, source)
        for suffix in ("mod", "sum"):
            (source / f"{line.module}.{suffix}").replace(source / f"go.{suffix}")
        paths = [f"paths=./{package}" for package in line.packages]
        subprocess.run(
            [controller_gen, _GENERATOR, *paths, f"output:crd:dir={output}"],
            cwd=source,
            env=environment(),
            check=True,
            capture_output=True,
        )
        return sorted(
            (yaml.safe_load(path.read_text(encoding="utf-8")) for path in output.glob("*.yaml")),
            key=lambda crd: str(crd["metadata"]["name"]),
        )


def main() -> int:
    """Write all lines anew."""
    GENERATED.mkdir(exist_ok=True)
    controller_gen = CONTROLLER_GEN.binary()
    for line in LINES.values():
        text = json.dumps(crds(line, controller_gen), sort_keys=True, separators=(",", ":"))
        target = GENERATED / f"{line.name}.json.gz"
        target.write_bytes(gzip.compress(text.encode(), mtime=0))
        sys.stdout.write(f"{target.relative_to(HERE)}: {target.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
