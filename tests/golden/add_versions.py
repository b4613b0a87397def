"""Compare each published version of the libraries that a hash depends on: ``python -m tests.golden.add_versions``.

Writes ``migrator/releases/libraries.sum``: what go.sum has of each version with which an oracle prints the layout that
we ship and the hashes of the oracle that is checked in. A version that prints others ends it: it needs a layout of its
own. It takes minutes: where all sources are those of a version before, nothing is built.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from migrator.releases import program
from testbed.go_programs import environment, go
from testbed.oracle import HERE, MINORS, oracle
from tests.golden.inputs import random_lines

TABLE: Final = Path(program.__file__).with_name("libraries.sum")
API, MACHINERY, SPEW, UTILS = program.API, program.MACHINERY, program.SPEW, program.UTILS
#: The packages that make a module count: those with types of a template, whose layout is that of the minor, and those
#: that print. k8s.io/utils has printed since 0.36, and before that versions of it matter to nothing that is hashed.
LAYOUT_OF: Final = {
    f"{API}/core/v1": "",
    f"{MACHINERY}/pkg/apis/meta/v1": "",
    f"{SPEW}/spew": "any",
    f"{UTILS}/dump": "any",
}
#: What k8s.io/apimachinery up to 0.35 requires at least; the oracles have the newer one, which Grove has.
OLD_SPEW: Final = "v1.1.1"

#: k8s.io/utils at each merge to its master branch since it prints, besides what Kubernetes requires. It has no releases
#: that a proxy could list.
UTILS_VERSIONS: Final = (
    "v0.0.0-20260319190234-28399d86e0b5",
    "v0.0.0-20260507154919-ff6756f316d2",
    "v0.0.0-20260617174310-a95e086a2553",
    "v0.0.0-20260707023825-cf1189d6abe3",
    "v0.0.0-20261023123148-ca04ba58ecab",
)

Row = tuple[str, str, str, str]  # module, version, checksum, layout


@dataclass(frozen=True, slots=True)
class Build:
    """An oracle of one minor with other versions of its libraries, in a directory of its own."""

    minor: str
    directory: Path

    @classmethod
    def of(cls, minor: str, base: Path, *edits: str) -> Build | None:
        """The checked-in oracle with edits of its go.mod; nothing where a version is not published."""
        made = cls(minor, base / f"v{minor}")
        shutil.rmtree(made.directory, ignore_errors=True)
        shutil.copytree(HERE / made.directory.name, made.directory)
        made._go("mod", "edit", *edits)
        return made if made._go("list", "-deps", ".", may_fail=True) else None

    def packages(self) -> Iterator[dict[str, Any]]:
        """What ``go list`` says of each package outside the standard library that is linked."""
        text, at = self._go("list", "-deps", "-json=Standard,ImportPath,Dir,GoFiles,Module", "."), 0
        while at < len(text.rstrip()):
            found, at = json.JSONDecoder().raw_decode(text, at + (text[at] == "\n"))
            if not found.get("Standard"):
                yield found

    def sources(self) -> str:
        """A digest of all that is compiled."""
        digest = hashlib.sha256()
        for found in self.packages():
            for name in found["GoFiles"]:
                digest.update(f"{found['ImportPath']}/{name}\0".encode())
                digest.update((Path(found["Dir"]) / name).read_bytes())
        return digest.hexdigest()

    def rows(self) -> Iterator[Row]:
        sums = dict(re.findall(r"(?m)^(\S+ \S+) (h1:\S+)$", (self.directory / "go.sum").read_text(encoding="utf-8")))
        for found in self.packages():
            if found["ImportPath"] in LAYOUT_OF:
                module = found["Module"]["Path"]
                version = found["Module"].get("Replace", found["Module"])["Version"]
                yield module, version, sums[f"{module} {version}"], LAYOUT_OF[found["ImportPath"]] or self.minor

    def answers(self) -> tuple[bytes, bytes]:
        self._go("build", "-o", "oracle", ".")
        return answers(self.directory / "oracle")

    def _go(self, *arguments: str, may_fail: bool = False) -> str:
        variables = {**environment(), "GOFLAGS": "-mod=mod"}
        done = subprocess.run(
            [go(), *arguments], cwd=self.directory, env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode and not may_fail:
            raise SystemExit(f"go {arguments[0]} of {self.minor} failed:\n{done.stderr.strip()}")
        return "" if done.returncode else done.stdout


def answers(executable: Path) -> tuple[bytes, bytes]:
    """The layout and the hashes of random templates, as an oracle prints them."""
    lines = b"\n".join(random_lines(48, 2000)) + b"\n"
    printed = (
        subprocess.run([executable, command], input=lines, capture_output=True, check=True).stdout
        for command in ("layout", "hash")
    )
    return next(printed), next(printed)


@cache
def expected(minor: str) -> tuple[bytes, bytes]:
    return answers(oracle(minor).binary())


def listed(module: str, minor: str) -> list[int]:
    """The patch versions of a minor that the module proxy lists; it may have more."""
    command = [go(), "list", "-m", "-versions", module]
    printed = subprocess.run(command, cwd=HERE / f"v{minor}", env=environment(), capture_output=True, check=True).stdout
    prefix = re.escape(minor.replace("1.", "v0.", 1))
    return [int(patch) for patch in re.findall(rf" {prefix}\.(\d+)(?=\s)", printed.decode())]


def versions(minor: str) -> list[str]:
    """Every version of a minor that may be published."""
    newest = max(*listed(API, minor), *listed(MACHINERY, minor))
    return [f"{minor.replace('1.', 'v0.', 1)}.{patch}" for patch in range(newest + 1)]


def rows(base: Path) -> Iterator[Row]:
    """A row for each library of each build that was compared."""
    shutil.copytree(HERE / "shared", base / "shared")
    # Without the versions that it requires at least.
    (base / "shared" / "go.mod").write_text("module grovemigrator/oracle\n\ngo 1.24.0\n", encoding="utf-8")
    for minor in MINORS:
        same: set[str] = set()
        builds = [(f"-require={API}@{version}", f"-require={MACHINERY}@{version}") for version in versions(minor)]
        if minor == "1.35":
            builds.append((f"-replace={SPEW}={SPEW}@{OLD_SPEW}",))
        if minor == "1.36":  # the one that requires the oldest of them
            builds += [(f"-require={UTILS}@{version}",) for version in UTILS_VERSIONS]
        for edits in builds:
            build = Build.of(minor, base, *edits)
            if build is None:
                sys.stderr.write(f"{minor} {' '.join(edits)}: not published\n")
                continue
            sources = build.sources()
            sys.stderr.write(f"{minor} {' '.join(edits)}: {'as before' if sources in same else 'is built'}\n")
            if sources not in same and build.answers() != expected(minor):
                raise SystemExit(f"{minor} {' '.join(edits)}: another layout or another hash")
            same.add(sources)
            yield from build.rows()


def main() -> None:
    with TemporaryDirectory() as base:
        found = sorted(set(rows(Path(base))), key=lambda row: [row[0], *map(int, re.findall(r"\d+", row[1])), row[1]])
    TABLE.write_text("".join(f"{' '.join(row)}\n" for row in found), encoding="utf-8")


if __name__ == "__main__":
    main()
