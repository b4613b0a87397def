"""A fresh process that hashes the templates of a file, and prints what each step cost in CPU seconds.

Started by :mod:`benchmarks.hashing`. It imports next to nothing before the hash core, because its own start is part
of the figure; decoding the templates is not, as the reference hashes decoded structs too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

Object = dict[str, Any]


def main(path: Path, names: Sequence[str]) -> None:
    """Print seconds per template for each step, as one JSON object; a template is hashed under all schemes named."""
    from migrator.hashing.podcliqueset import TemplateHasher  # noqa: PLC0415 - part of the figure
    from migrator.hashing.schemes import by_name  # noqa: PLC0415

    schemes = [by_name(name) for name in names]

    def taken(templates: Iterable[Object]) -> float:
        began = process_time()
        for template in templates:
            hasher = TemplateHasher(template)
            for scheme in schemes:
                hasher.under(scheme)
        return process_time() - began

    imported = process_time()
    from migrator.exact_json import dumps, loads  # noqa: PLC0415

    given = loads(path.read_bytes())
    mix, unseen = given["mix"], given["unseen"]
    start = imported + taken(mix[:1])
    cold = start + taken(mix[1:])
    found = {"start": start, "cold": cold / len(mix), "unseen": taken(unseen) / len(unseen)}
    for name, template in given["repeated"].items():
        found[name] = taken([template] * len(unseen)) / len(unseen)
    print(dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
