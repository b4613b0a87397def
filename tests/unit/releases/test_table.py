"""A name that is not in the table is unknown, whatever it resembles; each fact has a source."""

from __future__ import annotations

import re

import pytest

from migrator.errors import UnknownScheme
from migrator.hashing import schemes
from migrator.releases import table
from tests.support import tables


@pytest.mark.parametrize("name", ["v0.1.0-alpha.12-rc1", "0.1.0-alpha.12-rc1", "alpha.12-rc1"])
def test_a_release_has_several_names(name: str) -> None:
    """The version with or without its front."""
    named = table.named(name)
    assert str(named) == name
    assert named.builds == ("v0.1.0-alpha.12-rc1",)
    assert named.scheme.name == "legacy-1.35"


def test_a_scheme_stands_for_every_build_that_uses_it() -> None:
    """Without a release none is preferred."""
    named = table.named("legacy-1.33")
    assert named.release is None
    assert named.builds == tuple(f"v0.1.0-alpha.{number}" for number in (1, 2, 3))


def test_each_fact_links_to_where_it_is_said() -> None:
    """A release, which has one line, to its go.mod at its commit; and a version of Dynamo to a page of its own."""
    assert len({release.name for release in table.releases()}) == len(table.releases())
    for release in table.releases():
        assert release.scheme in schemes.all_schemes(), release.name
        assert release.source.startswith(f"https://github.com/ai-dynamo/grove/blob/{release.commit}"), release.name
        assert re.fullmatch(rf"v0\.1\.0-alpha\.\d+(-rc\d+)?|main-{release.commit}", release.name), release.name
    links = [link for release in table.releases() for link in release.dynamo.values()]
    assert links
    assert all(link.startswith("https://github.com/") for link in links)


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


RELEASE = "A tag that is a release or build of the target's scheme."
NO_GUESS = "No guess for anything else."


@tables.table(
    "image target named expected",
    *(
        (RELEASE, (image, "legacy-1.35", None, True))
        for image in (
            "ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.11",
            "grove-operator:0.1.0-alpha.11",
            "registry.local:5000/grove/grove-operator:v0.1.0-alpha.10@sha256:00",
            "grove-operator:main-fcc3b3bb",
        )
    ),
    *(
        (NO_GUESS, (image, "legacy-1.35", None, False))
        for image in (
            *("grove-operator:v0.1.0-alpha.9", "grove-operator:v0.1.0-alpha.99", "grove-operator:legacy-1.35"),
            *("grove-operator:latest", "grove-operator@sha256:00", "registry.local:5000/grove-operator", ""),
        )
    ),
    ("alpha.9 is one of its scheme.", ("o:v0.1.0-alpha.9", "legacy-1.34", None, True)),
    (
        "alpha.10-rc1 hashes like it, has hashes in names, and is not in the table.",
        ("o:v0.1.0-alpha.10-rc1", "legacy-1.34", None, False),
    ),
    ("--target-image names one image.", ("mine/op@sha256:00", "canonical-1.35", "mine/op@sha256:00", True)),
    ("Nothing near it.", ("mine/op@sha256:01", "canonical-1.35", "mine/op@sha256:00", False)),
)
def test_the_target_is_told_by_its_image(image: str, target: str, named: str | None, *, expected: bool) -> None:
    """By its release, or literally as the user names it."""
    assert table.is_target(image, schemes.by_name(target), named) is expected


@tables.table(
    "names said",
    ("No release of the table has it.", ((), "no known release")),
    ("One is no range.", (("v0.1.0-alpha.1",), "v0.1.0-alpha.1")),
    ("Several.", (("v0.1.0-alpha.1", "v0.1.0-alpha.2", "v0.1.0-alpha.3"), "v0.1.0-alpha.1 to v0.1.0-alpha.3")),
)
def test_builds_are_told_in_a_few_words(names: tuple[str, ...], said: str) -> None:
    """The first and the last of them."""
    assert table.build_range(names) == said
