"""Apply Grove's CRDs of one release line, on a new cluster or over those of another, as a user does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from testbed.controlplane.client import Client, Object, eventually
from testbed.crds import load

_CRD: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def apply_crds(client: Client, line: str) -> None:
    """Apply a line's CRDs, see :func:`put`."""
    put(client, load(line))


def put(client: Client, wanted: Sequence[Object]) -> None:
    """Apply CRDs, and wait until each is served, or is not because another one has its names; nothing is deleted.

    That it waits is the one thing that users are not told: they type the next command after it, and a test does not.
    """
    installed = {crd["metadata"]["name"]: crd for crd in client.list(*_CRD)}
    for crd in wanted:
        name = crd["metadata"]["name"]
        client.apply(crd)
        eventually(partial(_decided, client, crd), what=f"{name} is neither served nor refused")
        if name in installed and _served(client, crd):
            _wait_for_change(client, installed[name], crd)


def _decided(client: Client, crd: Object) -> bool:
    """Whether the API server serves a CRD, or has said that it does not, as another one has one of its names."""
    status = client.get(*_CRD, crd["metadata"]["name"]).get("status") or {}
    accepted = {item["type"]: item["status"] for item in status.get("conditions") or ()}.get("NamesAccepted")
    return accepted == "False" or _served(client, crd)


def _served(client: Client, crd: Object) -> bool:
    """Whether its objects can be listed, and discovery shows it, which may come later."""
    spec = crd["spec"]
    shown = client.request("GET", f"/apis/{spec['group']}/{spec['versions'][0]['name']}")
    names = {kind["name"] for kind in shown.body["resources"]} if shown.status == 200 else set()
    listed = client.request("GET", _path(crd), query={"limit": "1"}).status == 200
    return listed and spec["names"]["plural"] in names


def _wait_for_change(client: Client, before: Object, after: Object) -> None:
    """Wait until the server prunes by the new schema: it swaps schemas some time after it stored the CRD."""
    old, new = set(_paths(_schema(before))), set(_paths(_schema(after)))
    for paths, known in ((old - new, False), (new - old, True)):
        if paths:
            outermost = min(paths, key=lambda path: (len(path), path))
            what = f"{after['metadata']['name']} is still served with its former schema"
            eventually(partial(_agrees, client, after, outermost, known=known), what=what)


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
