"""The upgrades that are tried on kind: between releases, since charts are of releases."""

from __future__ import annotations

from typing import Final

from tests.upgrade.matrix import Pair

PAIRS: Final = (Pair("v0.1.0-alpha.3", "v0.1.0-alpha.9"), Pair("v0.1.0-alpha.9", "v0.1.0-alpha.11"))
