"""The CRDs that cannot be served beside each other: who is told of them, on a cluster and by a dump, and with what."""

from __future__ import annotations

from typing import Any

from migrator.planning import crds
from migrator.planning.model import Plan
from migrator.planning.planner import Known, make_plan
from migrator.releases.table import named
from tests.support.builders import NOW, World, options_of
from tests.support.tables import table

A3, A4, A8, A9 = "v0.1.0-alpha.3", "v0.1.0-alpha.4", "v0.1.0-alpha.8", "v0.1.0-alpha.9"
A11, RC1, MAIN = "v0.1.0-alpha.11", "v0.1.0-alpha.12-rc1", "main-fcc3b3bb"
OLD, NEW = "clustertopologies", "clustertopologybindings"
DUMP = {"is_cluster": False}


def planned(
    target: str, *, sets: int = 1, ct: str | None = None, is_cluster: bool = True, running: str | None = None
) -> Plan:
    """The plan of a set with hashes of legacy-1.34, on a cluster where a kind has the short name, or by a dump."""
    known = Known(now=NOW, running=running, short_names={"pcs": "podcliquesets"} | ({"ct": ct} if ct else {}))
    world = World().grow() if sets else World()
    snapshot = world.snapshot(is_cluster=is_cluster)
    return make_plan(snapshot, options_of(target=target), known)


def advised(plan: Plan) -> list[str]:
    return [advice.ref.name for advice in plan.advisories if advice.issue.code == crds.CLASHING.code]


@table(
    "where target expected",
    ("The old CRD is in the way of the new one.", ({"ct": OLD}, RC1, [f"{OLD}.grove.io"])),
    ("Of the first release that has it.", ({"ct": OLD}, A9, [f"{OLD}.grove.io"])),
    ("Of a build that is no release.", ({"ct": OLD}, MAIN, [f"{OLD}.grove.io"])),
    ("Of every release that uses a scheme.", ({"ct": OLD}, "legacy-1.35", [f"{OLD}.grove.io"])),
    ("And back.", ({"ct": NEW}, A8, [f"{NEW}.grove.io"])),
    ("To the first release that has it.", ({"ct": NEW}, A4, [f"{NEW}.grove.io"])),
    ("The target has the same kind.", ({"ct": OLD}, A8, [])),
    ("Deleted already.", ({"ct": NEW}, RC1, [])),
    ("The target has no such kind.", ({"ct": NEW}, A3, [])),
    ("No kind has the name.", ({}, RC1, [])),
    ("Without sets its operator starts as little as any other.", ({"ct": OLD, "sets": 0}, RC1, [f"{OLD}.grove.io"])),
    (
        "By a dump, which has no CRDs, the release that runs shows it.",
        (DUMP | {"running": A8}, RC1, [f"{OLD}.grove.io"]),
    ),
    ("Back.", (DUMP | {"running": RC1}, A8, [f"{NEW}.grove.io"])),
    ("On one side.", (DUMP | {"running": A9}, RC1, [])),
    ("From a release without such a kind.", (DUMP | {"running": A3}, RC1, [])),
    ("From one of several, by its hashes.", (DUMP | {"running": None}, RC1, [f"{OLD}.grove.io"])),
    ("To one of several.", ({"ct": OLD}, "legacy-1.34", [])),
)
def test_what_is_in_the_way_is_named(where: dict[str, Any], target: str, expected: list[str]) -> None:
    """On a cluster discovery shows it, whichever release runs: the CRD stays when its operator is gone."""
    assert advised(planned(target, **{"running": A11, **where})) == expected


def test_the_remedy_saves_before_it_deletes_and_says_what_is_lost() -> None:
    """The command, when to run it, and that nobody translates the objects."""
    (advice,) = planned(RC1, ct=OLD).advisories
    command = f"`kubectl get {OLD}.grove.io -o yaml >> {OLD}.yaml && kubectl delete crd {OLD}.grove.io`"
    said, _, typed = advice.remedy.partition(": ")
    assert typed == command
    assert said.startswith("once `run` has ended with 0, save its objects")
    assert "recreate by hand those that you need, as ClusterTopologyBinding" in said


@table(
    "target served words settles",
    ("The old CRD is in the way.", (RC1, {"ct": OLD}, f"while {OLD}.grove.io has its short name ct", False)),
    ("The new one is.", (A8, {"ct": NEW}, f"while {NEW}.grove.io has its short name ct", False)),
    ("That of a later release has another.", (A8, {"ctb": NEW}, f"{OLD}.grove.io is not served, so", True)),
    ("Nobody has applied the CRDs.", (RC1, {}, f"{NEW}.grove.io is not served, so the operator", True)),
    ("Of which release is not known.", ("legacy-1.35", {}, f"{NEW}.grove.io is not served, so the operator", True)),
    ("A build of the main branch has no chart.", (MAIN, {}, f"{NEW}.grove.io is not served, so", True)),
)
def test_what_keeps_an_operator_from_starting(
    target: str, served: dict[str, str], words: str, *, settles: bool
) -> None:
    """Discovery lacks a kind that it reads at its start; what is in the way stays there until somebody deletes it."""
    (found,) = crds.problems_of(named(target), served)
    *deletion, last = found.commands
    assert found.settles == settles
    assert bool(deletion) != settles
    assert words in found.message
    version = target if target in {A8, RC1} else '"$VERSION"'
    assert last.startswith(f'CRDS=$(mktemp -d) && helm pull "$CHART" --version {version} ')
    assert all("kubectl delete crd" in command for command in deletion)


@table(
    "target ct",
    ("It is served.", (RC1, NEW)),
    ("None is needed.", (A3, None)),
    ("The builds differ.", ("legacy-1.34", OLD)),
    ("No build is known.", ("legacy-1.37", OLD)),
)
def test_what_does_not_keep_an_operator_from_starting(target: str, ct: str | None) -> None:
    """Nothing is said that is not certain."""
    assert not list(crds.problems_of(named(target), {"ct": ct} if ct else {}))
