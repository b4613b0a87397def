"""The record of a run, as text and back: what cannot be understood proves a run, and a finished one of old is none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.errors import Unreadable
from migrator.run.record import FORMAT, OperatorBefore, Record, State, parse
from tests.support.tables import table

BEFORE = OperatorBefore(2, "registry.example/grove-operator:v0.1.0-alpha.9", "uid-1")
RECORD = Record(
    "run-1", "1.0", "auto", "legacy-1.35", datetime(2026, 3, 1, tzinfo=UTC), stopped=BEFORE, operator=BEFORE
)


def text(**changes: Any) -> str:
    return json.dumps({**json.loads(RECORD.text()), **changes})


def test_a_record_is_read_as_it_was_written() -> None:
    """Every field of it, in less than a kilobyte."""
    whole = replace(
        RECORD, state=State.WRITING, scheme="legacy-1.34", revert=True, elects=False, repeats=True, error="x"
    )
    assert parse(whole.text(), "grove-system") == whole
    assert len(whole.text()) < 1000


def test_no_annotation_is_no_record() -> None:
    """As a Lease that nobody has held yet, or after a revert."""
    assert parse("", "grove-system") is None


@pytest.mark.parametrize("version", [FORMAT - 1, FORMAT + 1])
def test_a_finished_record_of_another_format_is_no_obstacle(version: int) -> None:
    """That run is over, whichever version wrote it; one that is open needs that version."""
    assert parse(text(format=version, state="done"), "grove-system") is None
    with pytest.raises(Unreadable, match=f"it has format {version}"):
        parse(text(format=version), "grove-system")


@table(
    "wrong",
    *(("No JSON, or no object.", (wrong,)) for wrong in ("{", "[]", "5", "null", '"text"', "[" * 100_000)),
    *(("A field that is missing.", (json.dumps({"format": FORMAT, "state": state}),)) for state in State),
    ("A field that nobody knows.", (text(more=1),)),
    ("A state that nobody writes.", (text(state="half"),)),
    ("A state that is no text.", (text(state=[]),)),
    ("A scheme that nobody knows.", (text(scheme="legacy-9.99"),)),
    ("A target that only a newer version knows.", (text(target="v0.1.0-alpha.99"),)),
    ("A source that nobody knows, which messages would quote.", (text(source="x; `rm` this"),)),
    ("A number for a text.", (text(target=5),)),
    ("A text for a flag.", (text(revert="no"),)),
    ("A time that is none.", (text(started="yesterday"),)),
    ("A time without a zone.", (text(started="2026-03-01T00:00:00"),)),
    ("An operator that is none.", (text(stopped=[1]),)),
    ("Replicas that are no number.", (text(stopped={"replicas": "2", "image": "a", "uid": "b"}),)),
)
def test_what_cannot_be_understood_proves_a_run(wrong: str) -> None:
    """It names the Lease and what to do, and never counts as none."""
    with pytest.raises(Unreadable, match="Lease grove-system/grove-migrator cannot be read"):
        parse(wrong, "grove-system")
