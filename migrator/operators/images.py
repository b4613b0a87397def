"""Finding an operator's binary in what registries and tools make of an image.

Read: an ELF file, an OCI layout, a docker archive (`docker save`, `crane pull`), a root file system; as a directory, a
tar or a gzipped tar. Every digest that an image states is compared with the bytes that it is for.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol, Self

from migrator.errors import InputError
from migrator.operators import binary
from migrator.operators.algorithm import NotAnOperatorError
from migrator.operators.binary import OperatorBinary

_ELF, _GZIP, _ZSTD = b"\x7fELF", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_TAR_MAGIC_AT: Final = 257
_HEAD: Final = 512
_LARGEST_JSON: Final = 1 << 22
_CHUNK: Final = 1 << 20
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_NAMES: Final = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_ATTESTATION: Final = "vnd.docker.reference.type"

#: Makes an empty file that goes when it is closed; layers are unpacked into such.
Scratch = Callable[[], BinaryIO]


class Files(Protocol):
    """Files by path, without a leading slash: a directory or an archive."""

    def paths(self) -> Iterable[str]:
        """The regular files, and in archives the links to such."""

    def open(self, path: str) -> BinaryIO | None:
        """One of them, seekable; ``None`` if there is none of that path."""


@dataclass(frozen=True, slots=True)
class Platform:
    """One platform of an image: its manifest's digest, if that is known, and the binary that was read."""

    name: str
    digest: str | None
    binary: OperatorBinary


@dataclass(frozen=True, slots=True)
class OperatorImage:
    """An operator as it was found. ``digest`` is what a reference by digest names; ``None`` for a bare binary."""

    digest: str | None
    platforms: tuple[Platform, ...]
    missing: tuple[str, ...] = ()


class TarFiles:
    """The files of a tar; raises :class:`~migrator.errors.InputError` for one that is cut off."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self._tar = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115 - the caller owns the file
            self._members = {_path(one.name): one for one in self._tar if not one.isdir()}
        except (tarfile.TarError, EOFError) as error:
            raise InputError(f"the archive cannot be read ({error}); it may be cut off: copy it again") from error

    def paths(self) -> Iterable[str]:
        """Every file and link, in the archive's order."""
        return self._members

    def open(self, path: str) -> BinaryIO | None:
        """One file, links followed."""
        member = self._members.get(_path(path))
        with suppress(KeyError, tarfile.TarError):
            return self._tar.extractfile(member) if member is not None else None  # type: ignore[return-value]
        return None


def read_file(file: BinaryIO, scratch: Scratch, *, image: str | None = None) -> OperatorImage:
    """Read an operator from a file: a binary, or an archive of an image or a root file system.

    ``image`` names the image that is meant in an archive of several. Raises :class:`~migrator.errors.InputError` for
    what cannot be read, and :class:`~migrator.errors.Refused` for an operator that cannot be migrated to.
    """
    head = _head(file)
    if head.startswith(_ELF):
        return _of_binaries([(None, None, binary.read(file))])
    with _unpack(file, scratch) as plain:
        head = _head(plain)
        if head.startswith(_ELF):
            return _of_binaries([(None, None, binary.read(plain))])
        if head[_TAR_MAGIC_AT:].startswith(b"ustar"):
            return read_files(TarFiles(plain), scratch, image=image)
    raise InputError(
        "it is neither an ELF file, an OCI layout, a docker archive nor a tar of a root file system; "
        "`crane pull --format=oci`, `skopeo copy` and `docker save` make what can be read"
    )


def read_files(files: Files, scratch: Scratch, *, image: str | None = None) -> OperatorImage:
    """Read an operator from a directory or an unpacked archive, as :func:`read_file` does."""
    index, saved = files.open("index.json"), files.open("manifest.json")
    try:
        if index is not None and files.open("oci-layout") is not None:
            return _Oci(files, scratch).read(_json(index, "index.json"), image, saved=saved is not None)
        if saved is not None:
            return _docker(files, _json(saved, "manifest.json"), scratch, image)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the image's own documents cannot be understood ({error!r}); get the image again") from error
    if image is not None:
        raise InputError(f"this is a root file system and has no image {image}")
    return _of_binaries([(None, None, _operator_in(files, files.paths()))])


