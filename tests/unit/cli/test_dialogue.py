"""What a run asks and says at its end: a next command only for an operator that knows the hashes, with its CRDs."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from migrator.cli.dialogue import Ending, can_ask, ending
from migrator.errors import Unreachable
from migrator.planning.crds import TOPOLOGY_KINDS, application, removal
from migrator.planning.model import Plan
from migrator.releases.table import named
from migrator.run import operator
from migrator.run.context import RunOptions, RunResult
from testbed import operator_installation as installation
from tests.support.builders import World, options_of
from tests.support.command_line import Invoke
from tests.support.memory_site import Site
from tests.support.memory_store import MemoryCluster
from tests.support.tables import table

START = "kubectl scale deployment/grove-operator -n grove-system --replicas=1"
A8, A11 = "v0.1.0-alpha.8", "v0.1.0-alpha.11"
#: Helm's default is the revision before the last one, which is the new operator's if that was upgraded twice.
GO_BACK = (
    'helm history "$RELEASE" -n grove-system',
    'helm rollback "$RELEASE" "$REVISION" -n grove-system',
)


def after_revert(
    tag: str, *, sets: bool = True, source: str = "auto", replicas: int = 0, ct: str = "clustertopologybindings"
) -> Ending:
    """What is said of an operator with that tag; without ``sets`` after a run that had written nothing.

    ``ct`` is the kind that has this short name.
    """
    world = World().grow()
    world.apply(world.decide().changes)
    store = MemoryCluster(installation.deployment(installation.image(tag), replicas=replicas, observed=True))
    store.served["ct"] = ct
    options = RunOptions(options_of("legacy-1.35", source), revert=True)
    plan = world.revert() if sets else Plan(None, named("legacy-1.35"))
    return ending(store, RunResult(plan, operator=operator.find(store, options.flags).operator), options)


@pytest.mark.parametrize("tag", ["v0.1.0-alpha.3", "v0.1.0-alpha.10-rc1", "prod-7"])
def test_after_a_revert_nobody_is_told_to_start_an_operator_of_other_hashes(tag: str) -> None:
    """Whatever the image is, the revision that had the old operator is right."""
    assert after_revert(tag).commands == GO_BACK


REMOVAL = removal(TOPOLOGY_KINDS[1])


@table(
    "options commands",
    ("A release of the old hashes is started.", ({"tag": "v0.1.0-alpha.9"}, (START,))),
    ("A release of the new hashes is rolled back.", ({"tag": A11}, GO_BACK)),
    ("The run wrote nothing.", ({"tag": "v0.1.0-alpha.9", "sets": False}, (START,))),
    ("A release takes the old hashes beside its own.", ({"tag": "main-94a0105c"}, (START,))),
    (
        "The old operator is started already, and cannot.",
        ({"tag": A8, "replicas": 1}, (REMOVAL, application(A8))),
    ),
    ("It can.", ({"tag": A8, "replicas": 1, "ct": "clustertopologies"}, ())),
    ("No other CRD is in its way.", ({"tag": A8, "replicas": 1, "ct": "others"}, (application(A8),))),
    ("It is rolled back to.", ({"tag": A11, "source": A8}, (REMOVAL, application(A8), *GO_BACK))),
)
def test_what_is_next_after_a_revert(options: dict[str, Any], commands: tuple[str, ...]) -> None:
    """The old operator comes back, and its CRDs if it cannot start without them: somebody had replaced them."""
    assert after_revert(**options).commands == commands


@table(
    "ct first",
    (
        "The old CRD is in the way.",
        ("clustertopologies", (removal(TOPOLOGY_KINDS[0]), application(A11), START)),
    ),
    ("Its CRDs are there.", ("clustertopologybindings", (START,))),
)
def test_before_the_next_operator_is_started_its_crds_come(
    ct: str, first: tuple[str, ...], site: Site, invoke: Invoke
) -> None:
    """Somebody has installed it already, and it waits at zero."""
    site.deploy(A11, 0)
    site.store.served["ct"] = ct
    told = invoke("run", "--to", A11, "-o", "json").json
    assert tuple(told["next"][:-1]) == first
    assert "Do not start" not in told["operator"], "that is the old one"


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("target", ["main-fcc3b3bb", "legacy-1.35"])
def test_a_build_of_the_main_branch_and_a_scheme_are_no_version_of_a_chart(target: str, invoke: Invoke) -> None:
    """Helm would not find it: a reader fills in the version of the chart that they have made."""
    commands = invoke("run", "--to", target, "--stop-operator", "-o", "json").json["next"]
    assert re.findall(r"--version (\S+)", " ".join(commands)) == ['"$VERSION"'] * 2


@pytest.mark.parametrize("replicas", [0, 1])
def test_an_older_release_with_the_same_hashes_is_upgraded(replicas: int, site: Site, invoke: Invoke) -> None:
    """It needs no migration, and is not the release that the user upgrades to."""
    site.install(A8, replicas)
    commands = invoke("run", "--to", "alpha.9", "-o", "json").json["next"]
    assert commands[-2].startswith('helm upgrade my-grove "$CHART" -n grove-system --version v0.1.0-alpha.9 ')


@pytest.mark.usefixtures("site")
def test_a_run_ends_well_where_discovery_does_not_answer(monkeypatch: pytest.MonkeyPatch, invoke: Invoke) -> None:
    """The command that every upgrade needs is printed, and that of the way back, which harms nothing."""

    def fail(*_: object) -> None:
        raise Unreachable("no answer")

    monkeypatch.setattr(MemoryCluster, "short_names", fail)
    assert after_revert(A8, replicas=1).commands == (application(A8),)
    assert invoke("run", "--to", A11, "--stop-operator", "-o", "json").json["next"][0] == application(A11)


@pytest.mark.parametrize(
    ("stdin", "stderr", "in_a_pod"), [(True, False, False), (False, True, False), (True, True, True)]
)
def test_nobody_is_asked_with_half_a_terminal_or_in_a_pod(
    monkeypatch: pytest.MonkeyPatch, *, stdin: bool, stderr: bool, in_a_pod: bool
) -> None:
    """A question that nobody sees, or that nobody can answer, would hold up a script."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: stdin))
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: stderr))
    assert not can_ask(in_a_pod=in_a_pod)
