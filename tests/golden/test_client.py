"""Asking the oracle: lines keep their bytes, and only minors that have one can be asked."""

from __future__ import annotations

import pytest

from testbed import oracle
from testbed.go_programs import GoProgramError
from tests.golden import client


def test_an_unknown_minor_is_refused() -> None:
    """A minor without an oracle is refused with the known ones listed."""
    with pytest.raises(GoProgramError, match=r"no oracle for k8s.io/api 1.20; there is one for 1.33, "):
        oracle.oracle_binary("1.20")


def test_lines_keep_their_bytes_and_never_break() -> None:
    """A question is one line with the input's own bytes; input with a raw newline is refused."""
    assert client.line('a"b', "input", b'{"x":1.0}') == b'{"id":"a\\"b","input":{"x":1.0}}'
    with pytest.raises(ValueError, match="raw newline"):
        client.line("x", "input", b"{\n}")
