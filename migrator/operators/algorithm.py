"""The hash algorithm of an operator, recognised by its functions.

Recognised, not proven. Three things are checked: the names with "hash" in them in Grove's ``internal/utils/kubernetes``
are exactly a known set; every direct call between the functions that make a hash and go-spew is a known one; no other
function of the operator calls them. The code within a known function is not checked.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from migrator.errors import InputError, Refused
from migrator.hashing.schemes import CANONICAL, LEGACY
from migrator.operators.elf import Elf, occurrences, varint
from migrator.operators.goinfo import ModuleData
from migrator.operators.gotypes import GoTypes
from migrator.operators.schemefile import Recognised

_ENTRY: Final = struct.Struct("<II")
_FUNCTION: Final = struct.Struct("<IiiIIIIIIiBBBB")
_INLINED: Final = struct.Struct("<B3xiii")
#: abi.PCDATA_InlTreeIndex and abi.FUNCDATA_InlTree; "no such table" in a function's list of data.
_INLINE_INDEX, _INLINE_TREE = 2, 3
_ABSENT: Final = 0xFFFFFFFF
#: The suffixes that the compiler appends to the names of closures and wrappers.
_SUFFIX: Final = re.compile(r"(?:[.-](?:func|gowrap|deferwrap|range)?\d+|-fm|\[\.\.\.\]|\.abi\w+)+$")
#: amd64's CALL and JMP with a distance of 32 bits; arm64's BL and B.
_CALL: Final = re.compile(rb"[\xe8\xe9](?=(.{4}))", re.DOTALL)
_CALL_SIZE: Final = 5
_BRANCHES: Final = frozenset({0x25, 0x05})
_LONGEST_PCDATA: Final = 1 << 16
_DAMAGED: Final = "the Go function table is damaged; get the file again"


@dataclass(frozen=True, slots=True)
class Function:
    """One compiled function: its name, the addresses of its code, and the offset of its row in the table."""

    name: str
    entry: int
    end: int
    row: int


class Functions:
    """The functions of a program (``runtime/symtab.go``): their names, which survive ``-s -w``, and their calls.

    A call belongs to the function whose source contains it, inlined or not; an inlined function counts as called. Only
    direct calls are seen, not those through a function value or an interface.
    """

    def __init__(self, elf: Elf, module: ModuleData) -> None:
        self._elf = elf
        self._module = module
        self._names = elf.read(module.names, module.names_size)
        self._table = elf.read(module.functions, module.functions_size)
        pairs = array("I", self._table[: (module.count + 1) * _ENTRY.size - 4])
        self._entries, self._rows = pairs[0::2], pairs[1::2]
        if list(self._entries) != sorted(self._entries) or max(self._rows) >= len(self._table):
            raise InputError(_DAMAGED)

    def names(self, part: str) -> Iterator[str]:
        """Every name that contains the part, of inlined functions too."""
        last = -1
        for at in occurrences(part.encode(), self._names):
            if at > last:
                start, last = self._names.rfind(b"\0", 0, at) + 1, self._names.find(b"\0", at)
                yield self._names[start:last].decode("utf-8", "replace")

    def starting_with(self, prefixes: tuple[str, ...]) -> Iterator[Function]:
        """Every compiled function whose name starts with one of the prefixes."""
        offsets = {at + 1 for one in prefixes for at in occurrences(b"\0" + one.encode(), self._names)}
        for index, row in enumerate(self._rows):
            if int.from_bytes(self._table[row + 4 : row + 8], "little") in offsets:
                yield self._function(index)

    def calls_any(self, function: Function, targets: set[int]) -> bool:
        """Whether the code of a function calls one of the target addresses."""
        return any(target in targets for _, target in self._branches(function))

    def calls(self, function: Function) -> Iterator[tuple[str, str]]:
        """The calls in the code of a function, as caller and callee, by :func:`plain_name` names."""
        inlined = _Inlined(self._elf, self._module, self._table, function)
        names = [plain_name(self._name(offset)) for offset, _ in inlined.rows]
        names.append(plain_name(function.name))  # at index -1, which is that of code outside all inlined functions
        for name, (_, parent) in zip(names, inlined.rows, strict=False):
            yield names[inlined.index_at(parent)], name
        for place, target in self._branches(function):
            index = bisect_right(self._entries, target - self._module.text) - 1
            if index >= 0 and self._entries[index] == target - self._module.text and index < self._module.count:
                yield names[inlined.index_at(place - function.entry)], plain_name(self._function(index).name)

    def _function(self, index: int) -> Function:
        row = self._rows[index]
        offset, name = struct.unpack_from("<Ii", self._table, row)
        if offset != self._entries[index]:
            raise InputError(_DAMAGED)
        after = self._entries[index + 1] if index + 1 < len(self._entries) else self._module.text_end
        text = self._module.text
        return Function(self._name(name), text + offset, text + after, row)

    def _name(self, offset: int) -> str:
        stop = self._names.find(b"\0", offset) if offset >= 0 else -1
        if stop <= offset:
            raise InputError(_DAMAGED)
        return self._names[offset:stop].decode("utf-8", "replace")

    def _branches(self, function: Function) -> Iterator[tuple[int, int]]:
        """The places and targets of direct calls and jumps that leave the function."""
        code = self._elf.read(function.entry, function.end - function.entry)
        if self._elf.architecture == "amd64":
            found = ((one.start(), int.from_bytes(one[1], "little", signed=True)) for one in _CALL.finditer(code))
            moves = [(at, at + _CALL_SIZE + distance) for at, distance in found]
        else:
            words = array("I", code[: len(code) // 4 * 4])
            moves = [
                (4 * at, 4 * at + 4 * ((word & 0x1FFFFFF) - (word & 0x2000000)))
                for at, word in enumerate(words)
                if word >> 26 in _BRANCHES
            ]
        for at, target in moves:
            if not 0 <= target < len(code):
                yield function.entry + at, function.entry + target


class _Inlined:
    """The inlined functions in one function: rows of (offset of the name, place of the call in the function)."""

    def __init__(self, elf: Elf, module: ModuleData, table: bytes, function: Function) -> None:
        *_, pcdata, _, _, _, _, _, funcdata = _FUNCTION.unpack_from(table, function.row)
        lists = struct.unpack_from(f"<{pcdata + funcdata}I", table, function.row + _FUNCTION.size)
        index = lists[_INLINE_INDEX] if pcdata > _INLINE_INDEX else 0
        tree = lists[pcdata + _INLINE_TREE] if funcdata > _INLINE_TREE else _ABSENT
        self._starts: list[int] = []
        self._values: list[int] = []
        self.rows: list[tuple[int, int]] = []
        if index == 0 or tree == _ABSENT:
            return
        size = min(module.pctab_size - index, _LONGEST_PCDATA)
        self._decode(elf.read(module.pctab + index, size), 1 if elf.architecture == "amd64" else 4)
        count = max(self._values, default=-1) + 1
        raw = elf.read(module.gofunc + tree, count * _INLINED.size)
        self.rows = [(name, parent) for _, name, parent, _ in _INLINED.iter_unpack(raw)]

    def index_at(self, place: int) -> int:
        """The row of the innermost inlined function at a place in the code; -1 outside all of them."""
        at = bisect_right(self._starts, place) - 1
        return max(-1, self._values[at]) if at >= 0 else -1

    def _decode(self, data: bytes, quantum: int) -> None:
        """Read a table of runtime.pcvalue: steps of a value, signed, and of a place, as varints."""
        at, place, value = 0, 0, -1
        while at < len(data):
            step, at = varint(data, at)
            if step == 0 and self._starts:
                return
            value += -(step >> 1) - 1 if step & 1 else step >> 1
            self._starts.append(place)
            self._values.append(value)
            step, at = varint(data, at)
            place += step * quantum
        raise InputError(_DAMAGED)


def plain_name(name: str) -> str:
    """A function's name without the compiler's suffixes for closures, wrappers and instances of generics."""
    return _SUFFIX.sub("", name)


_UTILS: Final = "/internal/utils/kubernetes."
#: The package of Grove's helpers for all components: since v0.1.0-alpha.2, and before.
_COMPONENTS: Final = ("/internal/controller/common/component/utils.", "/internal/component/utils.")
_REVISIONS: Final = "/internal/controller/common/revision."
_FOR_HASH: Final = "k8s.io/apimachinery/pkg/util/dump.ForHash"
#: The function that holds its body since apimachinery 0.37.
_FOR_HASH_IN_UTILS: Final = "k8s.io/utils/dump.ForHash"
_PRINTING: Final = (_FOR_HASH, _FOR_HASH_IN_UTILS)
_SPEW: Final = "github.com/davecgh/go-spew/spew.(*ConfigState).Sprintf"
_FNV: Final = "hash/fnv.New64a"
_ENCODE: Final = "k8s.io/apimachinery/pkg/util/rand.SafeEncodeString"

#: operator/internal/utils/kubernetes/pod.go of every release, and of the builds from 94a0105c to the revert.
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
#: The functions that ask for a hash, in reconcilespec.go of the PodCliqueSet controller and in its helpers.
_GENERATION: Final = "/internal/controller/podcliqueset.computeGenerationHash"
_TEMPLATE: Final = "ComputePCLQPodTemplateHash"
_CANONICAL_GENERATION: Final = "ComputePCSGenerationHash"
_CANONICAL_HELPERS: Final = frozenset(
    {"ComputePCLQPodTemplateHashLegacy", _CANONICAL_GENERATION, f"{_CANONICAL_GENERATION}Legacy"}
    | {"newPCLQPodTemplateSpecForHash", "podTemplateSpecsForPCLQTemplates", "isInOrderStartup"}
)
#: The library code that those functions may call; all other code is unknown, and refused.
_OUTSIDE: Final = re.compile(
    r"runtime\..*|fmt\.(?:Fprintf|Sprint)|hash/fnv\.(?:New64a|\(\*sum64a\)\.\w+)|sort\.SliceStable"
    r"|github\.com/samber/lo\.Map\b.*|k8s\.io/api/core/v1\.\(\*\w+\)\.DeepCopy(?:Into)?"
    rf"|{re.escape(_FOR_HASH)}|{re.escape(_ENCODE)}"
)
_HASH_INPUT: Final = ("kubernetes.podTemplateSpecHashInput", ["OrderKey string", "PodTemplateSpec *v1.PodTemplateSpec"])
_NAMES_OF_GANGS: Final = ("/api/common.GeneratePodGangName", "/api/common.GenerateScaledPodGangName")
_UNKNOWN_CODE_ADVICE: Final = "it may hash in a way that is not known here, so do not migrate to it"


def recognise(functions: Functions, types: GoTypes) -> Recognised:
    """The algorithm of an operator.

    Raises ``Refused`` for an operator with ControllerRevisions, and ``InputError`` for an operator that is not
    recognised and for another program.
    """
    own = _own(functions)
    found = {plain_name(name) for name in functions.names(own + _UTILS) if name.startswith(own)}
    # The name of a closure contains the names of all functions around it.
    names = {part for name in found for part in name.removeprefix(own + _UTILS).split(".")}
    names = {name for name in names if re.search("hash|canonical", name, re.IGNORECASE)}
    canonical = names == _CANONICAL_NAMES
    if not canonical and names != _LEGACY_NAMES:
        strange, missing = sorted(names - _CANONICAL_NAMES), sorted(_CANONICAL_NAMES - names)
        what = f"has unknown functions around the hash ({', '.join(strange[:5])})"
        if not strange:
            what = f"lacks known functions around the hash ({', '.join(missing[:5])})"
        raise InputError(f"it {what}: {_UNKNOWN_CODE_ADVICE}")
    asking = {own + _GENERATION, *(own + place + _TEMPLATE for place in _COMPONENTS)}
    if canonical:
        asking |= {own + _COMPONENTS[0] + helper for helper in _CANONICAL_HELPERS}
        asking.add(own + _GENERATION + "Legacy")
    making = {own + _UTILS + name for name in names}
    edges = _edges(functions, own, making | asking)
    _demand_known(edges, making, asking)
    _demand_path(edges, own + (_COMPONENTS[0] + _CANONICAL_GENERATION if canonical else _GENERATION), own, making)
    if canonical:
        name, wanted = _HASH_INPUT
        made = types.named(name, "")
        fields = [f"{field.name.text} {types.at(field.type).text}" for field in made.fields] if made else []
        if fields != wanted:
            raise InputError(f"{name} has the fields {fields} instead of {wanted}: {_UNKNOWN_CODE_ADVICE}")
    gangs = {own + name for name in _NAMES_OF_GANGS}
    return Recognised(
        algorithm=CANONICAL if canonical else LEGACY,
        hash_in_names=any(plain_name(name) in gangs for gang in gangs for name in functions.names(gang)),
        pod_gang_maps=any(name.startswith(own) for name in functions.names("/podgangmap.")),
        by=(*sorted(making), _FOR_HASH, _SPEW),
    )


def _own(functions: Functions) -> str:
    """The import path of all of the operator's own code."""
    ends = (f"{_UTILS}ComputeHash", f"{_UTILS}computeHash")
    found = {name.partition(_UTILS)[0] for end in ends for name in functions.names(end) if name.endswith(ends)}
    if any(True for _ in functions.names(_REVISIONS)):
        raise Refused(
            "this operator keeps pod templates in ControllerRevisions (Grove pull request 710) and adopts the hashes "
            "that it finds: a migration is neither needed nor possible"
        )
    if not found:
        raise InputError(
            "it is a Go program but not a Grove operator: it has no function ComputeHash in "
            "internal/utils/kubernetes; give the program grove-operator, or a build that is not obfuscated"
        )
    if len(found) > 1:
        raise InputError(f"it holds more than one Grove operator: {', '.join(sorted(found))}; give one of them")
    return found.pop()


