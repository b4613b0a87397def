"""Text for terminals and logs."""

from __future__ import annotations

from migrator.render.text import columns, printable


def test_columns_are_aligned_and_cut_nothing_off() -> None:
    """Every column is as wide as its widest cell, and no line ends in spaces."""
    table = columns(("NAME", "STATE"), [("a-long-name", "done"), ("b", "migrate")])
    assert table == "NAME          STATE\na-long-name   done\nb             migrate\n"


def test_a_table_without_rows_is_its_header() -> None:
    """A table without rows is not an error."""
    assert columns(("NAME", "STATE"), []) == "NAME   STATE\n"


def test_what_a_terminal_would_obey_is_spelt_out() -> None:
    """Control characters, line breaks and direction marks are shown; ordinary text of any script stays."""
    assert printable("plain") == "plain"
    assert printable("grün 模型") == "grün 模型"
    assert printable("a\x1b[31mb\nc\td") == "a\\x1b[31mb\\nc\\td"
    assert printable("a\u202eb") == "a\\u202eb"
    assert printable("a\u00a0b") == "a b"
