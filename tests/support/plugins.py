"""A pytest plugin for CI: a test that skips has failed.

A suite that silently did nothing must not pass, so what a developer's machine may lack, CI's may not.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest


def _strict(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} skips, and in CI nothing may: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip in set-up or test into a failure."""
    report = yield
    _strict(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn a module that skips as a whole into a failure."""
    report = yield
    _strict(report)
    return report
