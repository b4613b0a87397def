"""The hashes of a PodCliqueSet: one per clique, and one of all cliques.

Grove: ``operator/internal/controller/common/component/utils/podclique.go:ComputePCLQPodTemplateHash`` and
``operator/internal/controller/podcliqueset/reconcilespec.go:computeGenerationHash``; the canonical forms are those
of 94a0105c. A hash covers a clique's labels, annotations and pod spec, in which the priority class of the set's
template replaces the pod spec's own, and nothing else of the set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from migrator.errors import DecodeError
from migrator.exact_json import JSONObject
from migrator.hashing import fnv
from migrator.hashing.canonical import canonicalize
from migrator.hashing.schemes import CANONICAL, Scheme
from migrator.hashing.spew import ROOT, types_of

#: The startup type under which the order of cliques has a meaning (Grove: ``operator/api/core/v1alpha1``).
IN_ORDER: Final = "CliqueStartupTypeInOrder"
_POINTER: Final = fnv.Fixed("(*v1.PodTemplateSpec)")
_CLIQUES: Final = ("spec", "template", "cliques")


@dataclass(frozen=True, slots=True)
class SetHashes:
    """The hashes of a PodCliqueSet under one scheme: that of all cliques, and that of each clique by its name."""

    scheme: Scheme = field(compare=False)  # another one may give the same hashes
    generation: str
    templates: Mapping[str, str]

    def of(self, clique: str | None) -> str | None:
        """The hash of a clique, or of all if that is ``None``; ``None`` for a clique that the set lacks."""
        return self.generation if clique is None else self.templates.get(clique)


class TemplateHasher:
    """Hashes a pod template ``{labels, annotations, podSpec, priorityClassName}``, which must not change meanwhile."""

    def __init__(self, template: Mapping[str, Any]) -> None:
        self._template = template
        self._sums: dict[tuple[str, bool], dict[int, int]] = defaultdict(dict)

    def under(self, scheme: Scheme) -> str:
        """The hash; raises :class:`~migrator.errors.DecodeError` with the path of a value that Go would not decode."""
        (total,) = self.after(scheme, fnv.OFFSET)
        return fnv.encode(total)

    def after(self, scheme: Scheme, *states: int) -> Sequence[int]:
        """The FNV sums of the template, continued from each of these states. Raises as :meth:`under` does.

        They are kept; the text is not, because it is larger than the template itself.
        """
        pod_spec = self._canonical if scheme.algorithm == CANONICAL else self._pod_spec
        sums = self._sums[scheme.minor, pod_spec is self._pod_spec]  # of one text, if the stored order is canonical
        if unknown := set(states) - sums.keys():
            pieces = _printed(self._template, pod_spec, scheme.minor)
            sums.update({state: fnv.fold(state, pieces) for state in unknown})
        return [sums[state] for state in states]

    @cached_property
    def _pod_spec(self) -> JSONObject:
        """The pod spec with the set's priority class; its own class never counts, but must be a string."""
        pod_spec = _object(self._template, "podSpec")
        own = _string(pod_spec, "priorityClassName", "podSpec")
        priority = _string(self._template, "priorityClassName")
        return pod_spec if own == priority else {**pod_spec, "priorityClassName": priority}

    @cached_property
    def _canonical(self) -> JSONObject:
        return canonicalize(self._pod_spec)


class SetHasher:
    """Both kinds of hashes of a PodCliqueSet as it was read from the API server; it must not change meanwhile."""

    def __init__(self, pcs: Mapping[str, Any]) -> None:
        self._pcs = pcs

    def under(self, scheme: Scheme) -> SetHashes:
        """The hashes under one scheme; raises :class:`~migrator.errors.DecodeError` as :class:`TemplateHasher` does."""
        names = [name for name, _ in self._cliques]
        hashes = dict.fromkeys(names, "")
        total, numbers, canonical = fnv.OFFSET, range(len(names)), scheme.algorithm == CANONICAL
        in_order = canonical and self._template.get("cliqueStartupType") == IN_ORDER
        for number in sorted(numbers, key=names.__getitem__) if canonical and not in_order else numbers:
            opening = f"(kubernetes.podTemplateSpecHashInput){{OrderKey:(string){names[number]} PodTemplateSpec:"
            total = fnv.fold(total, [opening] if in_order else [])
            own, total = self._after(number, scheme, fnv.OFFSET, total)
            hashes[names[number]] = fnv.encode(own)
            total = fnv.fold(total, ["}"] if in_order else [])
        return SetHashes(scheme, fnv.encode(total), hashes)

    def _after(self, number: int, scheme: Scheme, *states: int) -> Sequence[int]:
        try:
            return self._cliques[number][1].after(scheme, *states)
        except DecodeError as error:
            within = error.within("spec") if error.steps[0] == "podSpec" else error
            raise within.within(*_CLIQUES, number) from None

    @cached_property
    def _template(self) -> JSONObject:
        """The set's template. Go decodes more of it than the hashes use, and that is checked too."""
        spec = _object(self._pcs, "spec")
        _int32(spec, "replicas", "spec")
        template = _object(spec, "template", "spec")
        for name in ("cliqueStartupType", "priorityClassName"):
            _string(template, name, "spec", "template")
        return template

    @cached_property
    def _cliques(self) -> Sequence[tuple[str, TemplateHasher]]:
        """The name and the template of each clique."""
        cliques, found = self._template.get("cliques"), []
        if type(cliques) not in {list, type(None)}:
            raise DecodeError("it is not a list", *_CLIQUES)
        for number, clique in enumerate(cliques or ()):
            at = (*_CLIQUES, number)
            if not isinstance(clique, dict):
                raise DecodeError("it is not an object", *at)
            spec = _object(clique, "spec", *at)
            for count in ("replicas", "minAvailable"):
                _int32(spec, count, *at, "spec")
            template = {
                "labels": clique.get("labels"),
                "annotations": clique.get("annotations"),
                "podSpec": spec.get("podSpec"),
                "priorityClassName": self._template.get("priorityClassName"),
            }
            found.append((fnv.clean(_string(clique, "name", *at) or ""), TemplateHasher(template)))
        return found


def _printed(template: Mapping[str, Any], pod_spec: JSONObject, minor: str) -> Sequence[fnv.Piece]:
    value = {"metadata": {key: template.get(key) for key in ("labels", "annotations")}, "spec": pod_spec}
    out: list[fnv.Piece] = [_POINTER]
    try:
        types_of(minor).printer(ROOT).emit(value, out)
    except DecodeError as error:
        within, *steps = error.steps
        raise DecodeError(error.message, *(["podSpec"] if within == "spec" else []), *steps) from None
    return out


def _object(holder: Mapping[str, Any], name: str, *at: str | int) -> JSONObject:
    """The object in a field, which may be absent, of what is at these steps."""
    value = holder.get(name)
    if not isinstance(value, dict | None):
        raise DecodeError("it is not an object", *at, name)
    return value or {}


def _string(holder: Mapping[str, Any], name: str, *at: str | int) -> str | None:
    value = holder.get(name)
    if not isinstance(value, str | None):
        raise DecodeError("it is not a string", *at, name)
    return value


def _int32(holder: Mapping[str, Any], name: str, *at: str | int) -> None:
    value = holder.get(name)
    if value is not None and not (type(value) is int and -(1 << 31) <= value < 1 << 31):
        raise DecodeError("it is not an int32", *at, name)
