"""The release lines of Grove's API, each named after a release, and their CustomResourceDefinitions: Grove's own files.

As far as tests need, alpha.1 and alpha.2 are like alpha.3, alpha.4 and alpha.5 like alpha.6, alpha.7 like alpha.8,
alpha.10 and main at d7cb1bc2 like alpha.11, main at 94a0105c like alpha.9. ``podgangmap`` adds the PodGangMap of
alpha.12 and later to alpha.11, as pull request #778 of Grove has it.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

DATA: Final = Path(__file__).resolve().parent / "data"


def load(line: str) -> list[dict[str, Any]]:
    """Return the CRDs of a line, such as ``alpha.9``."""
    return list(json.loads(gzip.decompress((DATA / f"{line}.json.gz").read_bytes())))
