"""A release that was not read, one that is newer, and a typo are three answers; each fact has a source."""

from __future__ import annotations

import json

import pytest

from migrator.errors import UnknownScheme, UnreadRelease
from migrator.hashing import schemes


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("0.1.0-alpha.9", "v0.1.0-alpha.9"),
        ("alpha.12-rc1", "v0.1.0-alpha.12-rc1"),
    ],
)
def test_a_release_has_several_names(name: str, release: str) -> None:
    """The version with or without its front."""
    found = schemes.requested_release(name)
    assert found is not None
    assert found.name == release
    assert schemes.resolve(name) == found.scheme


@pytest.mark.parametrize("name", ["dynamo-1.3", "dynamo-v1.4.2", "dynamo-9.9", "dynamo-"])
def test_a_version_of_dynamo_is_no_target(name: str) -> None:
    """Patch versions of a platform may bring other releases of Grove, so only the installed chart says which."""
    with pytest.raises(UnknownScheme, match=f"{name} is a version of Dynamo, not of Grove.*`helm show chart` lists it"):
        schemes.resolve(name)


def test_each_row_links_to_the_commit_that_it_was_read_at() -> None:
    """A fact about the outside that a program uses has its source beside it."""
    for release in schemes.releases():
        assert release.source.startswith(f"https://github.com/ai-dynamo/grove/blob/{release.commit}"), release.name


def test_each_version_of_dynamo_links_to_where_it_is_said() -> None:
    """A row without a source has no version of Dynamo."""
    links = [link for release in schemes.releases() for link in release.dynamo.values()]
    assert links
    assert all(link.startswith("https://github.com/") for link in links)


@pytest.mark.parametrize("key", ["source", "minor", "algorithm", "release"])
def test_a_row_without_a_fact_is_an_error(key: str) -> None:
    """It names the line and what is missing."""
    row = {"release": "v9.9.9", "minor": "1.36", "algorithm": "legacy", "source": "https://example.test"}
    del row[key]
    with pytest.raises(ValueError, match=f"releases.json line 1: '{key}'"):
        schemes.parse_releases(json.dumps(row))


@pytest.mark.parametrize("name", ["v0.1.0-alpha.12", "0.1.0-alpha.13", "alpha.14"])
def test_a_release_that_was_not_read_is_never_guessed(name: str) -> None:
    """It is known to exist, and the way out is named; no other release is suggested in its place."""
    with pytest.raises(UnreadRelease, match="could not be read, so its hashes are not known") as error:
        schemes.resolve(name)
    assert "--to-binary" in str(error.value)
    assert "Did you mean" not in str(error.value)


def test_the_newest_release_is_named_whatever_is_last_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once every release is read, a build of the main branch may be the last line."""
    monkeypatch.setattr(schemes, "unread_releases", tuple)
    with pytest.raises(UnknownScheme, match=r"is newer than v0\.1\.0-alpha\.12-rc1, the newest release"):
        schemes.resolve("v0.1.0-alpha.15")


@pytest.mark.parametrize("name", ["v0.1.0-alpha.15", "v0.1.0", "1.0.0", "v0.1.0-beta.1", "v0.2.0-alpha.1"])
def test_a_newer_release_is_said_to_be_newer(name: str) -> None:
    """What comes after everything that is known is not a typo of something older."""
    with pytest.raises(UnknownScheme, match=r"is newer than v0\.1\.0-alpha\.14") as error:
        schemes.resolve(name)
    assert "--to-binary" in str(error.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v0.1.0-alfa.9", "Did you mean v0.1.0-alpha.9?"),
        ("legcy-1.35", "Did you mean legacy-1.35?"),
        ("v0.1.0-alpha.12-rc2", "Did you mean v0.1.0-alpha.12-rc1?"),
        ("legacy-1.38", "'legacy-1.38' is not a known release or scheme. `grove-migrator releases` lists"),
        ("legacy-1.38-preview", "'legacy-1.38-preview' is not a known release or scheme. `grove-migrator releases`"),
        ("legacy-1.39", "'legacy-1.39' is not a known release or scheme. `grove-migrator releases` lists"),
        ("nope", "'nope' is not a known release or scheme. `grove-migrator releases` lists"),
        ("", "'' is not a known release or scheme. `grove-migrator releases` lists"),
        ("auto", "auto is only for --from."),
        ("canonical", "'canonical' is not a known release or scheme."),
    ],
)
def test_any_other_name_has_one_short_answer(name: str, said: str) -> None:
    """What was meant if that is sure, else where all names are; a scheme of another minor is never suggested."""
    with pytest.raises(UnknownScheme) as error:
        schemes.resolve(name)
    assert str(error.value).startswith(said) or f"known release or scheme. {said}" in str(error.value)
    assert len(str(error.value).split()) <= 25
