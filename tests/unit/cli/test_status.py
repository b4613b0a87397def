"""The first look is the status: what is installed, whether the stored hashes are its own, and what comes next."""

from __future__ import annotations

import pytest

from migrator.errors import OR_REVERT, STAY_AT_ZERO, Forbidden
from migrator.exact_json import JSONObject
from migrator.kinds import DEPLOYMENTS, LEASES, POD_CLIQUE_SETS, Resource
from migrator.planning.crds import TOPOLOGY_KINDS, application, removal
from migrator.planning.model import Disruption, SetState, Severity
from migrator.planning.webhooks import expression
from migrator.releases.table import releases
from migrator.report.table import MANY, plan_text
from migrator.run.leases import OPERATOR_LEASE, PARKED
from migrator.run.record import Record, State
from testbed import operator_installation as installation
from tests.support.builders import LATER, hashes_of
from tests.support.clock import START
from tests.support.command_line import Invoke, objects
from tests.support.memory_site import NEW, OLD, Site, end_at_a_pod
from tests.support.tables import table
from tests.unit.report.test_table import finding, plan, tree_plan

RUN = ("run", "--to", NEW, "--stop-operator")
VERIFY = f"grove-migrator verify --to {NEW} --after-upgrade --wait 5m"
LOST = "recreates 19 pods with 78 GPUs."
NEWEST = [release.name for release in releases() if release.name.startswith("v")][-1]


@table(
    "does first last",
    (
        "Before a run nothing is amiss.",
        ("", "ready Nothing blocks a migration.", f"next      grove-migrator plan --to {NEWEST}"),
    ),
    (
        "After a run the old operator must not start.",
        ("run", f"do not match {OLD}: if that release starts, it {LOST}", VERIFY),
    ),
    ("After the upgrade it is to be verified.", (f"run {NEW}", "has ended.", f"next      {VERIFY}")),
    (
        "The newest beside foreign hashes.",
        (
            NEWEST,
            f"do not match {NEWEST}, which is running: it {LOST}",
            f"next      grove-migrator plan --to {NEWEST}",
        ),
    ),
)
def test_the_first_look_says_where_one_stands(does: str, first: str, last: str, site: Site, invoke: Invoke) -> None:
    """Each state has its row and its next command, in 80 columns."""
    for step in does.split():
        invoke(*RUN) if step == "run" else site.install(step)
    text = invoke("plan").out
    assert first in " ".join(text.split())
    assert ("\nready " in text) is (not does), "there is a release to go to"
    assert text.splitlines()[-1].endswith(last)


def test_an_operator_of_the_target_that_runs_without_its_deployment_is_to_be_verified(
    upgraded: Site, invoke: Invoke
) -> None:
    """Its pods have the chart's labels, and what made them has not: nothing is to be installed once more."""
    upgraded.store.drop(DEPLOYMENTS, "grove-system", "grove-operator")
    assert invoke("plan").out.endswith(f"next      {VERIFY}\n")


def test_an_upgrade_that_has_begun_without_a_migration_is_no_all_clear(site: Site, invoke: Invoke) -> None:
    """The new operator has stored its generation hash and an open update, and will recreate what it has left."""

    def begin(pcs: JSONObject) -> None:
        pcs["status"]["currentGenerationHash"] = hashes_of(pcs, "legacy-1.35").generation
        pcs["status"]["updateProgress"] = {"updateStartedAt": LATER}

    for item in (one["metadata"] for one in objects() if one["kind"] == "PodCliqueSet"):
        site.store.edit(POD_CLIQUE_SETS, item["namespace"], item["name"], begin)
    site.install(NEW)
    said = " ".join(invoke("plan").out.split())
    assert f"do not match {NEW}, which is running: it {LOST}" in said, said


@pytest.mark.usefixtures("site")
def test_a_revert_that_cannot_begin_says_so_once(invoke: Invoke) -> None:
    """Nothing has begun, so there is nothing to put in order, and no line says that this failed."""
    events = [event["event"] for event in invoke("run", "--to", OLD, "--revert", code=2).events]
    assert events == ["stage", "failed"]


