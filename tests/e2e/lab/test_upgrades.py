"""Upgrades of real operators: without the tool pods are recreated, with it not one is, whatever comes between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.webhooks import conditions
from tests.e2e.lab import photo, samples
from tests.e2e.lab.builds import Build
from tests.e2e.lab.cluster import RUN_SECONDS
from tests.e2e.lab.lab import Lab
from tests.e2e.lab.matrix import NEXT, PAIRS, TWO, Pair, compare, go_back, prepare, record, upgrade_twice
from tests.e2e.lab.photo import Photo

pytestmark = pytest.mark.upgrade

_REFUSED: Final = 3
_STUCK: Final = 6

pairs = pytest.mark.parametrize("pair", TWO, ids=lambda pair: pair.name)
beside_many = pytest.mark.parametrize("pair", [*TWO, NEXT[1]], ids=lambda pair: pair.name)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_an_upgrade_recreates_no_pod_with_the_tool_and_all_without(pair: Pair, tmp_path: Path) -> None:
    """Of each pair the same sets lose their pods without the tool and keep them with it, and work on afterwards."""
    pair.need()
    record(pair, pair.crds, upgrade_twice(pair, lambda name: Lab(tmp_path / name)))


@pytest.mark.parametrize("reverted", [True, False], ids=["revert", "rerun"])
@pytest.mark.parametrize("pair", [*NEXT, *TWO], ids=lambda pair: pair.name)
def test_after_a_kill_nothing_rolls(pair: Pair, tmp_path: Path, *, reverted: bool) -> None:
    """Killed in mid-run: the old operator after --revert recreates no pod, nor does the new one after a rerun."""
    source, target = pair.builds
    with _upgrading(pair, tmp_path) as (lab, before):
        with lab.in_mid_run(target, *pair.flags) as run:
            run.process.kill()
        lab.migrate(target, "--from", source.scheme, *pair.flags, *(["--revert"] if reverted else []))
        if reverted:
            assert lab.photo().labels() == before.labels()
        lab.install(source if reverted else target)
        compare(before, lab.settle(), source if reverted else target)


@pytest.mark.parametrize("pair", NEXT, ids=lambda pair: pair.name)
def test_the_next_upgrade_can_be_taken_back(pair: Pair, tmp_path: Path) -> None:
    """Reverted before the new operator starts, and migrated back from the one that runs: no pod is recreated."""
    source, target = pair.builds
    with _upgrading(pair, tmp_path) as (lab, before):
        lab.migrate(target, *pair.flags)
        lab.migrate(target, *pair.flags, "--revert")
        assert lab.photo().labels() == before.labels()
        lab.install(source)
        compare(before, lab.settle(), source)
        lab.migrate(target, *pair.flags)
        lab.install(target)
        go_back(lab, pair)


@pairs
def test_beside_a_controller_that_restores_replicas_no_pod_is_recreated(pair: Pair, tmp_path: Path) -> None:
    """GitOps scales the operator up again each time: 3, or 6 if something was written; once it is paused, 0."""
    _, target = pair.builds
    with _upgrading(pair, tmp_path, _prepare_one) as (lab, before):
        with _gitops(lab):
            refused = lab.tool("run", *target.target, "--stop-operator")
        unchanged = lab.photo().labels() == before.labels()
        assert (refused.code, unchanged) in {(_REFUSED, True), (_STUCK, False)}, refused.err
        assert "pause it" in refused.err
        lab.migrate(target)
        lab.install(target)
        lab.settle()


@beside_many
def test_a_revert_beside_a_controller_that_restores_replicas_keeps_the_operator_at_zero(
    pair: Pair, tmp_path: Path
) -> None:
    """Leader election is off. A run ended among its writes, with 6; its revert ends with 0, and 480 pods stay."""
    _, target = pair.builds
    with _upgrading(pair, tmp_path, _prepare_many, elects=False) as (lab, before):
        with lab.in_mid_run(target) as run:
            run.process.terminate()
        assert run.process.returncode == _STUCK, run.log[-3000:]
        with lab.in_mid_run(target, "--revert", pods=1) as run, _gitops(lab):
            run.process.wait(RUN_SECONDS)
        assert run.process.returncode == 0, run.log[-3000:]
        assert lab.photo().labels() == before.labels()


@beside_many
def test_a_run_that_gives_up_beside_a_controller_that_restores_replicas_goes_back(pair: Pair, tmp_path: Path) -> None:
    """Leader election is off. After three stops the run restores every old hash, says so with 3, and 480 pods stay."""
    _, target = pair.builds
    with _upgrading(pair, tmp_path, _prepare_many, elects=False) as (lab, before):
        with lab.in_mid_run(target) as run, _gitops(lab):
            run.process.wait(RUN_SECONDS)
        assert run.process.returncode == _REFUSED, run.log[-3000:]
        assert lab.photo().labels() == before.labels()


@pytest.mark.parametrize(
    ("pair", "authorizer"),
    [(NEXT[0], False), *((pair, True) for pair in TWO)],
    ids=["alpha.14's webhooks", *(f"{pair.name} with the authorizer" for pair in TWO)],
)
def test_webhooks_that_fail_closed_refuse_a_run_and_are_opened_for_it_only(
    pair: Pair, tmp_path: Path, *, authorizer: bool
) -> None:
    """Without --allow GM-202 the operator is left alone; with it all pods stay, and no condition of ours is left."""
    source, target = pair.builds
    with _upgrading(pair, tmp_path, _prepare_one, authorizer=authorizer) as (lab, before):
        refused = lab.tool("run", *target.target, "--stop-operator")
        assert refused.code == _REFUSED, refused.err
        assert not lab.has_ended(source), refused.err
        assert "GM-202" in refused.err
        assert lab.photo().labels() == before.labels()
        lab.migrate(target, "--allow", "GM-202")
        assert not conditions(lab.client)
        lab.install(target)
        lab.settle()


@pairs
def test_without_leader_election_a_rerun_beside_the_next_operator_ends_well(pair: Pair, tmp_path: Path) -> None:
    """A run was killed, somebody upgraded; the rerun ends with 0, and deletes no pod."""
    _, target = pair.builds
    with _upgrading(pair, tmp_path, _prepare_one, elects=False) as (lab, before):
        with lab.in_mid_run(target, pods=len(before.pods())) as run:
            run.process.kill()
        lab.install(target)
        # alpha.11 does not end an update that replaces nothing (Grove #671), so there is something left to write.
        lab.settle(at_rest=False, quiet=10)
        lab.migrate(target)
        lab.install(target)
        lab.settle()


@contextmanager
def _upgrading(
    pair: Pair, directory: Path, begin: Callable[[Lab, Build], object] = prepare, **options: bool
) -> Iterator[tuple[Lab, Photo]]:
    """A new cluster as the first of a pair leaves it, and how everything is; in the block no pod may go or come."""
    source, _ = pair.need()
    with Lab(directory / "lab", **options) as lab:
        begin(lab, source)
        with lab.undisturbed() as before:
            yield lab, before


def _prepare_one(lab: Lab, source: Build) -> None:
    """A build, and one set as it leaves it."""
    lab.install(source)
    lab.client.create(samples.busybox())
    lab.settle(lambda now: now.of(photo.SET))


def _prepare_many(lab: Lab, source: Build) -> None:
    """A build, and 480 pods of 20 sets as it leaves them."""
    lab.install(source)
    lab.wait_for_collector()
    for number in range(20):
        lab.client.create(samples.gang(f"gang-{number}", alone=8, grouped=4))
    lab.settle(lambda now: len(now.pods()) == 480)


@contextmanager
def _gitops(lab: Lab) -> Iterator[None]:
    """Something gives the operator its replicas back within a second, until the block ends."""
    over = threading.Event()

    def restore() -> None:
        while not over.wait(1):
            lab.start_operator()

    thread = threading.Thread(target=restore)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