def _edges(functions: Functions, own: str, known: set[str]) -> set[tuple[str, str]]:
    """(caller, callee) for each call by a known function, or by an operator's function that calls a known one."""
    compiled = list(functions.starting_with((f"{own}/", f"{own}.", "main.", *_PRINTING)))
    wanted = {
        one.entry for one in compiled if _outermost(plain_name(one.name), known) in known or one.name in _PRINTING
    }
    return {
        (_outermost(caller, known), _outermost(called, known))
        for one in compiled
        if one.entry in wanted or functions.calls_any(one, wanted)
        for caller, called in functions.calls(one)
    }


def _outermost(name: str, known: set[str]) -> str:
    """The function that has this code: ``B`` for ``B.A``, a closure of ``A`` that was inlined into ``B``."""
    inner = {one.rpartition(".")[2] for one in known}
    outer, _, last = name.rpartition(".")
    return outer if outer in known and last in inner else name


def _demand_known(edges: set[tuple[str, str]], making: set[str], asking: set[str]) -> None:
    known = making | asking
    for caller, called in sorted(edges):
        if caller in known and called not in known and not _OUTSIDE.fullmatch(called):
            raise InputError(f"{caller} calls {called}, which is not known there: {_UNKNOWN_CODE_ADVICE}")
        makes = called in making or called in _PRINTING
        if makes and caller not in {*known, _FOR_HASH}:
            raise InputError(f"a hash is made by {caller}, which is not known to do so: {_UNKNOWN_CODE_ADVICE}")


