"""Which Lease the operator's leader election uses: read from the configuration that its pods mount.

Grove's chart mounts a ConfigMap (``grove-operator-cm-<hash>``) that holds ``config.yaml``, an
OperatorConfiguration (``operator/charts/templates/deployment.yaml``, ``configmap-operator.yaml``). Its name changes
with its contents, so it is found through the pod's volumes. The Lease is in the namespace of the operator's
pod: the manager never sets another (``operator/internal/controller/manager.go``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """What the operator is configured to do."""

    enabled: bool
    lease_name: str


def read(store: Store, namespace: str, pod_spec: Mapping[str, Any]) -> LeaderElection | None:
    """Read the leader election of the operator whose pods have this spec.

    Returns ``None`` where the spec mounts no OperatorConfiguration that exists. Raises
    :class:`~migrator.errors.Refused` for one that cannot be understood, and
    :class:`~migrator.errors.NotAuthorised` where the ConfigMap may not be read.
    """
    for name, key in _candidates(pod_spec):
        try:
            config_map = store.get(CONFIG_MAPS, namespace, name)
        except NotFound:
            continue
        text = (config_map.get("data") or {}).get(key)
        if isinstance(text, str):
            return parse(text, origin=f"ConfigMap {namespace}/{name}, key {key}")
    return None


@lru_cache(maxsize=1)
def parse(text: str, *, origin: str) -> LeaderElection:
    """Read an OperatorConfiguration; ``origin`` says where it stands.

    Raises :class:`~migrator.errors.Refused` for anything else, because a wrong guess would leave the next
    operator free to start while we write.
    """
    remedy = "name the operator's Lease with --lease-name"
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Refused(f"{origin} is not YAML; {remedy}") from error
    if not isinstance(document, dict) or document.get("kind") != _CONFIG_KIND:
        raise Refused(f"{origin} is not an {_CONFIG_KIND}; {remedy}")
    election = document.get("leaderElection") or {}
    if not isinstance(election, dict):
        raise Refused(f"{origin}: leaderElection is not a mapping; {remedy}")
    return LeaderElection(
        enabled=election.get("enabled") is True,
        lease_name=str(election.get("resourceName") or DEFAULT_LEASE_NAME),
    )


def _candidates(pod_spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The (ConfigMap, key) pairs that may hold the configuration, the chart's own volume first."""
    volumes = [v for v in pod_spec.get("volumes") or () if (v.get("configMap") or {}).get("name")]
    for volume in sorted(volumes, key=lambda v: v.get("name") != _CONFIG_VOLUME):
        source = volume["configMap"]
        keys = [item["key"] for item in source.get("items") or () if item.get("path") == _CONFIG_KEY]
        yield source["name"], keys[0] if keys else _CONFIG_KEY
