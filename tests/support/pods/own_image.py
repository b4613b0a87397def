"""Our own image: this checkout's command line."""

from __future__ import annotations

import sys
from typing import Final

from testbed.controlplane.client import Object
from tests.support.paths import ROOT
from tests.support.pods.container import Program, image_of

_NAME: Final = "grove-migrator"
_PROGRAM: Final = Program(
    (sys.executable, "-m", "migrator"),
    {"HOME": "/nonexistent", "PYTHONPATH": f"{ROOT}:{ROOT}/tests/support/slow_network"},
    without_mounts=(sys.executable, "-m", "tests.support.pods.elsewhere"),
)


def own_image(pod: Object) -> Program | None:
    """This checkout's command line for a pod of our image, whatever its tag; None for another pod."""
    return _PROGRAM if image_of(pod).partition(":")[0] == _NAME else None
