"""The HTML report in a real browser: on a phone, on a desk, in the dark and on paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from migrator.report.json import PlanHeader
from migrator.report.page import SHOWN, render
from tests.e2e.browser import chromium
from tests.e2e.browser.chromium import Page
from tests.support.builders import World
from tests.support.fleet import fleet

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PHONE, DESK = 375, 1280

ORIGIN = PlanHeader("https://a-cluster-with-a-long-name.eu-west-1.example:6443", "2026-02-01T00:00:00+00:00", "1.2.3")

#: Elements that stick out of the window, and what each of them is.
OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 0.5)
    .map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a headless Chromium; in CI, where skips are failures, there must be one."""
    program = chromium.find()
    if program is None:
        pytest.skip("needs Chromium on PATH")
    with chromium.started(program, tmp_path_factory.mktemp("chromium") / "profile") as opened:
        yield opened


def world(name: str) -> World:
    """A good night, a bad one, or the longest names that Kubernetes permits."""
    if name != "long":
        return World(fleet(troubled=name == "bad"))
    return World().grow("n" * 45, namespace="s" * 63)


@pytest.fixture(scope="module", params=["good", "bad", "long"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report as a file, with every set unfolded."""
    target = "canonical-1.35" if request.param == "good" else "v0.1.0-alpha.11"
    made = world(request.param).plan(target=target, is_cluster=False)
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    html = render(made, ORIGIN, group_by="app", next_command="grove-migrator run --to-binary grove-operator --yes")
    path.write_text(html.replace("<details ", "<details open "), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [320, PHONE, 768, DESK])
def test_nothing_sticks_out_at_any_width(page: Page, report: Path, width: int) -> None:
    """Nobody has to scroll sideways, with every detail unfolded and the longest of names."""
    page.look(report, width=width)
    assert page.value("innerWidth") == width
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value(OUTSIDE) == []


def test_a_command_is_broken_at_its_spaces_alone(page: Page, report: Path) -> None:
    """Whoever copies it from a phone sees whole words, though a browser breaks them at hyphens."""
    page.look(report, width=PHONE)
    assert page.value("document.querySelectorAll('code').length")
    assert page.value(BROKEN) == []


def test_the_page_asks_for_nothing_but_itself(page: Page, report: Path) -> None:
    """One file: the browser makes no other request."""
    page.look(report, width=DESK)
    assert page.requests == [report.resolve().as_uri()]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(page: Page, report: Path, scheme: str) -> None:
    """The reader's setting decides, and all text has the contrast that WCAG asks for (4.5 to 1)."""
    page.look(report, width=PHONE, scheme=scheme)
    ground = luminance(page.value("getComputedStyle(document.body).backgroundColor"))
    assert (ground < 0.5) == (scheme == "dark")
    weak = [pair for pair in page.value(COLOURS) if contrast(pair) < 4.5]
    assert weak == []


def test_on_paper_everything_is_unfolded_and_dark_is_light(page: Page, report: Path, tmp_path: Path) -> None:
    """A print has what a screen hides behind a click, on white, whatever the reader's setting."""
    folded = tmp_path / "folded.html"
    folded.write_text(report.read_text(encoding="utf-8").replace("<details open ", "<details "), encoding="utf-8")
    page.look(folded, width=794, scheme="dark", media="print")
    assert luminance(page.value("getComputedStyle(document.body).backgroundColor")) == 1.0
    heights = page.value("[...document.querySelectorAll('details table')].map(e => e.getBoundingClientRect().height)")
    assert heights
    assert min(heights) > 0
    assert page.value("document.documentElement.scrollWidth") <= 794


def test_many_sets_are_a_line_each_on_paper(page: Page, tmp_path: Path) -> None:
    """Beyond the sets that a screen shows, paper has every set but not the hashes of each."""
    world = World()
    for number in range(SHOWN + 5):
        world.grow(f"set-{number:02}")
    path = tmp_path / "many.html"
    path.write_text(render(world.plan(is_cluster=False), ORIGIN), encoding="utf-8")
    page.look(path, width=DESK)
    assert page.value(SEEN.format(".set")) == SHOWN
    page.look(path, width=794, media="print")
    assert page.value(SEEN.format(".set")) == SHOWN + 5
    assert page.value(SEEN.format(".set table")) == 0


#: The words in code that stand on two lines.
BROKEN = """[...document.querySelectorAll('code')].flatMap(code => {
  const nodes = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), found = [], range = document.createRange();
  while (nodes.nextNode()) for (const word of nodes.currentNode.data.matchAll(/\\S+/g)) {
    range.setStart(nodes.currentNode, word.index);
    range.setEnd(nodes.currentNode, word.index + word[0].length);
    if (range.getClientRects().length > 1) found.push(word[0]);
  }
  return found;
})"""

#: How many elements of a selector are shown.
SEEN = "[...document.querySelectorAll('{}')].filter(e => e.checkVisibility()).length"

#: Colour of text and of what is behind it, each pair once, with an example.
COLOURS = """(() => {
  const ground = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (c !== 'rgba(0, 0, 0, 0)') return c; } };
  const pairs = {};
  for (const e of document.querySelectorAll('body *'))
    if ([...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) {
      const ink = getComputedStyle(e).color, behind = ground(e);
      pairs[ink + behind] = {ink, behind, example: e.textContent.slice(0, 40)};
    }
  return Object.values(pairs);
})()"""


def contrast(pair: Mapping[str, Any]) -> float:
    """The contrast ratio of WCAG 2 (https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio)."""
    dark, light = sorted((luminance(pair["ink"]), luminance(pair["behind"])))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