class _Oci:
    """An OCI image layout (github.com/opencontainers/image-spec, image-layout.md)."""

    def __init__(self, files: Files, scratch: Scratch) -> None:
        self._files = files
        self._scratch = scratch

    def read(self, index: Mapping[str, Any], image: str | None, *, saved: bool) -> OperatorImage:
        chosen = self._chosen(index, image)
        found: list[tuple[str | None, str | None, OperatorBinary]] = []
        missing: list[str] = []
        compressed = False
        for descriptor in self._manifests(chosen):
            named = descriptor.get("platform", {})
            name = f"{named.get('os', 'linux')}/{named.get('architecture', '')}" if named else None
            manifest = self._blob_json(descriptor)
            if manifest is None:
                missing.append(name or descriptor["digest"])
                continue
            config = self._blob_json(manifest["config"])
            layers = [self._blob(layer) for layer in manifest["layers"]]
            if config is None or None in layers:
                missing.append(name or descriptor["digest"])
                continue
            opened = [layer for layer in layers if layer is not None]
            compressed = compressed or any(_head(layer).startswith(_GZIP) for layer in opened)
            found.append((_platform(config), descriptor["digest"], _operator_of(config, opened, self._scratch)))
        # Docker's older stores write manifests of their own into `docker save`, always with plain layers: their
        # digests are not those of any registry.
        made = _of_binaries(found, digest=chosen["digest"], missing=tuple(missing))
        if saved and not compressed:
            return OperatorImage(None, tuple(Platform(p.name, None, p.binary) for p in made.platforms), made.missing)
        return made

    def _chosen(self, index: Mapping[str, Any], image: str | None) -> Mapping[str, Any]:
        images = [one for one in index.get("manifests", ()) if _ATTESTATION not in one.get("annotations", {})]
        names = {one["digest"]: [one.get("annotations", {}).get(key, "") for key in _NAMES] for one in images}
        wanted = [one for one in images if image is None or image in {*names[one["digest"]], one["digest"]}]
        if len({one["digest"] for one in wanted}) != 1:
            known = ", ".join(next(filter(None, names[one["digest"]]), one["digest"]) for one in images)
            raise InputError(f"this archive has {len(images)} images ({known}); name one of them with --image")
        chosen: Mapping[str, Any] = wanted[0]
        return chosen

    def _manifests(self, descriptor: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        document = self._blob_json(descriptor)
        if document is None:
            raise InputError(f"the archive lacks its image, {descriptor['digest']}")
        if "manifests" not in document:
            return [descriptor]
        return [
            one
            for one in document["manifests"]
            if _ATTESTATION not in one.get("annotations", {})
            and one.get("platform", {}).get("architecture") != "unknown"
        ]

    def _blob(self, descriptor: Mapping[str, Any]) -> BinaryIO | None:
        algorithm, _, digits = str(descriptor["digest"]).partition(":")
        if algorithm != "sha256" or not digits.isalnum():
            raise InputError(f"the digest {descriptor['digest']} cannot be checked: only sha256 is known")
        blob = self._files.open(f"blobs/sha256/{digits}")
        if blob is not None and _sha256(blob) != digits:
            raise InputError(f"the bytes of blob {descriptor['digest']} have another digest; get the image again")
        return blob

    def _blob_json(self, descriptor: Mapping[str, Any]) -> Mapping[str, Any] | None:
        blob = self._blob(descriptor)
        return None if blob is None else _json(blob, str(descriptor["digest"]))


def _docker(files: Files, images: Any, scratch: Scratch, image: str | None) -> OperatorImage:  # noqa: ANN401 - JSON
    """What ``docker save`` and ``crane pull`` write: manifest.json, with a digest for each unpacked layer."""
    names = [name for one in images for name in one.get("RepoTags") or ()]
    wanted = [one for one in images if image is None or image in (one.get("RepoTags") or ())]
    if len(wanted) != 1:
        raise InputError(f"this archive has {len(images)} images ({', '.join(names)}); name one of them with --image")
    config_file = files.open(wanted[0]["Config"])
    if config_file is None:
        raise InputError(f"the archive lacks {wanted[0]['Config']}")
    config = _json(config_file, wanted[0]["Config"])
    states = config.get("rootfs", {}).get("diff_ids", ())
    layers = [files.open(path) for path in wanted[0]["Layers"]]
    if None in layers or len(states) != len(layers):
        raise InputError("the archive lacks layers that its manifest.json names; save the image again")
    opened = [layer for layer in layers if layer is not None]
    return _of_binaries([(_platform(config), None, _operator_of(config, opened, scratch, states))])


def _operator_of(
    config: Mapping[str, Any], layers: list[BinaryIO], scratch: Scratch, states: Iterable[str] = ()
) -> OperatorBinary:
    """The operator in the layers of one image: its entry point if that is one, else the only one there is."""
    with _Stack(layers, scratch, tuple(states)) as files:
        command = [*(config.get("config", {}).get("Entrypoint") or ()), *(config.get("config", {}).get("Cmd") or ())]
        entry = _path(command[0]) if command else ""
        paths = list(files.paths())
        if entry in paths:
            with suppress(NotAnOperatorError):
                return _operator_in(files, [entry])
        return _operator_in(files, paths)


class _Stack:
    """Layers on top of each other: a file hides one of its path below it, a whiteout removes it."""

    def __init__(self, layers: list[BinaryIO], scratch: Scratch, states: tuple[str, ...]) -> None:
        self._open: list[BinaryIO] = []
        self._files: dict[str, TarFiles] = {}
        try:
            self._stack(layers, scratch, states)
        except BaseException:
            self.__exit__()
            raise

    def _stack(self, layers: list[BinaryIO], scratch: Scratch, states: tuple[str, ...]) -> None:
        for number, layer in enumerate(layers):
            plain = _unpack(layer, scratch)
            self._open.append(plain)
            if states and f"sha256:{_sha256(plain)}" != states[number]:
                raise InputError(f"layer {number + 1} is not the {states[number]} that the image states; save it again")
            self._put(TarFiles(plain))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._open:
            one.close()

    def paths(self) -> Iterable[str]:
        return self._files

    def open(self, path: str) -> BinaryIO | None:
        layer = self._files.get(path)
        return layer.open(path) if layer is not None else None

    def _put(self, layer: TarFiles) -> None:
        for path in layer.paths():
            folder, _, name = path.rpartition("/")
            hidden = f"{folder}/" if folder else ""
            if name == _OPAQUE:
                self._files = {one: made for one, made in self._files.items() if not one.startswith(hidden)}
            elif name.startswith(_WHITEOUT):
                gone = hidden + name.removeprefix(_WHITEOUT)
                self._files = {
                    one: made for one, made in self._files.items() if one != gone and not one.startswith(f"{gone}/")
                }
        for path in layer.paths():
            if not path.rpartition("/")[2].startswith(_WHITEOUT):
                self._files[path] = layer


def _operator_in(files: Files, paths: Iterable[str]) -> OperatorBinary:
    """The only operator among the files."""
    found: dict[str, tuple[str, OperatorBinary]] = {}
    failures: list[tuple[str, InputError]] = []
    for path in paths:
        file = files.open(path)
        if file is None:
            continue
        with file:
            if not _head(file).startswith(_ELF):
                continue
            try:
                made = binary.read(file)
                found[made.sha256] = (path, made)
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


def _of_binaries(
    found: list[tuple[str | None, str | None, OperatorBinary]],
    *,
    digest: str | None = None,
    missing: tuple[str, ...] = (),
) -> OperatorImage:
    """One operator of its platforms, which must agree about everything that decides a hash."""
    if not found:
        raise InputError(f"none of the image's platforms is in the archive: {', '.join(missing)}")
    platforms: list[Platform] = []
    first = found[0][2]
    for name, manifest, made in found:
        title = name or f"linux/{made.architecture}"
        if title.split("/")[1] != made.architecture:
            raise InputError(f"the image states {title}, but its operator is for {made.architecture}")
        if (made.layout, made.recognised) != (first.layout, first.recognised):
            raise InputError(f"the operators of {platforms[0].name} and {title} hash differently; give one platform")
        platforms.append(Platform(title, manifest, made))
    return OperatorImage(digest, tuple(platforms), missing)


def _platform(config: Mapping[str, Any]) -> str:
    return f"{config.get('os', 'linux')}/{config.get('architecture', '')}"


def _unpack(file: BinaryIO, scratch: Scratch) -> BinaryIO:
    """A file without its compression, which must be gzip or none."""
    head = _head(file)
    if head.startswith(_ZSTD):
        raise InputError(
            "it is compressed with zstd, which cannot be read here; `skopeo copy --dest-compress-format gzip` or "
            "`crane export` make what can"
        )
    if not head.startswith(_GZIP):
        return file
    made = scratch()
    try:
        with gzip.GzipFile(fileobj=file) as unzipped:
            shutil.copyfileobj(unzipped, made, _CHUNK)
    except (OSError, EOFError, zlib.error) as error:
        made.close()
        raise InputError(f"its gzip data is damaged or cut off ({error}); copy it again") from error
    made.seek(0)
    return made


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(0)
    return head


def _json(file: BinaryIO, what: str) -> dict[str, Any]:
    """A document; docker's manifest.json is a list, which its reader knows."""
    try:
        with file:
            return json.loads(file.read(_LARGEST_JSON))  # type: ignore[no-any-return] # JSON of others
    except ValueError as error:
        raise InputError(f"{what} is not JSON") from error


def _sha256(file: BinaryIO) -> str:
    made = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(_CHUNK):
        made.update(chunk)
    file.seek(0)
    return made.hexdigest()


def _path(name: str) -> str:
    """A path in an archive, without what tools put in front of it."""
    while name.startswith(("./", "/")):
        name = name.removeprefix("./").removeprefix("/")
    return name
