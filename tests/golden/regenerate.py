"""Write everything that is generated from the oracle: `python -m tests.golden.regenerate`."""

from __future__ import annotations

from tests.golden import layouts, pages
from tests.golden.vectors import generate


def main() -> None:
    """Rewrite the layout files, the page, and then the golden vectors, whose inputs are made from the layouts."""
    for path, text in (*layouts.rendered().items(), (pages.PAGE, pages.rendered())):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    generate.main()


if __name__ == "__main__":
    main()
