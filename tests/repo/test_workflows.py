"""The workflows for GitHub: what they may do, and that nobody can change under them what they run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from migrator import __version__
from scripts import set_version
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


def scripts_of(jobs: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """What each job runs in a shell."""
    return {name: "\n".join(step.get("run", "") for step in job["steps"]) for name, job in jobs.items()}


def test_there_is_one_for_changes_one_for_each_night_and_one_for_releases() -> None:
    """The tests below look at something."""
    assert [path.stem for path in WORKFLOWS] == ["ci", "nightly", "release"]


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
        assert "contents" not in writes or (path.stem, name) == ("release", "release"), name


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


def test_changes_meet_other_api_servers_and_real_containers() -> None:
    """An L: every Python with one API server, the oldest Python with others; and kind."""
    found = jobs(ROOT / ".github" / "workflows" / "ci.yml")
    assert found["kubernetes"]["strategy"]["matrix"] == {"kubernetes": ["1.31", "1.36"]}
    scripts = scripts_of(found)
    assert "KUBEBUILDER_ASSETS" in scripts["kubernetes"]
    assert "make e2e" in scripts["kind"]


def test_known_vulnerabilities_fail_a_change() -> None:
    """Everything that is locked is audited against its lock, by tools that are locked too."""
    audit = jobs(ROOT / ".github" / "workflows" / "ci.yml")["audit"]["steps"]
    assert any(step.get("run") == "make audit" for step in audit)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\naudit:")[2].partition("\n\n")[0]
    for lock in ("runtime", "dev"):
        assert f"pip-audit --require-hashes --disable-pip -r requirements/{lock}.txt" in recipe


def test_a_release_has_materials_signatures_and_provenance() -> None:
    """Nothing is published untested; wheel and image have materials, what is pushed a signature, and all provenance."""
    release = jobs(ROOT / ".github" / "workflows" / "release.yml")
    used = {
        name: {step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step}
        for name, job in release.items()
    }
    scripts, needs = scripts_of(release), {"wheel": "test", "image": "test", "chart": "image"}
    assert {name: release[name]["needs"] for name in needs} == needs
    assert set(release["release"]["needs"]) == {"wheel", "image", "chart"} >= set(release["index"]["needs"])
    for name in ("wheel", "image"):
        assert {"anchore/sbom-action", "actions/attest-build-provenance"} <= used[name]
    assert "actions/attest-build-provenance" in used["chart"]
    assert all("cosign sign --yes" in scripts[name] for name in ("image", "chart"))
    assert "cosign sign-blob" in scripts["chart"]
    assert any(step.get("run") == ".ci/run" for step in release["test"]["steps"])


def test_a_published_image_has_its_base_by_digest() -> None:
    """The tag of the Dockerfile is resolved once, and both stages are built on what it named then."""
    steps = jobs(ROOT / ".github" / "workflows" / "release.yml")["image"]["steps"]
    [base] = [step for step in steps if step.get("id") == "base"]
    [build] = [step for step in steps if step.get("id") == "build"]
    assert steps.index(base) < steps.index(build)
    assert "sed -n 's/^ARG RUNTIME_BASE=//p' Dockerfile" in base["run"]
    assert "{{.Manifest.Digest}}" in base["run"]
    named = dict(line.split("=", 1) for line in build["with"]["build-args"].splitlines())
    assert named["BUILD_BASE"] == named["RUNTIME_BASE"] == "${{ steps.base.outputs.image }}"


def test_a_release_names_no_registry() -> None:
    """Where image, chart and packages go is said by the repository's variables, and by nothing in the workflow."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    assert set(re.findall(r"vars\.(\w+)", text)) == {"IMAGE", "CHARTS", "INDEX"}
    script = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    assert not re.search(r"https?://|oci://(?!\$CHARTS)", script)


def test_a_new_version_reaches_every_file_that_names_it() -> None:
    """No file but the listed ones names our version, and in each of those it is replaced; Grove's versions stay."""
    pattern = re.compile(rf"(?<![v\d.]){re.escape(__version__)}(?![-.\d])")
    command = ["git", "ls-files", ":!*.md", ":!*.mod", ":!*.sum", ":!requirements", ":!tests", ":!testbed"]
    tracked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    texts = {name: (ROOT / name).read_text(encoding="utf-8", errors="replace") for name in tracked}
    assert {name for name, text in texts.items() if pattern.search(text)} == set(set_version.FILES)
    for name in set_version.FILES:
        new = set_version.renamed(texts[name], __version__, "7.8.9")
        assert not pattern.search(new)
        assert new.replace("7.8.9", __version__) == texts[name]
