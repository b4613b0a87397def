"""A fresh process that hashes the templates of a file, and prints what each step cost in CPU seconds.

Started by :mod:`benchmarks.hashing`. It imports next to nothing before the hash core, because its own start is part
of the figure. Templates are decoded one by one, which is not: the reference hashes decoded structs too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import process_time


def main(path: Path, name: str) -> None:
    """Print the seconds of a template as one JSON object: those of the whole process, without decoding."""
    from migrator.hashing.podcliqueset import TemplateHasher  # noqa: PLC0415 - part of the figure
    from migrator.hashing.schemes import by_name  # noqa: PLC0415

    scheme = by_name(name)
    spent = process_time()
    from migrator.exact_json import loads  # noqa: PLC0415

    count = 0
    with path.open("rb") as lines:
        for count, line in enumerate(lines, 1):  # noqa: B007 - counted
            template = loads(line)
            began = process_time()
            TemplateHasher(template).under(scheme)
            spent += process_time() - began
    print(json.dumps({"cold": spent / count}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
