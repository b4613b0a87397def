"""The hashes of a PodCliqueSet: one per clique, and one of all cliques.

Grove: ``operator/internal/controller/common/component/utils/podclique.go:ComputePCLQPodTemplateHash`` and
``operator/internal/controller/podcliqueset/reconcilespec.go:computeGenerationHash``; the canonical forms are those
of 94a0105c. Hashed are a clique's labels, annotations and pod spec, the priority class of the set's template
always in place of the pod spec's own; nothing else of the set is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from migrator.errors import DecodeError
from migrator.exact_json import JSONObject
from migrator.hashing.canonical import canonicalize
from migrator.hashing.fnv import OFFSET, Fixed, Piece, clean, encode, fold, plain
from migrator.hashing.schemes import CANONICAL, Scheme
from migrator.hashing.spew import root

#: The startup types under which the order of cliques has a meaning (Grove: ``operator/api/core/v1alpha1``).
IN_ORDER: Final = "CliqueStartupTypeInOrder"
EXPLICIT: Final = "CliqueStartupTypeExplicit"
_POINTER: Final = Fixed("(*v1.PodTemplateSpec)")
_CLIQUES: Final = "spec.template.cliques"


@dataclass(frozen=True, slots=True)
class PodCliqueSetHashes:
    """``generation_hash`` of all cliques, ``pod_template_hashes`` by clique name."""

    generation_hash: str
    pod_template_hashes: Mapping[str, str]


class TemplateHasher:
    """Hashes the pod template ``{labels, annotations, podSpec, priorityClassName}`` under any scheme.

    Schemes share work, so the template must stay as it is while this is used.
    """

    def __init__(self, template: Mapping[str, Any]) -> None:
        self._template = template
        self._printed: dict[tuple[str, bool], Sequence[Piece]] = {}

    def under(self, scheme: Scheme) -> str:
        """The pod-template hash.

        Raises :class:`~migrator.errors.DecodeError` with the path of a value that Go would not decode.
        """
        return encode(self.after(OFFSET, scheme))

    def after(self, state: int, scheme: Scheme) -> int:
        """The FNV sum after the template when it was ``state`` before. Raises as :meth:`under` does."""
        return fold(state, self.pieces(scheme))

    def pieces(self, scheme: Scheme) -> Sequence[Piece]:
        """What is hashed. Raises as :meth:`under` does."""
        moved = scheme.algorithm == CANONICAL and self._canonical is not self._pod_spec
        if (scheme.minor, moved) not in self._printed:
            pod_spec = self._canonical if moved else self._pod_spec
            self._printed[scheme.minor, moved] = _printed(self._template, pod_spec, scheme.minor)
        return self._printed[scheme.minor, moved]

    @cached_property
    def _pod_spec(self) -> JSONObject:
        return _pod_spec(self._template)

    @cached_property
    def _canonical(self) -> JSONObject:
        return canonicalize(self._pod_spec)


def hash_template(template: Mapping[str, Any], scheme: Scheme) -> str:
    """The pod-template hash under one scheme, see :class:`TemplateHasher`."""
    return TemplateHasher(template).under(scheme)


def dump_template(template: Mapping[str, Any], scheme: Scheme) -> str:
    """The exact text that is hashed. Raises as :meth:`TemplateHasher.under` does."""
    return clean(plain(TemplateHasher(template).pieces(scheme)))


class SetHasher:
    """Both kinds of hashes of a PodCliqueSet, as it was read from the API server, under any scheme.

    Schemes share work, so the set must stay as it is while this is used.
    """

    def __init__(self, pcs: Mapping[str, Any]) -> None:
        self._pcs = pcs

    def under(self, scheme: Scheme) -> PodCliqueSetHashes:
        """The hashes under one scheme.

        Raises :class:`~migrator.errors.DecodeError` with the path of a value that Go would not decode.
        """
        names = [name for name, _ in self._cliques]
        sums = [self._after(OFFSET, number, scheme) for number in range(len(names))]
        hashes = {name: encode(total) for name, total in zip(names, sums, strict=True)}
        return PodCliqueSetHashes(encode(self._of_all(names, sums, scheme)), hashes)

    @cached_property
    def _cliques(self) -> Sequence[tuple[str, TemplateHasher]]:
        return [(name, TemplateHasher(template)) for name, template in _templates(self._pcs)]

    def _of_all(self, names: Sequence[str], sums: Sequence[int], scheme: Scheme) -> int:
        """The sum of all cliques, given each one's own."""
        total = OFFSET
        order = range(len(names))
        if scheme.algorithm == CANONICAL and _set_template(self._pcs).get("cliqueStartupType") == IN_ORDER:
            for number in order:
                opening = f"(kubernetes.podTemplateSpecHashInput){{OrderKey:(string){names[number]} PodTemplateSpec:"
                total = self._after(fold(total, [opening]), number, scheme)
                total = fold(total, ["}"])
            return total
        for number in sorted(order, key=names.__getitem__) if scheme.algorithm == CANONICAL else order:
            total = sums[number] if total == OFFSET else self._after(total, number, scheme)
        return total

    def _after(self, state: int, number: int, scheme: Scheme) -> int:
        try:
            return self._cliques[number][1].after(state, scheme)
        except DecodeError as error:
            path = error.path.replace("podSpec", "spec.podSpec", 1) if error.path.startswith("podSpec") else error.path
            raise DecodeError(error.message, path=f"{_CLIQUES}[{number}].{path}") from None


