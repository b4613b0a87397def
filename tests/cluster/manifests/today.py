"""Where the run of today and the manifests differ: all of it goes when the run keeps its own Lease.

The manifests are those of a run that takes the Lease `grove-migrator` before it writes, holds it as
`<pod name>_<run>`, sweeps all kinds of Grove and reads webhook configurations by name.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final

import yaml

from tests.support.controlplane.client import Object

#: Policies and bindings under which the run cannot work yet.
UNFIT: Final = frozenset({"grove-migrator-fence"})

#: Rules of the ClusterRole that the run still needs.
STILL: Final = (
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingwebhookconfigurations"],
        "verbs": ["list"],
    },
)

#: Granted, and not used yet: verb and resource.
NOT_YET: Final = frozenset({("get", "validatingwebhookconfigurations"), ("get", "services")})


def fit(objects: Sequence[Object]) -> list[Object]:
    """Objects of a manifest as the run of today needs them."""
    kept = [copy.deepcopy(item) for item in objects if item["metadata"]["name"] not in UNFIT]
    for item in kept:
        if item["kind"] == "ClusterRole":
            item["rules"].extend(STILL)
    return kept


def fit_text(manifest: str) -> str:
    """The same for a manifest's text."""
    return yaml.safe_dump_all(fit(list(yaml.safe_load_all(manifest))), sort_keys=False)
