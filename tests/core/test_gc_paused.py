"""Who may collect garbage when."""

from __future__ import annotations

import gc

import pytest

from migrator.gc_paused import gc_paused, importing


def test_the_collector_rests_inside_and_works_again_afterwards() -> None:
    """No cycle is looked for inside the block, and after it as before, whatever happened in it."""
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), gc_paused():
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    """A block within a block, or a caller who switched it off, does not find it on."""
    with gc_paused():
        with gc_paused():
            pass
        assert not gc.isenabled()


def test_what_is_imported_is_not_walked_through_again() -> None:
    """The collector leaves out what was made in the block, and works as before on what comes later."""
    with importing():
        made = {"kept": []}
    try:
        assert gc.isenabled()
        assert not any(item is made for item in gc.get_objects())
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
