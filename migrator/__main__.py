"""``python -m migrator`` is ``grove-migrator``."""

from migrator.cli import main

if __name__ == "__main__":
    main()
