"""The hash algorithm of an operator, recognised by its functions.

Recognised, not proven. Three things are checked: the names with "hash" in them in Grove's ``internal/utils/kubernetes``
are exactly a known set; every direct call between the functions that make a hash and go-spew is a known one; no other
function of the operator calls them. The code within a known function is not checked.
"""

from __future__ import annotations

import re
from typing import Final

from migrator.errors import InputError, Refused
from migrator.hashing.schemes import CANONICAL, LEGACY
from migrator.operators.functions import Functions, plain_name
from migrator.operators.gotypes import GoTypes
from migrator.operators.schemefile import Recognised

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
_ACCEPTS_LEGACY: Final = "ComputeHashLegacy"
_CANONICAL_NAMES: Final = frozenset(
    {"ComputeHash", "ComputeHashWithOrderKeys", "computeHash"}
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
_WAY_OUT: Final = "it may hash in a way that is not known here, so do not migrate to it"


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
    canonical = names - {_ACCEPTS_LEGACY} == _CANONICAL_NAMES
    if not canonical and names != _LEGACY_NAMES:
        strange = sorted(names - _CANONICAL_NAMES - {_ACCEPTS_LEGACY}) or sorted(names)
        raise InputError(f"it has unknown functions around the hash ({', '.join(strange[:5])}): {_WAY_OUT}")
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
            raise InputError(f"{name} has the fields {fields} instead of {wanted}: {_WAY_OUT}")
    gangs = {own + name for name in _NAMES_OF_GANGS}
    return Recognised(
        algorithm=CANONICAL if canonical else LEGACY,
        accepts_legacy=_ACCEPTS_LEGACY in names,
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
            raise InputError(f"{caller} calls {called}, which is not known there: {_WAY_OUT}")
        makes = called in making or called in _PRINTING
        if makes and caller not in {*known, _FOR_HASH}:
            raise InputError(f"a hash is made by {caller}, which is not known to do so: {_WAY_OUT}")


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
        raise InputError(f"{_FOR_HASH} does not call {_SPEW} alone but {sorted(for_hash)}: {_WAY_OUT}")
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
            raise InputError(f"no calls lead from {start} to {', '.join(missing)}: {_WAY_OUT}")
