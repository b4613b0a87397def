"""A fresh process that hashes the templates of a file, and prints what each step cost in CPU seconds.

Started by :mod:`benchmarks.hashing`. It imports next to nothing before the hash core, because its own start is part
of the figure; decoding the templates is not, as the reference hashes decoded structs too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from time import process_time
from typing import Any

Object = dict[str, Any]


def main(path: Path, scheme: str) -> None:
    """Print seconds per template for each step, as one JSON object."""
    from migrator.hashing.podcliqueset import hash_template  # noqa: PLC0415 - part of the figure
    from migrator.hashing.schemes import all_schemes, by_name  # noqa: PLC0415

    one = by_name(scheme)

    def first(templates: Iterable[Object]) -> float:
        began = process_time()
        for template in templates:
            hash_template(template, one)
        return process_time() - began

    def every(templates: Iterable[Object]) -> float:
        began, schemes = process_time(), all_schemes()
        for template in templates:
            for tried in schemes:
                hash_template(template, tried)
        return process_time() - began

    imported = process_time()
    from migrator.jsonvalue import loads  # noqa: PLC0415

    given = loads(path.read_bytes())
    mix, unseen, others, repeated = given["mix"], given["unseen"], given["others"], given["repeated"]
    start = imported + first(mix[:1])
    cold = start + first(mix[1:])
    found = {
        "start": start,
        "cold": cold / len(mix),
        "unseen": first(unseen) / len(unseen),
        "all": every(others) / len(others),
        **{name: first([template] * len(unseen)) / len(unseen) for name, template in repeated.items()},
    }
    from migrator.jsonvalue import dumps  # noqa: PLC0415

    print(dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
