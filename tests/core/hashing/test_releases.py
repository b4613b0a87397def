"""A release that was not read, one that is newer, and a typo are three answers."""

from __future__ import annotations

import pytest

from migrator.errors import UnknownScheme, UnreadRelease
from migrator.hashing import schemes


@pytest.mark.parametrize("name", ["v0.1.0-alpha.12", "0.1.0-alpha.13", "v0.1.0-alpha.14"])
def test_a_release_that_was_not_read_is_never_guessed(name: str) -> None:
    """It is known to exist, and the ways out are named; no other release is suggested in its place."""
    with pytest.raises(UnreadRelease, match="could not be read, so its hashes are not known") as error:
        schemes.resolve(name)
    assert "--to-binary" in str(error.value)
    assert "--target-image" in str(error.value)
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("name", ["v0.1.0-alpha.15", "v0.1.0", "1.0.0", "v0.1.0-beta.1", "v0.2.0-alpha.1"])
def test_a_newer_release_is_said_to_be_newer(name: str) -> None:
    """What comes after everything that is known is not a typo of something older."""
    with pytest.raises(UnknownScheme, match=r"it is newer than v0\.1\.0-alpha\.14") as error:
        schemes.resolve(name)
    assert "--to-binary" in str(error.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("alpha.13", "v0.1.0-alpha.13"),
        ("alpha.9", "v0.1.0-alpha.9"),
        ("v0.1.0-alfa.9", "v0.1.0-alpha.9"),
        ("legcy-1.35", "legacy-1.35"),
        ("v0.1.0-alpha.12-rc2", "v0.1.0-alpha.12-rc1"),
    ],
)
def test_a_typo_is_answered_with_what_was_meant(name: str, meant: str) -> None:
    """The nearest name that is known, and where all of them are."""
    with pytest.raises(UnknownScheme) as error:
        schemes.resolve(name)
    assert f"did you mean {meant}?" in str(error.value)
    assert "`releases` lists all of them" in str(error.value)
