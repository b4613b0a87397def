"""Two real operators whose CRDs claim one short name: from one to the other by typing what the tool prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.helm.wrapper import published
from tests.e2e.lab import builds, photo, samples
from tests.e2e.lab.builds import BUILDS, Build
from tests.e2e.lab.lab import Lab
from tests.support.shell import Shell

pytestmark = pytest.mark.upgrade

OLD, NEW = BUILDS["v0.1.0-alpha.8"], BUILDS["v0.1.0-alpha.12-rc1"]
_FAILED: Final = 7


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A cluster with the old operator and a set; nobody has made a topology."""
    builds.need(OLD.name, NEW.name)
    with Lab(tmp_path / "lab") as found:
        found.install(OLD)
        found.wait_for_collector()
        found.client.create(samples.busybox())
        found.settle(lambda now: now.of(photo.SET))
        yield found


@contextmanager
def _shell(lab: Lab, build: Build, directory: Path) -> Iterator[Shell]:
    """A shell in which CHART is where a build's chart is published."""
    with published(Path(*builds.chart(build.name)), directory / "repository") as address:
        yield Shell(directory / "shell", lab.kubeconfig, helm="helm4", CHART=address)


def _type(lab: Lab, build: Build, directory: Path) -> None:
    """Migrate, and type every command that is printed as the next one."""
    assert "GM-312" in lab.tool("plan", *build.target).out
    following = json.loads(lab.migrate(build, "-o", "json").out)["next"]
    assert [command.split()[0] for command in following][-2:] == ["helm", "grove-migrator"]
    with _shell(lab, build, directory) as shell:
        for command in following:
            if command.startswith("helm upgrade "):
                lab.upgrade(build)  # the lab's charts are rendered onto the loopback interface
            else:
                shell.paste(command)
    lab.wait_for_operator(build)


def test_there_and_back_by_typing_what_is_printed(lab: Lab, tmp_path: Path) -> None:
    """Both ways the CRD in the way is deleted in time: the operator starts, verify passes, and every pod stays."""
    with lab.undisturbed():
        _type(lab, NEW, tmp_path / "there")
        lab.settle()
        _type(lab, OLD, tmp_path / "back")
        lab.settle()


def test_an_operator_that_cannot_start_is_recognised_and_comes_up(lab: Lab, tmp_path: Path) -> None:
    """The new CRDs were applied beside the old one: verify says what to type; then it passes, and every pod stays."""
    verify = ("verify", *NEW.target, "--after-upgrade")
    with lab.undisturbed():
        following = json.loads(lab.migrate(NEW, "-o", "json").out)["next"]
        with _shell(lab, NEW, tmp_path) as shell:
            shell.paste(following[1])  # the CRDs, and nothing is deleted
            lab.upgrade(NEW)
            failed = lab.tool(*verify, "-o", "json")
            assert failed.code == _FAILED
            assert "clustertopologybindings.grove.io is not served" in failed.out
            for command in json.loads(failed.out)["next"]:
                shell.paste(command)
        lab.wait_for_operator(NEW)
        verified = lab.tool(*verify, "--wait", "4m")
        assert verified.code == 0, verified.out
        lab.settle()
