"""What a plan says: the JSON contract, the headline, the table and the first look; and texts in general."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from migrator.grove.objects import Ref, Tree
from migrator.hashing import schemes
from migrator.planning.model import Change, Disruption, Finding, NotChecked, Plan, SetPlan, SetState, Severity
from migrator.planning.options import source_of
from migrator.planning.outlook import Outlook, newer_releases
from migrator.releases.table import named, releases
from migrator.report import json, table
from migrator.report.page import change_groups
from migrator.report.status import outlook_text
from migrator.report.table import finding_rows, grouped, plan_text
from migrator.words import printable
from tests.support.builders import LATER, World, clique, outlook_of
from tests.support.fleet import LONG, SETS, fleet

OLD, NEW, OLD_G, NEW_G = "4567", "89bc", "4444", "5555"
LABEL = "/metadata/labels/grove.io~1pod-template-hash"


def tree(name: str, *, pods: int = 2, terminating: int = 0, namespace: str = "default") -> Tree:
    """A set with one PodClique, one scaling group, and pods of which some are on their way out."""
    world = World().grow(name, namespace=namespace, cliques=[clique("a")], groups={"g": []}, pods=pods)
    for pod in world.all("Pod")[:terminating]:
        pod["metadata"]["deletionTimestamp"] = LATER
    (found,) = world.snapshot().trees
    return found


def tree_plan(name: str, state: SetState = SetState.MIGRATE, **more: Any) -> SetPlan:
    """A plan for such a set: its label and its generation hash change."""
    of = more.pop("tree", None) or tree(name)
    changes: tuple[Change, ...] = ()
    if state in {SetState.MIGRATE, SetState.REFUSED}:
        changes = (
            *(Change(pod.ref, LABEL, OLD, NEW, "frontend") for pod in of.pod_cliques[0].pods),
            Change(of.pod_cliques[0].ref, LABEL, OLD, NEW, "frontend"),
            Change(of.ref, "/status/currentGenerationHash", OLD_G, NEW_G),
        )
    more.setdefault("disruption", Disruption(2, 16) if changes else Disruption())
    more.setdefault("remaining", Disruption() if state is SetState.MIGRATE else more["disruption"])
    return SetPlan(of, schemes.by_name("legacy-1.34"), schemes.by_name("legacy-1.35"), state, changes, **more)


def plan(*trees: SetPlan, findings: tuple[Finding, ...] = (), cluster: Disruption | None = None) -> Plan:
    """A plan whose cluster is the trees, unless said otherwise."""
    disruption = sum((t.disruption for t in trees), Disruption()) if cluster is None else cluster
    return Plan(None, named("v0.1.0-alpha.11"), trees, findings, disruption)


def finding(severity: Severity, name: str = "demo", field: str | None = "/status/x", code: str = "GM-101") -> Finding:
    return Finding(code, severity, Ref("PodCliqueSet", "default", name), field, "is odd", "do something")


REFUSES, NONE = (finding(Severity.REFUSAL),), "With the migration: none."
DONE, SKIPPED = tree_plan("b", SetState.DONE), tree_plan("b", SetState.SKIPPED, disruption=Disruption(3, 0))
REFUSED = tree_plan("b", SetState.REFUSED, findings=REFUSES)
ATTENTION = "1 of 2 sets can be migrated; 1 needs attention."


@pytest.mark.parametrize(
    ("made", "without", "then"),
    [
        (plan(tree_plan("demo", disruption=Disruption(1412, 3296))), "1,412 pods with 3,296 GPUs in 1 set", NONE),
        (plan(tree_plan("a", disruption=Disruption(1, 1)), DONE), "1 pod with 1 GPU in 1 set", NONE),
        (plan(tree_plan("a"), SKIPPED), "5 pods with 16 GPUs in 2 sets", "With the migration: 3 pods with 0 GPUs."),
        (plan(tree_plan("a"), REFUSED), "4 pods with 32 GPUs in 2 sets", ATTENTION),
        (
            plan(tree_plan("a"), findings=REFUSES, cluster=Disruption(9, 72)),
            "9 pods with 72 GPUs in the whole cluster (2 pods with 16 GPUs in 1 set selected)",
            "The migration is refused.",
        ),
        (
            plan(tree_plan("a"), cluster=Disruption(9, 72)),
            "9 pods with 72 GPUs in the whole cluster (2 pods with 16 GPUs in 1 set selected)",
            "A run migrates the sets of all namespaces.",
        ),
    ],
    ids=[
        *("all is saved", "one is no plural", "what is skipped is lost", "some are refused"),
        *("the migration is refused", "a run knows no selection"),
    ],
)
def test_the_headline_says_what_is_at_stake(made: Plan, without: str, then: str) -> None:
    """What is recreated without the migration, and with it, or that it is refused."""
    assert table.headline(made) == f"Without the migration, the upgrade recreates {without}. {then}"


@pytest.mark.parametrize(("code", "goes_on"), [("GM-102", True), ("GM-107", False)])
def test_nothing_to_do_is_no_promise_about_an_update_in_flight(code: str, *, goes_on: bool) -> None:
    """The sets hold the target's hashes, and the operator still rolls out what their owner has edited."""
    made = plan(tree_plan("b", SetState.DONE, findings=(finding(Severity.WARNING, code=code),)))
    done = "Nothing to do: 1 set already holds the hashes of v0.1.0-alpha.11. The upgrade recreates no pod."
    assert table.headline(made) == done + " The update that is in flight goes on." * goes_on


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (False, "The revert restores the hashes of legacy-1.34 in 1 of 1 set."),
        (True, "Nothing to revert: 1 set already holds the hashes of legacy-1.34."),
    ],
    ids=["it restores", "it has restored already"],
)
def test_the_headline_of_a_revert_says_what_it_restores(*, again: bool, said: str) -> None:
    """Nobody reads of an upgrade, or of hashes that the sets do not hold."""
    world = World().grow()
    if not again:
        world.apply(world.decide().changes)
    made = world.revert()
    text = plan_text(made)
    assert table.headline(made) == said
    assert "Stored hashes: legacy-1.35. Target: legacy-1.34.\n" in text
    assert (" revert " in text) != again, "the state of a set"
    assert " migrate " not in text, "the state of a set"


