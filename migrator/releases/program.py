"""The scheme of an operator, from the bytes of its program file.

Go's linker writes the version of each module, and the checksum of its source, into every program, stripped or not
(``go version -m`` prints them). ``libraries.sum`` has the checksums of the sources that were compared with our layouts.
The names of functions are kept too, and those around the hash name the algorithm. What a function does is not read: an
operator is recognised, and ``verify --after-upgrade`` shows what it really did.
"""

from __future__ import annotations

import pkgutil
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from migrator.errors import InputError, Refused
from migrator.hashing import layouts, schemes

API, MACHINERY, SPEW, UTILS = "k8s.io/api", "k8s.io/apimachinery", "github.com/davecgh/go-spew", "k8s.io/utils"
#: Since this minor ``dump.ForHash`` of k8s.io/apimachinery only calls that of k8s.io/utils.
_PRINTS_BY_UTILS: Final = 36

#: A program that nobody strips or packs has about 100 MiB.
LARGEST: Final = 256 << 20
#: ELF of 64 bits, little-endian.
_ELF: Final = b"\x7fELF\x02\x01"
_ELF_HEADER: Final = struct.Struct("<32xQ14xHH")  # where the table of segments is, the size of a row, their number
_SEGMENT: Final = struct.Struct("<I4xQ16xQ16x")  # kind, place and size in the file
_LOADED: Final = 1

#: debug/buildinfo: a head with the size of a pointer and a flag, 32 bytes in all; then the version of Go and the
#: modules, each after its length. The modules stand between two marks (cmd/go/internal/modload/build.go).
_MAGIC, _INLINE, _HEAD = b"\xff Go buildinf:", b"\x08\x02", 32
_BEGIN: Final = bytes.fromhex("3077af0c9274080241e1c107e6d618e6")
_END: Final = bytes.fromhex("f932433186182072008242104116d8f2")
_RELEASED: Final = re.compile(r"v0\.(\d+)\.\d+")

#: The package of the hash functions, in the name of each: operator/internal/utils/kubernetes/pod.go.
_FUNCTION: Final = re.compile(rb"/internal/utils/kubernetes\.([^\0]+)\0")
#: The module's path, which stands before that. The functions that the compiler makes for types begin with ``type:``.
_MODULE: Final = re.compile(rb"[\w./-]+")
_AROUND_THE_HASH: Final = re.compile(r"\w*(?:hash|canonical)\w*", re.IGNORECASE)
#: In every release; and below, in the builds from 94a0105c to the revert.
_LEGACY_NAMES: Final = frozenset({"ComputeHash"})
_CANONICAL_NAMES: Final = frozenset(
    {"ComputeHash", "ComputeHashLegacy", "ComputeHashWithOrderKeys", "computeHash"}
    | {
        f"canonicalize{what}ForHashing"
        for what in (
            *("PodTemplateSpec", "PodSpec", "Container", "EphemeralContainer"),
            *("Ports", "VolumeMounts", "VolumeDevices", "ResourceClaims"),
        )
    }
)
_REVISIONS: Final = b"/internal/controller/common/revision."
_NAMES_WITH_HASH: Final = (b"/api/common.GeneratePodGangName\0", b"/api/common.GenerateScaledPodGangName\0")

#: How to get a program, which is at this path in Grove's ``operator/Dockerfile``.
TAKE_IT: Final = (
    'take the program out of the operator\'s image: `crane export "$IMAGE" - | tar -xO grove-operator > grove-operator`'
)
_AGAIN: Final = "get the file again"
_NAME_IT: Final = "if you know which k8s.io/api its types are of, name the scheme, such as --to legacy-1.35"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's scheme, and what its program says of itself.

    With a ``doubt`` the scheme is only likely: a person decides, and names it.
    """

    scheme: schemes.Scheme
    doubt: str
    libraries: Mapping[str, str]
    go: str


@dataclass(frozen=True, slots=True)
class _Module:
    """A linked module; the checksum is empty in a vendored build. ``instead`` is what replaced it."""

    version: str
    checksum: str = ""
    instead: str = ""


@cache
def libraries() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """The compared versions of each library, with checksum and layout (``any`` for one that only prints)."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for line in (pkgutil.get_data(__package__, "libraries.sum") or b"").decode().splitlines():
        module, version, checksum, layout = line.split()
        found.setdefault(module, {})[version] = (checksum, layout)
    return found


