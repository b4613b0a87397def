"""Webhooks of the operator that fail closed while it is at zero: refused, opened by a flag, or by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from migrator.planning.webhooks import expression
from testbed.controlplane.client import eventually
from tests.cluster.running import killed
from tests.cluster.site import ACCOUNT, NAMESPACE, NEW, OLD, USER, ServedSite, kubeconfig_of
from tests.cluster.webhooks import AUTHORIZER, GUARD, KIND, conditions, denied, permitted, served
from tests.support.command_line import Invoke
from tests.support.pages import blocks
from tests.support.shell import Shell
from tests.support.translation import migrated

pytestmark = pytest.mark.controlplane

SECTION: Final = "Webhooks of the operator"
RUN: Final = ("run", "--to", NEW, "--stop-operator")
OURS: Final = {"name": ACCOUNT, "expression": expression(USER)}


def command(number: int, name: str, webhook: str) -> str:
    """A command of the section, for a webhook and its configuration."""
    return blocks("upgrade", SECTION)[number].replace(GUARD[0], name).replace(GUARD[1], webhook)


@pytest.fixture(params=[GUARD, AUTHORIZER], ids=["alpha.14", "the authorizer"])
def guarded(site: ServedSite, request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A cluster to migrate, with one of the webhooks; its names."""
    site.fill()
    with served(site, request.param):
        yield request.param


def test_the_commands_of_the_page_let_our_account_pass_and_nobody_else(
    guarded: tuple[str, str], site: ServedSite, account: Invoke, tmp_path: Path
) -> None:
    """Refused before anything is touched without them, migrated with them, and nothing is left of them."""
    before, operator = site.client.get(*KIND, guarded[0])["webhooks"], site.deployment()["metadata"]["generation"]
    with site.frozen():
        assert "GM-202" in account(*RUN, code=3).failure["message"]
    assert site.deployment()["metadata"]["generation"] == operator
    shell = Shell(tmp_path / "shell", site.server.kubeconfig)
    shell.paste(command(0, *guarded))
    eventually(lambda: account(*RUN, "--dry-run", code=(0, 3)).out, what="our account is not exempt")
    with site.unharmed():
        account(*RUN)
    assert denied(site)
    shell.paste(command(1, *guarded))
    assert site.client.get(*KIND, guarded[0])["webhooks"] == before


def test_a_condition_of_somebody_else_is_not_overwritten(
    guarded: tuple[str, str], site: ServedSite, tmp_path: Path
) -> None:
    """The command fails, and the page says what to do then."""
    theirs = {"name": "theirs", "expression": "true"}
    add = [{"op": "add", "path": "/webhooks/0/matchConditions", "value": [theirs]}]
    assert site.client.patch(site.client.get(*KIND, guarded[0]), add).status == 200
    with pytest.raises(AssertionError, match="The request is invalid"):
        Shell(tmp_path / "shell", site.server.kubeconfig).paste(command(0, *guarded))
    assert conditions(site.client) == [theirs]


@pytest.fixture
def opened(site: ServedSite) -> Iterator[None]:
    """A cluster to migrate with both webhooks, and the permission to be left out of them."""
    site.fill()
    with ExitStack() as ends:
        ends.enter_context(permitted(site))
        ends.enter_context(served(site, GUARD, AUTHORIZER))
        yield


@pytest.mark.usefixtures("opened")
def test_a_rerun_or_a_revert_closes_what_a_killed_run_left_open(
    site: ServedSite, account: Invoke, tmp_path: Path
) -> None:
    """Killed before each write of a webhook or a scale: what it leaves concerns our account alone, others are refused.

    A rerun finishes it, or a revert restores everything, by turns; then no condition is there.
    """
    token = site.client.service_account_token(NAMESPACE, ACCOUNT)
    kubeconfig = kubeconfig_of(site.server, token, tmp_path / "killed")
    before, flags = site.objects(), (*RUN, "--allow", "GM-202")
    after, left = migrated(before, OLD, NEW), list[int]()
    for at in count(1):
        if not killed(at, *flags, "--kubeconfig", kubeconfig):
            break
        found = conditions(site.client)
        assert all(one == OURS for one in found)
        assert denied(site)
        left.append(len(found))
        site.expire()
        if at % 2:
            account(*flags)
            assert (site.objects() == after, conditions(site.client)) == (True, [])
        account(*flags, "--revert", "--yes")
        assert (site.objects() == before, conditions(site.client), site.replicas()) == (True, [], 1)
    assert site.objects() == after
    assert set(left) == {0, 1, 2}, left
