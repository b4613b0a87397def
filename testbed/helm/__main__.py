"""Helm as the tests have it: ``python -m testbed.helm template ...``."""

from __future__ import annotations

import os
import sys

from testbed.helm import PROGRAMS

os.execv(PROGRAMS["helm3"].binary(), ["helm", *sys.argv[1:]])  # noqa: S606 - no shell is wanted
