"""Pairs of builds between which operators are upgraded, and how one such upgrade is judged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tests.e2e.lab import photo, samples
from tests.e2e.lab.builds import BUILDS, Build, need
from tests.e2e.lab.cluster import Cluster
from tests.e2e.lab.photo import Photo

#: How long nothing may happen after the next operator has reconciled everything, in seconds.
SOAK: Final = 60.0

#: A file that gets a row of docs/compatibility.md for each upgrade.
RESULTS: Final = "GROVE_UPGRADE_RESULTS"

# An update that has replaced no pod for so long has stalled.
_STALLED_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Pair:
    """An upgrade. ``recreates``: whether it recreates pods without the tool. ``crds_first``: CRDs before the run.

    ``allow``: a finding that stands in the way of a run unless it is allowed.
    """

    source: str
    target: str
    recreates: bool = True
    crds_first: bool = False
    allow: str = ""

    @property
    def may_stall(self) -> bool:
        """Whether the target's rolling update may stand still for ever (seen), so that it recreates some pods only."""
        return self.target == _ALPHA_12

    @property
    def name(self) -> str:
        return f"{self.source}-to-{self.target}{'-crds-first' if self.crds_first else ''}"

    @property
    def crds(self) -> str:
        """When the CRDs change, as docs/compatibility.md says it."""
        source, target = self.builds
        if source.crds == target.crds:
            return "no"
        return "before the run" if self.crds_first else "after the run"

    @property
    def builds(self) -> tuple[Build, Build]:
        return BUILDS[self.source], BUILDS[self.target]

    @property
    def flags(self) -> tuple[str, ...]:
        """What its run is given beside the target."""
        return ("--allow", self.allow) if self.allow else ()

    def need(self) -> tuple[Build, Build]:
        """The two builds; skips where one of them cannot run."""
        need(self.source, self.target)
        return self.builds


_ALPHA_3, _ALPHA_9, _ALPHA_11 = "v0.1.0-alpha.3", "v0.1.0-alpha.9", "v0.1.0-alpha.11"
_ALPHA_12: Final = "v0.1.0-alpha.12-rc1"
_ALPHA_3_NEWER: Final = "v0.1.0-alpha.3-k8s-1.34"
_CANONICAL_34, _CANONICAL_35 = "main-94a0105c", "main-d7cb1bc2"

#: Over the CRD that takes another's short name, and without; where two are enough.
TWO: Final = (Pair("v0.1.0-alpha.8", _ALPHA_12), Pair(_ALPHA_9, _ALPHA_11))
#: The next upgrade. While no operator runs, the webhooks of the first refuse every change of a PodClique.
NEXT: Final = (Pair("main-hooks", "next-0.37-hooks", allow="GM-202"), Pair(_ALPHA_12, "next-0.37"))
PAIRS: Final = (
    *NEXT,
    Pair(_ALPHA_3, _ALPHA_3_NEWER),
    Pair(_ALPHA_3, _ALPHA_3_NEWER, crds_first=True),
    Pair(_ALPHA_3_NEWER, _ALPHA_3),
    Pair(_ALPHA_3, _ALPHA_9),
    *TWO,
    Pair("v0.1.0-alpha.8", _ALPHA_11),
    Pair(_ALPHA_9, _ALPHA_11, crds_first=True),
    Pair(_ALPHA_11, _ALPHA_9),
    Pair(_ALPHA_9, _ALPHA_12),
    Pair(_ALPHA_3, _ALPHA_11),
    Pair(_ALPHA_3, _ALPHA_12),
    Pair(_ALPHA_3, _CANONICAL_34),
    Pair(_ALPHA_9, _CANONICAL_35),
    Pair(_CANONICAL_35, _ALPHA_11),
    # That build accepts the legacy hash of its own layout.
    Pair(_ALPHA_9, _CANONICAL_34, recreates=False),
)
#: On kind, with operators in containers.
ON_KIND: Final = (
    Pair(_ALPHA_9, _ALPHA_11),
    Pair(_ALPHA_3, _ALPHA_9),
    Pair("v0.1.0-alpha.8", _ALPHA_12),
)


