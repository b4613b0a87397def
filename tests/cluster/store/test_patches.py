"""One seam, two stores: a real API server and the cluster in memory answer the same patches alike."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from migrator.errors import ApiError, ClusterError, Conflict, Rejected, TestFailed
from migrator.exact_json import JSONNumber, JSONObject
from migrator.kinds import Op
from migrator.kube.store import KubeCluster
from tests.cluster.store.things import HASH, NAMESPACE, REPLACE, TEMPLATE, THINGS, Both, check, create_thing
from tests.support.memory_store import MemoryCluster

pytestmark = pytest.mark.controlplane


@dataclass(frozen=True, slots=True)
class Case:
    """A patch; the placeholders ``UID`` and ``GENERATION`` in its tests become the object's own."""

    name: str
    ops: tuple[Op, ...]
    subresource: str = ""
    status: bool = True


CONDITIONS = "/status/conditions"
REPLACE_STATUS = Op("replace", "/status/hash", "new")
CASES = (
    Case("swap-label", (check("/metadata/uid", "UID"), check(HASH, "old"), REPLACE)),
    Case("swap-label-that-moved", (check(HASH, "other"), REPLACE)),
    Case("other-uid", (check("/metadata/uid", "00000000-0000-4000-8000-00000000ffff"), REPLACE)),
    Case("generation", (check("/metadata/generation", "GENERATION"), REPLACE)),
    Case("generation-as-text", (check("/metadata/generation", "1"), REPLACE)),
    Case("generation-as-float", (check("/metadata/generation", JSONNumber("1.0")), REPLACE)),
    Case("generation-as-boolean", (check("/metadata/generation", bool(1)), REPLACE)),
    Case("replace-creates-an-absent-key", (Op("replace", "/metadata/labels/fresh", "1"),)),
    Case("replace-below-an-absent-parent", (Op("replace", "/spec/no/where", "1"),)),
    Case("add-key", (Op("add", "/metadata/labels/fresh", "1"),)),
    Case("null-asserts-absence", (check("/metadata/deletionTimestamp", None), REPLACE)),
    Case("null-for-a-value-that-is-there", (check(HASH, None), REPLACE)),
    Case("null-below-an-absent-parent", (check("/spec/no/where", None), REPLACE)),
    Case("all-or-nothing", (REPLACE, check("/metadata/labels/app", "y"))),
    Case("test-after-replace-sees-it", (REPLACE, check(HASH, "new"))),
    Case("escaped-pointers", (check("/spec/tilde~0key", "1"), Op("replace", "/metadata/annotations/slash~1key", "3"))),
    Case("whole-template", (check("/spec/template", TEMPLATE), REPLACE)),
    Case("template-in-another-order", (check("/spec/template", dict(reversed(TEMPLATE.items()))), REPLACE)),
    Case("template-with-another-argument", (check("/spec/template", {**TEMPLATE, "args": ["a && b"]}), REPLACE)),
    Case("template-with-a-key-less", (check("/spec/template", {"args": TEMPLATE["args"]}), REPLACE)),
    Case("template-seen-from-status", (check("/spec/template", TEMPLATE), REPLACE_STATUS), "status"),
    Case("label-seen-from-status", (check(HASH, "old"), REPLACE_STATUS), "status"),
    Case("label-through-status", (REPLACE, REPLACE_STATUS), "status"),
    Case("status-through-the-main-resource", (REPLACE, REPLACE_STATUS)),
    Case("status-that-moved", (check("/status/hash", "other"), REPLACE_STATUS), "status"),
    Case("below-no-status", (check("/status/hash", "old"), REPLACE_STATUS), "status", status=False),
    Case("replace-below-no-status", (REPLACE_STATUS,), "status", status=False),
    Case("list-element", (check(f"{CONDITIONS}/1/type", "B"), Op("replace", f"{CONDITIONS}/1/type", "C")), "status"),
    Case("list-index-out-of-range", (check(f"{CONDITIONS}/2/type", "C"),), "status"),
    Case("replace-out-of-range", (Op("replace", f"{CONDITIONS}/2", {"type": "C"}),), "status"),
    Case("append-to-a-list", (Op("add", f"{CONDITIONS}/-", {"type": "C"}),), "status"),
    Case("insert-into-a-list", (Op("add", f"{CONDITIONS}/0", {"type": "C"}),), "status"),
    Case("integer-for-text", (check("/spec/tilde~0key", 1), REPLACE)),
    Case("text-for-integer", (check("/status/count", "1"), REPLACE_STATUS), "status"),
    Case("no-operations", ()),
)


def outcome_of(store: Both, case: Case) -> tuple[str, JSONObject]:
    """Send the case's patch to a new object; the error's class, and the parts of it that a patch can change."""
    body = create_thing(store, case.name, status=case.status)
    own = {"UID": body["metadata"]["uid"], "GENERATION": body["metadata"]["generation"]}
    given = [(op, own.get(op.value, op.value) if isinstance(op.value, str) else op.value) for op in case.ops]
    outcome = "ok"
    try:
        ops = tuple(Op(op.op, op.path, value) for op, value in given)
        store.patch(THINGS, NAMESPACE, case.name, ops, subresource=case.subresource)
    except ClusterError as error:
        outcome = type(error).__name__
    after = store.get(THINGS, NAMESPACE, case.name)
    metadata = {key: after["metadata"].get(key) for key in ("labels", "annotations", "generation")}
    return outcome, {**metadata, "spec": after["spec"], "status": after.get("status")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_patches_mean_the_same_everywhere(cluster: KubeCluster, case: Case) -> None:
    """The same patch has the same outcome, and leaves the same object, on a cluster and in memory."""
    assert outcome_of(MemoryCluster(), case) == outcome_of(cluster, case)


@pytest.mark.parametrize(
    ("ops", "error"),
    [
        ((Op("replace", HASH, "no label!"),), Rejected),
        ((Op("replace", "/metadata/uid", "00000000-0000-4000-8000-00000000ffff"),), Rejected),
        ((Op("replace", "/metadata/labels", 5),), Rejected),
        ((Op("replace", "/metadata/resourceVersion", "7"),), Conflict),
        ((Op("test", HASH, "other"),), TestFailed),
    ],
    ids=["label", "uid", "type", "version", "test"],
)
def test_validation_is_no_failed_test(store: Both, ops: tuple[Op, ...], error: type[ApiError]) -> None:
    """What the API server refuses for good is told from a value that moved."""
    name = f"validation-{error.__name__.lower()}-{len(str(ops))}"
    create_thing(store, name)
    with pytest.raises(error) as caught:
        store.patch(THINGS, NAMESPACE, name, ops)
    assert type(caught.value) is error
    assert "line\u2028" not in str(caught.value)
    assert "a && b" not in str(caught.value)
