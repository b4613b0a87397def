"""The images of the scenarios, in the engine's store: loaded from archives where there is no registry, or built."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from testbed import operator_installation as installation
from testbed.kind import BUSYBOX, our_image
from tests.support.commands import attempt, run

#: Archives that are loaded first, between colons; what they have is neither pulled nor built.
ARCHIVES: Final = "GROVE_E2E_ARCHIVES"
OURS: Final = our_image.TAG


@contextmanager
def prepared() -> Iterator[None]:
    """Have our image and busybox in the engine; what was built here goes again."""
    for archive in filter(None, os.environ.get(ARCHIVES, "").split(":")):
        run("docker", "load", "--input", archive)
    built = not _has(OURS)
    if built:
        run(*our_image.build(OURS))
    if not _has(BUSYBOX):
        run("docker", "pull", BUSYBOX)
    try:
        yield
    finally:
        if built:
            run("docker", "image", "rm", OURS)


@contextmanager
def operators(*releases: str) -> Iterator[list[str]]:
    """Busybox by the name of each release's image, which the operator's chart makes idle; returns the names."""
    names = [installation.image(release) for release in releases]
    for name in names:
        run("docker", "tag", BUSYBOX, name)
    try:
        yield names
    finally:
        run("docker", "image", "rm", *names)


def _has(image: str) -> bool:
    return attempt("docker", "image", "inspect", image).returncode == 0
