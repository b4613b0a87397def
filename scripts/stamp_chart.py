"""Copy the chart for a release, with the image that was built as its default.

python -m scripts.stamp_chart --image=REPOSITORY@sha256:DIGEST --into=DIRECTORY

Writes DIRECTORY/grove-migrator, which `helm package` then packs. Where the image is published is the repository's
business, so nothing here names a registry.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path
from typing import Final

CHART: Final = Path(__file__).resolve().parent.parent / "charts" / "grove-migrator"
_IMAGE: Final = re.compile(r"(\S+)@(sha256:[0-9a-f]{64})")


def stamped(values: str, image: str) -> str:
    """The text of values.yaml with this image. Raises ``ValueError`` if it is not REPOSITORY@DIGEST."""
    named = _IMAGE.fullmatch(image)
    if named is None:
        raise ValueError(f"the image must be named by its digest, REPOSITORY@sha256:..., not {image}")
    for key, old, new in (("repository", "grove-migrator", named[1]), ("digest", '""', named[2])):
        line = f"\n  {key}: {old}\n"
        if values.count(line) != 1:
            raise ValueError(f"values.yaml: {line.strip()!r} is there {values.count(line)} times, not once")
        values = values.replace(line, f"\n  {key}: {new}\n")
    return values


def main(arguments: list[str]) -> int:
    """Copy and stamp."""
    parser = argparse.ArgumentParser(description="Copy the chart for a release.")
    parser.add_argument("--image", required=True, help="REPOSITORY@sha256:DIGEST")
    parser.add_argument("--into", required=True, type=Path, help="the directory to write to")
    options = parser.parse_args(arguments)
    values = stamped((CHART / "values.yaml").read_text(encoding="utf-8"), options.image)
    chart = options.into / CHART.name
    shutil.copytree(CHART, chart)
    (chart / "values.yaml").write_text(values, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
