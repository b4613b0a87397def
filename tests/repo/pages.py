"""Code blocks of the pages in docs/."""

from __future__ import annotations

import re
import textwrap

from tests.support.paths import ROOT


def blocks(page: str, section: str) -> list[str]:
    """The shell blocks of a section, up to the next heading, as a reader copies them."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    [_, after] = re.split(rf"(?m)^#+ {re.escape(section)}\n", text)
    body = re.split(r"(?m)^#+ ", re.sub(r"(?ms)^ *```.*?^ *```", lambda match: match[0].replace("\n#", "\n\0"), after))[
        0
    ]
    found = re.findall(r"(?ms)^( *)```sh\n(.*?)^ *```", body)
    assert found, section
    return [textwrap.dedent(block).replace("\0", "#") for _, block in found]
