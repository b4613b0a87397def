"""An operator's binary in the forms in which tools store an image.

These are an ELF file, an OCI layout, a docker archive (`docker save`, `crane pull`) and a root file system, as a
directory, a tar or a gzipped tar. Every digest that an image states is compared with its bytes. A path in an archive is
only a key: no file is unpacked under its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, Final, TypeAlias

from migrator.errors import InputError
from migrator.hashing import layouts
from migrator.operators import binary
from migrator.operators.algorithm import NotAnOperatorError
from migrator.operators.archives import (
    GZIP,
    Files,
    Scratch,
    TarFiles,
    as_input_error,
    head_of,
    layered_files,
    plain_path,
    sha256_of,
    unpack,
)
from migrator.operators.schemefile import OperatorScheme

_Json: TypeAlias = Mapping[str, Any]

_ELF: Final = b"\x7fELF"
_TAR_MAGIC_AT: Final = 257
_LARGEST_JSON: Final = 1 << 22
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_ATTESTATION: Final = "vnd.docker.reference.type"


def read_file(file: BinaryIO, scratch: Scratch, *, image: str | None = None) -> OperatorScheme:
    """Read an operator from a file: a binary, or an archive of an image or a root file system.

    ``image`` selects one image of an archive. Raises ``InputError`` for a file that cannot be read, and ``Refused`` for
    an operator that cannot be migrated to.
    """
    with unpack(file, scratch) as plain:
        head = head_of(plain)
        if head.startswith(_ELF):
            return of_platforms([binary.read(plain)])
        if head[_TAR_MAGIC_AT:].startswith(b"ustar"):
            return read_files(TarFiles(plain), scratch, image=image)
    raise InputError(
        "it is neither an ELF file, an OCI layout, a docker archive nor a tar of a root file system; "
        "make one with `crane pull --format=oci`, `skopeo copy` or `docker save`"
    )


def read_files(files: Files, scratch: Scratch, *, image: str | None = None) -> OperatorScheme:
    """Read an operator from a directory or an unpacked archive, as :func:`read_file` does."""
    with as_input_error():
        index, saved = files.open("index.json"), files.open("manifest.json")
        if index is not None and files.open("oci-layout") is not None:
            return _Oci(files, scratch).read(_json(index, "index.json"), image, saved=saved is not None)
        if saved is not None:
            return _docker(files, _json(saved, "manifest.json"), scratch, image)
        if image is not None:
            raise InputError(f"this is a root file system and has no image {image}")
        return of_platforms([_operator_in(files, files.paths())])


class _Oci:
    """An OCI image layout (github.com/opencontainers/image-spec, image-layout.md)."""

    def __init__(self, files: Files, scratch: Scratch) -> None:
        self._files = files
        self._scratch = scratch

    def read(self, index: _Json, image: str | None, *, saved: bool) -> OperatorScheme:
        chosen = self._chosen(index, image)
        found: list[tuple[str, _Json, list[BinaryIO]]] = []
        missing: list[str] = []
        for descriptor, manifest in self._manifests(chosen):
            config = self._blob_json(manifest["config"]) if manifest is not None else None
            layers = [self._blob(layer) for layer in manifest["layers"]] if manifest is not None else []
            opened = [layer for layer in layers if layer is not None]
            if config is None or len(opened) < len(layers):
                named = descriptor.get("platform")
                missing.append(_platform(named) if named else descriptor["digest"])
            else:
                found.append((descriptor["digest"], config, opened))
        # Docker's older stores write their own manifests into `docker save`, always with plain layers. The digests of
        # such manifests are not those of any registry.
        own = saved and not any(head_of(layer).startswith(GZIP) for _, _, layers in found for layer in layers)
        operators = [
            _operator_of(config, layers, self._scratch, manifest=None if own else digest)
            for digest, config, layers in found
        ]
        return of_platforms(operators, digest=None if own else chosen["digest"], missing=missing)

    def _chosen(self, index: _Json, image: str | None) -> _Json:
        images = [one for one in index.get("manifests", ()) if not _is_attestation(one)]
        names = {one["digest"]: [(one.get("annotations") or {}).get(key, "") for key in _NAMES] for one in images}
        wanted = [one for one in images if image is None or image in {*names[one["digest"]], one["digest"]}]
        if len({one["digest"] for one in wanted}) != 1:
            raise _not_one([next(filter(None, names[one["digest"]]), one["digest"]) for one in images], image)
        chosen: _Json = wanted[0]
        return chosen

    def _manifests(self, descriptor: _Json) -> Iterator[tuple[_Json, _Json | None]]:
        """Each manifest of a descriptor with its own, ``None`` for a missing one; an index may hold other indexes."""
        if self._blob(descriptor) is None:
            raise InputError(f"the archive lacks its image, {descriptor['digest']}")
        waiting, seen = [descriptor], set()
        while waiting:
            one = waiting.pop(0)
            if one["digest"] in seen:
                continue
            seen.add(one["digest"])
            document = self._blob_json(one)
            if document is not None and "manifests" in document:
                waiting += [inner for inner in document["manifests"] if not _is_attestation(inner)]
            else:
                yield one, document

    def _blob(self, descriptor: _Json) -> BinaryIO | None:
        algorithm, _, digits = str(descriptor["digest"]).partition(":")
        if algorithm != "sha256" or not digits.isalnum():
            raise InputError(f"the digest {descriptor['digest']} cannot be checked: only sha256 is known")
        blob = self._files.open(f"blobs/sha256/{digits}")
        if blob is not None and sha256_of(blob) != digits:
            raise InputError(f"the bytes of blob {descriptor['digest']} have another digest; get the image again")
        return blob

    def _blob_json(self, descriptor: _Json) -> _Json | None:
        blob = self._blob(descriptor)
        return None if blob is None else _json(blob, str(descriptor["digest"]))


def _docker(files: Files, images: Any, scratch: Scratch, image: str | None) -> OperatorScheme:  # noqa: ANN401 - JSON
    """An archive of ``docker save`` or ``crane pull``: manifest.json, with a digest for each unpacked layer."""
    if not isinstance(images, list):
        raise InputError(
            "its manifest.json is not of the kind that `docker save` writes; make a copy with `skopeo copy` to an "
            "oci-archive:"
        )
    wanted = [one for one in images if image is None or image in (one.get("RepoTags") or ())]
    if len(wanted) != 1:
        raise _not_one([", ".join(one.get("RepoTags") or ["(no name)"]) for one in images], image)
    config_file = files.open(wanted[0]["Config"])
    if config_file is None:
        raise InputError(f"the archive lacks {wanted[0]['Config']}")
    config = _json(config_file, wanted[0]["Config"])
    states = config.get("rootfs", {}).get("diff_ids", ())
    layers = [files.open(path) for path in wanted[0]["Layers"]]
    if None in layers or len(states) != len(layers):
        raise InputError("the archive lacks layers that its manifest.json names; save the image again")
    opened = [layer for layer in layers if layer is not None]
    return of_platforms([_operator_of(config, opened, scratch, states)])


def _is_attestation(descriptor: _Json) -> bool:
    """Whether a descriptor is of an attestation, which BuildKit puts beside an image."""
    unknown = (descriptor.get("platform") or {}).get("architecture") == "unknown"
    return unknown or _ATTESTATION in (descriptor.get("annotations") or {})


def _not_one(names: list[str], image: str | None) -> InputError:
    """The error if not exactly one image of an archive is selected."""
    if not names:
        return InputError("this archive has no image; save it again")
    what = f"{len(names)} images ({', '.join(names)})" if len(names) > 1 else f"one image ({names[0]})"
    return InputError(
        f"this archive has {what}{f', not {image}' if image else ''}: select one with "
        "`grove-migrator scheme ARCHIVE --image NAME -o json > scheme.json`, and give that file"
    )


def _operator_of(
    config: _Json, layers: list[BinaryIO], scratch: Scratch, states: Sequence[str] = (), *, manifest: str | None = None
) -> OperatorScheme:
    """The operator of one image for its platform; ``manifest`` is the digest that a registry has of the image."""
    with layered_files(layers, scratch, states) as files:
        found = _run_by(config, files)
    (platform,) = found.platforms
    if platform.name != _platform(config):
        raise InputError(f"the image states {_platform(config)}, but its operator is for {platform.name}")
    return replace(found, platforms=(replace(platform, manifest=manifest),))


def _run_by(config: _Json, files: Files) -> OperatorScheme:
    """The entry point of an image if that is an operator, else the only operator in it."""
    runs = config.get("config") or {}
    command = [*(runs.get("Entrypoint") or ()), *(runs.get("Cmd") or ())]
    entry = plain_path(command[0]) if command else ""
    paths = list(files.paths())
    if entry in paths:
        with suppress(NotAnOperatorError):
            return _operator_in(files, [entry])
    return _operator_in(files, paths)


def _operator_in(files: Files, paths: Iterable[str]) -> OperatorScheme:
    """The operator among the files. Raises :class:`~migrator.errors.InputError` unless there is exactly one."""
    found: dict[str, tuple[str, OperatorScheme]] = {}
    failures: list[tuple[str, InputError]] = []
    for path in paths:
        file = files.open(path)
        if file is None:
            continue
        with file:
            if not head_of(file).startswith(_ELF):
                continue
            try:
                made = binary.read(file)
                found[made.platforms[0].binary] = (path, made)
            except InputError as error:
                failures.append((path, error))
    if len(found) > 1:
        raise InputError(f"there is more than one operator: {', '.join(path for path, _ in found.values())}; give one")
    for _, made in found.values():
        return made
    strange = [(path, error) for path, error in failures if not isinstance(error, NotAnOperatorError)]
    if len(strange) == 1:
        raise InputError(f"{strange[0][0]}: {strange[0][1]}")
    reasons = "; ".join(f"{path}: {error}" for path, error in (strange or failures)[:3]) or "there is no ELF file"
    raise NotAnOperatorError(f"no Grove operator is in it: {reasons}")


def of_platforms(
    found: Sequence[OperatorScheme], *, digest: str | None = None, missing: Sequence[str] = ()
) -> OperatorScheme:
    """One operator of those of its platforms, which must agree about everything that decides a hash.

    ``digest`` is the image's, ``None`` for a bare binary. ``missing`` are the platforms that the archive lacks.
    """
    if not found:
        raise InputError(f"none of the image's platforms is in the archive: {', '.join(missing)}")
    first = found[0]
    for one in found:
        if (one.layout, one.recognised) != (first.layout, first.recognised):
            both = f"{first.platforms[0].name} and {one.platforms[0].name}"
            raise InputError(f"the operators of {both} hash differently; give one platform")
    platforms = tuple(platform for one in found for platform in one.platforms)
    warnings = [*first.warnings]
    warnings += [f"{name} is not in the archive; only the other platforms were read" for name in missing]
    if digest is None and layouts.name_of(first.layout) not in layouts.minors():
        warnings.append("the layout is not one of ours, and no digest proves the file: compare its sha256")
    return replace(first, image_digest=digest, platforms=platforms, warnings=tuple(warnings))


def _platform(config: _Json) -> str:
    """The platform of an image's configuration, or of a descriptor."""
    return f"{config.get('os', 'linux')}/{config.get('architecture', '')}"


def _json(file: BinaryIO, what: str) -> dict[str, Any]:
    """A document; docker's manifest.json is a list, which its reader knows."""
    try:
        with file:
            return json.loads(file.read(_LARGEST_JSON))  # type: ignore[no-any-return] # JSON of others
    except ValueError as error:
        raise InputError(f"{what} is not JSON") from error
