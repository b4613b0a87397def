"""Where charts of Grove come from: where Grove publishes them, or a directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.upgrade.builds import Build

#: docs/installation.md of each release: until alpha.3 and from alpha.4 on.
_FIRST: Final = "oci://ghcr.io/nvidia/grove/grove-charts"
_LATER: Final = "oci://ghcr.io/ai-dynamo/grove/grove-charts"
_OF_FIRST: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})


@dataclass(frozen=True, slots=True)
class Charts:
    """Charts by the names of builds: the published ones, or those of a directory, as they are in Grove's repository."""

    directory: Path | None = None

    def reference(self, name: str) -> tuple[str, ...]:
        """A build's chart, as arguments of helm; the version of a published chart is the release's tag."""
        if self.directory is not None:
            return (str(self.directory / name),)
        return (_FIRST if name in _OF_FIRST else _LATER, "--version", name)

    def values(self, build: Build) -> tuple[str, ...]:
        """What an installation needs, as arguments of helm; raises ValueError where there is no chart."""
        if self.directory is not None:
            return ("--set", f"image.tag={build.name}")  # the repository's chart names a developer's image
        if not build.release:
            raise ValueError(f"{build.name} is not a release of Grove: it has no chart")
        return ()
