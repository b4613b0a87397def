"""A set is edited in mid-run, or between a run and the upgrade: what the screens advise costs no more pods."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.errors import STAY_AT_ZERO
from migrator.kinds import LEASES, PODS
from migrator.run.leases import OWN_LEASE
from migrator.run.record import Record, State
from tests.support.clock import START
from tests.support.command_line import HOME, Invoke
from tests.support.memory_site import NEW, Site

RUN = ("run", "--to", NEW, "--stop-operator")


def end_half_way(site: Site, invoke: Invoke) -> None:
    """A set is edited in mid-run."""
    site.store.meanwhile(site.edit, verb="patch", resource=PODS, dry_run=False, applied=True)
    invoke(*RUN, code=6)


def lose_the_record(site: Site, invoke: Invoke) -> None:
    """... and somebody deletes our Lease."""
    end_half_way(site, invoke)
    site.store.drop(LEASES, "grove-system", OWN_LEASE)


def end_well(site: Site, invoke: Invoke) -> None:
    """A set is edited after the run, before the upgrade."""
    invoke(*RUN)
    site.edit()


def advice(invoke: Invoke, target: str, code: int | tuple[int, ...], *more: str) -> list[str]:
    """What a run and a plan to this target say is to be done about their refusals."""
    events = invoke("run", "--to", target, "--stop-operator", *more, code=code).events
    refused = [event["remedy"] for event in events if event["event"] == "guard_refusal"]
    assert len(refused) > 1
    return [*refused, " ".join(invoke("plan", "--to", target).out.split())]


@pytest.mark.parametrize(
    ("before", "target"),
    [(end_half_way, NEW), (end_half_way, "legacy-1.37"), (lose_the_record, NEW), (end_well, NEW)],
    ids=["half-way", "half-way to another target", "half-way without its record", "migrated"],
)
def test_beside_migrated_sets_no_advice_needs_the_old_operator(
    before: Callable[[Site, Invoke], None], target: str, site: Site, invoke: Invoke
) -> None:
    """It would replace pods of the sets that are half-way or done: the revert comes first."""
    before(site, invoke)
    said = advice(invoke, target, 6)
    assert all("--revert`" in one for one in said)
    assert not [one for one in said if "running operator" in one or "delete the pod" in one]


def test_beside_a_half_way_run_a_refusal_still_says_that_it_can_be_allowed(site: Site, invoke: Invoke) -> None:
    """What --allow accepts needs no revert."""
    end_half_way(site, invoke)
    assert "run again, or run with --allow GM-101" in " ".join(advice(invoke, NEW, 6))


def test_beside_the_record_of_another_namespace_the_operator_that_runs_ends_an_update(
    site: Site, invoke: Invoke
) -> None:
    """There is no run to undo here, whoever wrote that Lease."""
    site.record(Record("x", "9", "auto", NEW, START, State.WRITING), "tenant")
    site.edit()
    said = advice(invoke, NEW, (3, 6), *HOME)
    assert not [one for one in said if "run --revert" in one]
    assert "let the running operator finish" in " ".join(said)


def test_beside_the_new_operator_at_zero_that_one_ends_an_update(site: Site, invoke: Invoke) -> None:
    """It knows the hashes of all other sets."""
    end_well(site, invoke)
    site.install(NEW, 0)
    said = advice(invoke, NEW, (3, 6))
    assert not [one for one in said if "run --revert" in one]


def test_beside_a_run_that_an_edit_has_stopped_the_next_command_reverts(site: Site, invoke: Invoke) -> None:
    """The run itself would be refused again: an operator has to roll out the edit, beside old hashes."""
    end_half_way(site, invoke)
    said, _, following = invoke("plan").out.partition("next  ")
    assert f"{STAY_AT_ZERO} Run the next command." in " ".join(said.split())
    assert following.split() == f"grove-migrator run --to {NEW} --revert --stop-operator".split()
    invoke(*following.split()[1:])


def test_beside_the_new_operator_a_run_that_an_edit_has_stopped_is_not_undone(site: Site, invoke: Invoke) -> None:
    """It may start, and would recreate the pods of every set whose old hashes came back."""
    end_half_way(site, invoke)
    site.install(NEW, 0)
    assert invoke("plan").out.endswith(f"next      grove-migrator run --to {NEW} --stop-operator\n")


def test_a_run_that_died_before_it_wrote_is_not_undone(site: Site, invoke: Invoke) -> None:
    """Every set has its old hashes, so there is nothing to put back."""
    site.record(Record("1", "1", "auto", NEW, START, State.STOPPING))
    site.edit()
    assert invoke("plan").out.endswith(f"next      grove-migrator run --to {NEW} --stop-operator\n")
