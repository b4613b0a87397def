"""The order of lists in PR #566: lists whose order means nothing are sorted before they are printed.

Grove 94a0105c, ``operator/internal/utils/kubernetes/pod.go``: stable sorts by string ``<`` on a copy. Not sorted:
init containers, env, envFrom, args, command, tolerations, readiness gates, resize policies and rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from migrator.exact_json import JSONObject
from migrator.hashing.fnv import clean

#: For each list, or object, by its name: the fields that order its items, and the lists inside each item.
_BY_NAME: Final[tuple[tuple[str, ...], Mapping[str, Any]]] = (("name",), {})
_CONTAINER: Final[Mapping[str, Any]] = {
    "ports": (("containerPort", "protocol"), {}),
    "volumeMounts": (("mountPath",), {}),
    "volumeDevices": (("devicePath",), {}),
    "resources": ((), {"claims": _BY_NAME}),
}
_POD_SPEC: Final[Mapping[str, Any]] = {
    "containers": (("name",), _CONTAINER),
    "initContainers": ((), _CONTAINER),
    "ephemeralContainers": (("name",), _CONTAINER),
    **dict.fromkeys(("volumes", "imagePullSecrets", "resourceClaims", "schedulingGates"), _BY_NAME),
    "hostAliases": (("ip",), {}),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"), {}),
}


def canonicalize(pod_spec: JSONObject) -> JSONObject:
    """The pod spec with its lists in canonical order; the same object if they are already.

    Values of a wrong type are left for printing to refuse.
    """
    return _ordered(pod_spec, _POD_SPEC)


def _ordered(item: JSONObject, lists: Mapping[str, Any]) -> JSONObject:
    changed: JSONObject = {}
    for name in lists.keys() & item.keys():
        value, (fields, within) = item[name], lists[name]
        if type(value) is dict and (new := _ordered(value, within)) is not value:
            changed[name] = new
        elif type(value) is list and (items := _sorted(value, fields, within)) is not value:
            changed[name] = items
    return {**item, **changed} if changed else item


def _sorted(items: list[Any], fields: Sequence[str], within: Mapping[str, Any]) -> list[Any]:
    ordered = [_ordered(item, within) if type(item) is dict else item for item in items]
    keys = [tuple(_key(item, field) for field in fields) for item in items]
    ordered = [ordered[number] for number in sorted(range(len(keys)), key=keys.__getitem__)]
    return items if all(new is old for new, old in zip(ordered, items, strict=True)) else ordered


def _key(item: object, field: str) -> int | str:
    value = item.get(field) if type(item) is dict else None
    if field == "containerPort":
        return value if type(value) is int else 0
    return clean(value) if type(value) is str else ""