def test_changes_are_grouped_by_what_replaces_what() -> None:
    """A person sees one line for each hash, with the kinds that hold it, not one per pod."""
    generation, template = change_groups(tree_plan("demo"))
    assert generation == ("generation hash", OLD_G, NEW_G, {"PodCliqueSet": 1})
    assert template == ("pod template of frontend", OLD, NEW, {"Pod": 2, "PodClique": 1})


def test_notes_say_what_the_numbers_leave_out() -> None:
    """GPUs claimed by DRA, canonical schemes without a release, and hashes that are accepted are pointed out."""
    assert table.notes(plan()) == []
    assert table.notes(plan(tree_plan("demo"))) == [table.DRA_NOTE]
    canonical = replace(tree_plan("demo", disruption=Disruption()), target=schemes.by_name("canonical-1.34"))
    assert table.notes(plan(canonical)) == [table.CANONICAL_NOTE]


def many(number: int, code: str = "GM-112", severity: Severity = Severity.WARNING) -> tuple[Finding, ...]:
    field, what = "/metadata/deletionTimestamp", "is being deleted; it is left alone"
    refs = (Ref("Pod", "default", f"pod-{index:03}") for index in range(number))
    return tuple(Finding(code, severity, ref, field, what) for ref in refs)


def test_different_statements_of_one_code_keep_their_own_words_and_the_remedy_is_said_once() -> None:
    """Values differ from object to object: the first few are shown each in its words, what to do stands once."""
    refs = [Ref("PodClique", "default", f"c-{index}") for index in range(6)]
    (group,) = grouped(
        Finding("GM-101", Severity.REFUSAL, ref, "/metadata/labels/x", f"holds {ref.name}", "wait for it")
        for ref in refs
    )
    assert group.refuses
    texts = [text for text, _ in group.statements[:2]]
    assert texts == ["holds c-0", "holds c-1"]
    assert group.remedies == ["wait for it"]


