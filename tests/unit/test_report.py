"""What a plan says: the JSON contract, the headline, the tree and the lines."""

from __future__ import annotations

import io
from typing import Any

import pytest

from migrator import report
from migrator.model import (
    BlastRadius,
    Change,
    Finding,
    Place,
    Plan,
    Pod,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    Ref,
    SetHashes,
    Severity,
    Tree,
    TreePlan,
    TreeState,
)
from migrator.report_text import plan_text, print_plan

OLD, NEW, OLD_G, NEW_G = "4567", "89bc", "4444", "5555"
LABEL = "/metadata/labels/grove.io~1pod-template-hash"


def tree(name: str, *, pods: int = 2, terminating: int = 0, namespace: str = "default") -> Tree:
    """A set with one PodClique, one scaling group, and pods of which some are on their way out."""
    pcs = PodCliqueSet(Ref("PodCliqueSet", namespace, name, f"uid-{name}"), {}, {}, 1, False, {}, {})  # noqa: FBT003
    made = tuple(
        Pod(
            ref=Ref("Pod", namespace, f"{name}-0-a-{number}", f"uid-{name}-{number}"),
            owner_uid=None,
            template_hash=OLD,
            created="",
            terminating=number < terminating,
            pod_clique_label=None,
        )
        for number in range(pods)
    )
    clique = PodClique(
        ref=Ref("PodClique", namespace, f"{name}-0-a", f"uid-{name}-a"),
        owner_uid=None,
        labels={},
        generation=1,
        terminating=False,
        spec={},
        status={},
        pods=made,
    )
    group = PodCliqueScalingGroup(Ref("PodCliqueScalingGroup", namespace, f"{name}-0-g"), None, {}, 1, False, {}, {})  # noqa: FBT003
    return Tree(pcs, (group,), (clique,))


def tree_plan(name: str, state: TreeState = TreeState.MIGRATE, **more: Any) -> TreePlan:
    """A plan for such a set: its label and its generation hash change."""
    of = more.pop("tree", None) or tree(name)
    changes: tuple[Change, ...] = ()
    if state in {TreeState.MIGRATE, TreeState.REFUSED}:
        changes = (
            *(Change(pod.ref, Place.POD_LABEL, LABEL, OLD, NEW) for pod in of.pod_cliques[0].pods),
            Change(of.pod_cliques[0].ref, Place.CLIQUE_LABEL, LABEL, OLD, NEW),
            Change(of.ref, Place.SET_GENERATION, "/status/currentGenerationHash", OLD_G, NEW_G),
        )
    more.setdefault("blast", BlastRadius(2, 16) if changes else BlastRadius())
    return TreePlan(
        of, "legacy-1.34", "legacy-1.35", state, changes, target_hashes=SetHashes(NEW_G, {"frontend": NEW}), **more
    )


def plan(*trees: TreePlan, findings: tuple[Finding, ...] = (), cluster: BlastRadius | None = None) -> Plan:
    """A plan whose cluster is the trees, unless said otherwise."""
    blast = sum((t.blast for t in trees), BlastRadius()) if cluster is None else cluster
    return Plan("auto", "v0.1.0-alpha.11", trees, findings, blast)


def finding(severity: Severity, name: str = "demo", field: str | None = "/status/x", code: str = "GM-101") -> Finding:
    """A finding about a set."""
    return Finding(code, severity, Ref("PodCliqueSet", "default", name), field, f"{name} is odd; do something")


def test_json_has_exactly_the_keys_of_the_contract_in_its_order() -> None:
    """Scripts are written against these keys: none is missing, none is renamed, none is added in between."""
    document = report.plan_json(plan(tree_plan("demo"), findings=(finding(Severity.WARNING),)))
    assert list(document) == ["from", "to", "summary", "trees", "refusals", "warnings"]
    assert list(document["summary"]) == [
        "podCliqueSets",
        "podCliques",
        "podCliqueScalingGroups",
        "pods",
        "changes",
        "refusals",
        "warnings",
        "podsRecreatedWithoutMigration",
        "gpusRecreatedWithoutMigration",
    ]
    assert list(document["trees"][0]) == ["namespace", "name", "from", "to", "state", "changes"]
    assert list(document["trees"][0]["changes"][0]) == ["kind", "namespace", "name", "uid", "field", "old", "new"]
    assert list(document["warnings"][0]) == ["code", "kind", "namespace", "name", "field", "message"]


