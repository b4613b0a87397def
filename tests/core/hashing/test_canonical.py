"""The canonical order of PR #566 (Grove 94a0105c, ``operator/internal/utils/kubernetes/pod.go``)."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.hashing.canonical import canonicalize


def spec(*names: str) -> dict[str, Any]:
    """A pod spec whose containers have these names, and lists in the opposite order of their keys."""
    return {
        "containers": [
            {
                "name": name,
                "ports": [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP"}, {}],
                "resources": {"claims": [{"name": "b"}, {"name": "a"}]},
                "env": [{"name": "b"}, {"name": "a"}],
            }
            for name in names
        ]
    }


def test_lists_whose_order_means_nothing_are_sorted() -> None:
    """Containers by name, ports by number and protocol, claims by name; environment variables stay as they are."""
    found = canonicalize(spec("b", "a"))
    assert [container["name"] for container in found["containers"]] == ["a", "b"]
    first = found["containers"][0]
    assert first["ports"] == [{}, {"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]
    assert first["resources"]["claims"] == [{"name": "a"}, {"name": "b"}]
    assert first["env"] == [{"name": "b"}, {"name": "a"}]


def test_init_containers_keep_their_order_and_lose_that_of_their_lists() -> None:
    """The order in which they run means something, the order of their mounts does not."""
    mounts = [{"mountPath": "/b"}, {"mountPath": "/a"}]
    found = canonicalize({"initContainers": [{"name": "b", "volumeMounts": mounts}, {"name": "a"}]})
    assert [container["name"] for container in found["initContainers"]] == ["b", "a"]
    assert found["initContainers"][0]["volumeMounts"] == [{"mountPath": "/a"}, {"mountPath": "/b"}]


def test_equal_keys_keep_their_order() -> None:
    """The sort is stable, as the operator's is."""
    hosts = [{"ip": "2"}, {"ip": "1", "hostnames": ["x"]}, {"ip": "1", "hostnames": ["a"]}]
    assert canonicalize({"hostAliases": hosts})["hostAliases"] == [hosts[1], hosts[2], hosts[0]]


@pytest.mark.parametrize(
    "given",
    [
        {"containers": [{"name": "a"}, {"name": "b"}], "volumes": [{"name": "one"}]},
        {"containers": {"name": "a"}},
        {"containers": ["a"], "volumes": "b"},
        {"containers": [{"resources": "none", "ports": None}]},
    ],
    ids=["in order", "a mapping", "texts", "scalars"],
)
def test_what_is_in_order_or_of_a_wrong_type_is_the_very_same_object(given: dict[str, Any]) -> None:
    """Nothing is copied without need, and printing refuses what Go could not decode."""
    assert canonicalize(given) is given


def test_the_input_stays_as_it_is() -> None:
    """Sorting works on a copy."""
    given = spec("b", "a")
    canonicalize(given)
    assert given == spec("b", "a")