def test_of_more_statements_the_objects_are_named() -> None:
    """The words of the first three are enough to know what it is about."""
    refs = [Ref("PodClique", "default", f"c-{index}") for index in range(5)]
    text = "".join(
        finding_rows("refused", [Finding("GM-101", Severity.REFUSAL, ref, None, f"holds {ref.name}") for ref in refs])
    )
    assert "PodClique default/c-2: holds c-2" in text
    assert "And 2 more: PodClique default/c-3, default/c-4" in text


def test_what_is_not_refused_needs_no_causes_and_fixes() -> None:
    """A plan with nothing to do has no next step."""
    assert "\nnext " not in plan_text(plan(tree_plan("demo", SetState.DONE)))


def test_without_a_remedy_there_is_no_arrow() -> None:
    """Nothing is to be done."""
    assert "->" not in "".join(finding_rows("warning", many(2)))


@pytest.mark.parametrize(("number", "hold"), [(1, "1 set already holds"), (2, "2 sets already hold")])
def test_a_verb_has_the_number_of_its_sets(number: int, hold: str) -> None:
    """In the headline."""
    done = plan(*[tree_plan(f"set-{index}", SetState.DONE) for index in range(number)])
    assert f"Nothing to do: {hold} the hashes" in table.headline(done)


def test_what_refuses_comes_before_what_warns_under_one_code() -> None:
    """A code that refuses here and warns there is two groups, the refusal first."""
    made = grouped((*many(2), *many(1, severity=Severity.REFUSAL)))
    assert [(group.refuses, len(group.findings)) for group in made] == [(True, 1), (False, 2)]


@pytest.mark.parametrize(("others", "said"), [((), "refused GM-101 "), (("GM-102", "GM-120"), "refused GM-101 +2 ")])
def test_a_refused_set_has_its_first_code_in_its_row(others: tuple[str, ...], said: str) -> None:
    """And how many more there are."""
    findings = tuple(finding(Severity.REFUSAL, code=code) for code in ("GM-101", *others))
    assert said in plan_text(plan(tree_plan("demo", SetState.REFUSED, findings=findings)))


def test_a_state_names_refusals_and_no_warnings() -> None:
    """What only informs is listed above the table."""
    text = plan_text(plan(tree_plan("b", SetState.MIGRATE, findings=(finding(Severity.WARNING),))))
    (row,) = (line.split() for line in text.splitlines() if line.split()[:1] == ["default/b"])
    assert row[1:3] == ["migrate", "4"]


@cache
def bad_night() -> Plan:
    return World(fleet(troubled=True)).plan(target="v0.1.0-alpha.11", is_cluster=False)


def test_a_bad_night_fits_80_columns() -> None:
    """No line is longer, every set is named, and a refusal has its object and what to do."""
    text = plan_text(bad_night())
    lines = text.splitlines()
    assert max(len(re.sub("`[^`]*`", "", line)) for line in lines) <= 80
    assert f"inference/{LONG}" in lines
    assert any(line.split()[:2] == ["evaluation/reranker-03", "refused"] for line in lines)
    assert "grove.io~1" not in text
    assert "docs/guards.md has the causes and fixes of GM-1" in text
    assert len(lines) < 2.2 * SETS + 60


