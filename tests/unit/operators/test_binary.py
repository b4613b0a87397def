"""Files that are not operators, made byte by byte: each is refused by name."""

from __future__ import annotations

import io
import struct

import pytest

from migrator.errors import InputError
from migrator.operators import binary, goinfo
from migrator.operators.elf import Elf

BASE = 0x400000


def elf(
    content: bytes, *, machine: int = 62, kind: bytes = b"\x02\x01", type_: int = 2, segment: int = 1, cut: int = 0
) -> bytes:
    """An ELF file with one writable segment, or something else in its place."""
    offset = 120
    head = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF" + kind, type_, machine, 1, BASE, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    row = struct.pack("<IIQQQQQQ", segment, 6, offset, BASE, BASE, len(content), len(content), 16)
    data = head + row + content
    return data[: len(data) - cut]


def text(value: bytes) -> bytes:
    """A string as the Go linker writes it there."""
    return bytes((len(value) & 0x7F | 0x80, len(value) >> 7)) + value


def info(version: str = "go1.26.8", *settings: str) -> bytes:
    """A program's build information."""
    lines = ["path\tx", "dep\tk8s.io/api\tv0.35.5", "=>\texample.test/api\tv9.9.9", *settings]
    module = bytes(16) + "\n".join(f"{line}\n" for line in lines).encode() + bytes(16)
    return b"\xff Go buildinf:\x08\x02" + bytes(16) + text(version.encode()) + text(module) + bytes(64)


def read(data: bytes) -> goinfo.BuildInfo:
    """The build information of a file."""
    return goinfo.build_info(Elf(io.BytesIO(data)))


def test_build_information_is_read() -> None:
    """Go, modules with their replacements, settings and the commit of the linker's flags."""
    flags = 'build\t-ldflags="-X example.test/internal/version.gitCommit=8fa3ece93434"'
    found = read(elf(info("go1.26.8", flags, "build\tvcs.revision=abc")))
    assert (found.go, found.go_minor) == ("go1.26.8", 26)
    assert found.modules == {"k8s.io/api": "v0.35.5 => example.test/api v9.9.9"}
    assert found.commit == "8fa3ece93434"
    assert read(elf(info("go1.27rc1 X:boringcrypto", "build\tvcs.revision=abc"))).commit == "abc"


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"\x7fELF", "cut off"),
        (b"MZ" + bytes(200), "not a Linux program"),
        (elf(b"", kind=b"\x01\x01"), "only amd64 and arm64"),
        (elf(b"", machine=243), "machine 243"),
        (elf(bytes(100), cut=30), "cut off: 30 bytes are missing"),
        (elf(bytes(100)), "no Go build information"),
        (elf(bytes(8) + b"UPX!" + bytes(100)), "packed with UPX: unpack it with .upx -d."),
        (elf(bytes(100), segment=0), "no Go build information"),
        (elf(bytes(100), type_=3), "position-independent .PIE."),
        (elf(info("unknown")), "as garble does"),
        (elf(info("go1.23.4")), "built with 'go1.23.4'; only the formats of Go 1.24 to 1.27"),
        (elf(info("go1.28.0")), "built with 'go1.28.0'"),
        (elf(info("devel go1.27-4a3f9b")), "built with 'devel"),
        (elf(info("go1.26.8-X:jsonv2")), "GOEXPERIMENT=jsonv2"),  # as Go 1.26 writes it
        (elf(info("go1.25.5 X:jsonv2,greenteagc")), "GOEXPERIMENT=jsonv2, which"),
        (elf(info("go1.26.8", "build\tGOEXPERIMENT=greenteagc,jsonv2")), "GOEXPERIMENT=jsonv2"),
        (elf(info()[:60]), "outside the program"),
        (elf(info()), "no table of functions and types"),
    ],
)
def test_another_file_is_refused_by_name(data: bytes, refusal: str) -> None:
    """What was found is in the sentence, and what to do where something can be done."""
    with pytest.raises(InputError, match=refusal):
        binary.read(io.BytesIO(data))
