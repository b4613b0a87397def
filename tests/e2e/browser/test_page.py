"""The HTML report in a real browser: on a phone, on a desk, in the dark and on paper."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from migrator.report.json import PlanHeader
from migrator.report.page import SHOWN, render
from tests.support.builders import World
from tests.support.commands import run
from tests.support.fleet import fleet

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PHONE, DESK, PAPER = 375, 1280, 794
ORIGIN = PlanHeader("https://a-cluster-with-a-long-name.eu-west-1.example:6443", "2026-02-01T00:00:00+00:00", "1.2.3")
REPORTS = ("good", "bad", "long")


@dataclass(frozen=True)
class Look:
    """A report, and how somebody looks at it: every detail is unfolded, but on paper."""

    report: str
    width: int
    scheme: str = "light"
    paper: bool = False


WIDE = [Look(report, width) for report in REPORTS for width in (320, PHONE, 768, DESK)]
DARK = [Look(report, PHONE, "dark") for report in REPORTS]
PRINTED = [Look(report, PAPER, "dark", paper=True) for report in REPORTS]
MANY = [Look("many", DESK), Look("many", PAPER, paper=True)]

#: What is in a page: among others the elements that stick out of the window, the words of code that stand on two
#: lines, and each pair of a text's colour and what is behind it, with an example.
FACTS = """({
  width: innerWidth,
  viewport: document.querySelector('meta[name=viewport]').content,
  needed: document.documentElement.scrollWidth,
  outside: [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.tagName + ' ' + e.textContent.slice(0, 60)),
  codes: document.querySelectorAll('code').length,
  broken: [...document.querySelectorAll('code')].flatMap(code => {
    const nodes = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), found = [], range = document.createRange();
    while (nodes.nextNode()) for (const word of nodes.currentNode.data.matchAll(/\\S+/g)) {
      range.setStart(nodes.currentNode, word.index);
      range.setEnd(nodes.currentNode, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
    return found;
  }),
  ground: getComputedStyle(document.body).backgroundColor,
  colours: (() => {
    const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
      if (c !== 'rgba(0, 0, 0, 0)') return c; } };
    const pairs = {};
    for (const e of document.querySelectorAll('body *'))
      if ([...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) {
        const ink = getComputedStyle(e).color, behind = ground(e);
        pairs[ink + behind] = {ink, behind, example: e.textContent.slice(0, 40)};
      }
    return Object.values(pairs);
  })(),
  folded: [...document.querySelectorAll('details table')].map(e => e.getBoundingClientRect().height),
  sets: [...document.querySelectorAll('.set')].filter(e => e.checkVisibility()).length,
  tables: [...document.querySelectorAll('.set table')].filter(e => e.checkVisibility()).length,
})"""
#: A frame is as narrow as a phone, which a window is not, and as dark as the page around it says.
FRAME = '<iframe srcdoc="{}" style="border: 0; height: 812px; width: {}px; color-scheme: {}"></iframe>\n'
SCRIPT = """<script>onload = () => {
  const found = Array.from(frames, frame => { with (frame) return FACTS; });
  document.documentElement.textContent = JSON.stringify(found);
}</script>"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[Look, Any]:
    """What a headless Chromium finds in each report; in CI, where skips are failures, there must be one."""
    names = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("needs Chromium on PATH")
    directory = tmp_path_factory.mktemp("chromium")
    looks, reports = (*WIDE, *DARK, *PRINTED, *MANY), {name: rendered(name) for name in (*REPORTS, "many")}
    frames = [FRAME.format(html.escape(as_seen(reports[one.report], one)), one.width, one.scheme) for one in looks]
    page = directory / "frames.html"
    page.write_text("".join(["<!doctype html>\n", *frames, SCRIPT.replace("FACTS", FACTS)]), encoding="utf-8")
    # Root may not use the sandbox, and there is nothing foreign in the page.
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={directory}")
    printed = run(program, *flags, "--dump-dom", page.as_uri()).partition("<html>")[2].partition("</html>")[0]
    return dict(zip(looks, json.loads(html.unescape(printed)), strict=True))


def rendered(name: str) -> str:
    """A good night, a bad one, the longest names that Kubernetes permits, or more sets than a screen shows."""
    world = World(fleet(troubled=name == "bad"))
    if name == "long":
        world = World().grow("n" * 45, namespace="s" * 63)
    if name == "many":
        world = World()
        for number in range(SHOWN + 5):
            world.grow(f"set-{number:02}")
    made = world.plan(target="canonical-1.35" if name == "good" else "v0.1.0-alpha.11", is_cluster=False)
    return render(made, ORIGIN, group_by="app", next_command="grove-migrator run --to-binary grove-operator --yes")


def as_seen(report: str, look: Look) -> str:
    """A report on paper, or unfolded on a screen."""
    if look.paper:
        return report.replace("@media print", "@media all")
    return report if look.report == "many" else report.replace("<details ", "<details open ")


@pytest.mark.parametrize("look", WIDE, ids=str)
def test_nothing_sticks_out_at_any_width(seen: dict[Look, Any], look: Look) -> None:
    """Nobody has to scroll sideways, with every detail unfolded and the longest of names."""
    assert seen[look]["width"] == look.width
    assert seen[look]["viewport"].startswith("width=device-width"), "a phone believes that a page is wide"
    assert seen[look]["needed"] <= look.width
    assert seen[look]["outside"] == []


@pytest.mark.parametrize("look", DARK, ids=str)
def test_a_command_is_broken_at_its_spaces_alone(seen: dict[Look, Any], look: Look) -> None:
    """Whoever copies it from a phone sees whole words, though a browser breaks them at hyphens."""
    assert seen[look]["codes"]
    assert seen[look]["broken"] == []


@pytest.mark.parametrize("look", [*WIDE, *DARK], ids=str)
def test_text_can_be_read_in_light_and_dark(seen: dict[Look, Any], look: Look) -> None:
    """The reader's setting decides, and all text has the contrast that WCAG asks for (4.5 to 1)."""
    assert (luminance(seen[look]["ground"]) < 0.5) == (look.scheme == "dark")
    assert [pair for pair in seen[look]["colours"] if contrast(pair) < 4.5] == []


@pytest.mark.parametrize("look", PRINTED, ids=str)
def test_on_paper_everything_is_unfolded_and_dark_is_light(seen: dict[Look, Any], look: Look) -> None:
    """A print has what a screen hides behind a click, on white, whatever the reader's setting."""
    assert luminance(seen[look]["ground"]) == 1.0
    assert min(seen[look]["folded"]) > 0
    assert seen[look]["needed"] <= PAPER


def test_many_sets_are_a_line_each_on_paper(seen: dict[Look, Any]) -> None:
    """Beyond the sets that a screen shows, paper has every set but not the hashes of each."""
    screen, paper = (seen[look] for look in MANY)
    assert screen["sets"] == SHOWN
    assert (paper["sets"], paper["tables"]) == (SHOWN + 5, 0)


def contrast(pair: Mapping[str, Any]) -> float:
    """The contrast ratio of WCAG 2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""
    dark, light = sorted((luminance(pair["ink"]), luminance(pair["behind"])))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
