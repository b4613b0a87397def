"""Install Grove's CRDs of one release line, and change from one line to another as an upgrade does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from testbed.controlplane.client import AnswerError, Client, Object, eventually
from testbed.crds import load

_CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_GROUPS: Final = ("grove.io", "scheduler.grove.io")


def apply_crds(client: Client, line: str) -> None:
    """Apply a line's CRDs, wait until they are served, and remove those of Grove that the line lacks before.

    A short name is free again then: ``ct`` was ClusterTopology from alpha.4 to alpha.8, and is ClusterTopologyBinding
    since.
    """
    wanted = load(line)
    installed = {crd["metadata"]["name"]: crd for crd in client.list(*_CRD) if crd["spec"]["group"] in _GROUPS}
    for name in installed.keys() - {crd["metadata"]["name"] for crd in wanted}:
        client.delete(installed[name])
        eventually(partial(_absent, client, name), what=f"{name} is still there")
    for crd in wanted:
        apply_crd(client, crd, installed.get(crd["metadata"]["name"]))


def apply_crd(client: Client, crd: Object, before: Object | None = None) -> None:
    """Apply a CRD, which was another one before or absent, and wait until the server serves it."""
    client.apply(crd)
    if before is None:
        eventually(partial(_served, client, crd), what=f"{crd['metadata']['name']} is not served")
    else:
        _wait_for_change(client, before, crd)


def _absent(client: Client, name: str) -> bool:
    try:
        client.get(*_CRD, name)
    except AnswerError:
        return True
    return False


def _served(client: Client, crd: Object) -> bool:
    conditions = client.get(*_CRD, crd["metadata"]["name"])["status"]["conditions"] or ()
    if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        return False
    return client.request("GET", _path(crd), query={"limit": "1"}).status == 200


def _wait_for_change(client: Client, before: Object, after: Object) -> None:
    """Wait until the server prunes by the new schema: it swaps schemas some time after it stored the CRD."""
    old, new = set(_paths(_schema(before))), set(_paths(_schema(after)))
    gone, added = _outermost(old - new), _outermost(new - old)
    name = after["metadata"]["name"]
    for path, known in ((gone, False), (added, True)):
        if path:
            eventually(
                partial(_agrees, client, after, path, known=known),
                what=f"{name} is still served with its former schema",
            )


def _outermost(paths: set[tuple[str, ...]]) -> tuple[str, ...]:
    return min(paths, key=lambda path: (len(path), path), default=())


def _agrees(client: Client, crd: Object, path: tuple[str, ...], *, known: bool) -> bool:
    """Whether the schema in force has a field, or has it not: a strict dry run names the fields that it lacks."""
    probe: Any = None
    for step in reversed(path):
        probe = [probe] if step == "[]" else {step: probe}
    kind, version = crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"]
    body = {"apiVersion": f"{crd['spec']['group']}/{version}", "kind": kind, "metadata": {"name": "probe"}, **probe}
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = client.request("POST", _path(crd, "default"), body, query=query)
    field = ".".join(path).replace(".[]", "[0]")
    return known is (f'unknown field "{field}"' not in str(answer.body.get("message")))


def _path(crd: Object, namespace: str = "") -> str:
    spec = crd["spec"]
    inside = f"/namespaces/{namespace}" if namespace and spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}{inside}/{spec['names']['plural']}"


def _schema(crd: Object) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _paths(schema: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, child in schema.get("properties", {}).items():
        yield (*prefix, name)
        yield from _paths(child, (*prefix, name))
    if "items" in schema:
        yield from _paths(schema["items"], (*prefix, "[]"))