@pytest.mark.parametrize(
    ("running", "source", "target", "said"),
    [
        ("v0.1.0-alpha.6", "auto", "alpha.12-rc1", ("alpha.6, Dynamo 1.0", "alpha.12-rc1, Dynamo 1.4")),
        (None, "auto", "alpha.11", ("alpha.4 to v0.1.0-alpha.9", "alpha.11")),
        ("v0.1.0-alpha.8", "alpha.9", "v0.1.0-alpha.11", ("alpha.9", "alpha.11")),
    ],
)
def test_both_ends_are_named_with_their_dynamo_versions(
    running: str | None, source: str, target: str, said: tuple[str, str]
) -> None:
    """Whoever upgrades Dynamo knows its versions, not Grove's; what runs counts more than what the hashes allow."""
    made = replace(plan(tree_plan("demo")), running=running, source=source_of(source), target=named(target))
    stored, new = (f"(v0.1.0-{end})" for end in said)
    text = f"Stored hashes: legacy-1.34 {stored}. Target: legacy-1.35 {new}."
    assert text in " ".join(plan_text(made).split())


def test_stored_hashes_that_nothing_explains_are_not_said_to_be_of_a_release() -> None:
    """Neither of the one that was named, nor of the one that runs: their hashes are what was not found."""
    unexplained = replace(tree_plan("demo", SetState.REFUSED), source=None)
    made = replace(plan(unexplained), running="v0.1.0-alpha.8", source=source_of("v0.1.0-alpha.3"))
    assert "Stored hashes: unknown. Target:" in plan_text(made)


def test_a_set_of_another_scheme_has_releases_of_its_own() -> None:
    """The release that runs stands for all sets only where none holds other hashes."""
    other = replace(tree_plan("other"), source=schemes.by_name("legacy-1.33"))
    text = plan_text(replace(plan(tree_plan("demo"), other), running="v0.1.0-alpha.8"))
    assert "v0.1.0-alpha.1 to v0.1.0-alpha.3, v0.1.0-alpha.4 to v0.1.0-alpha.9" in " ".join(text.split())


def test_findings_of_one_code_are_a_count_and_a_few_names() -> None:
    """Four hundred pods are not four hundred lines; nothing is lost from the count."""
    text = plan_text(plan(tree_plan("demo", findings=many(400))))
    assert "warning   GM-112 " in text
    assert "default/pod-002 and 397 more" in text
    assert "pod-003" not in text


def test_what_was_not_checked_is_no_warning() -> None:
    """A guard that could not be judged must not stand under a title that says what was not found."""
    dump = [NotChecked(code, f"whether {code} is so", "this is a dump") for code in ("GM-202", "GM-205")]
    unseen = NotChecked("GM-122", "whether an operator is running", "forbidden")
    made = replace(plan(tree_plan("demo")), not_checked=(unseen, *dump))
    text = plan_text(made)
    assert "unchecked GM-122 whether an operator is running (forbidden)\n" in text
    assert "GM-202 whether GM-202 is so; GM-205 whether GM-205 is so (this is a\n          dump)\n" in text
    assert "warning" not in text
    assert [one["code"] for one in json.plan_json(made)["notChecked"]] == ["GM-122", "GM-202", "GM-205"]


def test_a_plan_says_what_to_do_next() -> None:
    """One command if all can be migrated; else what explains the refusals, and what --skip-refused leaves behind."""
    odd = tree_plan("odd", SetState.REFUSED, findings=(finding(Severity.REFUSAL, "odd"),))
    lookup = "docs/guards.md has the causes and fixes of GM-101."
    assert plan_text(plan(tree_plan("fine")), next_command="do it").endswith("next      do it\n")
    assert table.next_steps(plan(odd), "skip it") == [lookup]
    assert table.next_steps(plan(odd, tree_plan("fine")), "skip it") == [
        lookup,
        "Or migrate the other set with `skip it`; then the upgrade recreates 2 pods with 16 GPUs.",
    ]
    everything = plan(odd, tree_plan("fine"), findings=(finding(Severity.REFUSAL),))
    assert table.next_steps(everything, "skip it") == [lookup]


