"""A fresh process that hashes the templates of a file, and prints what each step cost in CPU seconds.

Started by :mod:`benchmarks.hashing`. It imports next to nothing before the hash core, because its own start is part
of the figure. Templates are decoded one by one, which is not: the reference hashes decoded structs too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from time import process_time


def main(path: Path, names: Sequence[str]) -> None:
    """Print seconds as one JSON object; a template is hashed under all schemes named.

    ``start`` is the process until its first hash, ``cold`` all of it without decoding, for each template.
    """
    from migrator.hashing.podcliqueset import TemplateHasher  # noqa: PLC0415 - part of the figure
    from migrator.hashing.schemes import by_name  # noqa: PLC0415

    schemes = [by_name(name) for name in names]
    spent = process_time()
    from migrator.exact_json import loads  # noqa: PLC0415

    start, count = 0.0, 0
    with path.open("rb") as lines:
        for line in lines:
            count += 1
            template = loads(line)
            began = process_time()
            hasher = TemplateHasher(template)
            for scheme in schemes:
                hasher.under(scheme)
            spent += process_time() - began
            start = start or spent
    print(json.dumps({"start": start, "cold": spent / count}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
