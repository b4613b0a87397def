"""In CI a test that skips has failed: a suite that did nothing must not pass."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("def test_it():\n    pytest.skip('no Go')\n", False),
        ("pytest.skip('no Go', allow_module_level=True)\n", False),
        ("@pytest.mark.xfail(reason='known')\ndef test_it():\n    assert 0\n", True),
    ],
    ids=["a test", "a whole module", "an expected failure"],
)
def test_a_skip_is_a_failure(pytester: pytest.Pytester, text: str, *, passes: bool) -> None:
    """However a test skips, CI fails and prints the reason; the plugin minds nothing else."""
    pytester.makepyfile(f"import pytest\n{text}")
    done = pytester.runpytest_inprocess("-p", "tests.support.plugins")
    assert (done.ret == 0) is passes
    assert ("in CI nothing may: Skipped: no Go" in done.stdout.str()) is not passes
