"""Errors carry what a program decides upon as data."""

from __future__ import annotations

from migrator.errors import DecodeError, Refused, VerificationFailed
from migrator.grove.objects import Ref


def test_guard_object_and_field_are_data() -> None:
    """A refusal names its guard, object and field, and its text begins with the guard's code."""
    ref = Ref("Pod", "default", "web-0", "u1")
    error = Refused("it holds x", guard="GM-101", ref=ref, field="/metadata/labels/a")
    assert error.details == {"guard": "GM-101", "object": "Pod default/web-0", "field": "/metadata/labels/a"}
    assert str(error) == "GM-101: it holds x"


def test_without_them() -> None:
    """An error without guard, object and field is its message."""
    error = VerificationFailed("2 values differ", ["a", "b"])
    assert (str(error), error.details) == ("2 values differ", {})
    assert error.problems == ("a", "b")


def test_a_decode_error_keeps_path_and_message_apart() -> None:
    """The path is data, stands before the sentence, and is not part of the message."""
    error = DecodeError("is not a number", path="spec.replicas")
    assert (str(error), error.path, error.message) == (
        "spec.replicas: is not a number",
        "spec.replicas",
        "is not a number",
    )
