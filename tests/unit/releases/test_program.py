"""The scheme of a program: what is read of one, what is only likely, and what is refused."""

from __future__ import annotations

import re

import pytest

from migrator.errors import InputError, MigratorError, Refused
from migrator.hashing.schemes import Scheme
from migrator.releases import program, table
from migrator.releases.program import API, MACHINERY, SPEW, UTILS
from tests.support import programs
from tests.support.pages import text_of
from tests.support.programs import CANONICAL, GROVE, LEGACY, UTILS_PACKAGE, elf, information, known, lines, made

MINORS = tuple(dict.fromkeys(layout for _, layout in program.libraries()[API].values()))
VERSION, CHECKSUM = known(API, "1.35").split("\t")
NEWER = "v0.35.99\th1:new="
UNKNOWN = lines("1.35", {API: NEWER, MACHINERY: NEWER})
NEW_UTILS = {UTILS: "v0.0.0-20270101\th1:new="}
VENDORED = re.sub(r"h1:\S+", "", lines())
REPLACED = lines("1.35", {API: f"{VERSION}\n=>\texample.test/api\tv9\th1:x="})


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize(("names", "algorithm"), [(LEGACY, "legacy"), (CANONICAL, "canonical")])
def test_the_scheme_is_read(names: tuple[str, ...], algorithm: str, minor: str) -> None:
    """The checksums name the layout and the functions the algorithm, without a doubt."""
    found = program.read(made(lines(minor), names))
    assert found.scheme == Scheme(algorithm, minor)
    assert found.doubt == ""


def test_a_function_that_the_compiler_makes_for_a_type_does_not_count() -> None:
    """A canonical operator compares a struct whose name has "Hash" in it."""
    names = (*CANONICAL, f"type:.eq.{UTILS_PACKAGE}.podTemplateSpecHashInput")
    assert program.read(made(names=names)).scheme == Scheme("canonical", "1.35")


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (VENDORED, "it was built from vendored sources, which have no checksums"),
        (UNKNOWN, f"{API} v0.35.99 was not compared with the layout of 1.35; {MACHINERY} v0.35.99 was not"),
        (lines("1.35", {SPEW: "v1.2.0\th1:new="}), f"{SPEW} v1.2.0 was not compared with the layout of 1.35"),
        (lines("1.37", NEW_UTILS), f"{UTILS} v0.0.0-20270101 was not compared with the layout of 1.37"),
    ],
    ids=["vendored", "unknown patch version", "unknown printing", "unknown k8s.io/utils that prints"],
)
def test_what_was_not_compared_is_only_likely(text: str, doubt: str) -> None:
    """The scheme is named, with what is not known of it."""
    assert doubt in program.read(made(text)).doubt


def test_utilities_that_do_not_print_do_not_matter() -> None:
    """Before 0.36 nothing that is hashed is printed by k8s.io/utils."""
    assert not program.read(made(lines("1.35", NEW_UTILS))).doubt


NO_LINUX = "it is not a Linux program for amd64 or arm64; take the program out of the operator's image: `crane export"
NO_INFORMATION = "its Go build information cannot be read: it is not a Go program, is packed (unpack it with `upx -d`)"
NO_OPERATOR = "it is no Grove operator, is obfuscated, or hashes in a way that is not known here. Give the program"


def over(api: str) -> bytes:
    return made(lines("1.35", {API: api}))