@dataclass(frozen=True, slots=True)
class Result:
    """What an upgrade with the tool has shown, in which no pod was recreated; times in seconds.

    ``without``: how many pods were, if it was tried without it, of ``wanted``: it may have stood still before it had.
    """

    sets: int
    pods: int
    run_seconds: float
    downtime_seconds: float
    without: int | None = None
    wanted: int | None = None

    def row(self, pair: Pair, how: str, *, back: bool) -> str:
        """A row of docs/compatibility.md; ``how`` is its third cell, ``back`` whether it was left again."""
        without = "" if self.without is None else f"{self.without}"
        if self.without != self.wanted:
            without += f" of {self.wanted}, then the update stood still"
        titles = [build.title for build in pair.builds]
        times = [f"{seconds:.1f} s" for seconds in (self.run_seconds, self.downtime_seconds)]
        cells = [*titles, how, self.sets, self.pods, without, 0, *times, *([0] if back else [])]
        return f"| {' | '.join(map(str, cells))} |"


def prepare(cluster: Cluster, build: Build) -> Photo:
    """A cluster as a build leaves it: sets of which some were updated to the end, and some scaled out."""
    cluster.install(build)
    cluster.wait_for_collector()
    sets = samples.all_sets(on_delete=build.on_delete)
    for pcs in sets:
        cluster.client.create(pcs)
    first = cluster.settle(lambda now: len(now.of(photo.SET)) == len(sets))
    for name in ("gang", "busybox"):
        change_template(cluster, name, "1")
    cluster.settle(lambda now: {(photo.SET, name) for name in ("gang", "busybox")} <= now.updates().keys())
    if build.on_delete:
        _replace_one(cluster, build)
    cluster.scale(photo.GROUP, "gang-0-sg-x", 3)
    return cluster.settle(lambda now: len(now.pods()) == len(first.pods()) + 4)


def _replace_one(cluster: Cluster, build: Build) -> None:
    """Under OnDelete, change a clique's template and delete one of its pods: one is new then, the others are old."""
    change_template(cluster, samples.KEPT, "1")
    now = cluster.settle(lambda now: (photo.SET, samples.KEPT) in now.updates())
    outdated = now.outdated(cluster.hashes(build.scheme))
    uid, name = next(found for found in now.pods(samples.KEPT).items() if found[0] in outdated)
    cluster.client.delete(now.objects[photo.POD, name])
    cluster.settle(lambda now: uid not in now.pods())


def change_template(cluster: Cluster, name: str, value: str) -> None:
    path = "/spec/template/cliques/0/annotations"
    cluster.patch(photo.SET, name, [{"op": "add", "path": path, "value": {"example.test/round": value}}])


def without_tool(cluster: Cluster, pair: Pair) -> tuple[set[str], set[str]]:
    """Upgrade without the tool; returns the pods that the target has to replace, and those that are gone.

    The pods are uids. Those of a set under OnDelete are not the operator's to replace, whatever their hash is.
    """
    source, target = pair.builds
    before = prepare(cluster, source)
    outdated = before.outdated(cluster.hashes(target.scheme)) - before.pods(samples.KEPT).keys()
    assert outdated or not pair.recreates
    wanted = outdated if pair.recreates else set()
    cluster.stop_operator()  # no user is told to: what is compared is what the next operator does, and nothing else
    with cluster.diary() as diary:
        cluster.install(target)
        after = _rolled(cluster, wanted)
        if not wanted:
            time.sleep(SOAK)
            after = cluster.settle()
            assert diary.deleted == []
    return wanted, before.pods().keys() - after.pods().keys()


