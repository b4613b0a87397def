"""Take Grove's own CRDs from a clone of its repository: ``python -m testbed.crds.from_grove CLONE``.

They are data under Apache-2.0, whose text is in data/LICENSE. Descriptions are left out.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import yaml

from testbed.crds import DATA, LINES, Source


def crds(clone: str, sources: tuple[Source, ...]) -> list[Any]:
    """The CRDs of a line, by name; a later source adds to the earlier ones."""
    texts = (_git(clone, "show", f"{source.ref}:{path}") for source in sources for path in _paths(clone, source))
    return sorted(
        (_without_descriptions(yaml.safe_load(text)) for text in texts), key=lambda crd: crd["metadata"]["name"]
    )


def _paths(clone: str, source: Source) -> Iterator[str]:
    for path in _git(clone, "ls-tree", "-r", "--name-only", source.ref).splitlines():
        directory, _, name = path.rpartition("/")
        if directory.endswith("api/core/v1alpha1/crds") and name.endswith(f"{source.kind}.yaml"):
            yield path


def _git(clone: str, *arguments: str) -> str:
    return subprocess.run(["git", "-C", clone, *arguments], check=True, capture_output=True, text=True).stdout


def _without_descriptions(value: Any, *, names: bool = False) -> Any:
    """A schema without its texts; below ``properties`` a key is the name of a field, ``description`` too."""
    if isinstance(value, dict):
        return {
            key: _without_descriptions(item, names=key == "properties" and not names)
            for key, item in value.items()
            if names or not (key == "description" and isinstance(item, str))
        }
    return [_without_descriptions(item) for item in value] if isinstance(value, list) else value


def main(clone: str) -> None:
    """Write every line."""
    DATA.mkdir(exist_ok=True)
    for name, sources in LINES.items():
        text = json.dumps(crds(clone, sources), sort_keys=True, separators=(",", ":"))
        (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (DATA / "LICENSE").write_text(_git(clone, "show", f"{LINES['alpha.11'][0].ref}:LICENSE"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
