"""The documents describe what the program does, and the rules of CONTRIBUTING.md hold."""

from __future__ import annotations

import ast
import math
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from migrator.cli import cli
from migrator.run.leases import OWN_LEASE, RECORD
from scripts import cli_reference, readme
from tests.support.pages import all_blocks, text_of
from tests.support.paths import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(text: str) -> Iterator[list[str]]:
    """Every `grove-migrator ...` in code blocks and code spans, as arguments."""
    for block in re.findall(r"^ *```[a-z]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            yield from _parsed(line.strip().removeprefix("$ "))
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        yield from _parsed(span)


def _parsed(line: str) -> Iterator[list[str]]:
    command = re.split(r"\s*[|>#]", line.rpartition("| ")[2])[0]
    if re.match(r"grove-migrator( |$)", command) and "[OPTIONS]" not in command:
        yield shlex.split(command)[1:]


def test_the_reference_is_current() -> None:
    """docs/cli.md equals the output of --help: every command, flag and exit code."""
    assert cli_reference.TARGET.read_text(encoding="utf-8") == cli_reference.reference(), (
        "run python -m scripts.cli_reference --write"
    )


def test_what_pages_have_of_the_program_is_current() -> None:
    """The README shows what the demo prints, whose every command succeeds; other pages its tables."""
    assert [page for page, text in readme.pages() if page.read_text(encoding="utf-8") != text] == [], (
        "run python -m scripts.readme"
    )


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_command_line_in_the_documents_is_accepted(page: Path) -> None:
    """A reader may copy any command: each has known commands and flags, and what is required."""
    for words in commands(page.read_text(encoding="utf-8")):
        if words and words[0] in cli.commands and len(words) > 1:
            command = cli.commands[words[0]]
            try:
                command.make_context(words[0], words[1:], **cli.context_settings)
            except click.exceptions.Exit:
                continue
            except click.ClickException as error:
                pytest.fail(f"{names(page)}: grove-migrator {' '.join(words)}: {error.format_message()}")
        else:
            assert not words or words[0] in {*cli.commands, "--help", "--version"}, f"{names(page)}: {words}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_a_shell_can_parse_every_block_that_a_reader_pastes(page: Path) -> None:
    """Variables stand for what is the reader's: `bash -n` takes each block, and no <placeholder> is a redirection."""
    for block in all_blocks(page.read_text(encoding="utf-8")):
        assert not re.search(r"<[A-Za-z]", block), block
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{block}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    """A relative link names a file that exists, and a heading in it if it names one."""
    for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{names(page)}: {target}"
        if anchor and linked.suffix == ".md":
            assert anchor in anchors(linked.read_text(encoding="utf-8")), f"{names(page)}: {target}"


def test_the_readme_leads_to_every_page() -> None:
    """A reader who starts at the README finds all of docs/."""
    text = text_of("README")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"](docs/{page.name})" not in text] == []


def anchors(text: str) -> set[str]:
    """The anchors of a page as GitHub makes them, and those that it spells out."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))


def test_every_test_has_a_docstring() -> None:
    """It names the behaviour, as CONTRIBUTING.md asks; ruff asks for none of helpers, so it cannot of tests."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        functions = [one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.FunctionDef)]
        bare = [one.name for one in functions if one.name.startswith("test_") and not ast.get_docstring(one)]
        assert bare == [], path


def test_the_verbs_of_the_readme_are_verbs_of_the_makefile() -> None:
    """Every `make ...` in the README exists."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", text_of("README")))
    assert {"demo", "test"} <= verbs
    assert verbs <= set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))


def test_how_it_works_names_what_exists() -> None:
    """Files, and the Lease with its annotation, are there under the names that the page gives."""
    page = text_of("how-it-works")
    for path in re.findall(r"`(migrator/[\w./]+)`", page):
        assert (ROOT / path).exists(), path
    assert f"`{RECORD}`" in page
    assert f"`{OWN_LEASE}`" in page


@pytest.mark.parametrize("page", ["upgrade", "dynamo"])
def test_each_way_fits_on_two_screens(page: str) -> None:
    """A way, or the page's part that all ways share, has at most 100 lines of 80 columns: two screens of 50."""
    for section in re.split(r"(?m)^## ", text_of(page).partition("## Guards")[0])[1:]:
        shown = sum(max(1, math.ceil(len(line) / 80)) for line in section.splitlines())
        assert shown <= 100, (section.partition("\n")[0], shown)


def test_files_stay_small() -> None:
    """A file has 400 lines at most, tests included."""
    folders = ("migrator", "tests", "testbed", "benchmarks", "scripts")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert [path for path, lines in lengths.items() if lines > 400] == []


@pytest.mark.parametrize(
    ("written", "dump"), [("podcliquesets.yaml", "cluster.yaml"), ("dynamo/podcliquesets.yaml", "dynamo/cluster.json")]
)
def test_an_example_is_what_a_cluster_makes_of_its_sets(written: str, dump: str) -> None:
    """Whatever somebody has written is in the set of the dump; an API server and Grove's webhook only add to it."""
    examples = ROOT / "examples"
    stored = yaml.load((examples / dump).read_text(encoding="utf-8"), yaml.CSafeLoader)["items"]
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in stored}
    for item in yaml.safe_load_all((examples / written).read_text(encoding="utf-8")):
        assert [*_lacking(item, by_name[item["kind"], item["metadata"]["name"]])] == []


def _lacking(written: Any, stored: Any, path: str = "") -> Iterator[str]:
    """Where a stored value is another than the one that was written."""
    if isinstance(written, dict) and isinstance(stored, dict):
        for key, value in written.items():
            yield from _lacking(value, stored.get(key), f"{path}/{key}")
    elif isinstance(written, list) and isinstance(stored, list) and len(written) == len(stored):
        for index, (one, other) in enumerate(zip(written, stored, strict=True)):
            yield from _lacking(one, other, f"{path}/{index}")
    elif written != stored:
        yield path
