"""A cluster that cannot be asked never looks like one that needs nothing; nor does one that others write to."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from migrator.cli import connect
from migrator.cluster import Cluster, Deadline
from migrator.errors import Forbidden
from migrator.kinds import LEASES, POD_CLIQUE_SETS, PODS
from migrator.kube import store as kube_store
from tests.support.clock import hurried
from tests.support.command_line import TO, Invoke
from tests.support.fake_api import FakeApi, Hang, Step, closed_port, status, store_on
from tests.support.kubeconfigs import kubeconfig, plugin
from tests.support.memory_site import Site
from tests.support.memory_store import Request

COMMANDS = {
    "plan": ("plan",),
    "plan -n": ("plan", *TO, "-n", "search"),
    "run": ("run", *TO, "--stop-operator", "--yes"),
    "run --dry-run": ("run", *TO, "--stop-operator", "--dry-run"),
    "run --revert": ("run", *TO, "--from", "v0.1.0-alpha.9", "--revert", "--yes"),
    "verify": ("verify", *TO),
    "verify --after-upgrade": ("verify", *TO, "--after-upgrade"),
}
TROUBLE: dict[str, tuple[Step | None, str]] = {
    "refused": (None, "cannot reach the API server http://127.0.0.1:"),
    "401": (
        status(401, "Unauthorized", reason="Unauthorized"),
        r"list \S+ at http://127\.0\.0\.1:\d+: HTTP 401 Unauthorized: .* these credentials\. They may have expired",
    ),
    "403": (
        status(403, 'User "x" cannot list', reason="Forbidden"),
        r"list \S+: HTTP 403 Forbidden: this account lacks the permission: SECURITY\.md",
    ),
    "404": (
        status(404, "the server could not find the requested resource", reason="NotFound"),
        "HTTP 404|is this the right cluster|CRDs are not installed",
    ),
    "timeout": (Hang, "timed out"),
}


@pytest.fixture
def trouble(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A cluster that answers nothing else, to every command; what an error says of it."""
    step, said = TROUBLE[request.param]
    with ExitStack() as stack:
        url = closed_port() if step is None else stack.enter_context(FakeApi(step).running()).url

        seconds = 0.1 if step is Hang else 15.0
        monkeypatch.setattr(connect, "connect", lambda *_, **__: store_on(url, longest=seconds))
        yield said


@pytest.mark.parametrize("trouble", TROUBLE, indirect=True)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_ends_well_without_its_cluster(command: tuple[str, ...], trouble: str, invoke: Invoke) -> None:
    """Whatever keeps it from reading, a command fails and names it: 0 would say that there is nothing to do."""
    ended = invoke(*command, code=(1, 2, 6, 7))
    assert re.search(trouble, ended.out + ended.err)


def test_a_slow_credential_plugin_is_named(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sees a command do nothing learns that it may wait for a login."""
    monkeypatch.setattr("migrator.kube.plugin.PATIENCE", 0.01)
    user = plugin(tmp_path / "plugin.py", "import time; time.sleep(0.2); raise SystemExit(1)")
    failed = invoke("plan", "--kubeconfig", kubeconfig(tmp_path / "config", user=user), code=1)
    waited = failed.events[0]
    assert waited["event"] == "credential_plugin_slow"
    assert waited["level"] == "warning"
    assert waited["message"].startswith(f"Still waiting for the credential plugin {sys.executable}.")


def test_requests_of_a_run_end_with_its_timeout(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster that the command line makes has the deadline of the run."""
    left = list[float]()

    def connected(*, deadline: Deadline, **_: object) -> Cluster:
        left.append(deadline.remaining())
        return Site().store

    monkeypatch.setattr(kube_store, "connect", connected)
    monkeypatch.setattr(connect, "context", hurried(connect.context))
    invoke("run", *TO, "--stop-operator", "--timeout", "10m")
    assert 0 < left[0] <= 600


@pytest.mark.parametrize(("right", "dry"), [("get", ()), ("get", ("--dry-run",)), ("create", ())])
def test_a_run_without_a_permission_names_its_account_once(
    right: str, dry: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """Nobody is asked before a Job begins, and its log shows whose permission is missing."""
    site.store.fail(Forbidden("denied"), times=99, resource=LEASES, verb=right)
    said = invoke("run", *TO, "--stop-operator", *dry, code=1).message
    assert said.count("account system:serviceaccount:grove-system:grove-migrator") == 1


def test_a_bug_that_comes_back_at_the_end_does_not_hide_that_a_run_wrote(site: Site, invoke: Invoke) -> None:
    """What crashes our reading crashes it again on the way out; 1 would say that the old operator may run."""
    store = site.store

    def odd(_request: Request) -> None:
        if store.writes(PODS):
            raise TypeError("list indices must be integers")

    store.after.append(odd)
    failure = invoke("run", *TO, "--stop-operator", code=6).failure
    assert "this is a bug" in failure["message"]


def test_a_set_that_is_written_twice_counts_once(site: Site, invoke: Invoke) -> None:
    """Somebody writes an old value back before the run has read it: the set is completed again, and is one set."""
    store = site.store
    name = ("search", "embedder")
    old = store.read(POD_CLIQUE_SETS, *name)["status"]["currentGenerationHash"]
    written = list[Request]()

    def back(request: Request) -> None:
        if not written and store.read(POD_CLIQUE_SETS, *name)["status"]["currentGenerationHash"] != old:
            written.append(request)
            store.edit(POD_CLIQUE_SETS, *name, lambda raw: raw["status"].update(currentGenerationHash=old))

    store.after.append(back)
    done = invoke("run", *TO, "--stop-operator")
    assert done.out.startswith("Migrated 3 sets with 44 patches.")
    assert done.last["trees"] == 3
