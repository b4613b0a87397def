"""The JSON of a plan: its keys are those of the page, its numbers are right, and its order does not vary."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH, Ref
from migrator.planning.known_issues import KNOWN_ISSUES
from migrator.planning.model import Disruption, Finding, NotChecked, SetPlan, SetState, Severity
from migrator.planning.outlook import Outlook
from migrator.report import json
from tests.support.builders import OLD, World, outlook_of
from tests.support.paths import ROOT
from tests.unit.report.test_table import finding, plan, tree, tree_plan

#: What stands in the page's section as a value, not as a key.
VALUES = {json.API_VERSION, "auto", "plan -o json", "--to", *(state.value for state in SetState)}


def keys_of(value: Any) -> set[str]:
    if isinstance(value, list):
        return set[str]().union(*map(keys_of, value))
    return set(value).union(*map(keys_of, value.values())) if isinstance(value, dict) else set()


def test_the_page_has_every_key_and_no_other() -> None:
    """Whoever writes a script finds all keys in one place; one that is renamed or goes is seen."""
    ref, header = Ref("Pod", "a", "b"), json.PlanHeader("dump", "now", "1")
    issue = KNOWN_ISSUES["GM-301"].advice(ref)
    unseen = NotChecked("GM-122", "whether", "why")
    made = plan(tree_plan("demo", findings=(finding(Severity.REFUSAL), finding(Severity.WARNING))))
    made = replace(made, advisories=(issue,), not_checked=(unseen,))
    targets = outlook_of(World().grow().snapshot())
    first_look = json.first_look_json(Outlook("dump", is_cluster=False), targets, "auto", header)
    section = (ROOT / "docs" / "how-it-works.md").read_text(encoding="utf-8").partition("## JSON of plan")[2]
    named = re.findall(r"`([^`]*)`", section.partition("\n## ")[0])
    told = {word for name in named if name not in VALUES for word in name.replace("[]", "").split(".")}
    assert told == keys_of([json.plan_json(made, header), first_look]), "left: docs/how-it-works.md; right: the JSON"


def test_json_counts_objects_and_only_pods_that_stay() -> None:
    """Terminating pods are not counted; findings of trees and of the cluster count alike; keys are in order."""
    made = plan(
        tree_plan("a", tree=tree("a", pods=5, terminating=2), findings=(finding(Severity.REFUSAL, "a"),)),
        tree_plan("b", SetState.DONE),
        findings=(finding(Severity.WARNING),),
        cluster=Disruption(7, 56),
    )
    assert list(json.plan_json(made)["summary"].items()) == [
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
    world = World()
    for name, namespace in (("b", "y"), ("z", "x"), ("a", "y")):
        world.grow(name, namespace=namespace, on_delete=True)
        for pod in world.all("Pod"):
            pod["metadata"]["labels"][LABEL_POD_TEMPLATE_HASH] = OLD
    document = json.plan_json(world.plan())
    assert [(t["namespace"], t["name"]) for t in document["trees"]] == [("x", "z"), ("y", "a"), ("y", "b")]
    for entries in (document["warnings"], *(entry["changes"] for entry in document["trees"])):
        places = [(one["namespace"], one["name"], one["kind"], one["field"]) for one in entries]
        assert places == sorted(places) != []
    world.objects.reverse()
    assert json.plan_json(world.plan()) == document


def test_json_findings_are_sorted_by_object_and_field() -> None:
    """In whatever order the guards find them."""
    odd = (("b", None), ("a", "/b"), ("a", "/a"))
    findings = tuple(finding(Severity.WARNING, name, field) for name, field in odd)
    document = json.plan_json(plan(tree_plan("demo", findings=findings)))
    assert [(w["name"], w["field"]) for w in document["warnings"]] == [("a", "/a"), ("a", "/b"), ("b", None)]


def test_json_advisories_are_sorted_by_object_and_id() -> None:
    """As findings are: what is about no namespace comes first."""
    of_set, of_crd = Ref("PodCliqueSet", "x", "z"), Ref("CustomResourceDefinition", "", "ct")
    found = (("GM-306", of_set), ("GM-305", of_set), ("GM-312", of_crd))
    made = replace(plan(), advisories=tuple(KNOWN_ISSUES[code].advice(ref) for code, ref in found))
    assert [said["id"] for said in json.plan_json(made)["advisories"]] == ["GM-312", "GM-305", "GM-306"]


def test_json_says_of_an_issue_what_is_to_be_done_about_this_object() -> None:
    """Not what its entry says of all objects; where that is said, and how sure it is, are the entry's."""
    issue = KNOWN_ISSUES["GM-312"]
    advice = issue.advice(Ref("CustomResourceDefinition", "", "ct"), effect="it clashes", remedy="delete it")
    (said,) = json.plan_json(replace(plan(), advisories=(advice,)))["advisories"]
    where = {"kind": "CustomResourceDefinition", "namespace": None, "name": "ct"}
    rest = {"message": "it clashes", "source": issue.source, "remedy": "delete it", "confidence": issue.confidence}
    assert said == {"id": "GM-312", **where, **rest}


def test_json_says_null_for_what_is_absent() -> None:
    """A finding about no object has null in its places; a set that nothing explains has null as its source."""
    odd = Finding("GM-122", Severity.WARNING, None, None, "it runs")
    unexplained = SetPlan(tree("demo"), None, "legacy-1.35", SetState.REFUSED)
    document = json.plan_json(plan(unexplained, findings=(odd,)))
    assert document["trees"][0]["from"] is None
    absent = dict.fromkeys(("kind", "namespace", "name", "field", "remedy"))
    assert document["warnings"] == [{"code": "GM-122", **absent, "message": "it runs"}]