def _rolled(cluster: Cluster, wanted: set[str]) -> Photo:
    """How it looks when an update has replaced all wanted pods, or none of them for a while."""
    left, since = wanted, time.monotonic()
    while True:
        now = cluster.photo()
        still = left & now.pods().keys()
        if not still or (still == left and time.monotonic() > since + _STALLED_SECONDS):
            return now
        if still != left:
            left, since = still, time.monotonic()
        time.sleep(1)


def compare(before: Photo, after: Photo, target: Build) -> None:
    """No update has begun, and as many replicas are updated as before; ``target`` is the operator that came after."""
    # CRDs of alpha.9 forget rollingUpdateProgress, so an update of before may be missing.
    begun = {key for key, when in after.updates().items() if before.updates().get(key) != when}
    was, now = before.updated_replicas(), after.updated_replicas()
    moved = {key: (was.get(key), count) for key, count in now.items() if was.get(key) != count}
    assert begun <= after.of_set(samples.KEPT) | (before.without_progress() if target.empty_updates else set())
    # Whether a replica under OnDelete with pods of two templates counts as updated is another matter since alpha.10.
    assert moved.keys() <= {(photo.SET, samples.KEPT)}, moved


def a_change_rolls_what_it_should(cluster: Cluster) -> None:
    """A change of one clique's template replaces the pods of that clique, and no others."""
    before = cluster.settle()
    gang = (photo.SET, "gang")
    change_template(cluster, "gang", "2")
    after = cluster.settle(lambda now: now.updates().get(gang) != before.updates().get(gang))
    gone = {before.pods()[uid] for uid in before.pods().keys() - after.pods().keys()}
    assert gone == {name for name in before.pods().values() if name.startswith("gang-0-pc-a-")}


def go_back(cluster: Cluster, pair: Pair) -> None:
    """Migrate in the other direction, install the source again, and judge it."""
    source, target = pair.builds
    cluster.settle()
    with cluster.undisturbed() as before:
        cluster.migrate(source, "--from", target.scheme, *pair.flags)
        after = _installed(cluster, source)
    compare(before, after, source)


def _installed(cluster: Cluster, build: Build) -> Photo:
    """How everything is after a build was installed, and nothing happened for a while."""
    cluster.install(build)
    cluster.settle()
    time.sleep(SOAK)
    return cluster.settle()


def upgrade_twice(pair: Pair, new: Callable[[str], AbstractContextManager[Cluster]], *, back: bool = False) -> Result:
    """Upgrade in one new cluster without the tool, and in another with it and on; ``new`` makes them by name."""
    with new("without") as cluster:
        wanted, gone = without_tool(cluster, pair)
    if not (pair.may_stall and gone):
        assert gone == wanted
    with new("with") as cluster:
        result = upgrade(pair, cluster, back=back)
    return replace(result, without=len(gone), wanted=len(wanted))


def upgrade(pair: Pair, cluster: Cluster, *, back: bool = False) -> Result:
    """Upgrade with the tool, judge it, and go on; ``back``: to the source in the end."""
    source, target = pair.builds
    prepare(cluster, source)
    if pair.crds_first:
        cluster.apply_crds(target)
    with cluster.undisturbed() as before:
        run = cluster.migrate(target, *pair.flags)
        after = _installed(cluster, target)
        downtime = cluster.answering - cluster.ended(source)
    compare(before, after, target)
    verified = cluster.tool("verify", *target.target, "--after-upgrade", "--wait", "30s")
    assert verified.code == 0, verified.out + verified.err
    a_change_rolls_what_it_should(cluster)
    if back:
        go_back(cluster, pair)
    return Result(len(before.of(photo.SET)), len(before.pods()), run.seconds, downtime)


def record(pair: Pair, how: str, result: Result, *, back: bool = False) -> None:
    """Add a result's row to the file that the environment names, if it names one."""
    if named := os.environ.get(RESULTS):
        with Path(named).open("a", encoding="utf-8") as file:
            file.write(result.row(pair, how, back=back) + "\n")
