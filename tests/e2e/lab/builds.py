"""The builds of Grove's operator that the suite can run, and where their binaries are.

``GROVE_OPERATORS_DIR`` names their directory: ``<dir>/<build>/grove-operator``, and charts in ``<dir>/charts/<build>``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.lab.container import isolation

VARIABLE: Final = "GROVE_OPERATORS_DIR"
REPOSITORY: Final = "grove-operator"
#: docs/installation.md of each release: until alpha.3 and from alpha.4 on.
_FIRST: Final = "oci://ghcr.io/nvidia/grove/grove-charts"
_LATER: Final = "oci://ghcr.io/ai-dynamo/grove/grove-charts"
_OF_FIRST: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})


@dataclass(frozen=True, slots=True)
class Build:
    """One build: the name is its directory and its image's tag.

    ``crds`` is the line of testbed/crds that it is installed with, ``scheme`` what it hashes with. The tool knows a
    build that is not a release by its scheme and image. ``empty_updates``: it begins an update of every standalone
    PodClique without ``updateProgress``, and replaces nothing.
    """

    name: str
    title: str
    scheme: str
    crds: str
    release: bool = True
    empty_updates: bool = False

    @property
    def image(self) -> str:
        """The image in the operator's Deployment."""
        return f"{REPOSITORY}:{self.name}"

    @property
    def on_delete(self) -> bool:
        """Whether it knows the update strategy OnDelete: from alpha.7 on."""
        return self.crds in {"alpha.8", "alpha.9", "alpha.11", "podgangmap"}

    @property
    def target(self) -> tuple[str, ...]:
        """How the tool is told that this build comes next."""
        return ("--to", self.name) if self.release else ("--to", self.scheme, "--target-image", self.image)

    def binary(self) -> Path:
        """Where its program is, if there is one."""
        return (directory() or Path("/nonexistent")) / self.name / REPOSITORY

    @property
    def runs(self) -> bool:
        """Whether there are its program and its chart."""
        return self.binary().is_file() and Path(*chart(self.name)).is_dir()


_ALL: Final = (
    Build("v0.1.0-alpha.3", "alpha.3", "legacy-1.33", "alpha.3"),
    Build(
        "v0.1.0-alpha.3-k8s-1.34",
        "alpha.3 rebuilt with k8s.io/api 0.34 (local build, no release)",
        "legacy-1.34",
        "alpha.6",
        release=False,
    ),
    Build("v0.1.0-alpha.8", "alpha.8", "legacy-1.34", "alpha.8"),
    Build("v0.1.0-alpha.9", "alpha.9", "legacy-1.34", "alpha.9"),
    Build("v0.1.0-alpha.11", "alpha.11", "legacy-1.35", "alpha.11"),
    Build("v0.1.0-alpha.12-rc1", "alpha.12-rc1", "legacy-1.35", "alpha.11", empty_updates=True),
    Build("pr-778-6eaa77f0", "PR #778 (PodGangMaps)", "legacy-1.35", "podgangmap", release=False),
    Build("main-94a0105c", "main at 94a0105c (canonical hashes)", "canonical-1.34", "alpha.9"),
    Build("main-d7cb1bc2", "main at d7cb1bc2 (canonical hashes)", "canonical-1.35", "alpha.11"),
    Build("main-fcc3b3bb", "main at fcc3b3bb", "legacy-1.35", "alpha.11", release=False),
    Build("main-hooks", "main at fcc3b3bb with alpha.14's webhooks", "legacy-1.35", "alpha.11", release=False),
    Build("next-0.37", "main at fcc3b3bb on k8s.io/api 0.37", "legacy-1.37", "alpha.11", release=False),
    Build(
        "next-0.37-hooks",
        "main at fcc3b3bb on k8s.io/api 0.37 with alpha.14's webhooks",
        "legacy-1.37",
        "alpha.11",
        release=False,
    ),
)
BUILDS: Final = {build.name: build for build in _ALL}


def directory() -> Path | None:
    """Where binaries are looked for; None if nobody said."""
    named = os.environ.get(VARIABLE)
    return Path(named).resolve() if named else None


def chart(name: str) -> tuple[str, ...]:
    """A build's chart, as arguments of helm: that of the directory, or the published one, whose version is the tag."""
    home = directory()
    if home is not None:
        return (str(home / "charts" / name),)
    return (_FIRST if name in _OF_FIRST else _LATER, "--version", name)


def need(*names: str) -> None:
    """Skips where these builds cannot run: a binary or a chart is missing, or no process may change its root."""
    if isolation() is None:
        pytest.skip("this machine permits no other root directory (chroot), so no container can be imitated")
    missing = [name for name in names if not BUILDS[name].runs]
    if missing:
        pytest.skip(f"not run: no binary and chart of {', '.join(missing)} in {VARIABLE}")