def read(program: bytes) -> Operator:
    """Read an operator's program.

    Raises :class:`~migrator.errors.InputError` for another file and for an operator that is not recognised, and
    :class:`~migrator.errors.Refused` for one that is known and cannot be migrated.
    """
    _demand_whole(program)
    go, modules = _build_information(program)
    algorithm, minor = _algorithm(program), _layout(modules)
    return Operator(
        scheme=schemes.Scheme(algorithm, minor),
        doubt="; ".join(_doubts(minor, modules)),
        libraries={name: modules[name].version for name in _needed(minor)},
        go=go,
    )


def _demand_whole(program: bytes) -> None:
    """Demand a Linux program that is not cut off: without its last functions a canonical one looks legacy."""
    if not program.startswith(_ELF):
        raise InputError(f"it is not a Linux program for amd64 or arm64; {TAKE_IT}")
    if len(program) > LARGEST:
        raise InputError(f"it has more than {LARGEST >> 20} MiB, and an operator has less; {TAKE_IT}")
    try:
        start, size, count = _ELF_HEADER.unpack_from(program)
        rows = [_SEGMENT.unpack_from(program, start + size * index) for index in range(count)]
    except (struct.error, OverflowError):
        raise InputError(f"it is cut off; {_AGAIN}") from None
    end = max((place + length for kind, place, length in rows if kind == _LOADED), default=0)
    if end > len(program):
        raise InputError(f"it is cut off: {end - len(program)} bytes are missing; {_AGAIN}")


def _build_information(program: bytes) -> tuple[str, Mapping[str, _Module]]:
    """The version of Go, and the linked modules."""
    head = _MAGIC + _INLINE
    try:
        if program.count(head) != 1:
            raise ValueError  # noqa: TRY301 - the one sentence below
        go, after = _string(program, program.find(head) + _HEAD)
        text, _ = _string(program, after)
        if not (text.startswith(_BEGIN) and text.endswith(_END)):
            raise ValueError  # noqa: TRY301
        return go.decode(), _modules(text[len(_BEGIN) : -len(_END)].decode())
    except (ValueError, LookupError):
        raise InputError(
            "its Go build information cannot be read: it is not a Go program, is packed (unpack it with `upx -d`) or "
            f"obfuscated, was made by Go before 1.18, or is damaged; {_AGAIN}"
        ) from None


def _string(program: bytes, at: int) -> tuple[bytes, int]:
    """The string at a place, after its length as a varint of 64 bits at most, and the place behind it."""
    size = 0
    for shift in range(0, 64, 7):
        byte, at = program[at], at + 1
        size |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return program[at : at + size], at + size
    raise ValueError


def _modules(text: str) -> Mapping[str, _Module]:
    """The modules by path. Raises ``ValueError`` for a line that Go does not write."""
    modules, last = dict[str, _Module](), ""
    for line in text.removesuffix("\n").split("\n"):
        kind, *rest = line.split("\t")
        if kind == "=>":
            modules[last] = replace(modules[last], instead=" ".join(rest[:2]))
        elif kind in {"mod", "dep"} and len(rest) in {2, 3}:
            last = rest[0]
            modules[last] = _Module(*rest[1:])
        elif kind not in {"path", "build", ""}:  # an empty line stands behind a replacement
            raise ValueError(line)
    return modules


