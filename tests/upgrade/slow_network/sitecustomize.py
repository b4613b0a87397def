"""A network that is slow for patches, so that a test can catch a run among its writes: PATCH_DELAY, in seconds.

Python imports this module when it starts, if its directory is in PYTHONPATH.
"""

from __future__ import annotations

import os
import time
from typing import Any

DELAY = float(os.environ.get("PATCH_DELAY", "0"))

if DELAY:
    from urllib3 import PoolManager

    send = PoolManager.urlopen

    def send_late(self: PoolManager, method: str, url: str, **options: Any) -> Any:
        """Send a request, a patch late."""
        time.sleep(DELAY if method == "PATCH" else 0)
        return send(self, method, url, **options)

    PoolManager.urlopen = send_late  # type: ignore[method-assign]
