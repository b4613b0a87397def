"""From trees to a plan: what changes, what is left alone, and what is at stake."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from migrator.errors import UsageError
from migrator.hashing import schemes
from migrator.hashing.podcliqueset import SetHasher, SetHashes
from migrator.hashing.schemes import Scheme
from migrator.planning.model import SetPlan, SetState, Severity
from migrator.planning.options import PlanOptions
from migrator.planning.planner import Known, certain_source, holds_target, make_plan, plan_revert
from migrator.releases.table import named
from tests.support.builders import DELETION, LABEL, LATER, NOW, World, clique, options_of, refusals, warnings
from tests.support.tables import table


@table(
    "world",
    (
        "It is being deleted, and nothing of it is at stake.",
        (World().grow().put("PodCliqueSet", "web", DELETION, LATER),),
    ),
    (
        "It gets the next operator's own hashes.",
        (World([World().grow().pcs]).put("PodCliqueSet", "web", "/status", {}),),
    ),
)
def test_a_set_that_goes_or_has_not_begun_is_skipped(world: World) -> None:
    """It is left alone with its children."""
    assert world.decide() == SetPlan(world.snapshot().trees[0], None, schemes.by_name("legacy-1.35"), SetState.SKIPPED)


def test_a_set_that_goes_shows_no_run_that_died() -> None:
    """Its hashes are the target's, and nobody finishes it."""
    world = World().grow(scheme="legacy-1.35").put("PodCliqueSet", "web", DELETION, LATER)
    assert not holds_target(world.decide())


