"""What a plan says: the JSON contract, the headline, and the lines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from migrator.grove.objects import Ref, Tree
from migrator.planning.model import (
    Change,
    Disruption,
    Finding,
    NotChecked,
    Plan,
    SetHashes,
    Severity,
    TreePlan,
    TreeState,
)
from migrator.render import summary
from migrator.render.findings import change_groups, grouped
from migrator.render.terminal import plan_text
from tests.support.builders import LATER, World, clique

OLD, NEW, OLD_G, NEW_G = "4567", "89bc", "4444", "5555"
LABEL = "/metadata/labels/grove.io~1pod-template-hash"


def tree(name: str, *, pods: int = 2, terminating: int = 0, namespace: str = "default") -> Tree:
    """A set with one PodClique, one scaling group, and pods of which some are on their way out."""
    world = World().grow(name, namespace=namespace, cliques=[clique("a")], groups={"g": []}, pods=pods)
    for pod in world.all("Pod")[:terminating]:
        pod["metadata"]["deletionTimestamp"] = LATER
    (found,) = world.snapshot().trees
    return found


def tree_plan(name: str, state: TreeState = TreeState.MIGRATE, **more: Any) -> TreePlan:
    """A plan for such a set: its label and its generation hash change."""
    of = more.pop("tree", None) or tree(name)
    changes: tuple[Change, ...] = ()
    if state in {TreeState.MIGRATE, TreeState.REFUSED}:
        changes = (
            *(Change(pod.ref, LABEL, OLD, NEW) for pod in of.pod_cliques[0].pods),
            Change(of.pod_cliques[0].ref, LABEL, OLD, NEW),
            Change(of.ref, "/status/currentGenerationHash", OLD_G, NEW_G),
        )
    more.setdefault("disruption", Disruption(2, 16) if changes else Disruption())
    return TreePlan(
        of, "legacy-1.34", "legacy-1.35", state, changes, target_hashes=SetHashes(NEW_G, {"frontend": NEW}), **more
    )


def plan(*trees: TreePlan, findings: tuple[Finding, ...] = (), cluster: Disruption | None = None) -> Plan:
    """A plan whose cluster is the trees, unless said otherwise."""
    disruption = sum((t.disruption for t in trees), Disruption()) if cluster is None else cluster
    return Plan("auto", "v0.1.0-alpha.11", trees, findings, disruption)


def finding(severity: Severity, name: str = "demo", field: str | None = "/status/x", code: str = "GM-101") -> Finding:
    """A finding about a set."""
    return Finding(code, severity, Ref("PodCliqueSet", "default", name), field, f"{name} is odd", "do something")


def test_json_has_exactly_the_keys_of_the_contract_in_its_order() -> None:
    """Scripts are written against these keys: none is missing, none is renamed, none is added in between."""
    document = summary.plan_json(plan(tree_plan("demo"), findings=(finding(Severity.WARNING),)))
    assert list(document) == ["from", "to", "summary", "trees", "refusals", "warnings", "notChecked", "advisories"]
    numbers = ["pods", "runningPods", "gpus"]
    assert list(document["trees"][0]) == ["namespace", "name", "from", "to", "state", *numbers, "changes"]
    assert list(document["trees"][0]["changes"][0]) == ["kind", "namespace", "name", "uid", "field", "old", "new"]
    assert list(document["warnings"][0]) == ["code", "kind", "namespace", "name", "field", "message", "remedy"]


def test_json_counts_objects_and_only_pods_that_stay() -> None:
    """Terminating pods are not counted; findings of trees and of the cluster count alike; keys are in order."""
    made = plan(
        tree_plan("a", tree=tree("a", pods=5, terminating=2), findings=(finding(Severity.REFUSAL, "a"),)),
        tree_plan("b", TreeState.DONE),
        findings=(finding(Severity.WARNING),),
        cluster=Disruption(7, 56),
    )
    assert list(summary.plan_json(made)["summary"].items()) == [
        ("podCliqueSets", 2),
        ("podCliques", 2),
        ("podCliqueScalingGroups", 2),
        ("pods", 3 + 2),
        ("changes", 5 + 1 + 1),
        ("refusals", 1),
        ("warnings", 1),
        ("podsRecreatedWithoutMigration", 7),
        ("gpusRecreatedWithoutMigration", 56),
        ("podsRecreatedWithMigration", 5),
        ("gpusRecreatedWithMigration", 40),
    ]


def test_json_arrays_are_sorted_by_namespace_name_kind_field() -> None:
    """Two plans of one cluster are the same text, whatever order the API server lists in."""
    first = tree_plan("b", tree=tree("b", namespace="y"), findings=(finding(Severity.WARNING, "b", None),))
    second = tree_plan("z", tree=tree("z", namespace="x"), findings=(finding(Severity.WARNING, "a", "/b"),))
    third = tree_plan("a", tree=tree("a", namespace="y"), findings=(finding(Severity.WARNING, "a", "/a"),))
    document = summary.plan_json(plan(first, second, third))
    assert [(t["namespace"], t["name"]) for t in document["trees"]] == [("x", "z"), ("y", "a"), ("y", "b")]
    for entry in document["trees"]:
        places = [(c["namespace"], c["name"], c["kind"], c["field"]) for c in entry["changes"]]
        assert places == sorted(places)
    assert [(w["name"], w["field"]) for w in document["warnings"]] == [("a", "/a"), ("a", "/b"), ("b", None)]


def test_json_says_null_for_what_is_absent() -> None:
    """A finding about no object has null in its places; a set that nothing explains has null as its source."""
    odd = Finding("GM-122", Severity.WARNING, None, None, "it runs")
    unexplained = TreePlan(tree("demo"), None, "legacy-1.35", TreeState.REFUSED)
    document = summary.plan_json(plan(unexplained, findings=(odd,)))
    assert document["trees"][0]["from"] is None
    absent = dict.fromkeys(("kind", "namespace", "name", "field", "remedy"))
    assert document["warnings"] == [{"code": "GM-122", **absent, "message": "it runs"}]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (plan(), "nothing to do: no PodCliqueSets"),
        (
            plan(tree_plan("demo", disruption=Disruption(1412, 3296))),
            "without migration: 1,412 pods and 3,296 GPUs in 1 set would be recreated; with it: 0",
        ),
        (
            plan(tree_plan("a", disruption=Disruption(1, 1)), tree_plan("b", TreeState.DONE)),
            "without migration: 1 pod and 1 GPU in 1 set would be recreated; with it: 0",
        ),
        (
            plan(tree_plan("a"), tree_plan("b", TreeState.SKIPPED, disruption=Disruption(3, 0))),
            "without migration: 5 pods and 16 GPUs in 2 sets would be recreated; with it: 3 pods and 0 GPUs",
        ),
        (
            plan(tree_plan("a"), tree_plan("b", TreeState.REFUSED, findings=(finding(Severity.REFUSAL),))),
            "without migration: 4 pods and 32 GPUs in 2 sets would be recreated; the migration is refused by 1 set",
        ),
        (
            plan(tree_plan("a"), findings=(finding(Severity.REFUSAL),), cluster=Disruption(9, 72)),
            (
                "without migration: 9 pods and 72 GPUs in the whole cluster (2 pods and 16 GPUs in 1 set selected) "
                "would be recreated; the migration is refused"
            ),
        ),
    ],
)
def test_the_headline_says_what_is_at_stake(made: Plan, said: str) -> None:
    """One sentence: what is recreated without the migration, and with it, or that it is refused."""
    assert summary.headline(made) == said


def test_changes_are_grouped_by_what_replaces_what() -> None:
    """A person sees one line for each hash, with the kinds that hold it, not one per pod."""
    generation, template = change_groups(tree_plan("demo"))
    assert (generation.what, generation.old, generation.new) == ("generation hash", OLD_G, NEW_G)
    assert (template.what, template.old, template.new) == ("pod template of frontend", OLD, NEW)
    assert template.kinds == {"Pod": 2, "PodClique": 1}


def test_notes_say_what_the_numbers_leave_out() -> None:
    """GPUs claimed by DRA, canonical schemes without a release, and hashes that are accepted are pointed out."""
    assert summary.notes(plan()) == []
    assert summary.notes(plan(tree_plan("demo"))) == [summary.DRA_NOTE]
    canonical = replace(tree_plan("demo", disruption=Disruption()), target="canonical-1.34")
    assert summary.notes(plan(canonical)) == [summary.CANONICAL_NOTE, summary.ACCEPTED_NOTE]


@pytest.mark.parametrize(("target", "noted"), [("v0.1.0-alpha.11", False), ("v0.1.0-alpha.3", True)])
def test_who_does_not_know_on_delete_is_noted_of_such_targets_only(target: str, *, noted: bool) -> None:
    """Operators before alpha.7 roll sets under OnDelete: worth a note where the target may be one."""
    plan = World().grow(on_delete=True).plan(target=target)
    assert (summary.ON_DELETE_NOTE in summary.notes(plan)) is noted


def test_lines_for_a_pipe_name_every_set_and_finding() -> None:
    """A pipe gets the headline, one line for each set and finding, no escapes, and nothing cut off."""
    made = plan(
        tree_plan("a-very-long-name-of-a-set-that-no-terminal-would-like", findings=(finding(Severity.REFUSAL),)),
        tree_plan("b", TreeState.DONE),
        findings=(finding(Severity.WARNING, "w"),),
    )
    lines = plan_text(made).splitlines()
    assert lines[0] == summary.headline(made)
    assert [line.split()[:3] for line in lines if line.startswith("default ")] == [
        ["default", "a-very-long-name-of-a-set-that-no-terminal-would-like", "migrate"],
        ["default", "b", "done"],
    ]
    assert "refused: GM-101 PodCliqueSet default/demo /status/x: demo is odd. Do something" in lines
    assert "warning: GM-101 PodCliqueSet default/w /status/x: w is odd. Do something" in lines
    assert "\x1b" not in plan_text(made)


def test_no_file_can_make_a_terminal_obey() -> None:
    """Escape sequences in names and messages are spelt out, in lines and on the terminal."""
    evil = tree_plan("a\x1b[2J")
    text = plan_text(plan(evil))
    assert "\x1b" not in text
    assert "a\\x1b[2J" in text


def many(number: int, code: str = "GM-112", severity: Severity = Severity.WARNING) -> tuple[Finding, ...]:
    """The same finding of that many pods."""
    field, what = "/metadata/deletionTimestamp", "is being deleted; it is left alone"
    refs = (Ref("Pod", "default", f"pod-{index:03}") for index in range(number))
    return tuple(Finding(code, severity, ref, field, f"{ref} {what}") for ref in refs)


def test_findings_of_one_code_are_one_line_with_a_count_and_a_few_names() -> None:
    """Four hundred pods are not four hundred lines, in a pipe or on a terminal; nothing is lost from the count."""
    made = plan(tree_plan("demo", findings=many(400)))
    (line,) = (line for line in plan_text(made).splitlines() if line.startswith("warning: "))
    assert line == (
        "warning: GM-112 /metadata/deletionTimestamp: Pod default/pod-000 is being deleted; it is left alone "
        "(399 more like it: Pod default/pod-001, default/pod-002, default/pod-003 and 396 more)"
    )


def test_different_statements_of_one_code_keep_their_own_words_and_the_remedy_is_said_once() -> None:
    """Values differ from object to object: the first few are shown each in its words, what to do stands once."""
    refs = [Ref("PodClique", "default", f"c-{index}") for index in range(6)]
    (group,) = grouped(
        Finding("GM-101", Severity.REFUSAL, ref, "/metadata/labels/x", f"{ref} holds {ref.name}", "wait for it")
        for ref in refs
    )
    assert group.refuses
    texts = [statement.text for statement in group.statements[:2]]
    assert texts == ["/metadata/labels/x holds c-0", "/metadata/labels/x holds c-1"]
    assert group.remedies == ("wait for it",)


def test_what_refuses_comes_before_what_warns_under_one_code() -> None:
    """A code that refuses here and warns there is two groups, the refusal first."""
    made = grouped((*many(2), *many(1, severity=Severity.REFUSAL)))
    assert [(group.refuses, len(group.findings)) for group in made] == [(True, 1), (False, 2)]


def test_what_was_not_checked_is_a_note_and_no_warning() -> None:
    """A guard that could not be judged must not stand under a title that says what was not found."""
    made = replace(plan(tree_plan("demo")), not_checked=(NotChecked("GM-122", "whether an operator is running"),))
    text = plan_text(made)
    assert "GM-122 is not checked: whether an operator is running\n" in text
    assert "warning" not in text
    assert "An operator is running" not in text
    document = summary.plan_json(made)
    assert document["warnings"] == []
    assert document["notChecked"] == [{"code": "GM-122", "message": "whether an operator is running"}]


def test_every_refused_set_has_its_codes_in_the_table() -> None:
    """The line of a set has the reason of its refusal, for grep; without refusals there is no such column."""
    refused = tree_plan("odd", TreeState.REFUSED, findings=(finding(Severity.REFUSAL, "odd"), *many(1)))
    lines = plan_text(plan(refused, tree_plan("fine"))).splitlines()
    assert "REFUSED BY" in lines[2]
    assert [line.split()[-1] for line in lines if line.startswith("default ")] == ["16", "GM-101"]
    assert "REFUSED BY" not in plan_text(plan(tree_plan("fine")))


def test_a_refused_plan_says_what_to_do_next() -> None:
    """The codes to look up, and what --skip-refused would leave behind, unless that does not help."""
    odd = tree_plan("odd", TreeState.REFUSED, findings=(finding(Severity.REFUSAL, "odd"),))
    lookup = "docs/guards.md explains each code and what to do: GM-101"
    assert summary.next_steps(plan(tree_plan("fine"))) == []
    assert summary.next_steps(plan(odd)) == [lookup]
    assert summary.next_steps(plan(odd, tree_plan("fine"))) == [
        lookup,
        "or migrate the other 1 set with run --skip-refused: then 2 pods and 16 GPUs would be recreated",
    ]
    assert summary.next_steps(plan(odd, tree_plan("fine"), findings=(finding(Severity.REFUSAL),))) == [lookup]
