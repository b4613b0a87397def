"""Where charts of Grove come from: where Grove publishes them, or a directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from tests.upgrade.builds import Build

#: docs/installation.md of each release: until alpha.3 and from alpha.4 on.
_FIRST: Final = "oci://ghcr.io/nvidia/grove/grove-charts"
_LATER: Final = "oci://ghcr.io/ai-dynamo/grove/grove-charts"
_OF_FIRST: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})


class Charts(Protocol):
    """Charts by the names of builds."""

    def reference(self, name: str) -> tuple[str, ...]:
        """A build's chart, as arguments of helm."""
        ...

    def values(self, build: Build) -> tuple[str, ...]:
        """What an installation needs, as arguments of helm; raises ValueError where there is no chart."""
        ...


class Published:
    """Charts of releases, whose version is the release's tag."""

    def reference(self, name: str) -> tuple[str, ...]:
        """The chart in Grove's registry."""
        return (_FIRST if name in _OF_FIRST else _LATER, "--version", name)

    def values(self, build: Build) -> tuple[str, ...]:
        """None: a published chart names its own image."""
        if not build.release:
            raise ValueError(f"{build.name} is not a release of Grove: it has no chart")
        return ()


@dataclass(frozen=True, slots=True)
class Local:
    """Charts in a directory, as they are in Grove's repository: they name an image of a developer's."""

    directory: Path

    def reference(self, name: str) -> tuple[str, ...]:
        """The chart's directory."""
        return (str(self.directory / name),)

    def values(self, build: Build) -> tuple[str, ...]:
        """The build's name as the image's tag."""
        return ("--set", f"image.tag={build.name}")


def release_of(line: str) -> str:
    """The release that a line of testbed/crds is named after."""
    return f"v0.1.0-{line}"
