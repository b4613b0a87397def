"""The operator's webhooks on a real API server: a run finds them before the stop, and the page opens them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from testbed.controlplane.client import eventually
from tests.cluster.site import NEW, ServedSite
from tests.cluster.webhooks import AUTHORIZER, GUARD, KIND, conditions, configuration, denied, served
from tests.support.command_line import Invoke
from tests.support.pages import blocks
from tests.support.shell import Shell

pytestmark = pytest.mark.controlplane

SECTION: Final = "Webhooks of the operator"
RUN: Final = ("run", "--to", NEW, "--stop-operator")


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
    assert denied(site) == guarded[1]
    shell.paste(command(1, *guarded))
    assert site.client.get(*KIND, guarded[0])["webhooks"] == before


def test_a_condition_of_somebody_else_is_not_overwritten(site: ServedSite, tmp_path: Path) -> None:
    """The command fails, and the page says what to do then."""
    theirs = {"name": "theirs", "expression": "true"}
    item = site.client.apply(configuration(*GUARD, matchConditions=[theirs]))
    try:
        with pytest.raises(AssertionError, match="The request is invalid"):
            Shell(tmp_path / "shell", site.server.kubeconfig).paste(command(0, *GUARD))
        assert conditions(site.client) == [theirs]
    finally:
        site.client.delete(item)