def hash_pod_clique_set(pcs: Mapping[str, Any], scheme: Scheme) -> PodCliqueSetHashes:
    """Both kinds of hashes under one scheme, see :class:`SetHasher`."""
    return SetHasher(pcs).under(scheme)


def _printed(template: Mapping[str, Any], pod_spec: JSONObject, minor: str) -> Sequence[Piece]:
    value = {"metadata": {key: template.get(key) for key in ("labels", "annotations")}, "spec": pod_spec}
    out: list[Piece] = [_POINTER]
    try:
        root(minor).emit(value, out)
    except DecodeError as error:
        path = error.path.removeprefix(".metadata.")
        path = f"podSpec{path.removeprefix('.spec')}" if path.startswith(".spec") else path
        raise DecodeError(error.message, path=path) from None
    return out


def _pod_spec(template: Mapping[str, Any]) -> JSONObject:
    """The pod spec with the set's priority class; the class within never counts, but must be a string."""
    pod_spec = template.get("podSpec")
    if pod_spec is None:
        pod_spec = {}
    elif type(pod_spec) is not dict:
        raise DecodeError("it is not an object", path="podSpec")
    if type(pod_spec.get("priorityClassName")) not in {str, type(None)}:
        raise DecodeError("it is not a string", path="podSpec.priorityClassName")
    priority = template.get("priorityClassName")
    if type(priority) not in {str, type(None)}:
        raise DecodeError("it is not a string", path="priorityClassName")
    if pod_spec.get("priorityClassName") == priority:
        return pod_spec
    return {**pod_spec, "priorityClassName": priority}


def _templates(pcs: Mapping[str, Any]) -> Iterator[tuple[str, JSONObject]]:
    template = _set_template(pcs)
    cliques = template.get("cliques")
    if cliques is None:
        return
    if type(cliques) is not list:
        raise DecodeError("it is not a list", path=_CLIQUES)
    for number, raw in enumerate(cliques):
        path = f"{_CLIQUES}[{number}]"
        if raw is None:
            raise DecodeError("it is null, which ends the operator", path=path)
        clique = _object(raw, path)
        name = clique.get("name")
        if type(name) not in {str, type(None)}:
            raise DecodeError("it is not a string", path=f"{path}.name")
        yield (
            clean(name or ""),
            {
                "labels": clique.get("labels"),
                "annotations": clique.get("annotations"),
                "podSpec": _object(clique.get("spec"), f"{path}.spec").get("podSpec"),
                "priorityClassName": template.get("priorityClassName"),
            },
        )


def _set_template(pcs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The set's template; the strings in it are checked even where no clique makes use of them."""
    template = _object(_object(pcs.get("spec"), "spec").get("template"), "spec.template")
    for name in ("cliqueStartupType", "priorityClassName"):
        if type(template.get(name)) not in {str, type(None)}:
            raise DecodeError("it is not a string", path=f"spec.template.{name}")
    return template


def _object(value: object, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DecodeError("it is not an object", path=path)
    return value
