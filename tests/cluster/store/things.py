"""A kind of our own on the API server, which needs none of Grove's CRDs, and its objects."""

from __future__ import annotations

from migrator.exact_json import JSONNumber, JSONObject
from migrator.kinds import Op, Resource
from migrator.kube.store import KubeCluster
from tests.support.memory_store import MemoryCluster

NAMESPACE = "store-test"
#: Stands for a PodClique on the API server, so that this test needs none of Grove's CRDs.
THINGS = Resource("store.test", "v1", "things", "Thing")
ABSENT = Resource("store.test", "v1", "nothings", "Nothing")
HASH = "/metadata/labels/grove.io~1pod-template-hash"
#: Strings that Go's JSON escapes, or could, and that must equal themselves in a test all the same.
TEMPLATE = {
    "args": ["a && b > c < d", "line\u2028and\u2029paragraph", "tab\t newline\n bell\x07 delete\x7f", 'q"\\/'],
    "env": [{"name": "CAF\u00c9", "value": "\U0001f600"}, {"name": "EMPTY", "value": ""}],
    "counts": {"one": 1, "half": JSONNumber("0.5"), "none": 0, "yes": True},
}

REPLACE = Op("replace", HASH, "new")

Both = KubeCluster | MemoryCluster


def check(path: str, value: object) -> Op:
    return Op("test", path, value)


def create_thing(cluster: Both, name: str, *, status: bool = True) -> JSONObject:
    """Create a thing with a hash in a label and, by a second request, one in its status unless told otherwise."""
    body = {
        "apiVersion": THINGS.api_version,
        "kind": THINGS.kind,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"grove.io/pod-template-hash": "old", "app": "x"},
            "annotations": {"slash/key": "2"},
        },
        "spec": {"template": TEMPLATE, "tilde~key": "1"},
    }
    cluster.create(THINGS, NAMESPACE, body)
    if status:
        added = Op("add", "/status", {"hash": "old", "count": 1, "conditions": [{"type": "A"}, {"type": "B"}]})
        cluster.patch(THINGS, NAMESPACE, name, (added,), subresource="status")
    return cluster.get(THINGS, NAMESPACE, name)
