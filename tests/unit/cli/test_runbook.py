"""The commands of docs/upgrade.md that need neither Helm nor kubectl, as a reader types them, on a cluster in memory.

Helm is played: what it would do to the operator's Deployment is done.
"""

from __future__ import annotations

import io
import math
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from migrator import cli
from migrator.cli import connect
from tests.support import programs
from tests.support.memory_site import EXAMPLE, NEW, OLD, Site
from tests.support.pages import blocks, text_of

#: The files that the pages name.
FILES = {"dump.yaml", "grove-operator"}


class Typist(Site):
    """A cluster with an operator, and a person who types the commands of the page."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory

    def type(self, line: str) -> None:
        """Carry out one line of the page; fails where it is not understood or does not succeed."""
        if line.startswith("grove-migrator "):
            command, _, into = line.partition(" > ")
            words = [str(self.directory / word) if word in FILES else word for word in shlex.split(command)[1:]]
            with redirect_stdout(io.StringIO()) as printed:
                assert cli.invoke(words) == 0, line
            if into:
                (self.directory / into).write_text(printed.getvalue(), encoding="utf-8")
        elif line.startswith("crane export ") and line.endswith(" - | tar -xO grove-operator > grove-operator"):
            (self.directory / "grove-operator").write_bytes(programs.made())
        elif line.startswith("kubectl get ") and line.endswith("> dump.yaml"):
            (self.directory / "dump.yaml").write_bytes(EXAMPLE.read_bytes())
        elif line.startswith("helm rollback "):
            self.replace_crds(OLD)
            self.install(OLD, 1)
        else:
            pytest.fail(f"nobody knows how to play: {line}")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typist:
    """A site that the command line finds."""
    made = Typist(tmp_path)
    monkeypatch.setattr(connect, "connect", lambda *_, **__: made.store)
    return made


def lines(section: str) -> Iterator[str]:
    """The commands in the code blocks of a section, up to the next heading."""
    for block in blocks("upgrade", section):
        yield from block.replace("\\\n", "").splitlines()


def test_before(site: Typist) -> None:
    """Looking and rehearsing disturb nothing, with a cluster and with a dump."""
    before = site.generations
    for line in lines("Before"):
        site.type(line)
    assert site.generations == before
    assert site.replicas == 1


def test_there_and_back(site: Typist) -> None:
    """From a laptop: migrated, upgraded, verified; and back, with the old hashes when the old operator returns."""
    old = site.generations
    [laptop] = re.findall(r"From a laptop, use `(grove-migrator .*?)`", text_of("upgrade"))
    site.type(laptop)
    new = site.generations
    assert not set(old) & set(new)
    site.replace_crds(NEW)
    site.install(NEW, 1)
    for line in lines("After"):
        site.type(line)
    assert site.generations == new
    _, back, _ = blocks("upgrade", "Going back")
    for line in back.splitlines():
        site.type(line)
    assert site.generations == old


def test_back_before_the_new_operator_has_run(site: Typist) -> None:
    """The first block of going back undoes a run, and brings the old operator back too."""
    old = site.generations
    site.type(f"grove-migrator run --to {NEW} --stop-operator")
    assert site.replicas == 0
    assert site.generations != old
    for line in blocks("upgrade", "Going back")[0].splitlines():
        site.type(line)
    assert site.generations == old
    assert site.replicas == 1


def test_a_release_that_is_not_in_the_table(site: Typist) -> None:
    """The program of an image is read, and every command takes it."""
    old = site.generations
    for line in lines("A release that is not in the table"):
        site.type(line)
    assert not set(old) & set(site.generations)
    site.type("grove-migrator plan --to legacy-1.35 --detailed-exitcode")


@pytest.mark.parametrize("page", ["upgrade", "dynamo"])
def test_each_way_fits_on_two_screens(page: str) -> None:
    """A way, or the page's part that all ways share, has at most 100 lines of 80 columns: two screens of 50."""
    for section in re.split(r"(?m)^## ", text_of(page).partition("## Guards")[0])[1:]:
        shown = sum(max(1, math.ceil(len(line) / 80)) for line in section.splitlines())
        assert shown <= 100, (section.partition("\n")[0], shown)
