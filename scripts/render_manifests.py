"""Make the manifests that people apply from the one source in manifests/base.

python -m scripts.render_manifests                          write manifests/*.yaml; a test checks that they are current
python -m scripts.render_manifests --image=NAME --into=DIR  write them into a directory, with another image

The text of the base is kept, comments included; each replacement in it must fit exactly once, or nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from migrator import __version__

MANIFESTS: Final = Path(__file__).resolve().parent.parent / "manifests"
BASE: Final = MANIFESTS / "base"

#: The files of the base, in the order in which they are applied: the policies hold before there are rights that they
#: limit.
PARTS: Final = ("serviceaccount.yaml", "policy.yaml", "rbac.yaml", "job.yaml")
JOB: Final = PARTS[-1]

#: The image as the base names it, once.
IMAGE: Final = f"grove-migrator:{__version__}"

_SEPARATOR: Final = "---\n"
HOW_MADE: Final = "# Made by `python -m scripts.render_manifests` from manifests/base: change it there.\n"


@dataclass(frozen=True, slots=True)
class Variant:
    """One file: ``heading`` is its comment; ``replaced`` maps pieces of the Job's text to what stands there instead."""

    name: str
    heading: str
    replaced: Mapping[str, str] = field(default_factory=dict)


VARIANTS: Final = (
    Variant(
        name="job.yaml",
        heading="""\
# One Job between the old operator and the new one. Set --to and the image, then
#
#   kubectl -n grove-system delete job grove-migrator --ignore-not-found
#   kubectl apply -f manifests/job.yaml
#   kubectl -n grove-system logs -f job/grove-migrator
#
# and upgrade the operator once the Job is complete. When the upgrade is over, take rights and policies away again:
#
#   kubectl delete -f manifests/job.yaml
#
# With Helm, Argo CD or Flux take the chart (charts/grove-migrator), not this file.
# Everything about it, going back above all: docs/upgrade.md.
""",
    ),
    Variant(
        name="revert.yaml",
        heading="""\
# The way back, before the old operator is installed again (helm rollback): from the new release to the old one.
# By hand, and by hand only: no hook runs it. Set --from, --to and the image, then
#
#   kubectl -n grove-system delete job grove-migrator-revert --ignore-not-found
#   kubectl apply -f manifests/revert.yaml
#   kubectl -n grove-system logs -f job/grove-migrator-revert
#
# and roll back once the Job is complete. Then take rights and policies away: kubectl delete -f manifests/revert.yaml
# Read "Going back" in docs/upgrade.md first.
""",
        replaced={
            "# The run itself. Its": "# The run, the other way round. Its",
            "  name: grove-migrator\n  namespace": "  name: grove-migrator-revert\n  namespace",
            "# The release that is going to be installed:": "# From the release that is installed to the older one:",
            "- --to=v0.1.0-alpha.11\n": "- --from=v0.1.0-alpha.11\n            - --to=v0.1.0-alpha.9\n",
        },
    ),
)


def files(image: str = IMAGE) -> dict[str, str]:
    """Every file by its name, with this image. Raises ``ValueError`` where the base does not fit what is replaced."""
    return {variant.name: rendered(variant, image) for variant in VARIANTS}


def rendered(variant: Variant, image: str = IMAGE) -> str:
    """The text of one file. Raises ``ValueError`` where the base does not fit what is to be changed in it."""
    texts = {part: (BASE / part).read_text(encoding="utf-8") for part in PARTS}
    texts[JOB] = _replaced(texts[JOB], {**variant.replaced, f"image: {IMAGE}\n": f"image: {image}\n"})
    return variant.heading + HOW_MADE + _SEPARATOR + _SEPARATOR.join(texts.values())


def _replaced(document: str, replaced: Mapping[str, str]) -> str:
    for old, new in replaced.items():
        if document.count(old) != 1:
            raise ValueError(f"manifests/base/job.yaml: {old!r} is there {document.count(old)} times")
        document = document.replace(old, new)
    return document


def main(arguments: list[str]) -> int:
    """Write every file."""
    parser = argparse.ArgumentParser(description="Make the manifests from manifests/base.")
    parser.add_argument("--image", default=IMAGE, help="the image of every Job")
    parser.add_argument("--into", type=Path, default=MANIFESTS, help="the directory to write to")
    options = parser.parse_args(arguments)
    for name, text in files(options.image).items():
        (options.into / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