def test_json_counts_objects_and_only_pods_that_stay() -> None:
    """Terminating pods are no pods; findings of trees and of the cluster count alike."""
    made = plan(
        tree_plan("a", tree=tree("a", pods=5, terminating=2), findings=(finding(Severity.REFUSAL, "a"),)),
        tree_plan("b", TreeState.DONE),
        findings=(finding(Severity.WARNING),),
        cluster=BlastRadius(7, 56),
    )
    assert report.plan_json(made)["summary"] == {
        "podCliqueSets": 2,
        "podCliques": 2,
        "podCliqueScalingGroups": 2,
        "pods": 3 + 2,
        "changes": 5 + 1 + 1,
        "refusals": 1,
        "warnings": 1,
        "podsRecreatedWithoutMigration": 7,
        "gpusRecreatedWithoutMigration": 56,
    }


def test_json_arrays_are_sorted_by_namespace_name_kind_field() -> None:
    """Two plans of one cluster are the same text, whatever order the API server lists in."""
    first = tree_plan("b", tree=tree("b", namespace="y"), findings=(finding(Severity.WARNING, "b", None),))
    second = tree_plan("z", tree=tree("z", namespace="x"), findings=(finding(Severity.WARNING, "a", "/b"),))
    third = tree_plan("a", tree=tree("a", namespace="y"), findings=(finding(Severity.WARNING, "a", "/a"),))
    document = report.plan_json(plan(first, second, third))
    assert [(t["namespace"], t["name"]) for t in document["trees"]] == [("x", "z"), ("y", "a"), ("y", "b")]
    for entry in document["trees"]:
        places = [(c["namespace"], c["name"], c["kind"], c["field"]) for c in entry["changes"]]
        assert places == sorted(places)
    assert [(w["name"], w["field"]) for w in document["warnings"]] == [("a", "/a"), ("a", "/b"), ("b", None)]


def test_json_says_null_for_what_is_absent() -> None:
    """A finding about no object has null in its places; a set that nothing explains has null as its source."""
    odd = Finding("GM-122", Severity.WARNING, None, None, "not checked on a dump")
    unexplained = TreePlan(tree("demo"), None, "legacy-1.35", TreeState.REFUSED)
    document = report.plan_json(plan(unexplained, findings=(odd,)))
    assert document["trees"][0]["from"] is None
    assert document["warnings"] == [
        {
            "code": "GM-122",
            "kind": None,
            "namespace": None,
            "name": None,
            "field": None,
            "message": "not checked on a dump",
        }
    ]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (plan(), "nothing to do: no PodCliqueSets"),
        (
            plan(tree_plan("demo", blast=BlastRadius(1412, 3296))),
            "without migration: 1,412 pods and 3,296 GPUs in 1 set would be recreated; with it: 0",
        ),
        (
            plan(tree_plan("a", blast=BlastRadius(1, 1)), tree_plan("b", TreeState.DONE)),
            "without migration: 1 pod and 1 GPU in 1 set would be recreated; with it: 0",
        ),
        (
            plan(tree_plan("a"), tree_plan("b", TreeState.SKIPPED, blast=BlastRadius(3, 0))),
            "without migration: 5 pods and 16 GPUs in 2 sets would be recreated; with it: 3 pods and 0 GPUs",
        ),
        (
            plan(tree_plan("a"), tree_plan("b", TreeState.REFUSED, findings=(finding(Severity.REFUSAL),))),
            "without migration: 4 pods and 32 GPUs in 2 sets would be recreated; the migration is refused by 1 set",
        ),
        (
            plan(tree_plan("a"), findings=(finding(Severity.REFUSAL),), cluster=BlastRadius(9, 72)),
            (
                "without migration: 9 pods and 72 GPUs in the whole cluster (2 pods and 16 GPUs in 1 set selected) "
                "would be recreated; the migration is refused"
            ),
        ),
    ],
)
def test_the_headline_says_what_is_at_stake(made: Plan, said: str) -> None:
    """One sentence: what is recreated without the migration, and with it, or that it is refused."""
    assert report.headline(made) == said


