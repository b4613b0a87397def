"""What every test run shares: one seed for everything that is drawn at random, and how many processes run."""

from __future__ import annotations

import os
import secrets

import pytest

SEED = "GROVE_MIGRATOR_SEED"


def pytest_configure() -> None:
    """Draw the seed before parallel test processes start, so that they all inherit it."""
    os.environ.setdefault(SEED, str(secrets.randbelow(2**31)))


def pytest_report_header() -> str:
    """Print the seed, with which a run can be repeated."""
    return f"{SEED}={os.environ[SEED]}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more process than there are cores, because many tests wait for a server, a clock or a terminal."""
    return (os.cpu_count() or 1) + 1
