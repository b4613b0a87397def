"""The plan as a page: self-contained, escaped, and with the very numbers of the JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from migrator.grove.objects import Ref, Tree
from migrator.planning.model import Change, Disruption, Finding, NotChecked, Plan, SetState, Severity
from migrator.releases.table import Named
from migrator.report import json as report
from migrator.report import page as page_module
from tests.support.builders import World, clique
from tests.support.fleet import LONG
from tests.support.tables import table
from tests.unit.report.test_table import LABEL, NEW, OLD, bad_night, many, plan, tree, tree_plan

ORIGIN = report.PlanHeader("dump.yaml", "2026-02-01T00:00:00+00:00", "1.2.3")
VOID = {"meta", "br", "wbr", "link", "img", "input", "hr"}
HOSTILE = "</style><script src='https://evil.example/x.js'>alert(1)</script><img src=x onerror=alert(1)>&\"'"


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page: its elements, its attributes, its text."""

    html: str = ""
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the page, and insist that what is opened is closed."""
        super().__init__(convert_charrefs=True)
        self.feed(self.html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last; cells and paragraphs stand apart."""
        if tag in {"td", "th", "dt", "dd", "li", "p"}:
            self.words.append(" ")
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text that is shown."""
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """All text, with single spaces."""
        return " ".join("".join(self.words).split())


def render(made: Plan, origin: report.PlanHeader = ORIGIN, **more: Any) -> str:
    return page_module.render(made, origin, **more)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    """No script, no handler, no address: the page is the same in ten years and without a network."""
    html = render(bad_night())
    page = Page(html)
    assert {"script", "link", "img", "iframe", "object", "embed", "base", "form", "svg"}.isdisjoint(page.tags)
    assert not [name for _, name, _ in page.attributes if name in {"src", "srcset"} or name.startswith("on")]
    links = [value for _, name, value in page.attributes if name == "href"]
    assert all(link.startswith("#") and f'id="{link[1:]}"' in html for link in links)
    assert "://" not in html
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    assert ("meta", "content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_hostile_names_are_only_text() -> None:
    """Whatever a dump calls objects and cliques, and whatever a guard quotes, no element or attribute comes of it."""
    ref = Ref("Pod", HOSTILE, HOSTILE)
    told = Finding("GM-112", Severity.WARNING, ref, "/x", f"is {HOSTILE}; do {HOSTILE}")
    refuses = Finding("GM-101", Severity.REFUSAL, None, None, HOSTILE)
    evil = plan(
        tree_plan("x", SetState.REFUSED, tree=tree(HOSTILE, namespace=HOSTILE), findings=(told, refuses)),
        findings=(told,),
    )
    hostile = Named(HOSTILE, evil.target.scheme)
    html = render(replace(evil, source=hostile, target=hostile))
    page, harmless = Page(html), Page(render(bad_night()))
    assert set(page.tags) <= set(harmless.tags)
    assert {name for _, name, _ in page.attributes} <= {name for _, name, _ in harmless.attributes}
    assert HOSTILE in page.text
    assert "<script" not in html
    page = Page(render(World().grow("web", cliques=[clique("<b onclick=x>"), clique("work")]).plan()))
    assert ("b", "onclick", "x") not in page.attributes
    assert "pod template of <b onclick=x>" in page.text


def test_no_value_is_marked_as_safe() -> None:
    """No template has a way around the escaping of values."""
    templates = sorted(Path(page_module.__file__).parent.glob("*.html"))
    assert {template.name for template in templates} >= {"page.html", "parts.html"}
    for template in templates:
        assert not re.search(r"\|\s*safe|autoescape|Markup", template.read_text(encoding="utf-8"))


def test_the_numbers_are_those_of_the_json() -> None:
    """The headline, the tiles and the bars say what `-o json` says, to the last pod."""
    summary, html = report.summary(bad_night()), render(bad_night())
    text = Page(html).text
    pods, gpus = summary["podsRecreatedWithoutMigration"], summary["gpusRecreatedWithoutMigration"]
    assert f"Without the migration, the upgrade recreates {pods:,} pods with {gpus:,} GPUs in" in text
    assert f"Without the migration: {pods:,} pods, {gpus:,} GPUs recreated" in text
    tiles = {"PodCliqueSets": "podCliqueSets", "pods in them": "pods", "stored hashes to change": "changes"}
    for words, key in tiles.items():
        assert f"<dt>{words}</dt><dd>{summary[key]:,}</dd>" in html
    bars = re.findall(r'<span class="amount">([\d,]+) pods?</span> <span class="amount dim">([\d,]+) GPUs?', html)
    assert [sum(int(number.replace(",", "")) for number in column) for column in zip(*bars, strict=True)] == [
        pods,
        gpus,
    ]


def test_everything_that_refuses_is_told_with_its_reason_and_what_to_do() -> None:
    """Each code has its title, its objects and its remedy; a refused set is named among all sets with its codes."""
    text = Page(render(bad_night())).text
    assert "GM-102 An update of the set is in flight" in text
    assert "has an update that has not ended, and something old is left to replace" in text
    assert "Let the running operator finish" in text
    assert "evaluation/reranker-03 refused by GM-101, GM-102" in text
    assert f"PodClique inference/{LONG}-0-leader" in text


def test_a_plan_without_anything_at_stake_has_no_bars() -> None:
    """Nothing to do is one sentence, not an empty picture."""
    for made in (plan(), plan(tree_plan("ready", SetState.DONE))):
        html = render(made)
        assert "What the upgrade costs" not in html
        assert 'class="stakes"' not in html
        assert "Nothing to do" in Page(html).text
        assert "→ v0.1.0-alpha.11" in Page(html).text


def test_many_objects_of_one_warning_are_a_few_names_and_a_number() -> None:
    """A page that people send around does not list four hundred pods."""
    text = Page(render(plan(tree_plan("demo", findings=many(400))))).text
    assert "GM-112 Hashes of older templates are left alone. (400 findings)" in text
    assert "Pod default/pod-003 and 396 more" in text
    assert "pod-004" not in text


def test_the_two_bars_tell_what_the_migration_saves() -> None:
    """Without the migration everything at stake; with it nothing, or what is refused."""
    refused = tree_plan("odd", SetState.REFUSED, findings=many(1, "GM-101", Severity.REFUSAL))
    for odd, second in (
        (tree_plan("odd"), "With it: 0 pods, 0 GPUs recreated"),
        (refused, "which leaves out refused sets: 2 pods, 16 GPUs recreated"),
    ):
        text = Page(render(plan(odd, tree_plan("fine", disruption=Disruption(3, 24))))).text
        assert "Without the migration: 5 pods, 40 GPUs recreated" in text
        assert second in text


def test_known_issues_have_a_section_of_their_own() -> None:
    """What is not a matter of hashes stands apart from what refuses, with its objects and what to do."""
    world = World().grow(scheme="legacy-1.35")
    world.pcs["metadata"]["annotations"] = {"grove.io/auto-mnnvl": "enabled"}
    made = world.plan(source="v0.1.0-alpha.8", target="v0.1.0-alpha.9")
    text = Page(render(made)).text
    assert "Known issues of this upgrade" in text
    assert "GM-305 Automatic MNNVL ends" in text
    assert "Recreate the set with mnnvl-group" in text
    assert "Known issues" not in Page(render(World().grow().plan())).text


def test_the_page_says_what_it_was_made_from() -> None:
    """Cluster, operator, both ends of the upgrade, time and version are on top; what is not known says so."""
    made = replace(bad_night(), operator="Deployment grove-system/grove-operator, 1 replica of grove:9")
    text = Page(render(made, replace(ORIGIN, cluster="https://10.0.0.1:6443"))).text
    assert "Cluster https://10.0.0.1:6443" in text
    assert "Operator now Deployment grove-system/grove-operator, 1 replica of grove:9" in text
    assert "Upgrade v0.1.0-alpha.4 to v0.1.0-alpha.9 → v0.1.0-alpha.11" in text
    assert "Made 2026-02-01 00:00:00 UTC by grove-migrator 1.2.3" in text
    assert "Cluster dump.yaml Operator now none was seen" in Page(render(bad_night())).text


def test_refused_sets_are_counted_as_sets_everywhere() -> None:
    """The headline and the tile say the same number; how many findings there are is a remark beside it."""
    made = bad_night()
    refused = sum(1 for one in made.set_plans if one.state is SetState.REFUSED)
    findings = len(made.refusals)
    assert refused < findings
    text = Page(render(made)).text
    assert f"{refused} need attention" in text
    assert f"sets refused {refused} {findings} findings" in text
    assert not re.search(rf"refusals? {findings}\b", text)


def test_costs_are_counted_and_their_assumptions_stated() -> None:
    """Pods and GPUs without the migration and with it, and the pause for the patches of what can be migrated."""
    made = plan(
        tree_plan("fine", disruption=Disruption(3, 24)),
        tree_plan("odd", SetState.REFUSED, findings=many(1, "GM-101", Severity.REFUSAL)),
    )
    text = Page(render(made)).text
    assert "pods recreated 5 2" in text
    assert "GPUs of these pods 40 16" in text
    assert "operator stopped while hashes are written * - under a minute" in text
    assert "4 patches at an assumed 100 a second" in text
    many_pods = tuple(Change(Ref("Pod", "default", f"p-{number}"), LABEL, OLD, NEW) for number in range(6001))
    large = replace(tree_plan("large"), changes=many_pods)
    assert "written * - about 2 minutes" in Page(render(plan(large))).text


READY = "until the slowest model is ready **"


@table(
    "minutes said",
    (
        "The quickest pod of a clique; the slowest clique.",
        ({"a": [12, 9000], "b": [3, 3]}, f"{READY} about 12 minutes -"),
    ),
    ("One minute is no plural.", ({"a": [1, 1]}, f"{READY} about 1 minute -")),
    ("No pod is ready.", ({"a": [0, 0]}, "How long the models need to load is not known: only a dump")),
    ("A cluster.", ({}, "How long the models need to load is not known: only a dump")),
)
def test_the_page_says_how_long_the_models_need(minutes: dict[str, list[int]], said: str) -> None:
    """From when a pod was scheduled until it was ready, as a dump has it; one with 0 minutes never was."""
    world = World().grow(cliques=[clique("a"), clique("b")], groups={})
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for name, times in minutes.items():
        for number, time in enumerate(times):
            ends = {"PodScheduled": start, "Ready": start + timedelta(minutes=time)}
            world.of("Pod", f"web-0-{name}-{number}")["status"] = {
                "conditions": [
                    {"type": kind, "status": str(time > 0), "lastTransitionTime": end.isoformat()}
                    for kind, end in ends.items()
                ]
            }
    assert said in Page(render(world.plan())).text


def test_totals_by_namespace_and_by_label_add_up() -> None:
    """Each set is in one namespace and has one value of the label, or none; most GPUs come first."""
    made = plan(
        tree_plan("a", tree=labelled("a", "one", team="red"), disruption=Disruption(1, 8)),
        tree_plan(
            "b", tree=labelled("b", "two", team="blue"), disruption=Disruption(2, 16), remaining=Disruption(1, 4)
        ),
        tree_plan("c", SetState.REFUSED, tree=labelled("c", "two"), disruption=Disruption(4, 0)),
    )
    text = Page(render(made, group_by="team")).text
    assert "two c 2 1 6 16 4 one 1 0 1 8 0" in text
    assert f"blue 1 0 2 16 4 red 1 0 1 8 0 {page_module.UNLABELLED} c 1 1 4 0 0" in text
    assert "by label team" not in Page(render(made)).text


def test_beyond_fifty_sets_the_rest_is_folded_away() -> None:
    """What is refused, then what has most GPUs, stays in sight; the rest is one click away, and all of it is there."""
    fine = [tree_plan(f"s{number:02}", disruption=Disruption(1, number)) for number in range(60)]
    odd = tree_plan("odd", SetState.REFUSED, findings=many(1, "GM-101", Severity.REFUSAL))
    html = render(plan(*fine, odd))
    seen, _, folded = html.partition('<details class="more">')
    assert "11 more sets" in folded
    assert seen.index(">odd<") < seen.index(">s59<") < seen.index(">s11<")
    assert all(f">s{number:02}<" in folded for number in range(11))
    assert 'class="more"' not in render(plan(*fine[:50]))


def labelled(name: str, namespace: str, **labels: str) -> Tree:
    made = tree(name, namespace=namespace)
    return replace(made, pcs=replace(made.pcs, labels=labels))


def test_a_team_finds_its_sets() -> None:
    """With a label each set names its team, and a team's refused sets are links to where their reasons are."""
    findings = (*many(1, "GM-102", Severity.REFUSAL), *many(1))
    odd = tree_plan("odd", SetState.REFUSED, tree=labelled("odd", "two", team="blue"), findings=findings)
    html = render(plan(tree_plan("a", tree=labelled("a", "one", team="red")), odd), group_by="team")
    assert "refused by GM-102 · blue" in html
    assert '<a href="#set-0">odd</a>' in html
    reasons = html.partition('id="set-0"><summary>')[2].partition("</details>")[0]
    assert ("GM-102" in reasons, "GM-112" in reasons) == (True, False), "a warning is no reason"


def test_the_order_is_that_of_a_reader() -> None:
    """The verdict and the next step, what blocks, the cost, who is concerned, the sets, and the theory last."""
    html = render(bad_night(), next_command="do it")
    parts = ["<h1>", "Next</h2>", *(f'id="{name}"' for name in ("refused", "cost", "who", "sets", "why"))]
    assert sorted(parts, key=html.index) == parts
    assert '<th scope="col">' in html
    assert "<th>" not in html


def test_what_was_not_checked_is_in_the_footer() -> None:
    """Whoever gets the page alone does not read more into it than was looked at."""
    made = replace(plan(tree_plan("demo")), not_checked=(NotChecked("GM-122", "whether an operator runs", "a dump"),))
    assert "Not checked: GM-122 whether an operator runs (a dump)" in Page(render(made)).text
    assert "Not checked" not in render(plan(tree_plan("demo")))


def test_more_than_ten_sets_are_short_on_paper() -> None:
    """Nobody carries 21 half-empty pages."""
    sets = [tree_plan(f"s{number}") for number in range(11)]
    assert '<body class="many">' in render(plan(*sets))
    assert '<body class="many">' not in render(plan(*sets[:10]))
