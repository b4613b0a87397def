"""The workflows for GitHub: what they may do, and that nobody can change under them what they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

workflows = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    """Every step of every job."""
    for job in jobs(path).values():
        yield from job["steps"]


def test_there_is_one_for_changes_and_one_for_releases() -> None:
    """The tests below look at something."""
    assert [path.stem for path in WORKFLOWS] == ["ci", "release"]


@workflows
def test_actions_are_pinned_by_commit_and_say_their_version(path: Path) -> None:
    """A tag can be moved, a commit cannot; the version beside it is for people."""
    used = [line.strip() for line in path.read_text().splitlines() if re.match(r"\s*(- )?uses:", line)]
    assert used
    for line in used:
        assert re.fullmatch(r"(- )?uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


@workflows
def test_nothing_is_permitted_that_a_job_does_not_ask_for(path: Path) -> None:
    """The token has no rights at the top, and each job names its own; only the release writes anything."""
    assert yaml.safe_load(path.read_text())["permissions"] == {}
    for name, job in jobs(path).items():
        assert job["permissions"], name
        writes = {scope for scope, right in job["permissions"].items() if right == "write"}
        assert not writes or path.stem == "release", name
        assert "contents" not in writes, name


@workflows
def test_no_job_runs_for_ever_or_keeps_credentials(path: Path) -> None:
    """Every job is bounded, and a checkout leaves no token in the work tree."""
    assert all(job["timeout-minutes"] <= 90 for job in jobs(path).values())
    checkouts = [step for step in steps(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


@workflows
def test_scripts_take_no_expressions(path: Path) -> None:
    """What others may write (for example a branch's name) reaches a shell by its environment only, never as code."""
    for step in steps(path):
        assert "${{" not in step.get("run", ""), step


def test_changes_are_tested_by_the_same_command_on_every_python_that_is_promised() -> None:
    """The versions in pyproject.toml's classifiers are those of the workflow, and .ci/run is what runs."""
    promised = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    job = jobs(ROOT / ".github" / "workflows" / "ci.yml")["all"]
    assert job["strategy"]["matrix"]["python"] == promised
    assert any(step.get("run") == ".ci/run" for step in job["steps"])


def test_known_vulnerabilities_fail_a_change() -> None:
    """Everything that is locked is audited against its lock, by tools that are locked too."""
    audit = jobs(ROOT / ".github" / "workflows" / "ci.yml")["audit"]["steps"]
    assert any(step.get("run") == "make audit" for step in audit)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\naudit:")[2].partition("\n\n")[0]
    for lock in ("runtime", "dev"):
        assert f"pip-audit --require-hashes --disable-pip -r requirements/{lock}.txt" in recipe


def test_a_release_has_materials_signature_and_provenance() -> None:
    """Nothing is published untested; both have materials and provenance, the image a signature too."""
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    for name in ("wheel", "image"):
        assert release[name]["needs"] == "test"
        used = {step["uses"].partition("@")[0] for step in release[name]["steps"] if "uses" in step}
        assert {"anchore/sbom-action", "actions/attest-build-provenance"} <= used
    assert any("cosign sign" in step.get("run", "") for step in release["image"]["steps"])
    assert any(step.get("run") == ".ci/run" for step in release["test"]["steps"])
