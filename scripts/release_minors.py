#!/usr/bin/env python3
"""Read each Grove release's k8s.io/api minor from that release's own go.mod.

The release table, ``migrator/releases/releases.json``, is one JSON object per line, oldest build first. People write
``release``, ``algorithm`` and the links, having read the release's source; this script writes ``minor`` and ``commit``.
A build that is not a release is named ``main-`` and its commit.

The argument is a clone of Grove: ``python scripts/release_minors.py ~/grove``. On any failure the table stays as it
is, and the message names the release.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

TABLE: Final = Path(__file__).resolve().parent.parent / "migrator" / "releases" / "releases.json"
COLUMNS: Final = ("release", "minor", "algorithm", "commit")
_COMMIT_LENGTH: Final = 8


def _git(clone: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=clone, capture_output=True, text=True, check=True).stdout


def minor_of(go_mod: str) -> str:
    """The Kubernetes minor (``1.34``) of the k8s.io/api that a module builds with.

    A tidy go.mod (Go 1.17 and later) names the version that is selected, so no build list is needed.
    Raises ``ValueError`` where it does not, or where k8s.io/api is replaced.
    """
    minor = re.search(r"(?m)^(?:require |\t)k8s\.io/api v0\.(\d+)\.\d+(?: //.*)?$", go_mod)
    if minor is None or re.search(r"(?m)^(?:replace |\t)k8s\.io/api (?:v\S+ )?=>", go_mod):
        raise ValueError("its go.mod does not say which k8s.io/api it builds with")
    return f"1.{minor[1]}"


def refreshed(row: dict[str, Any], clone: Path) -> dict[str, Any]:
    """One line of the table with the script's columns read anew and the columns by hand kept."""
    release = row["release"]
    at = release.removeprefix("main-") if release.startswith("main-") else f"refs/tags/operator/{release}"
    try:
        commit = _git(clone, "rev-parse", "--verify", f"{at}^{{commit}}").strip()
        minor = minor_of(_git(clone, "show", f"{commit}:operator/go.mod"))
    except (ValueError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"{release}: {error}") from error
    columns = row | {"minor": minor, "commit": commit[:_COMMIT_LENGTH]}
    return {key: columns[key] for key in COLUMNS} | {key: columns[key] for key in columns if key not in COLUMNS}


def main(clone: Path, table: Path = TABLE) -> None:
    """Update the release table, and name the releases that exist upstream and are not in it."""
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    tagged = {tag.removeprefix("operator/") for tag in _git(clone, "tag", "--list", "operator/v*").split()}
    if missing := sorted(tagged - {row["release"] for row in rows}):
        print(f"not in the table: {', '.join(missing)} (docs/development/grove-releases.md)", file=sys.stderr)
    text = "".join(json.dumps(refreshed(row, clone)) + "\n" for row in rows)
    table.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
