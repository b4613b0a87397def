"""Programs of operators, made byte by byte: what Go's linker records in one, and nothing that runs."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from migrator.releases.program import API, MACHINERY, SPEW, UTILS, libraries

GROVE = "github.com/ai-dynamo/grove/operator"
UTILS_PACKAGE = f"{GROVE}/internal/utils/kubernetes"
LEGACY = (f"{UTILS_PACKAGE}.ComputeHash", f"{UTILS_PACKAGE}.ComputeHash.func1", f"{UTILS_PACKAGE}.IsPodActive")
CANONICAL = (
    *LEGACY,
    *(f"{UTILS_PACKAGE}.ComputeHash{rest}" for rest in ("Legacy", "WithOrderKeys", "WithOrderKeys.func1.computeHash")),
    *(
        f"{UTILS_PACKAGE}.canonicalize{what}ForHashing"
        for what in (
            *("PodTemplateSpec", "PodSpec", "Container", "EphemeralContainer"),
            *("Ports", "VolumeMounts", "VolumeDevices", "ResourceClaims"),
        )
    ),
)
BEGIN = bytes.fromhex("3077af0c9274080241e1c107e6d618e6")
END = bytes.fromhex("f932433186182072008242104116d8f2")


def known(module: str, minor: str) -> str:
    """The newest version of a library in our table that has that layout, and its checksum."""
    layouts = {minor, "any"}
    return [f"{version}\t{known[0]}" for version, known in libraries()[module].items() if known[1] in layouts][-1]


def lines(minor: str = "1.35", changed: Mapping[str, str] | None = None, rest: str = "build\t-compiler=gc") -> str:
    """What ``go version -m`` prints of an operator over that minor; ``changed`` has versions and checksums, or more."""
    found = [f"path\t{GROVE}/cmd", f"mod\t{GROVE}\t(devel)\t"]
    versions = {module: known(module, minor) for module in (SPEW, API, MACHINERY, UTILS)}
    found += [f"dep\t{module}\t{version}" for module, version in (versions | dict(changed or {})).items() if version]
    found += [f"dep\t{GROVE}/api\tv0.0.0", "=>\t./api\t(devel)\t", "", rest]
    return "".join(f"{line}\n" for line in found)


def elf(content: bytes, *, kind: bytes = b"\x02\x01", missing: int = 0) -> bytes:
    """A Linux program with one loaded segment, of which bytes may be missing."""
    head = struct.pack("<4s2s10xHHIQQQIHHHHHH", b"\x7fELF", kind, 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    row = struct.pack("<IIQQQQQQ", 1, 6, 0, 0, 0, len(content) + 128, len(content) + 128, 16)
    return (head + row + bytes(8) + content)[: 128 + len(content) - missing]


def information(text: str, *, head: bytes = b"\x08\x02") -> bytes:
    """The build information of a program, as a multiple of 16 bytes."""
    whole = b"\xff Go buildinf:" + head + bytes(16) + _string(b"go1.26.8") + _string(BEGIN + text.encode() + END)
    return whole + bytes(-len(whole) % 16)


def made(text: str | None = None, names: tuple[str, ...] = LEGACY) -> bytes:
    """A whole program, with these modules and these functions."""
    table = b"\0" + b"".join(name.encode() + b"\0" for name in ("main.main", *names))
    return elf(information(lines() if text is None else text) + table)


def _string(value: bytes) -> bytes:
    size = bytearray()
    rest = len(value)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*size, rest)) + value