def test_a_set_is_hashed_once_under_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first look plans for every target, asks all schemes for one that explains the set, and a text may be long."""
    asked, under = list[Scheme](), SetHasher.under

    def counted(hasher: SetHasher, scheme: Scheme) -> SetHashes:
        asked.append(scheme)
        return under(hasher, scheme)

    snapshot = World().grow().put("PodCliqueSet", "web", "/status/currentGenerationHash").snapshot()
    monkeypatch.setattr(SetHasher, "under", counted)
    for target in ("legacy-1.35", "canonical-1.36"):
        make_plan(snapshot, options_of(target))
    assert sorted(asked, key=str) == sorted(schemes.all_schemes(), key=str)


def two() -> World:
    """One set that can be migrated, in namespace ``a``, and one that must not, in namespace ``b``."""
    world = World().grow("good", namespace="a").grow("bad", namespace="b")
    world.of("PodCliqueSet", "bad")["status"]["currentRevision"] = "bad-1"
    return world


def undecodable(world: World) -> World:
    """The set ``bad`` has a quantity that the API server takes without Grove's webhook (measured), and Go does not."""
    container = world.of("PodCliqueSet", "bad")["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
    container["resources"] = {"limits": {"example.test/x": "1e1.5"}}
    return world


def test_a_set_that_cannot_be_hashed_stops_no_other() -> None:
    """It is refused and can be skipped, whoever has made it; all of its pods are at stake."""
    world = undecodable(World().grow("good", namespace="a").grow("bad", namespace="b"))
    bad, good = world.plan().set_plans[::-1]
    field = "/spec/template/cliques/0/spec/podSpec/containers/0/resources/limits/example.test~1x"
    assert refusals(bad.findings) == [("GM-139", "bad", field)]
    assert (bad.state, bad.disruption.pods, good.state) == (SetState.REFUSED, 6, SetState.MIGRATE)
    states = [one.state for one in world.plan(skip_refused=True, resumes=True).set_plans]
    assert states == [SetState.MIGRATE, SetState.SKIPPED]


def test_a_set_that_cannot_be_hashed_stops_no_revert() -> None:
    """Nothing of it can be put back, and the others must be."""
    world = World().grow("good", namespace="a", scheme="legacy-1.35").grow("bad", namespace="b", scheme="legacy-1.35")
    plan = undecodable(world).revert()
    assert [(one.tree.ref.name, one.state) for one in plan.set_plans] == [
        ("good", SetState.MIGRATE),
        ("bad", SetState.DONE),
    ]
    assert warnings(plan.set_plans[1].findings) == [("GM-112", "bad", None)]
    assert plan_revert(world.snapshot(), options_of(target="canonical-1.35"), None).set_plans == ()


def test_a_narrowed_plan_counts_the_whole_cluster_and_names_the_others_that_need_it() -> None:
    """The operator serves all of it: what is at stake does not depend on -n or -l, and who is left out is told."""
    plan = two().plan(namespace="a")
    assert [p.tree.ref.name for p in plan.set_plans] == ["good"]
    assert plan.set_plans[0].disruption.pods == 6
    assert plan.cluster_disruption.pods == 12
    (finding,) = plan.findings
    assert warnings([finding]) == [("GM-201", None, None)]
    assert finding.message.startswith("the upgrade also affects 1 PodCliqueSet in other namespaces: ")
    done = World().grow("good", namespace="a").grow("done", namespace="b", scheme="legacy-1.35").grow("gone")
    assert done.put("PodCliqueSet", "gone", DELETION, LATER).plan(namespace="a").findings == ()


def test_refused_sets_can_be_skipped() -> None:
    """--skip-refused leaves refused sets wholly alone, keeps what is at stake, and migrates the others."""
    plan = two().plan(skip_refused=True)
    by_name = {p.tree.ref.name: p for p in plan.set_plans}
    assert {name: p.state for name, p in by_name.items()} == {"good": SetState.MIGRATE, "bad": SetState.SKIPPED}
    bad = by_name["bad"]
    assert bad.changes == ()
    assert refusals(bad.findings) == []
    assert bad.disruption.pods == 6
    assert warnings(bad.findings) == [("GM-120", "bad", "/status/currentRevision")]


@pytest.mark.parametrize("resumes", [False, True])
@pytest.mark.parametrize("written", [0, 3])
def test_a_refused_set_that_a_run_may_have_begun_cannot_be_skipped(written: int, *, resumes: bool) -> None:
    """It holds hashes of the target, and an earlier run may have written them; without such a run it was not us."""
    world = World().grow("bad")
    world.apply(world.decide().changes[:written])
    world.of("PodCliqueSet", "bad")["status"]["currentRevision"] = "bad-1"
    world.grow("good", namespace="a")
    states = {p.tree.ref.name: p.state for p in world.plan(skip_refused=True, resumes=resumes).set_plans}
    assert states["bad"] is (SetState.REFUSED if written and resumes else SetState.SKIPPED)


@table(
    "containers release source",
    ("One scheme explains the set.", (("b", "a"), None, "legacy-1.34")),
    ("Legacy and canonical hashes are equal.", (("a", "b"), None, None)),
    ("And a release tells which they are.", (("a", "b"), "v0.1.0-alpha.9", "legacy-1.34")),
)
def test_the_source_to_be_recorded_is_the_only_one(
    containers: tuple[str, ...], release: str | None, source: str | None
) -> None:
    """An edit in a pause may tell apart what is equal now."""
    world = World().grow(cliques=[clique("front", containers=containers)], groups={})
    found = certain_source(world.plan().set_plans, options_of(), release and named(release).scheme)
    assert (found and found.name) == source


def test_on_a_dump_what_needs_a_cluster_is_not_checked() -> None:
    """A dump says which guards could not be asked: nobody knows how long ago a breach began, for example."""
    breach = [{"type": "MinAvailableBreached", "status": "True", "lastTransitionTime": "2026-01-01T03:04:05Z"}]
    plan = World().grow().put("PodClique", "web-0-front", "/status/conditions", breach).plan(is_cluster=False)
    assert [unchecked.code for unchecked in plan.not_checked] == ["GM-116", "GM-122", "GM-202", "GM-205"]
    assert plan.all_findings == ()
    assert World().grow().plan().not_checked == World().plan(is_cluster=False).not_checked == ()


def test_a_dump_that_lacks_kinds_of_its_cluster_is_told() -> None:
    """Hashes in such objects are not in the plan."""
    snapshot = replace(World().grow().snapshot(is_cluster=False), missing_kinds=("PodGang", "PodGangMap"))
    (finding,) = make_plan(snapshot, options_of(), Known(now=NOW)).findings
    assert warnings([finding]) == [("GM-138", None, None)]
    assert "no PodGang and no PodGangMap" in finding.message


@pytest.mark.parametrize(("source", "target"), [("v0.1.0-alpha.3", "v0.1.0-alpha.11"), ("legacy-1.35", "legacy-1.35")])
def test_a_wrong_source_is_one_line(source: str, target: str) -> None:
    """What the sets do hold is named, nothing else is reported, and no pod is to be deleted."""
    world = World().grow("one").grow("two").take("PodCliqueSet", "one", "/status/updateProgress/updateEndedAt")
    assert world.plan().set_plans[0].findings
    plan = world.plan(source, target)
    for tree in plan.set_plans:
        (finding,) = tree.findings
        assert finding.code == "GM-101"
        assert finding.severity == Severity.REFUSAL
        assert tree.state == SetState.REFUSED
        assert "holds the hashes of legacy-1.34 (v0.1.0-alpha.4 to v0.1.0-alpha.9)" in finding.message
        assert finding.remedy == "leave out --from, or give --from legacy-1.34"
        assert tree.source is None
        assert tree.changes == ()
        assert tree.disruption.pods == 6
    assert world.plan("v0.1.0-alpha.9", "v0.1.0-alpha.11").set_plans[1].findings == ()


def test_what_a_reorder_may_have_made_canonical_contradicts_no_source() -> None:
    """The operator has not seen the newest generation yet: that is waited for, and no canonical --from is advised."""
    world = whole("canonical-1.34")
    world.pcs["metadata"]["generation"] = 2
    findings = world.decide("legacy-1.34").findings
    assert all(finding.settles and "holds the hashes of" not in finding.message for finding in findings)
    assert ("GM-101", "web", "/status/currentGenerationHash") in refusals(findings)


@pytest.mark.parametrize("source", ["auto", "v0.1.0-alpha.11"])
def test_nothing_refuses_between_releases_that_hash_alike(source: str) -> None:
    """alpha.11 to alpha.12-rc1 in mid-update: there is nothing to write, so there is nothing to hide."""
    world = World().grow(scheme="legacy-1.35", maps=True)
    del world.pcs["status"]["updateProgress"]["updateEndedAt"]
    world.put("Pod", "web-0-front-0", LABEL)
    world.put("PodClique", "web-0-sg-0-work", LABEL)
    world.of("PodClique", "web-0-sg-1-work")["metadata"]["deletionTimestamp"] = "2026-01-02T04:00:00Z"
    (tree,) = world.plan(source, "v0.1.0-alpha.12-rc1").set_plans
    assert tree.state == SetState.DONE
    assert tree.changes == ()
    assert refusals(tree.findings) == []
    assert {finding.code for finding in tree.findings} == {"GM-101", "GM-102"}
    for finding in tree.findings:
        assert finding.message.endswith("(nothing is to be written to this set)")


def test_nothing_refuses_a_set_whose_children_hold_the_target_without_a_generation_hash() -> None:
    """The next operator stores its own hash and replaces no pod, as nothing of this set is written either."""
    world = World().grow(scheme="canonical-1.35").take("PodCliqueSet", "web", "/status/currentGenerationHash")
    world.put("PodCliqueSet", "web", "/status/observedGeneration", 0)
    assert refusals(world.findings(target="canonical-1.35")) == []


@pytest.mark.parametrize(("source", "refused"), [("auto", True), ("legacy-1.35", False)])
def test_a_source_that_hashes_alike_is_certain_if_it_is_named(source: str, *, refused: bool) -> None:
    """Nothing is to be written then; a value of neither may else be of a source that hashes in another way."""
    world = whole("legacy-1.35", "ab").put("PodCliqueSet", "web", "/status/currentGenerationHash")
    assert bool(refusals(world.findings(source, "canonical-1.35"))) is refused


@table(
    "options refused",
    ("It could not be searched.", (options_of(), [("GM-137", None, None)])),
    ("That is allowed.", (options_of(allow=frozenset({"GM-137"})), [])),
    ("Nothing is written.", (options_of("legacy-1.34"), [])),
)
def test_a_kind_that_may_not_be_listed_refuses(options: PlanOptions, refused: list[Any]) -> None:
    """It may hold hashes; ``plan`` only warns, as for all that forbids no set."""
    snapshot = replace(World().grow().snapshot(), forbidden_kinds=("podgangs.scheduler.grove.io",))
    assert refusals(make_plan(snapshot, options, Known(now=NOW)).findings) == refused


def test_with_one_namespace_a_kind_that_may_not_be_listed_is_not_checked() -> None:
    """No role of a namespace can grant a kind of the cluster, so it is no warning that advises to grant it."""
    one = replace(World().grow().snapshot(), forbidden_kinds=("clustertopologies.grove.io",), only="default")
    plan = make_plan(one, options_of(), Known(now=NOW))
    unjudged = [(unseen.code, unseen.reason) for unseen in plan.not_checked]
    assert plan.findings == ()
    assert unjudged[1:] == [("GM-137", "you are not allowed to list clustertopologies.grove.io")]


def whole(scheme: str, order: str = "ba") -> World:
    """A set of one scheme, whose lists are in another order than the canonical one, or in that."""
    return World().grow(cliques=[clique("front", containers=order)], groups={}, scheme=scheme)


def stray(scheme: str) -> World:
    """A set of the target with one value of another scheme."""
    world = whole("legacy-1.35")
    return world.put("PodClique", "web-0-front", LABEL, world.hashes(scheme).templates["front"])


@table(
    "world source recorded refused",
    ("No record says what the old hashes are.", (stray("legacy-1.35"), "auto", None, "no record of the old release")),
    (
        "Its new hashes are a canonical operator's too.",
        (whole("legacy-1.35", "ab"), "auto", None, "no record of the old"),
    ),
    ("Nothing holds the target's hashes.", (World().grow(), "auto", None, None)),
    (
        "A set that is being deleted is left alone.",
        (whole("legacy-1.35").put("PodCliqueSet", "web", DELETION, LATER), "auto", None, None),
    ),
    ("The record says it.", (stray("legacy-1.35"), "auto", "legacy-1.34", None)),
    ("The flag does.", (stray("legacy-1.35"), "legacy-1.34", None, None)),
    ("They agree.", (stray("legacy-1.35"), "legacy-1.34", "legacy-1.34", None)),
    ("They do not.", (stray("legacy-1.35"), "legacy-1.33", "legacy-1.34", "the old hashes are those of legacy-1.34")),
    ("A value is the source's already.", (stray("legacy-1.34"), "legacy-1.34", None, None)),
    ("A value is another scheme's.", (stray("legacy-1.33"), "legacy-1.34", None, "is legacy-1.33's hash")),
    ("So is a whole set.", (whole("canonical-1.35"), "legacy-1.34", None, "is canonical-1.35's hash")),
    ("It is a legacy one from before a reorder.", (stray("canonical-1.35"), "legacy-1.34", None, None)),
)
def test_a_revert_is_sure_of_its_source(world: World, source: str, recorded: str | None, refused: str | None) -> None:
    """What the record or a stored value contradicts is an error of the command line."""
    scheme = schemes.by_name(recorded) if recorded else None
    with pytest.raises(UsageError, match=refused) if refused else nullcontext():
        plan_revert(world.snapshot(), options_of("legacy-1.35", source), scheme)
