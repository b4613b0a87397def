"""The mixes of pod templates that hashing is measured with.

They differ in what the templates of one mix have in common, from nearly everything to nearly nothing. Each gives
templates by number, so a mix of any length can be read one by one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from benchmarks.templates import Object, dynamo

Chance: TypeAlias = random.Random

_CONTAINERS: Final = ("engine", "router", "agent", "cache", "proxy")
_ODD_SEED: Final = 0x5EED


def structure(number: int) -> Object:
    """Containers, the fields that are set, the lengths of lists and the values differ."""
    chance = _chance("structure", number)
    template = dynamo(number)
    spec = template["podSpec"]
    containers = spec["containers"]
    spec["containers"] = [
        _thinned({**containers[place % len(containers)], "name": name}, chance)
        for place, name in enumerate(chance.sample(_CONTAINERS, chance.randint(2, 4)))
    ]
    spec["volumes"] = chance.sample(spec["volumes"], chance.randint(4, 8))
    for name, value in _OPTIONAL.items():
        if chance.random() < 0.5:  # noqa: PLR2004 - even odds
            spec[name] = value
    template["podSpec"] = _varied(spec, chance)
    return template


def distinct(number: int) -> Object:
    """Structure and values differ, in templates that no other mix has."""
    return structure(number + 1_000_000)


#: How a mix is named, what makes its templates, and how many of them are hashed.
MIXES: Final[Mapping[str, tuple[Callable[[int], Object], int]]] = {
    "values differ": (dynamo, 1_000),
    "structure differs too": (structure, 1_000),
    "10,000 distinct templates": (distinct, 10_000),
}

_OPTIONAL: Final[Object] = {
    "hostNetwork": True,
    "dnsPolicy": "ClusterFirstWithHostNet",
    "shareProcessNamespace": False,
    "schedulerName": "kai-scheduler",
    "nodeSelector": {"pool": "gpu", "zone": "a"},
    "runtimeClassName": "nvidia",
    "securityContext": {"fsGroup": 1000, "supplementalGroups": [1, 2, 3], "runAsUser": 1000},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "initContainers": [{"name": "init", "image": "registry.example/init:1", "command": ["/init"]}],
}


def _chance(mix: str, number: int) -> Chance:
    return random.Random(f"{mix} {number} {_ODD_SEED}")  # noqa: S311 - nothing secret


def _varied(value: Any, chance: Chance, key: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """A copy in which three of four scalars have another value of their own kind."""
    if isinstance(value, dict):
        return {name: _varied(item, chance, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_varied(item, chance, key) for item in value]
    if isinstance(value, bool) or key in _KEPT or chance.random() < 0.25:  # noqa: PLR2004 - one of four stays
        return value
    if isinstance(value, int):
        return chance.randrange(1, 60_000)
    return _QUANTITIES[key](chance) if key in _QUANTITIES else _text(value, chance)


def _text(text: str, chance: Chance) -> str:
    """A text of about the same length."""
    return f"{text[: len(text) // 2]}{chance.randrange(36**4):x}{text[len(text) // 2 + 4 :]}"


def _thinned(container: Object, chance: Chance) -> Object:
    """A container without some of its fields, variables and mounts."""
    kept = {
        name: value
        for name, value in container.items()
        if name in {"name", "image", "env"} or chance.random() < 0.8  # noqa: PLR2004
    }
    kept["env"] = [variable for variable in container["env"] for _ in range(chance.choice((0, 1, 1, 1, 1, 2)))]
    if "volumeMounts" in kept:
        kept["volumeMounts"] = chance.sample(kept["volumeMounts"], chance.randint(4, 8))
    return kept


#: What Go would refuse, or what would be another kind of template, with another value.
_KEPT: Final = frozenset({"fieldPath", "operator", "effect", "protocol", "path"})

_QUANTITIES: Final[Mapping[str, Callable[[Chance], str]]] = {
    name: partial(lambda unit, chance: f"{chance.randrange(1, 500)}{unit}", unit)
    for name, unit in {"cpu": "", "memory": "Gi", "sizeLimit": "Gi", "nvidia.com/gpu": ""}.items()
}
