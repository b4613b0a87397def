"""A name that is not in the table is unknown, whatever it resembles; each fact has a source."""

from __future__ import annotations

import pytest

from migrator.errors import UnknownScheme
from migrator.releases import table

ROW = '{"release": "x", "minor": "1.35", "algorithm": "legacy", "source": "https://example.test"}'


@pytest.mark.parametrize("name", ["v0.1.0-alpha.12-rc1", "0.1.0-alpha.12-rc1", "alpha.12-rc1"])
def test_a_release_has_several_names(name: str) -> None:
    """The version with or without its front."""
    named = table.named(name)
    assert (str(named), named.builds, named.scheme.name) == (name, ("v0.1.0-alpha.12-rc1",), "legacy-1.35")


def test_a_scheme_stands_for_every_build_that_uses_it() -> None:
    """Without a release none is preferred."""
    named = table.named("legacy-1.33")
    assert (named.release, named.builds) == (None, tuple(f"v0.1.0-alpha.{number}" for number in (1, 2, 3)))


def test_each_fact_links_to_where_it_is_said() -> None:
    """A release to its go.mod at its commit, and a version of Dynamo to a page of its own."""
    for release in table.releases():
        assert release.source.startswith(f"https://github.com/ai-dynamo/grove/blob/{release.commit}"), release.name
    links = [link for release in table.releases() for link in release.dynamo.values()]
    assert links
    assert all(link.startswith("https://github.com/") for link in links)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *((f'"{key}"', '"other"', f"'{key}'") for key in ("source", "minor", "algorithm", "release")),
        ("1.35", "1.99", r"there is no scheme legacy-1\.99"),
        ("}", "", "Expecting"),
    ],
)
def test_a_wrong_line_of_the_release_table_is_named(old: str, new: str, message: str) -> None:
    """Whoever adds a release sees which line does not read, and why."""
    with pytest.raises(ValueError, match=rf"releases\.json line 2: {message}"):
        table.parse(f"{ROW}\n{ROW.replace(old, new)}")


@pytest.mark.parametrize(
    "name",
    [
        *("v0.1.0-alpha.97", "0.1.0-alpha.98", "alpha.99", "v0.1.0-alpha.9-rc1", "v0.1.0-alpha.12-rc2"),
        *("v0.1.0-alfa.9", "legcy-1.35", "legacy-1.39", "canonical", "nope", ""),
    ],
)
def test_an_unknown_name_is_never_corrected_to_another(name: str) -> None:
    """Another release may have other hashes: the answer is where all names are, and how a program is read."""
    with pytest.raises(UnknownScheme) as error:
        table.named(name)
    assert str(error.value) == (
        f"{name!r} is not a known release or scheme. `grove-migrator releases` lists them. "
        "For another operator, `grove-migrator scheme PROGRAM` reads its scheme."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            (name, f"{name} is not a release of Grove.*`helm show chart` .*`grove-migrator releases` .*docs/dynamo.md")
            for name in ("dynamo-1.3", "dynamo-v1.4.2", "dynamo-", "1.3", "v1.3.0", "0.6", "v9.9.9")
        ),
        ("auto", r"auto is only for --from\. Name a release or a scheme\."),
    ],
)
def test_what_is_no_target_is_told_apart(name: str, message: str) -> None:
    """Patch versions of Dynamo may bring other releases of Grove, and auto stands for any source."""
    with pytest.raises(UnknownScheme, match=f"^{message}"):
        table.named(name)
