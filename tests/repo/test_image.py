"""The image: by its text where there is no container engine, and for real where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from migrator import __version__
from tests.support.paths import ROOT

DOCKERFILE = (ROOT / "Dockerfile").read_text()
INSTRUCTIONS = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", DOCKERFILE)).splitlines()
STAGES = [line.split()[1:] for line in INSTRUCTIONS if line.startswith("FROM ")]
LAST = INSTRUCTIONS[max(n for n, line in enumerate(INSTRUCTIONS) if line.startswith("FROM ")) :]
VERSION = __version__


def test_every_base_is_an_argument() -> None:
    """Sites with mirrors, or that pin by digest, name their own bases; no default is a moving `latest`."""
    declared = dict(line[4:].split("=", 1) for line in INSTRUCTIONS if re.match(r"ARG \w+_BASE=", line))
    assert len(STAGES) == 2
    for stage in STAGES:
        used = re.fullmatch(r"\$\{(\w+)\}", stage[0])
        assert used is not None
        assert ":" in declared[used[1]]
        assert "latest" not in declared[used[1]]


def test_everything_is_installed_by_hash() -> None:
    """What enters the image is what is locked: no install without hashes but that of our own wheel."""
    installs = [
        part.strip() for line in INSTRUCTIONS for part in line.split("&&") if re.search(r"pip\b.* install", part)
    ]
    assert len(installs) == 3
    assert [("--require-hashes" in part) or ("--no-deps" in part and "/wheels/" in part) for part in installs] == [
        True
    ] * 3


def test_nothing_but_bases_and_packages_is_fetched() -> None:
    """No directive names a frontend in a registry, and a private CA comes as a secret that stays in no layer."""
    assert not re.search(r"(?m)^#\s*(syntax|escape|check)=", DOCKERFILE)
    [install] = [line for line in INSTRUCTIONS if "requirements/runtime.txt" in line and line.startswith("RUN")]
    assert "--mount=type=secret,id=ca," in install
    assert "PIP_CERT" in install
    assert "CERT" not in "".join(line for line in INSTRUCTIONS if line.startswith(("ARG", "ENV")))


def test_it_runs_without_rights() -> None:
    """The last stage ends as a numeric user that is not root, the very one of the Job, and starts the tool itself."""
    users = [line.split()[1] for line in LAST if line.startswith("USER ")]
    [job] = [
        item for item in yaml.safe_load_all((ROOT / "manifests" / "job.yaml").read_text()) if item["kind"] == "Job"
    ]
    context = job["spec"]["template"]["spec"]["securityContext"]
    assert users == [f"{context['runAsUser']}:{context['runAsGroup']}"]
    assert context["runAsUser"] != 0
    assert 'ENTRYPOINT ["grove-migrator"]' in LAST


def test_it_needs_no_writable_root() -> None:
    """Bytecode is compiled when the image is built, and nothing is written beside it at run time."""
    assert any("compileall" in line for line in INSTRUCTIONS)
    assert any("PYTHONDONTWRITEBYTECODE=1" in line for line in LAST)
    assert not any(line.startswith("RUN") for line in LAST)


def test_it_says_what_it_is() -> None:
    """The labels of the OCI image specification, and the version of pyproject.toml, which the Job's image has too."""
    text = "\n".join(LAST)
    for label in ("title", "description", "licenses", "version", "revision", "source"):
        assert f"org.opencontainers.image.{label}=" in text
    assert f"ARG VERSION={VERSION}\n" in DOCKERFILE
    assert f"image: grove-migrator:{VERSION}\n" in (ROOT / "manifests" / "job.yaml").read_text()


def test_only_what_is_needed_is_sent_to_the_engine() -> None:
    """.dockerignore leaves everything out but what the Dockerfile copies."""
    rules = (ROOT / ".dockerignore").read_text().split("\n")
    assert "*" in rules
    kept = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source.rstrip("/")
        for line in INSTRUCTIONS
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert kept == copied
    assert all((ROOT / path).exists() for path in copied)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The image, built by the container engine of this machine."""
    engine = shutil.which("docker") or shutil.which("podman")
    if engine is None or subprocess.run([engine, "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no container engine answers on this machine")
    tag = "grove-migrator:test"
    subprocess.run([engine, "build", "-t", tag, str(ROOT)], check=True)
    yield tag
    subprocess.run([engine, "rmi", tag], check=False)


@pytest.mark.kind
def test_it_runs_as_the_job_runs_it(image: str) -> None:
    """With a read-only root, no capabilities and a foreign user, a dump is planned, and the bytecode is there."""
    engine = shutil.which("docker") or shutil.which("podman") or ""
    locked = [engine, "run", "--rm", "--read-only", "--cap-drop=ALL", "--user=65532:65532", "--network=none", "-i"]
    done = subprocess.run(
        [*locked, image, "plan", "-f", "-", "--to", "v0.1.0-alpha.11"],
        input=(ROOT / "examples" / "cluster.yaml").read_bytes(),
        capture_output=True,
        check=True,
    )
    assert b"With it: none." in done.stdout
    counted = subprocess.run(
        [*locked, "--entrypoint=python", image, "-c", _COUNT], capture_output=True, check=True, text=True
    )
    sources, compiled = map(int, counted.stdout.split())
    assert 0 < sources == compiled


_COUNT = """
import pathlib, migrator
home = pathlib.Path(migrator.__file__).parent
print(len(list(home.rglob("*.py"))), len(list(home.rglob("*.pyc"))))
"""
