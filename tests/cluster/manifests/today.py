"""Where the run of today and the manifests differ: all of it goes when the run keeps its own Lease.

The manifests are those of a run that takes the Lease `grove-migrator` before it writes, holds it as
`<pod name>_<run>`, and looks at the Service of Grove's webhook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.support.controlplane.client import Object

#: Policies and bindings under which the run cannot work yet.
UNFIT: Final = frozenset({"grove-migrator-fence"})

#: Granted, and not used yet: verb and resource.
NOT_YET: Final = frozenset({("get", "services")})


def fit(objects: Sequence[Object]) -> list[Object]:
    """Objects of a manifest as the run of today needs them."""
    return [item for item in objects if item["metadata"]["name"] not in UNFIT]


def fit_text(manifest: str) -> str:
    """The same for a manifest's text, which otherwise stays as it is to the letter."""
    unfit = [f"  name: {name}\n" for name in UNFIT]
    return "---\n".join(found for found in manifest.split("---\n") if not any(name in found for name in unfit))
