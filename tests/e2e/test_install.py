"""Installing as a user does, from the built wheel and sdist; and what a release relies upon: locks and versions."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from migrator import __version__
from scripts import lock, set_version
from tests.support.commands import run
from tests.support.paths import ROOT

#: Our version as Python spells it in the names of files (PEP 440): ``1.0.0rc1`` for ``1.0.0-rc1``.
PYTHON_VERSION = __version__.replace("-", "")


def build(directory: Path, target: str, source: Path = ROOT) -> Path:
    """A distribution of a source tree, by the locked build backend."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", directory, cwd=source)
    [found] = [path for path in directory.iterdir() if path.suffix in {".whl", ".gz"}]
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), "wheel")


def test_the_sdist_builds_the_same_wheel_and_holds_no_more_than_it_needs(wheel: Path, tmp_path: Path) -> None:
    """The wheel built of the unpacked sdist has the same files; tests, chart and workflows are not in the sdist."""
    sdist = build(tmp_path / "sdist", "sdist")
    assert sdist.name == f"grove_migrator-{PYTHON_VERSION}.tar.gz"
    with tarfile.open(sdist) as opened:
        found = {name.split("/")[1] for name in opened.getnames() if "/" in name}
        assert found <= {"migrator", "pyproject.toml", "README.md", "LICENSE", "PKG-INFO", ".gitignore"}
        opened.extractall(tmp_path, filter="data")
    again = build(tmp_path / "again", "wheel", tmp_path / f"grove_migrator-{PYTHON_VERSION}")
    assert again.read_bytes() == wheel.read_bytes()


def test_the_wheel_holds_the_data_and_no_tests(wheel: Path) -> None:
    """What is installed can hash: layouts and releases are in the wheel; tests and scripts are not."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        scripts = next(archive.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    files = (path for path in (ROOT / "migrator").rglob("*") if path.suffix in {".json", ".html", ".css"})
    data = {str(path.relative_to(ROOT)) for path in files}
    needed = ("releases/releases.json", "hashing/layouts/1.33.json", "report/page.html", "report/page.css")
    assert {f"migrator/{name}" for name in needed} <= data <= names
    assert "migrator/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"migrator"}
    assert "grove-migrator = migrator.__main__:main" in scripts
    assert "kubectl-grove_migrate = migrator.__main__:main" in scripts


def test_the_locks_pin_every_file_by_hash_and_name_no_place() -> None:
    """Where packages come from is the environment's business."""
    for path in lock.REQUIREMENTS.iterdir():
        text = path.read_text(encoding="utf-8")
        pinned = re.findall(r"^\S+==\S+ \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
        assert len(pinned) == len(re.findall(r"^\S+==", text, re.MULTILINE)) > 0
        assert not re.search(r"https?:|--(?:extra-)?index|find-links|trusted-host", text)


def test_a_new_version_reaches_every_file_that_names_it() -> None:
    """No file but the listed ones names our version, and in each of those it is replaced; Grove's versions stay."""
    pattern = re.compile(rf"(?<![v\d.]){re.escape(__version__)}(?![-.\d])")
    unasked = (":!*.md", ":!*.mod", ":!*.sum", ":!requirements", ":!tests", ":!testbed")
    tracked = run("git", "ls-files", *unasked).split()
    texts = {name: (ROOT / name).read_text(encoding="utf-8", errors="replace") for name in tracked}
    assert {name for name, text in texts.items() if pattern.search(text)} == set(set_version.FILES)
    for name in set_version.FILES:
        new = set_version.renamed(texts[name], __version__, "7.8.9-rc1")
        assert not pattern.search(new)
        assert new.replace("7.8.9-rc1", __version__) == texts[name]


def test_only_a_version_or_a_candidate_of_one_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """What a chart or a wheel could not be named after is refused, and no file is written."""
    for wrong in ("1.2", "v1.2.0", "1.2.0rc1", "1.2.0-alpha"):
        assert set_version.main([wrong]) == 2
        assert "1.2.0-rc1" in capsys.readouterr().err
