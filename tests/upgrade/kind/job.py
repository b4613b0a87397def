"""The Job of manifests/job.yaml, for an image and a release of our choice."""

from __future__ import annotations

from typing import Final

from scripts.render_manifests import IMAGE
from tests.support.paths import ROOT

MANIFEST: Final = ROOT / "manifests" / "job.yaml"
_IMAGE: Final = f"image: {IMAGE}\n"
_TO: Final = "- --to=v0.1.0-alpha.11\n"
_INDENT: Final = " " * 12


def manifest(image: str, to: str, *more: str) -> str:
    """The manifest as a user edits it: another image, another ``--to``, more arguments if given, and nothing else.

    Raises ValueError where one of these is not there exactly once.
    """
    text = MANIFEST.read_text(encoding="utf-8")
    arguments = "".join(f"{_INDENT}- {argument}\n" for argument in more)
    for old, new in ((_IMAGE, f"image: {image}\n"), (_TO, f"- --to={to}\n{arguments}")):
        if text.count(old) != 1:
            raise ValueError(f"{MANIFEST}: {old!r} is there {text.count(old)} times")
        text = text.replace(old, new)
    return text
