"""The order of lists in PR #566: lists whose order means nothing are sorted before they are printed.

Grove 94a0105c, ``operator/internal/utils/kubernetes/pod.go``: stable sorts by string ``<`` on a copy. Not sorted:
init containers, env, envFrom, args, command, tolerations, readiness gates, resize policies and rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

from migrator.exact_json import JSONObject
from migrator.hashing.fnv import clean

Key = Callable[[Mapping[str, Any]], tuple[int | str, ...]]


def _by(*names: str) -> Key:
    return lambda item: tuple(_text(item.get(name)) for name in names)


def _by_port(item: Mapping[str, Any]) -> tuple[int | str, ...]:
    port = item.get("containerPort")
    return (port if type(port) is int else 0, _text(item.get("protocol")))


def _text(value: object) -> str:
    return clean(value) if isinstance(value, str) else ""


_POD_LISTS: Final[Mapping[str, Key]] = {
    "containers": _by("name"),
    "ephemeralContainers": _by("name"),
    "volumes": _by("name"),
    "imagePullSecrets": _by("name"),
    "resourceClaims": _by("name"),
    "schedulingGates": _by("name"),
    "hostAliases": _by("ip"),
    "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
}
_CONTAINER_LISTS: Final[Mapping[str, Key]] = {
    "ports": _by_port,
    "volumeMounts": _by("mountPath"),
    "volumeDevices": _by("devicePath"),
}
_CLAIMS: Final = _by("name")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


def canonicalize(pod_spec: JSONObject) -> JSONObject:
    """The pod spec with its lists in canonical order; the very same object where they are already.

    Values of a wrong type are left for printing to refuse.
    """
    result = _sorted_lists(pod_spec, _POD_LISTS)
    for kind in _CONTAINERS:
        containers = result.get(kind)
        if type(containers) is not list:
            continue
        ordered = [_container(item) if type(item) is dict else item for item in containers]
        if any(new is not old for new, old in zip(ordered, containers, strict=True)):
            result = {**result, kind: ordered}
    return result


def _container(container: JSONObject) -> JSONObject:
    result = _sorted_lists(container, _CONTAINER_LISTS)
    wanted = result.get("resources")
    if type(wanted) is dict:
        claims = _sorted_lists(wanted, {"claims": _CLAIMS})
        if claims is not wanted:
            result = {**result, "resources": claims}
    return result


def _sorted_lists(item: JSONObject, keys: Mapping[str, Key]) -> JSONObject:
    result = item
    for name, key in keys.items():
        values = item.get(name)
        if type(values) is not list or len(values) < 2:  # noqa: PLR2004 - nothing to sort
            continue
        order = [key(value) if type(value) is dict else key({}) for value in values]
        if any(left > right for left, right in pairwise(order)):
            ranked = sorted(range(len(values)), key=order.__getitem__)
            result = {**result, name: [values[number] for number in ranked]}
    return result
