"""A pytest plugin for CI: a test that skips has failed.

A suite that silently did nothing must not pass, so what a developer's machine may lack, CI's may not.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

import pytest

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Report, Report]:
    """Turn a skip of a test, in its set-up too, or of a module as a whole into a failure."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} skips, and in CI nothing may: {reason}"
    return report


pytest_make_collect_report = pytest_runtest_makereport