def _demand_path(edges: set[tuple[str, str]], generation: str, own: str, making: set[str]) -> None:
    """Demand calls from both functions that ask for a hash to its printing, its sum and its spelling."""
    calls: dict[str, set[str]] = {}
    for caller, called in edges:
        calls.setdefault(caller, set()).add(called)
    printers = {name: {one for one in calls.get(name, ()) if not one.startswith("runtime.")} for name in _PRINTING}
    for_hash = printers[_FOR_HASH]
    if for_hash == {_FOR_HASH_IN_UTILS}:
        for_hash = printers[_FOR_HASH_IN_UTILS]
    if for_hash != {_SPEW}:
        raise InputError(f"{_FOR_HASH} does not call {_SPEW} alone but {sorted(for_hash)}: {_UNKNOWN_CODE_ADVICE}")
    templates = [own + place + _TEMPLATE for place in _COMPONENTS if own + place + _TEMPLATE in calls]
    for start in (generation, *(templates or [_TEMPLATE])):
        reached, waiting = set(), [start]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached.add(one)
                waiting += calls.get(one, ())
        missing = sorted({_FOR_HASH, _FNV, _ENCODE} - reached)
        if missing or not reached & making:
            raise InputError(f"no calls lead from {start} to {', '.join(missing)}: {_UNKNOWN_CODE_ADVICE}")
