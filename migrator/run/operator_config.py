"""The Lease of the operator's leader election, from the configuration that its pods mount.

Grove's chart mounts an OperatorConfiguration from a ConfigMap whose name changes with its contents
(``operator/charts/templates/deployment.yaml``, ``configmap-operator.yaml``), so it is found through the pod's volumes.
The Lease is in the namespace of the operator's pod (``operator/internal/controller/manager.go``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import yaml

from migrator.errors import NotFound, Refused
from migrator.resources import CONFIG_MAPS
from migrator.store import Store

#: Defaults of ``operator/api/config/v1alpha1/defaults.go``; ``enabled`` has none and is false when absent.
DEFAULT_LEASE_NAME: Final = "grove-operator-leader-election"

_CONFIG_KEY: Final = "config.yaml"
_CONFIG_KIND: Final = "OperatorConfiguration"
_CONFIG_VOLUME: Final = "operator-config"


def elects_by(store: Store, namespace: str, pod_spec: Mapping[str, Any]) -> str | None:
    """The Lease by which the operator whose pods have this spec elects its leader; ``None`` if it elects none.

    Raises :class:`~migrator.errors.Refused` for a configuration that is absent or cannot be understood: after a wrong
    guess an operator could start while we write. What may not be read raises what the store raises.
    """
    for name, key in _candidates(pod_spec):
        try:
            text = (store.get(CONFIG_MAPS, namespace, name).get("data") or {}).get(key)
        except NotFound:
            continue
        if isinstance(text, str):
            return _parse(text, origin=f"ConfigMap {namespace}/{name}, key {key}")
    raise Refused(
        f"the operator in namespace {namespace} mounts no readable {_CONFIG_KIND} ({_CONFIG_KEY} of a ConfigMap), so "
        "its Lease is not known: restore the ConfigMap that its Deployment mounts"
    )


@lru_cache(maxsize=1)
def _parse(text: str, *, origin: str) -> str | None:
    remedy = "correct it, because the operator's Lease is named there"
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Refused(f"{origin} is not YAML; {remedy}") from error
    if not isinstance(document, dict) or document.get("kind") != _CONFIG_KIND:
        raise Refused(f"{origin} is not an {_CONFIG_KIND}; {remedy}")
    election = document.get("leaderElection") or {}
    if not isinstance(election, dict):
        raise Refused(f"{origin}: leaderElection is not a mapping; {remedy}")
    return str(election.get("resourceName") or DEFAULT_LEASE_NAME) if election.get("enabled") is True else None


def _candidates(pod_spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The (ConfigMap, key) pairs that may hold the configuration, the chart's own volume first."""
    volumes = [v for v in pod_spec.get("volumes") or () if (v.get("configMap") or {}).get("name")]
    for volume in sorted(volumes, key=lambda v: v.get("name") != _CONFIG_VOLUME):
        items = volume["configMap"].get("items") or ()
        keys = (item["key"] for item in items if item.get("path") == _CONFIG_KEY)
        yield volume["configMap"]["name"], next(keys, _CONFIG_KEY)
