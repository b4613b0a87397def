"""The error for files that contradict themselves."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from migrator.errors import InputError


@contextmanager
def understood() -> Iterator[None]:
    """Turn any error in the contents of a file into one refusal: such a file cannot be trusted."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, struct.error) as error:
        raise InputError(f"its contents cannot be understood ({error!r}): get it again") from error