#: Each case: a file, and a part of the sentence, which ends with what to do.
REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", NO_LINUX),
    "macOS": (b"\xcf\xfa\xed\xfe" + bytes(500), NO_LINUX),
    "32 bits": (elf(b"", kind=b"\x01\x01"), NO_LINUX),
    "big-endian": (elf(b"", kind=b"\x02\x02"), NO_LINUX),
    "too large": (elf(bytes(program.LARGEST)), "more than 256 MiB, and an operator has less; take"),
    "only the beginning": (b"\x7fELF\x02\x01", "it is cut off; get the file again"),
    "cut off": (elf(bytes(100), missing=30), "it is cut off: 30 bytes are missing; get the file again"),
    "not Go": (elf(bytes(100)), NO_INFORMATION),
    "old Go": (elf(information(lines(), head=b"\x08\0")), NO_INFORMATION),
    "two programs": (elf(information(lines()) * 2), NO_INFORMATION),
    "garble": (elf(information(lines()).replace(programs.BEGIN, bytes(16))), NO_INFORMATION),
    "no end mark": (elf(information(lines()).replace(programs.END, bytes(16))), NO_INFORMATION),
    "no end of a number": (elf(b"\xff Go buildinf:\x08\x02" + bytes(16) + b"\xff" * 9), NO_INFORMATION),
    "a number of more than 64 bits": (
        elf(information(lines()).replace(b"\x08go1", b"\x88" + b"\x80" * 9 + b"\0go1")),
        NO_INFORMATION,
    ),
    "unknown line": (made(lines(rest="built\t-compiler=gc")), NO_INFORMATION),
    "unknown field": (over(f"{VERSION}\t{CHECKSUM}\tmore"), NO_INFORMATION),
    "replacement of nothing": (made("=>\tx\tv1\th1:x=\n"), NO_INFORMATION),
    "not Grove": (made(names=("k8s.io/kubernetes/pkg/util/hash.DeepHashObject",)), NO_OPERATOR),
    "no Kubernetes": (over(""), f"does not contain {API}, so it is not a Grove operator; give"),
    "new function": (
        made(names=(*LEGACY, f"{UTILS_PACKAGE}.TemplateHashV2")),
        f"not those of a known operator (ComputeHash, TemplateHashV2): {NO_OPERATOR}",
    ),
    "one function less": (made(names=CANONICAL[:-1]), "not those of a known operator (ComputeHash, ComputeHashLegacy"),
    "another checksum": (
        over(f"{VERSION}\th1:other="),
        f"its {API} {VERSION} has the checksum h1:other=, and the published one has {CHECKSUM}: the file is damaged",
    ),
    "another checksum of what prints": (
        made(lines("1.35", {SPEW: f"{known(SPEW, '1.35').partition(chr(9))[0]}\th1:other="})),
        "the library was changed. Get the file again; if you know which k8s.io/api its types are of, name the scheme",
    ),
    "another version": (
        over(f"v0.35.99\t{CHECKSUM}"),
        f"its {API} v0.35.99 has the checksum {CHECKSUM}, which is that of another version: the file",
    ),
    "one checksum less": (over(VERSION), f"{VERSION} has the checksum (none), and the published"),
    "replaced": (
        made(REPLACED),
        f"its {API} is replaced by example.test/api v9, which was not compared; if you know which k8s.io/api",
    ),
    "printing is replaced": (
        made(lines("1.35", {SPEW: "v1.1.1\n=>\t./spew\t(devel)\t"})),
        f"its {SPEW} is replaced by ./spew (devel), which was not compared; if you know",
    ),
    "pre-release": (
        made(lines("1.37", dict.fromkeys((API, MACHINERY), "v0.37.0-beta.0\th1:new="))),
        f"it has {API} v0.37.0-beta.0, and only v0.33.0 to v0.37.",
    ),
    "pre-release of an unknown minor": (
        made(lines("1.37", dict.fromkeys((API, MACHINERY), "v0.39.0-beta.0\th1:new="))),
        "here: it needs a newer grove-migrator, as the newest layout here is that of 1.37",
    ),
    "unknown minor": (
        made(lines("1.37", dict.fromkeys((API, MACHINERY), "v0.39.0\th1:new="))),
        "known here: it needs a newer grove-migrator, as the newest layout here is that of 1.37",
    ),
    "older minor": (
        made(lines("1.33", dict.fromkeys((API, MACHINERY), "v0.32.0\th1:old="))),
        "known here: a newer grove-migrator may know it; if you know which k8s.io/api",
    ),
    "workspace": (over("(devel)\t"), f"it has {API} (devel), and only v0.33.0 to"),
    "mixed minors": (
        made(lines("1.35", {API: NEWER, MACHINERY: "v0.34.99\th1:new="})),
        f"it has {API} v0.35.99 and {MACHINERY} v0.34.99, which were not compared together; if you know which",
    ),
}


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED)
def test_another_file_is_refused(data: bytes, sentence: str) -> None:
    """What was found is in the sentence, and what to do: exit code 2."""
    with pytest.raises(InputError, match=re.escape(sentence)) as error:
        program.read(data)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (f"{GROVE}/internal/controller/common/revision.Name", "keeps pod templates in ControllerRevisions"),
        (
            f"{GROVE}/api/common.GeneratePodGangName",
            "puts the hash into object names, so it cannot be migrated; choose",
        ),
        (f"{GROVE}/api/common.GenerateScaledPodGangName", "puts the hash into object names"),
    ],
)
def test_an_operator_that_cannot_be_migrated_is_refused(name: str, sentence: str) -> None:
    """It is recognised, and refused: exit code 3."""
    with pytest.raises(Refused, match=sentence) as error:
        program.read(made(names=(*LEGACY, name)))
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (lines(), LEGACY),
        (lines("1.37"), CANONICAL),
        (VENDORED, LEGACY),
        (UNKNOWN, LEGACY),
        (REPLACED, LEGACY),
        (re.sub(r"h1:\S+", "", REPLACED), LEGACY),
    ],
    ids=["legacy", "canonical", "vendored", "unknown patch version", "replaced", "replaced and vendored"],
)
def test_one_flipped_bit_never_gives_another_scheme(text: str, names: tuple[str, ...]) -> None:
    """In whichever byte of a program one is flipped: it is refused, or has the scheme that it had."""
    data = bytearray(made(text, names))
    before = outcome(bytes(data))
    for place in range(len(data)):
        bit = 1 << place % 8
        data[place] ^= bit
        assert outcome(bytes(data)) in {before, None}, (place, bit)
        data[place] ^= bit


@pytest.mark.parametrize("names", [LEGACY, CANONICAL], ids=["legacy", "canonical"])
def test_a_program_that_is_cut_off_anywhere_is_refused(names: tuple[str, ...]) -> None:
    """A canonical operator without the rest of its functions would look like a legacy one."""
    data = made(names=names)
    assert {outcome(data[:length]) for length in range(len(data))} == {None}


def outcome(data: bytes) -> Scheme | None:
    try:
        return program.read(data).scheme
    except MigratorError:
        return None


def test_the_libraries_of_each_release_are_known() -> None:
    """Every version of k8s.io/api that grove-releases.md names for a release has rows, of both libraries."""
    versions = set(re.findall(r"(?m)^\|.*\| (0\.\d+\.\d+) \|", text_of("development/grove-releases")))
    assert len(versions) >= len({release.scheme.minor for release in table.releases()})
    for version in versions:
        for module in (API, MACHINERY):
            assert program.libraries()[module][f"v{version}"][1] == f"1.{version.split('.')[1]}"
