"""A dump and the cluster in memory take patches as a cluster does; all of it was measured on an API server."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from migrator.errors import OutputError
from migrator.errors import TestFailed as FailedTest
from migrator.exact_json import JSONNumber, JSONObject
from migrator.resources import Op, pointer
from migrator.stores.dump.store import replaced_strings, same
from tests.support import server_patch
from tests.support.server_patch import apply_ops

Patch = Callable[..., JSONObject]


def patched_in_a_dump(document: JSONObject, ops: list[Op], *, subresource: str = "") -> JSONObject:
    """The object with the strings that a patch puts into it."""
    news = replaced_strings(document, ops, subresource=subresource)
    return apply_ops(document, [Op("replace", pointer(*path), new) for path, new in news.items()])


both = pytest.mark.parametrize("patched", [patched_in_a_dump, server_patch.patched], ids=["dump", "memory"])


def clique() -> JSONObject:
    """A PodClique."""
    return {
        "metadata": {"uid": "u", "generation": 1, "labels": {"grove.io/pod-template-hash": "old", "a~b": "c"}},
        "spec": {"replicas": 2, "n": JSONNumber("1.0"), "list": [{"x": "0"}, {"x": "1"}], "none": None},
        "status": {"currentPodTemplateHash": "old", "updateProgress": {"podTemplateHash": "old"}},
    }


LABEL = "/metadata/labels/grove.io~1pod-template-hash"


@both
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/uid", "u"),
        ("/metadata/generation", 1),
        (LABEL, "old"),
        ("/metadata/labels/a~0b", "c"),
        ("/spec/n", JSONNumber("1.0")),
        ("/spec/list/1/x", "1"),
        ("/spec", clique()["spec"]),
        ("/spec/none", None),
        ("/spec/absent", None),
        ("/metadata/deletionTimestamp", None),
        ("", clique()),
    ],
)
def test_a_test_holds(patched: Patch, path: str, value: Any) -> None:
    """Equal in type and spelling; null also holds for an absent key of a present parent."""
    assert patched(clique(), [Op("test", path, value)]) == clique()


@both
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/metadata/uid", "other"),
        *(("/metadata/generation", value) for value in ("1", True, JSONNumber("1.0"))),
        *(("/spec/n", value) for value in (1, JSONNumber("1.00"))),
        *((path, "x") for path in ("/spec/absent", "/absent/key", "/spec/list/2/x")),
        *((path, None) for path in ("/spec/replicas", "/absent/key", "/spec/replicas/x")),
        *((path, None) for path in ("/spec/list/2", "/spec/list/-", "/spec/list/x")),
        ("/spec/list", [{"x": "0"}]),
        ("/spec/list/0", {}),
    ],
)
def test_a_test_fails(patched: Patch, path: str, value: Any) -> None:
    """Another value, type, spelling or length, and an absent parent, are all the same refusal."""
    with pytest.raises(FailedTest) as caught:
        patched(clique(), [Op("test", path, value)])
    assert (caught.value.status, caught.value.reason) == (422, "Invalid")


def test_replace_creates_an_absent_key() -> None:
    """As on the server, presence is guaranteed by the test in front of it alone."""
    assert server_patch.patched({"spec": {}}, [Op("replace", "/spec/a", "b")]) == {"spec": {"a": "b"}}


@both
@pytest.mark.parametrize("path", ["/absent/a", "/spec/list/7", "/spec/list/1/x/y", "/spec/replicas/x"])
def test_what_cannot_be_applied_is_a_failed_test(patched: Patch, path: str) -> None:
    """A missing parent, an index too large and a way through a text or number get the same answer as a failed test."""
    with pytest.raises(FailedTest):
        patched(clique(), [Op("replace", path, "b")])


@pytest.mark.parametrize(
    "op",
    [
        Op("add", "/absent/a", "b"),
        Op("remove", "/spec/absent"),
        Op("remove", "/absent/a"),
        Op("nonsense", "/spec/replicas", 1),
    ],
)
def test_what_cannot_be_added_or_removed_is_a_failed_test(op: Op) -> None:
    """In memory a missing parent or key and an unknown operation get the same answer."""
    with pytest.raises(FailedTest):
        apply_ops(clique(), [op])


@pytest.mark.parametrize(
    "op",
    [
        Op("add", "/spec/new", "x"),
        Op("remove", "/spec/none"),
        Op("replace", "/spec/new", "x"),
        Op("replace", "/spec/replicas", "x"),
        Op("replace", LABEL, None),
    ],
)
def test_a_dump_takes_tests_and_other_strings_only(op: Op) -> None:
    """A plan has no other operations, and a file has no place for them."""
    with pytest.raises(OutputError, match=f"only strings can be replaced in a dump, and {op.path}"):
        replaced_strings(clique(), [op])


def test_add_and_remove() -> None:
    """Lists grow at an index or the end, keys are set and removed."""
    ops = [
        Op("add", "/spec/list/-", "end"),
        Op("add", "/spec/list/0", "first"),
        Op("remove", "/spec/list/1"),
        Op("add", "/spec/new", {"a": 1}),
        Op("remove", "/spec/none"),
    ]
    spec = apply_ops(clique(), ops)["spec"]
    assert spec["list"] == ["first", {"x": "1"}, "end"]
    assert spec["new"] == {"a": 1}
    assert "none" not in spec


@both
def test_all_or_nothing_and_never_in_place(patched: Patch) -> None:
    """A later failure undoes everything before it, and the object that was given never changes."""
    before, given = clique(), clique()
    ops = [Op("replace", LABEL, "new"), Op("replace", "/spec/list/0/x", "new")]
    assert patched(given, ops) != before
    assert given == before
    with pytest.raises(FailedTest):
        patched(given, [*ops, Op("test", LABEL, "old")])
    assert given == before


def test_patch_and_object_share_nothing() -> None:
    """A value that a patch brought in is a copy."""
    value = {"a": ["b"]}
    result = apply_ops({"spec": {}}, [Op("add", "/spec/v", value), Op("add", "/spec/v/a/-", "c")])
    assert result == {"spec": {"v": {"a": ["b", "c"]}}}
    assert value == {"a": ["b"]}


MIXED = [
    Op("test", "/metadata/uid", "u"),
    Op("test", "/status/currentPodTemplateHash", "old"),
    Op("replace", LABEL, "new"),
    Op("replace", "/spec/list/0/x", "2"),
    Op("replace", "/status/currentPodTemplateHash", "new"),
]


@both
def test_the_main_resource_takes_no_status_and_status_nothing_else(patched: Patch) -> None:
    """The other changes are dropped in silence; tests see the whole object."""
    main, status = clique(), clique()
    main["metadata"]["labels"]["grove.io/pod-template-hash"] = "new"
    main["spec"]["list"][0]["x"] = "2"
    status["status"]["currentPodTemplateHash"] = "new"
    assert patched(clique(), MIXED) == main
    assert patched(clique(), MIXED, subresource="status") == status


def test_status_may_come_and_go_by_its_own_resource_only() -> None:
    """An object without status gets none by the main resource, and loses none."""
    patched = server_patch.patched
    bare = {"metadata": {"uid": "u"}}
    ops = [Op("add", "/status", {"a": "b"})]
    assert patched(bare, ops) == bare
    assert patched(bare, ops, subresource="status") == {**bare, "status": {"a": "b"}}
    assert patched(clique(), [Op("remove", "/status")]) == clique()


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (0, False), (1, "1"), (1, JSONNumber("1.0")), (JSONNumber("1.0"), JSONNumber("1.00")), (None, False)],
)
def test_types_and_spellings_differ(one: Any, other: Any) -> None:
    """Python would call some of these equal."""
    assert not same({"a": [one]}, {"a": [other]})
    assert same({"a": [one]}, copy.deepcopy({"a": [one]}))
