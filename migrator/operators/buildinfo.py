"""The build information that the Go linker leaves in a program: labels for people, and the Go that laid it out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError
from migrator.operators.elf import Elf

_MAGIC: Final = b"\xff Go buildinf:"
_HEADER_SIZE: Final = 32
_INLINE: Final = 2
_MARK: Final = 16  # runtime/debug.modinfo stands between two marks of that many bytes
#: The Go minors whose formats were read and compared with reflection.
GO_MINORS: Final = range(24, 28)
_VERSION: Final = re.compile(r"go1\.(\d+)(?:\.\d+|rc\d+|beta\d+)?(?:[-+ ].*)?", re.DOTALL)
#: The version in a program that garble has obfuscated.
_GARBLED: Final = "unknown"
_EXPERIMENTS: Final = re.compile(r"X:([\w,]+)")
#: Experiments that change neither formats nor how JSON is decoded (internal/goexperiment).
_HARMLESS: Final = frozenset({"boringcrypto", "strictfipsruntime", "systemcrypto", "opensslcrypto", "greenteagc"})
_COMMIT: Final = re.compile(r"[./]version\.gitCommit=([0-9a-f]{7,40})")
_LONGEST: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The facts that ``go version -m`` prints: modules (path to version, replacements marked) and settings."""

    go: str
    go_minor: int
    modules: Mapping[str, str]
    settings: Mapping[str, str]

    @property
    def commit(self) -> str:
        """The commit, from the linker flags of Grove's Makefile or from the version control system; may be empty."""
        found = _COMMIT.search(self.settings.get("-ldflags", ""))
        return found[1] if found else self.settings.get("vcs.revision", "")


def read(elf: Elf) -> BuildInfo:
    """Read it; raises :class:`~migrator.errors.InputError` if it is absent or of an unknown Go version."""
    for address in elf.search(_MAGIC, step=16):
        if elf.read(address + len(_MAGIC) + 1, 1)[0] & _INLINE:
            version, after = elf.string(address + _HEADER_SIZE, _LONGEST)
            modinfo, _ = elf.string(after, _LONGEST)
            return _parse(version.decode("utf-8", "replace"), modinfo[_MARK:-_MARK].decode("utf-8", "replace"))
    if any(True for _ in elf.search(b"UPX!")):
        raise InputError("it is packed with UPX: unpack it with `upx -d` and give the result")
    raise InputError("it has no Go build information: it is not a Go program, or a packer changed it")


def _parse(version: str, modinfo: str) -> BuildInfo:
    if version == _GARBLED:
        raise InputError(
            "its Go version is removed, as garble does, and so are the names of its functions: give a build without "
            "garble, or name the scheme"
        )
    named = _VERSION.fullmatch(version)
    if named is None or int(named[1]) not in GO_MINORS:
        known = f"Go 1.{GO_MINORS[0]} to 1.{GO_MINORS[-1]}"
        raise InputError(
            f"it was built with {version[:40]!r}; only the formats of {known} are known: name the scheme instead"
        )
    modules, settings, last = {}, {}, ""
    for line in modinfo.splitlines():
        kind, _, rest = line.partition("\t")
        parts = rest.split("\t")
        if kind in {"mod", "dep"}:
            last = parts[0]
            modules[last] = parts[1] if len(parts) > 1 else ""
        elif kind == "=>":
            modules[last] = f"{modules.get(last, '')} => {' '.join(parts[:2])}"
        elif kind == "build":
            key, _, value = rest.partition("=")
            settings[key] = value
    experiments = {*",".join(_EXPERIMENTS.findall(version)).split(","), *settings.get("GOEXPERIMENT", "").split(",")}
    unknown = sorted(experiments - _HARMLESS - {""})
    if unknown:
        raise InputError(
            f"it was built with GOEXPERIMENT={','.join(unknown)}, which can change the formats that are read here; "
            "give a build without it, or name the scheme"
        )
    return BuildInfo(version, int(named[1]), modules, settings)
