"""Errors carry what a program decides upon as data."""

from __future__ import annotations

from migrator.errors import DecodeError


def test_a_decode_error_keeps_path_and_message_apart() -> None:
    """The path is data, stands before the sentence, and is not part of the message."""
    error = DecodeError("is not a number", path="spec.replicas")
    assert (str(error), error.path, error.message) == (
        "spec.replicas: is not a number",
        "spec.replicas",
        "is not a number",
    )
