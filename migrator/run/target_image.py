"""Whether the operator that runs is the very image whose binary was read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from migrator.errors import NotFound
from migrator.grove.model import Ref
from migrator.resources import PODS
from migrator.run.operator import Operator
from migrator.store import Store

#: How container runtimes report an image that came from a registry: with the digest that it was pulled by. One that
#: was loaded from a file has its configuration's digest instead, which no reference names.
_PULLED: Final = re.compile(r".*@(sha256:[0-9a-f]{64})")


def others(store: Store, installed: Operator | None, digests: frozenset[str]) -> Iterator[tuple[Ref, str | None, str]]:
    """Every operator pod whose image has none of these digests, with a sentence. Raises what the store raises."""
    for pod in installed.pods if installed is not None and digests else ():
        try:
            raw = store.get(PODS, pod.ref.namespace, pod.ref.name)
        except NotFound:
            continue
        statuses = (raw.get("status") or {}).get("containerStatuses") or ()
        pulled = [_PULLED.fullmatch(status.get("imageID") or "") for status in statuses]
        seen = {match[1] for match in pulled if match is not None}
        if seen and not seen & digests:
            message = (
                f"operator pod {pod.ref} runs {pod.image} with the digest {', '.join(sorted(seen))}, but the binary "
                f"that was read is of {', '.join(sorted(digests))}; read the image that is deployed, and plan again"
            )
            yield pod.ref, None, message
