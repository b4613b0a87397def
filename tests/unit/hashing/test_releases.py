"""A name that is not in the table is unknown, whatever it resembles; each fact has a source."""

from __future__ import annotations

import json

import pytest

from migrator.errors import UnknownScheme
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


ROW = {"release": "v9.9.9", "minor": "1.36", "algorithm": "legacy", "source": "https://example.test"}


def test_one_line_makes_a_release() -> None:
    """CONTRIBUTING.md promises it to whoever adds one."""
    [found] = schemes.parse_releases(json.dumps(ROW))
    assert (found.name, found.scheme.name) == ("v9.9.9", "legacy-1.36")


@pytest.mark.parametrize("key", ["source", "minor", "algorithm", "release"])
def test_a_row_without_a_fact_is_an_error(key: str) -> None:
    """It names the line and what is missing."""
    row = {name: value for name, value in ROW.items() if name != key}
    with pytest.raises(ValueError, match=f"releases.json line 1: '{key}'"):
        schemes.parse_releases(json.dumps(row))


def test_a_row_of_an_unknown_minor_is_an_error() -> None:
    """It names the line, and the scheme that has no layout yet."""
    rows = [json.dumps(ROW | {"minor": minor}) for minor in ("1.36", "1.99")]
    with pytest.raises(ValueError, match=r"releases\.json line 2: there is no scheme legacy-1\.99"):
        schemes.parse_releases("\n".join(rows))


@pytest.mark.parametrize(
    "name",
    [
        *("v0.1.0-alpha.97", "0.1.0-alpha.98", "alpha.99", "v0.1.0-alpha.9-rc1", "v0.1.0-alpha.12-rc2", "v9.9.9"),
        *("v0.1.0-alfa.9", "legcy-1.35", "legacy-1.39", "canonical", "nope", ""),
    ],
)
def test_an_unknown_name_is_never_corrected_to_another(name: str) -> None:
    """Another release may have other hashes: the answer is where all names are, and how a program is read."""
    with pytest.raises(UnknownScheme) as error:
        schemes.resolve(name)
    assert str(error.value) == (
        f"{name!r} is not a known release or scheme. `grove-migrator releases` lists them. "
        "For another operator, `grove-migrator scheme PROGRAM` reads its scheme."
    )


def test_auto_is_no_target() -> None:
    """It stands for any source."""
    with pytest.raises(UnknownScheme, match=r"^auto is only for --from\. Name a release or a scheme\."):
        schemes.resolve("auto")