def test_the_first_look_fits_one_screen() -> None:
    """What is there, what blocks a run, a row for each scheme of newer releases, and one command; older: one line."""
    world = World(fleet(troubled=True))
    snapshot = world.snapshot(is_cluster=True)
    targets = outlook_of(snapshot)
    look = Outlook("https://10.0.0.1", is_cluster=True, sets=37, pods=345, gpus=1, record="A run did not end.")
    newer = newer_releases(targets, None)
    text = outlook_text(look, targets, newer, commands=["grove-migrator plan --to v0.1.0-alpha.12-rc1"])
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:5] == [
        "cluster   https://10.0.0.1",
        "record    A run did not end.",
        "operator  None was found.",
        "sets      37 PodCliqueSets, 345 pods, 1 GPU.",
        "",
    ]
    assert "blocked   GM-1" in text
    assert "Not shown, as they are not newer: v0.1.0-alpha.1 to v0.1.0-alpha.9.\n" in text
    rows = [line.split("   ")[0] for line in lines if line.startswith("v0.1.0-")]
    assert rows == [f"v0.1.0-alpha.10 to {newer[-1]}"]
    assert lines[-1] == "next      grove-migrator plan --to v0.1.0-alpha.12-rc1"


def test_the_release_that_runs_is_not_a_next_one() -> None:
    """The image of the operator decides which releases are newer; without it the newest of the stored scheme does."""
    snapshot = World().grow().snapshot()
    names = [release.name for release in releases() if not release.from_main]
    for running, shown in (("v0.1.0-alpha.11",) * 2, ("v0.1.0-alpha.8",) * 2, (None, "v0.1.0-alpha.9")):
        targets = outlook_of(snapshot, running)
        assert newer_releases(targets, running) == names[names.index(shown) + 1 :]


def test_an_upgrade_that_has_begun_shows_what_it_will_still_recreate() -> None:
    """Also where nothing tells which release runs, as in a dump or beside an image with the tag `latest`."""
    world = World().grow().put_generation_of("legacy-1.35")
    world.put("PodCliqueSet", "web", "/status/updateProgress", {"updateStartedAt": LATER})
    targets = outlook_of(world.snapshot())
    newer = newer_releases(targets, None)
    text = outlook_text(Outlook("dump.yaml", is_cluster=False, sets=1), targets, newer, commands=[])
    assert newer[0] == "v0.1.0-alpha.10"
    assert [line.split()[-3:] for line in text.splitlines() if line.startswith(newer[0])] == [["6", "0", "0"]]


def test_what_is_said_of_an_object_stands_behind_its_name() -> None:
    """The same of one object and of several."""
    refs = [Ref("Pod", "default", name) for name in ("a", "b")]
    findings = [Finding("GM-112", Severity.WARNING, ref, None, "is left alone") for ref in refs]
    assert "Pod default/a: is left alone\n" in "".join(finding_rows("warning", findings[:1]))
    assert "Pod default/a, default/b: is left alone\n" in "".join(finding_rows("warning", findings))


def test_what_a_terminal_would_obey_is_spelt_out() -> None:
    """Control characters, line breaks and direction marks are shown; ordinary text of any script stays."""
    assert printable("plain") == "plain"
    assert printable("grün 模型") == "grün 模型"
    assert printable("a\x1b[31mb\nc\td") == "a\\x1b[31mb\\nc\\td"
    assert printable("a\u202eb") == "a\\u202eb"
    assert printable("a\u00a0b") == "a b"


def test_a_change_names_the_clique_that_it_is_of() -> None:
    """Not another one with the same hash, whose values are the target's already."""
    world = World().grow(cliques=[clique("front"), {**clique("front"), "name": "twin"}], groups={})
    new = world.hashes("legacy-1.35").templates["twin"]
    for kind, name in (("PodClique", "web-0-twin"), ("Pod", "web-0-twin-0"), ("Pod", "web-0-twin-1")):
        world.put(kind, name, LABEL, new)
    for field in ("currentPodTemplateHash", "updateProgress/podTemplateHash"):
        world.put("PodClique", "web-0-twin", f"/status/{field}", new)
    (set_plan,) = world.plan(target="legacy-1.35").set_plans
    assert [what for what, *_ in change_groups(set_plan)] == ["generation hash", "pod template of front"]
