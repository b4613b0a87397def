#!/usr/bin/env python3
"""Read each Grove release's k8s.io/api minor from that release's own go.mod.

The release table, ``migrator/hashing/releases.json``, is one JSON object per line, oldest build first. People write
``release``, ``algorithm`` and the flags (``dev``, ``acceptsLegacy``, ``hashInNames``, ``podGangMaps``), having read the
release's source; this script writes ``minor``, ``module`` and ``commit``. A build that is not a release is named
``main-`` and its commit. A release that exists upstream and has no line is an error that names it.

The argument is a clone of Grove: ``python scripts/release_minors.py ~/grove``. On any failure the table stays as it
is and the exit code is 1.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parent.parent / "migrator" / "hashing" / "releases.json"

GO_MOD = "operator/go.mod"
TAG_PREFIX = "operator/"
DEV_PREFIX = "main-"
API_MODULE = "k8s.io/api"
COMMIT_LENGTH = 8
COLUMNS = ("release", "minor", "algorithm", "module", "commit")


class ReadError(Exception):
    """A source could not be read; the text is one clear sentence."""


@dataclass(frozen=True, slots=True)
class GitClone:
    """A clone of Grove's repository, bare or not."""

    directory: Path

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.directory, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise ReadError(f"git {' '.join(arguments)} failed in {self.directory}: {reason[0]}.")
        return done.stdout

    def releases(self) -> frozenset[str]:
        """The versions that are tagged for the operator's module."""
        tags = self._git("tag", "--list", f"{TAG_PREFIX}v*").split()
        return frozenset(tag.removeprefix(TAG_PREFIX) for tag in tags)

    def read(self, release: str) -> tuple[str, str]:
        """The go.mod at the release's tag, or at the commit of a ``main-`` build; and the commit."""
        revision = release.removeprefix(DEV_PREFIX)
        at = revision if release.startswith(DEV_PREFIX) else f"refs/tags/{TAG_PREFIX}{revision}"
        commit = self._git("rev-parse", "--verify", "--quiet", f"{at}^{{commit}}").strip()
        return self._git("show", f"{commit}:{GO_MOD}"), commit


def directives(go_mod: str) -> Iterator[list[str]]:
    """The lines of a go.mod as words, each with its directive first, blocks opened up, comments dropped."""
    block = ""
    for line in go_mod.splitlines():
        words = line.split("//", 1)[0].split()
        if not words:
            continue
        if words[-1] == "(":
            block = words[0]
        elif words == [")"]:
            block = ""
        else:
            yield [block, *words] if block else words


def module_and_minor(go_mod: str) -> tuple[str, str]:
    """The module's own path, and the Kubernetes minor (``1.34``) of the k8s.io/api that it builds with.

    A tidy go.mod (Go 1.17 and later) names the version that is selected, so no build list is needed.
    Raises :class:`ReadError` if either is missing, or if k8s.io/api is replaced.
    """
    module = required = None
    for words in directives(go_mod):
        match words:
            case ["module", path]:
                module = path
            case ["require", path, version, *_] if path == API_MODULE:
                required = version
            case ["replace", path, *_] if path == API_MODULE:
                raise ReadError(f"{module} replaces {API_MODULE}: its requirement does not give the version.")
    minor = re.fullmatch(r"v0\.(\d+)\.\d+", required or "")
    if module is None or minor is None:
        found = f"requires {API_MODULE} {required}" if required else f"does not require {API_MODULE}"
        raise ReadError(f"{module or 'A go.mod without a module'} {found}: v0.<minor>.<patch> was expected.")
    return module, f"1.{minor[1]}"


def refreshed(row: dict[str, Any], clone: GitClone) -> dict[str, Any]:
    """One line of the table with the script's columns read anew and the columns by hand kept."""
    go_mod, commit = clone.read(row["release"])
    module, minor = module_and_minor(go_mod)
    columns = row | {"minor": minor, "module": module, "commit": commit[:COMMIT_LENGTH]}
    flags = {key: columns[key] for key in columns if key not in COLUMNS}
    return {key: columns[key] for key in COLUMNS} | flags


def refresh(rows: Sequence[dict[str, Any]], clone: GitClone) -> list[dict[str, Any]]:
    """The whole table read anew, in its order. Raises :class:`ReadError` for a release without a line."""
    missing = clone.releases() - {row["release"] for row in rows}
    if missing:
        raise ReadError(
            f"No line for {', '.join(sorted(missing))}: read what it does (docs/development/grove-releases.md has what "
            'matters), then add {"release": ..., "algorithm": "legacy" or "canonical"}.'
        )
    return [refreshed(row, clone) for row in rows]


def parse(text: str) -> list[dict[str, Any]]:
    """The lines of a table. Raises :class:`ReadError` for one that is not a JSON object with a release."""
    rows = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = json.loads(line)
            rows.append(row | {"release": str(row["release"]), "algorithm": str(row["algorithm"])})
        except (ValueError, TypeError, KeyError) as error:
            raise ReadError(f"Line {number} of the table has no release and algorithm: {line[:80]}.") from error
    return rows


def render(rows: Sequence[dict[str, Any]]) -> str:
    """A table as it is kept: one object per line."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def main(clone: Path, table: Path = TABLE) -> int:
    """Update the release table; 1 if a source cannot be read, and then the table stays as it is."""
    try:
        fresh = render(refresh(parse(table.read_text(encoding="utf-8")), GitClone(clone)))
    except (OSError, ReadError) as error:
        print(f"{error} {table.name} is unchanged.", file=sys.stderr)
        return 1
    table.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
