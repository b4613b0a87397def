"""Take Grove's own CRDs from a clone of its repository: ``python -m testbed.crds.from_grove CLONE``.

They are data under Apache-2.0, whose text is in data/LICENSE. Descriptions are left out.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import yaml

from testbed.crds import DATA

#: Of each line the tags or commits of Grove's repository, and what names of the files end with.
_LINES: Final = {
    name: [(f"operator/v0.1.0-{name}", ".yaml")] for name in ("alpha.3", "alpha.6", "alpha.8", "alpha.9", "alpha.11")
}
_LINES["podgangmap"] = [*_LINES["alpha.11"], ("6eaa77f0debebd29f373a27c68f25931fc734156", "podgangmaps.yaml")]


def _crds(clone: str, ref: str, ending: str) -> Iterator[Any]:
    for path in _git(clone, "ls-tree", "-r", "--name-only", ref).splitlines():
        if "api/core/v1alpha1/crds/" in path and path.endswith(ending):
            yield _without_descriptions(yaml.safe_load(_git(clone, "show", f"{ref}:{path}")))


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
    """Write every line, its CRDs by name."""
    for name, sources in _LINES.items():
        found = [crd for source in sources for crd in _crds(clone, *source)]
        text = json.dumps(sorted(found, key=lambda crd: crd["metadata"]["name"]), sort_keys=True, separators=(",", ":"))
        (DATA / f"{name}.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (DATA / "LICENSE").write_text(_git(clone, "show", f"{_LINES['alpha.11'][0][0]}:LICENSE"), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
