"""Code blocks of the pages in docs/."""

from __future__ import annotations

import re
import textwrap

from tests.support.paths import ROOT


def text_of(page: str) -> str:
    """A page of docs/, or the README."""
    return (ROOT / ("." if page == "README" else "docs") / f"{page}.md").read_text(encoding="utf-8")


def blocks(page: str, section: str) -> list[str]:
    """The shell blocks of a section, up to the next heading, as a reader copies them. No line is a comment."""
    [_, after] = re.split(rf"(?m)^#+ {re.escape(section)}\n", text_of(page))
    return all_blocks(re.split(r"(?m)^#+ ", after)[0])


def all_blocks(text: str) -> list[str]:
    """Every shell block of a text."""
    found = [textwrap.dedent(block) for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", text)]
    assert not [block for block in found if re.search(r"(?m)^#", block)]
    return found
