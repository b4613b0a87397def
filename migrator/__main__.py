"""``grove-migrator``, which ``python -m migrator`` is too."""

import sys


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends with the code of any other Ctrl-C, without a traceback."""
    try:
        from migrator.cli import main as run  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        sys.exit(1)
    run()


if __name__ == "__main__":
    main()
