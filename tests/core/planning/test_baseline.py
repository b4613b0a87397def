"""From a tree's plan to its table: what a revert must leave, and what verification compares with."""

from __future__ import annotations

import pytest

from migrator.grove.model import (
    POINTER_TEMPLATE_HASH_LABEL,
    Pod,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    Ref,
    SetHashes,
    Tree,
    TreePlan,
    TreeState,
)
from migrator.planning.baseline import baseline_of, newest_update, pod_id, table_of
from migrator.planning.planner import template_digest
from migrator.planning.tables import CliqueBaseline, Kept, Replicas

SOURCE = SetHashes("444", {"a": "555"})
TARGET = SetHashes("666", {"a": "777"})
LABELS = {"app.kubernetes.io/part-of": "s", "grove.io/podcliqueset-replica-index": "0"}


def pod(name: str, value: str, created: str, *, terminating: bool = False) -> Pod:
    """A pod of the only PodClique."""
    return Pod(Ref("Pod", "ns", name, f"uid-{name}"), "uid-q", value, created, terminating, "s-0-a")


def plan_of(*pods: Pod, source: str | None = "legacy-1.34") -> TreePlan:
    """A set of one clique and one scaling group."""
    pcs = PodCliqueSet(
        Ref("PodCliqueSet", "ns", "s", "uid-s"),
        {},
        {},
        3,
        terminating=False,
        spec={"template": {"cliques": [{"name": "a", "spec": {"podSpec": {}}}]}},
        status={"currentGenerationHash": "666", "updatedReplicas": 1, "replicas": 2},
    )
    group = PodCliqueScalingGroup(
        Ref("PodCliqueScalingGroup", "ns", "s-0-g", "uid-g"), "uid-s", {}, 1, terminating=False, spec={}, status={}
    )
    clique = PodClique(
        Ref("PodClique", "ns", "s-0-a", "uid-q"),
        "uid-s",
        {**LABELS, "grove.io/pod-template-hash": "555"},
        1,
        terminating=False,
        spec={},
        status={
            "updatedReplicas": 2,
            "replicas": 2,
            "updateProgress": {"updateStartedAt": "2026-01-02T03:04:05Z", "updateEndedAt": "2026-01-02T03:05:05Z"},
        },
        pods=pods,
    )
    tree = Tree(pcs, (group,), (clique,))
    return TreePlan(tree, source, "legacy-1.35", TreeState.MIGRATE, source_hashes=SOURCE, target_hashes=TARGET)


def test_the_table_has_both_schemes_hashes_and_the_spec() -> None:
    """All that a rerun or a revert needs, even if the spec changes."""
    plan = plan_of()
    table = table_of(plan)
    assert (table.namespace, table.name, table.uid, table.generation) == ("ns", "s", "uid-s", 3)
    assert (table.source, table.target) == ("legacy-1.34", "legacy-1.35")
    assert (table.source_hashes, table.target_hashes) == (SOURCE, TARGET)
    assert table.template_digest == template_digest(plan.tree.pcs)


def test_values_that_were_the_targets_before_are_kept() -> None:
    """They are not ours to turn back; values of the source, and what both schemes give alike, are not listed."""
    table = table_of(plan_of(pod("p1", "555", "t"), pod("p2", "777", "t")))
    assert table.kept == (
        Kept(Ref("Pod", "ns", "p2", "uid-p2"), POINTER_TEMPLATE_HASH_LABEL, "777"),
        Kept(Ref("PodCliqueSet", "ns", "s", "uid-s"), "/status/currentGenerationHash", "666"),
    )
    assert [kept.uid for kept in table.kept] == ["uid-p2", "uid-s"]


def test_the_baseline_names_the_pods_that_live() -> None:
    """Per PodClique: 8 bytes of each non-terminating pod's uid, sorted, beside the status."""
    plan = plan_of(pod("p1", "555", "t"), pod("p2", "555", "t"), pod("p3", "555", "t", terminating=True))
    found = baseline_of(plan.tree, "run-1")
    ids = sorted(pod_id(f"uid-{name}") for name in ("p1", "p2"))
    assert [len(one) for one in ids] == [16, 16]
    assert found.pod_cliques == {"s-0-a": CliqueBaseline(tuple(ids), Replicas(2, 2, "2026-01-02T03:04:05Z"))}
    assert found.scaling_groups == {"s-0-g": Replicas(None, None, None)}
    assert (found.uid, found.run, found.status) == ("uid-s", "run-1", Replicas(1, 2, None))
    assert baseline_of(plan_of().tree).pod_cliques["s-0-a"].pods == ()


def test_a_tree_without_a_source_has_no_table() -> None:
    """Nothing explains it, so nothing of it can be translated."""
    with pytest.raises(ValueError, match="no source"):
        table_of(plan_of(source=None))


@pytest.mark.parametrize(
    ("status", "field", "started"),
    [
        ({}, "updateProgress", None),
        ({"updateProgress": None}, "updateProgress", None),
        (
            {"updateProgress": {"updateStartedAt": "new"}, "rollingUpdateProgress": {"updateStartedAt": "old"}},
            "updateProgress",
            "new",
        ),
        ({"rollingUpdateProgress": {"updateStartedAt": "old"}}, "rollingUpdateProgress", "old"),
    ],
)
def test_the_newest_update_is_the_one_that_the_operator_reads(
    status: dict[str, object], field: str, started: str | None
) -> None:
    """``updateProgress`` since alpha.7, ``rollingUpdateProgress`` before."""
    name, progress = newest_update(status)
    assert (name, progress.get("updateStartedAt")) == (field, started)
