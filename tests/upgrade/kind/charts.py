"""Where Grove publishes its chart."""

from __future__ import annotations

from typing import Final

#: docs/installation.md of each release: until alpha.3 and from alpha.4 on.
_FIRST: Final = "oci://ghcr.io/nvidia/grove/grove-charts"
_LATER: Final = "oci://ghcr.io/ai-dynamo/grove/grove-charts"
_OF_FIRST: Final = frozenset({"v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"})


def reference(release: str) -> tuple[str, ...]:
    """A release's chart, as arguments of helm: its version is the release's tag."""
    return (_FIRST if release in _OF_FIRST else _LATER, "--version", release)


def release_of(line: str) -> str:
    """The release that a line of tests/support/crds is named after."""
    return f"v0.1.0-{line}"