def _algorithm(program: bytes) -> str:
    if _REVISIONS in program:
        raise Refused(
            "this operator keeps pod templates in ControllerRevisions (Grove pull request 710) and adopts the hashes "
            "that it finds: a migration is neither needed nor possible"
        )
    if any(name in program for name in _NAMES_WITH_HASH):
        raise Refused("this operator puts the hash into object names, so it cannot be migrated; choose another release")
    names = _names_around_the_hash(program)
    if names not in (_LEGACY_NAMES, _CANONICAL_NAMES):
        raise InputError(
            f"its functions around the hash are not those of a known operator ({', '.join(sorted(names)) or 'none'}): "
            "it is no Grove operator, is obfuscated, or hashes in a way that is not known here. Give the program "
            "grove-operator; a newer grove-migrator may know it"
        )
    return schemes.LEGACY if names == _LEGACY_NAMES else schemes.CANONICAL


def _names_around_the_hash(program: bytes) -> set[str]:
    """Functions with "hash" or "canonical" in their names."""
    names = set[str]()
    for match in _FUNCTION.finditer(program):
        if _MODULE.fullmatch(program, program.rfind(b"\0", 0, match.start()) + 1, match.start()):
            # The name of a closure contains those of the functions around it.
            names.update(filter(_AROUND_THE_HASH.fullmatch, match[1].decode("utf-8", "replace").split(".")))
    return names


def _needed(minor: str) -> tuple[str, ...]:
    """The libraries on which a hash depends."""
    prints_by_utils = int(minor.partition(".")[2]) >= _PRINTS_BY_UTILS
    return (API, MACHINERY, SPEW, *((UTILS,) if prints_by_utils else ()))


def _layout(modules: Mapping[str, _Module]) -> str:
    """The minor whose layout a program has."""
    minor, other = (_minor_of(name, modules) for name in (API, MACHINERY))
    if minor != other:
        versions = f"{modules[API].version} and {MACHINERY} {modules[MACHINERY].version}"
        raise InputError(f"it has {API} {versions}, which were not compared together; {_NAME_IT}")
    return minor


def _minor_of(name: str, modules: Mapping[str, _Module]) -> str:
    """The layout of a version, by the table or by its own number."""
    version = _linked(name, modules).version
    known, released = libraries()[name].get(version), _RELEASED.fullmatch(version)
    minor = known[1] if known else f"1.{released[1]}" if released else ""
    if minor not in layouts.minors():
        first, *_, last = libraries()[name]
        number, newest = _RELEASED.match(version), layouts.minors()[-1]  # a pre-release of it, too
        is_later = number is not None and int(number[1]) > int(newest.partition(".")[2])
        raise InputError(
            f"it has {name} {version}, and only {first} to {last} were compared with the layouts that are known here: "
            + (
                f"it needs a newer grove-migrator, as the newest layout here is that of {newest}"
                if is_later
                else f"a newer grove-migrator may know it; {_NAME_IT}"
            )
        )
    return minor


def _linked(name: str, modules: Mapping[str, _Module]) -> _Module:
    module = modules.get(name)
    if module is None:
        raise InputError(f"it does not contain {name}, so it is not a Grove operator; give the program grove-operator")
    if module.instead:
        raise InputError(f"its {name} is replaced by {module.instead}, which was not compared; {_NAME_IT}")
    return module


def _doubts(minor: str, modules: Mapping[str, _Module]) -> Iterator[str]:
    """What makes a layout only likely. Raises ``InputError`` where the program contradicts the table."""
    vendored = not any(module.checksum for module in modules.values())
    if vendored:
        yield "it was built from vendored sources, which have no checksums"
    for name in _needed(minor):
        module, known = _linked(name, modules), libraries()[name]
        published, _ = known.get(module.version, ("", ""))
        is_of_another = not published and module.checksum in {checksum for checksum, _ in known.values()}
        if not published and not is_of_another:
            yield f"{name} {module.version} was not compared with the layout of {minor}"
        elif module.checksum != published and not vendored:
            why = "which is that of another version" if is_of_another else f"and the published one has {published}"
            raise InputError(
                f"its {name} {module.version} has the checksum {module.checksum or '(none)'}, {why}: the file is "
                f"damaged, or the library was changed. Get the file again; {_NAME_IT}"
            )