def test_changes_are_grouped_by_what_replaces_what() -> None:
    """A person sees one line for each hash, with the kinds that hold it, not one per pod."""
    generation, template = report.change_groups(tree_plan("demo"))
    assert (generation.what, generation.old, generation.new) == ("generation hash", OLD_G, NEW_G)
    assert (template.what, template.old, template.new) == ("pod template of frontend", OLD, NEW)
    assert template.kinds == {"Pod": 2, "PodClique": 1}


def test_notes_say_what_the_numbers_leave_out() -> None:
    """GPUs claimed by DRA, canonical schemes without a release, and hashes that are accepted are pointed out."""
    assert report.notes(plan()) == []
    assert report.notes(plan(tree_plan("demo"))) == [report.DRA_NOTE]
    canonical = TreePlan(
        tree("demo"), "legacy-1.34", "canonical-1.34", TreeState.MIGRATE, changes=tree_plan("demo").changes
    )
    assert report.notes(plan(canonical)) == [report.CANONICAL_NOTE, report.ACCEPTED_NOTE]


def test_lines_for_a_pipe_name_every_set_and_finding() -> None:
    """A pipe gets the headline, one line for each set and finding, no escapes, and nothing cut off."""
    made = plan(
        tree_plan("a-very-long-name-of-a-set-that-no-terminal-would-like", findings=(finding(Severity.REFUSAL),)),
        tree_plan("b", TreeState.DONE),
        findings=(finding(Severity.WARNING, "w"),),
    )
    lines = plan_text(made).splitlines()
    assert lines[0] == report.headline(made)
    assert [line.split()[:3] for line in lines if line.startswith("default ")] == [
        ["default", "a-very-long-name-of-a-set-that-no-terminal-would-like", "migrate"],
        ["default", "b", "done"],
    ]
    assert "refused: GM-101 PodCliqueSet default/demo /status/x: demo is odd; do something" in lines
    assert "warning: GM-101 PodCliqueSet default/w /status/x: w is odd; do something" in lines
    assert "\x1b" not in plan_text(made)


def test_no_file_can_make_a_terminal_obey() -> None:
    """Escape sequences in names and messages are spelt out, in lines and on the terminal."""
    evil = tree_plan("a\x1b[2J")
    stream = io.StringIO()
    print_plan(plan(evil), stream, colour=False)
    for text in (plan_text(plan(evil)), stream.getvalue()):
        assert "\x1b" not in text
        assert "a\\x1b[2J" in text


def test_a_terminal_gets_a_tree_per_set_and_the_headline_last() -> None:
    """What refuses comes first, sets that are done are one number, and the headline is what stays on screen."""
    stream = io.StringIO()
    made = plan(
        tree_plan("fine"),
        tree_plan("odd", TreeState.REFUSED, findings=(finding(Severity.REFUSAL, "odd"),)),
        tree_plan("ready", TreeState.DONE),
    )
    print_plan(made, stream, colour=False)
    text = stream.getvalue()
    assert text.index("refused default/odd") < text.index("migrate default/fine") < text.index("1 set already done")
    assert "pod template of frontend" in text
    assert f"{OLD} → {NEW}" in text
    assert " ".join(text.split()).endswith(report.headline(made))


def test_a_narrow_terminal_wraps_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 40 columns every line fits, and every word of the findings is still there."""
    monkeypatch.setenv("COLUMNS", "40")
    stream = io.StringIO()
    print_plan(plan(tree_plan("demo", findings=(finding(Severity.WARNING),))), stream, colour=False)
    assert max(map(len, stream.getvalue().splitlines())) <= 40
    words = " ".join(stream.getvalue().replace("│", " ").split())
    assert "demo is odd; do something" in words
