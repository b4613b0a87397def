"""The images of the scenarios, in the engine's store: loaded from archives where there is no registry, or built."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from testbed import operator_installation as installation
from testbed.kind import BUSYBOX, our_image
from tests.support.commands import attempt, run
from tests.support.paths import ROOT

#: Archives that are loaded first, between colons; what they have is neither pulled nor built.
ARCHIVES: Final = "GROVE_E2E_ARCHIVES"
OURS: Final = our_image.TAG
_DOCKERFILE: Final = """\
ARG OURS
FROM ${OURS}
COPY testbed /opt/operator/testbed
WORKDIR /opt/operator
ARG RELEASE
ENV RELEASE=${RELEASE}
ENTRYPOINT ["sh", "-c", "exec /opt/grove-migrator/bin/python -m testbed.stand_in_operator $RELEASE"]
"""


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
    """Build the stand-in operator as an image of each release; returns their names."""
    names = [installation.image(release) for release in releases]
    with tempfile.TemporaryDirectory() as scratch:
        context = Path(scratch)
        (context / "Dockerfile").write_text(_DOCKERFILE, encoding="utf-8")
        shutil.copytree(ROOT / "testbed", context / "testbed")
        for release, name in zip(releases, names, strict=True):
            arguments = (f"--build-arg=OURS={OURS}", f"--build-arg=RELEASE={release}")
            run("docker", "build", "--tag", name, *arguments, scratch)
    try:
        yield names
    finally:
        run("docker", "image", "rm", *names)


def _has(image: str) -> bool:
    return attempt("docker", "image", "inspect", image).returncode == 0