@pytest.mark.usefixtures("upgraded")
def test_a_revert_beside_the_new_operator_names_the_crds_of_the_old_one(invoke: Invoke) -> None:
    """The record knows the release that comes back, whose operator would exit without them; several have its hashes."""
    printed = invoke(*RUN, "--revert").out.partition("next      ")[2]
    assert printed.startswith(removal(TOPOLOGY_KINDS[1]))
    assert application(OLD) in printed
    assert 'helm rollback my-grove "$REVISION" -n grove-system' in printed


@pytest.mark.parametrize("skipped", [(), ("--skip-refused",)])
def test_after_a_run_the_commands_are_those_that_it_printed(
    skipped: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """The whole way, and no other release; also if a refused set was left out."""
    if skipped:
        site.edit()
    printed = invoke(*RUN, *skipped).out.partition("next      ")[2].partition("undo ")[0]
    assert site.replicas == 0
    said = invoke("plan").out
    assert said.partition("next      ")[2] == printed
    assert "newer" not in said
    assert printed.startswith(removal(TOPOLOGY_KINDS[0]))
    assert application(NEW) in printed


def test_after_a_run_no_upgrade_is_offered_once_the_old_operator_took_all_of_it_back(
    migrated: Site, invoke: Invoke
) -> None:
    """Every set is refused for an edit that it rolls out, and none holds a new hash: the upgrade recreates all pods."""
    for item in objects():
        if item["kind"] == "PodCliqueSet":
            item["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "another:2"
        migrated.store.put(item)
    migrated.install(OLD)
    assert "helm upgrade" not in invoke("plan").out


@table(
    "resource said",
    ("No operator is called absent.", (DEPLOYMENTS, "operator  Not known: this account is not permitted to look.\n")),
    ("Nor does a run pass for sure.", (LEASES, "\nready     Nothing that was checked blocks a migration.\n")),
)
def test_what_nobody_may_look_at_is_not_known(resource: Resource, said: str, site: Site, invoke: Invoke) -> None:
    """Whoever may not look reads no more than what was checked."""
    site.store.fail(Forbidden("HTTP 403 Forbidden"), times=99, verb="list", resource=resource)
    assert said in invoke("plan").out


@pytest.mark.parametrize("command", [("plan",), ("plan", "-n", "search"), ("verify", "--to", NEW)], ids=str)
def test_missing_permissions_are_told_at_once_with_their_account(
    command: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """Whoever grants them need not guess whose they are, nor try again for each."""
    site.store.fail(Forbidden("list pods: HTTP 403 Forbidden"), times=99, verb="list")
    said = invoke(*command, code=1).message
    assert said.startswith("account system:serviceaccount:grove-system:grove-migrator: list ")
    maps = "" if "-n" in command else "podgangmaps.grove.io, "  # a plan of one namespace does without them
    assert f". It cannot list {maps}podcliquescalinggroups.grove.io, podcliques.grove.io, pods either" in said
    assert ("plan that one with -n" in said) is (command == ("plan",))


def test_a_plan_names_the_account_that_a_webhook_must_leave_out(site: Site, invoke: Invoke) -> None:
    """The command of GM-202 holds as it is printed, and once it was run there is nothing to warn of."""
    account = "system:serviceaccount:grove-system:grove-migrator"
    found = installation.webhook()
    found["metadata"]["name"], (hook,) = "podclique-validating-webhook", found["webhooks"]
    rule = {"apiGroups": ["grove.io"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["podcliques"]}
    site.store.put({**found, "webhooks": [{**hook, "rules": [rule]}]})
    warnings = invoke("plan", "--to", NEW, "-o", "json").json["warnings"]
    assert [account in one["remedy"] for one in warnings if one["code"] == "GM-202"] == [True]
    left_out = [{"name": "grove-migrator", "expression": expression(account)}]
    site.store.put({**found, "webhooks": [{**hook, "rules": [rule], "matchConditions": left_out}]})
    assert "GM-202" not in invoke("plan", "--to", NEW).out


def test_a_verification_names_first_what_decides(site: Site, invoke: Invoke) -> None:
    """Without the target's operator no stored hash needs to be looked at."""
    assert site.replicas == 1
    said = invoke("verify", "--to", NEW, "--after-upgrade", code=7).out
    problems = [" ".join(one.split()) for one in said.split("problem ")[1:]]
    assert problems[0].startswith("clustertopologybindings.grove.io is not served")
    assert problems[1].startswith(f"no operator of {NEW} runs")
    assert "/metadata/labels/" in problems[2]
    assert "And 60 more: -o json lists all. next " in problems[2]
    assert "grove-migrator run" not in said, "the new operator is to be there already"


def test_a_verification_names_the_commands_that_mend_it(migrated: Site, invoke: Invoke) -> None:
    """The new operator is installed at zero beside the old CRD: sentences first, the commands below, one a line."""
    migrated.deploy(NEW, 0)
    start = "kubectl scale deployment/grove-operator -n grove-system --replicas=1"
    failed = ("verify", "--to", NEW, "--after-upgrade")
    said, following = invoke(*failed, code=7).out, [removal(TOPOLOGY_KINDS[0]), application(NEW), start]
    assert said.partition("next      ")[2].splitlines() == "\n          ".join(following).splitlines()
    assert max(map(len, said.partition("next ")[0].splitlines())) <= 80
    assert invoke(*failed, "-o", "json", code=7).json["next"] == following


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("back", [False, True], ids=["a run", "a revert"])
def test_beside_an_unfinished_run_no_other_upgrade_is_offered(site: Site, invoke: Invoke, *, back: bool) -> None:
    """What some sets hold is not certain: to finish is next, or, unless it is a revert already, to undo it."""
    if back:
        invoke(*RUN)
    end_at_a_pod(site.store)
    invoke(*RUN, *(["--revert"] if back else []), code=6)
    said = " ".join(invoke("plan").out.split())
    assert f"{STAY_AT_ZERO} Run the next command{'' if back else OR_REVERT}. next " in said
    assert ("1 of 3 sets is migrated. " in said) != back
    assert "the run was asked to end." in said
    for absent in ("ready", "newer", "NEWER", "GM-312"):
        assert f" {absent}" not in said


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("back", [False, True], ids=["a run that has written all", "a revert"])
def test_beside_an_unfinished_run_a_verification_names_the_command_of_the_first_look(
    migrated: Site, invoke: Invoke, *, back: bool
) -> None:
    """To finish it is next, and not to verify again, nor to migrate what is being reverted."""
    if back:
        end_at_a_pod(migrated.store)
        invoke(*RUN, "--revert", code=6)
    else:
        migrated.record(Record("1", "1", "auto", NEW, START, State.WRITING))
    following = invoke("verify", "--to", NEW, code=7).out.partition("next  ")[2]
    assert following == invoke("plan").out.partition("next  ")[2]
    assert following.strip().startswith("grove-migrator run ")


def test_a_run_that_died_before_it_gave_the_lease_back_is_run_again_first(migrated: Site, invoke: Invoke) -> None:
    """Until then the new operator waits, and nobody is told that the upgrade is complete."""
    _park(migrated)
    again = f"next      grove-migrator {' '.join(RUN)}\n"
    assert invoke("plan").out.endswith(again)
    migrated.install(NEW)
    assert invoke("verify", "--to", NEW, "--after-upgrade", code=7).out.endswith(again)


def test_after_the_upgrade_no_revert_of_it_is_next(migrated: Site, invoke: Invoke) -> None:
    """One died, and the upgrade went on: to finish it would leave old hashes to the operator that runs."""
    migrated.record(Record("1", "1", "auto", NEW, START, State.WRITING, revert=True))
    migrated.install(NEW)
    said = invoke("verify", "--to", NEW, "--after-upgrade", code=7).out
    assert said.endswith(f"next      grove-migrator {' '.join(RUN)}\n")
    before = migrated.generations
    invoke(*RUN)
    invoke("verify", "--to", NEW)
    assert migrated.generations == before
    assert migrated.replicas == 1


def _park(site: Site, namespace: str = "grove-system") -> None:
    """Leave the operator's Lease as a run that died before it gave that back."""
    lease = site.store.read(LEASES, "grove-system", OPERATOR_LEASE)
    metadata = {"name": OPERATOR_LEASE, "namespace": namespace}
    site.store.put({**lease, "metadata": metadata, "spec": {**lease["spec"], "holderIdentity": PARKED}})


def test_a_lease_that_is_parked_where_grove_was_keeps_nobody_out(migrated: Site, invoke: Invoke) -> None:
    """No run would give it back, so the upgrade is complete."""
    _park(migrated, "former")
    migrated.install(NEW)
    assert "the upgrade is complete" in " ".join(invoke("verify", "--to", NEW, "--after-upgrade").out.split())


@pytest.mark.parametrize("target", [OLD, "v9"], ids=["hashes that are not there", "a target that nobody knows"])
def test_a_parked_lease_does_not_bring_back_a_run_that_is_long_over(
    target: str, migrated: Site, invoke: Invoke
) -> None:
    """An operator without leader election leaves it parked for ever; whatever was done since then stays."""
    migrated.deploy(NEW, 1)
    migrated.record(Record("1", "1", "auto", target, START, State.DONE))
    _park(migrated)
    assert "grove-migrator run" not in invoke("plan").out


def test_the_flags_of_a_verification_that_another_target_contradicts_are_left_out(site: Site, invoke: Invoke) -> None:
    """The image is of the target that is verified: beside the target of the run that died it is wrong usage."""
    site.record(Record("1", "1", "auto", NEW, START, State.WRITING))
    image = ("--target-image", installation.image(NEWEST))
    said = invoke("verify", "--to", OLD, "--target-image", installation.image(OLD), code=7).out
    assert said.endswith(f"next      grove-migrator {' '.join(RUN)}\n")
    said = invoke("verify", "--to", NEW, *image, code=7).out
    assert said.endswith(f"next      grove-migrator run --to {NEW} {' '.join(image)} --stop-operator\n")


@pytest.mark.parametrize("edited", [False, True])
def test_a_verification_before_the_upgrade_leads_to_the_first_look(
    migrated: Site, invoke: Invoke, *, edited: bool
) -> None:
    """That knows the commands of the upgrade; a run would be refused for a set that was edited since."""
    if edited:
        migrated.edit()
    said = invoke("verify", "--to", NEW, code=7 if edited else 0).out
    assert "not migrated" not in said
    assert "grove-migrator run" not in said
    assert said.endswith("note      `grove-migrator plan` shows what is next.\n")


def test_a_dry_run_says_what_it_proved_and_what_is_next(site: Site, invoke: Invoke) -> None:
    """The server's answers are the proof; the next command is the run itself."""
    asked = (*RUN, "--skip-refused", "--allow", "GM-102", "--yes", "-v")
    said = invoke(*asked, "--dry-run").out
    assert site.store.writes() == []
    assert "accepts all 43 patches, and your permissions suffice.\nNothing was written." in said
    assert said.splitlines()[-1] == f"next      grove-migrator {' '.join(asked[:-1])}"


def test_plan_and_run_name_one_source(site: Site, invoke: Invoke) -> None:
    """Both know which release runs."""
    first, second = invoke("plan", *RUN[1:3]).out, invoke(*RUN, "--dry-run").out
    assert site.replicas == 1
    shown = f"Stored hashes: legacy-1.34 ({OLD}). Target:"
    assert shown in first
    assert shown in second


def test_of_many_sets_those_that_only_migrate_are_one_row() -> None:
    """Refused sets are first, and the sums last unless one row has them; up to twenty sets each has its row."""
    odd = tree_plan("z", SetState.REFUSED, findings=(finding(Severity.REFUSAL, "z"),))
    few = [tree_plan(f"s{number}") for number in range(MANY)]
    rows = [
        line.split()[0]
        for line in plan_text(plan(*few, odd)).splitlines()
        if line.startswith(("default/z", "20 other sets"))
    ]
    assert rows == ["default/z", "20"]
    lines = [" ".join(line.split()) for line in plan_text(plan(*few, odd)).splitlines()]
    assert "20 other sets: see -o json migrate 80 40 320" in lines
    assert "total: 21 sets 84 42 336" in lines
    assert "default/s7 " in plan_text(plan(*few))
    alike = plan_text(plan(*few, tree_plan("one")))
    assert "\n21 sets: see -o json  " in alike
    assert "total:" not in alike


def test_of_many_sets_those_that_are_done_are_one_row() -> None:
    """A rerun over hundreds of sets does not list each one that the first run has finished."""
    done = [tree_plan(f"d{number}", SetState.DONE, disruption=Disruption()) for number in range(MANY)]
    lines = [" ".join(line.split()) for line in plan_text(plan(*done, tree_plan("one"))).splitlines()]
    assert lines[lines.index("SET STATE CHANGES PODS GPUS") + 1 :][:3] == [
        "1 set: see -o json migrate 4 2 16",
        "20 sets: see -o json done 0 0 0",
        "total: 21 sets 4 2 16",
    ]
