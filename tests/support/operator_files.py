"""An operator without a binary: what would be read of one, and files that stand for binaries in archives."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from migrator.errors import InputError
from migrator.hashing.layouts import Layout, load
from migrator.operators import images
from migrator.operators.algorithm import NotAnOperatorError
from migrator.operators.schemefile import OperatorScheme, Platform, Recognised

ELF = b"\x7fELF"


def recognised(algorithm: str = "legacy", *, names: bool = False) -> Recognised:
    """An algorithm."""
    return Recognised(algorithm, algorithm == "canonical", names, names, ("x/internal/utils/kubernetes.ComputeHash",))


def operator(
    layout: Layout | None = None, *, machine: str = "amd64", sha256: str = "sha256:0", algorithm: str = "legacy"
) -> OperatorScheme:
    """What is read of one binary."""
    labels = {"go": "go1.26.8", "k8s.io/api": "v0.35.5"}
    platforms = (Platform(f"linux/{machine}", None, sha256),)
    return OperatorScheme(recognised(algorithm), layout or load("1.35"), platforms, labels)


def read(file: BinaryIO) -> OperatorScheme:
    """Stands for binary.read: the fake's text is ``machine algorithm minor``, or why it cannot be read."""
    file.seek(0)
    data = file.read()
    words = data.removeprefix(ELF).decode().split()
    if words[0] == "other":
        raise NotAnOperatorError("it is a Go program but not a Grove operator")
    if words[0] == "strange":
        raise InputError("it was built with 'go1.99'")
    machine, algorithm, minor = words[:3]
    return operator(load(minor), machine=machine, sha256=digest(data), algorithm=algorithm)


def binary(machine: str = "amd64", algorithm: str = "legacy", minor: str = "1.35") -> bytes:
    """A file that :func:`read` reads."""
    return ELF + f" {machine} {algorithm} {minor}".encode()


def digest(data: bytes) -> str:
    """The digest of some bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def tar(files: Mapping[str, bytes]) -> bytes:
    """A tar of files, in this order."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


class OciLayout:
    """An OCI layout that grows: blobs by digest."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}

    def blob(self, data: bytes, **more: Any) -> dict[str, Any]:
        """Add bytes; returns their descriptor."""
        self.files[f"blobs/sha256/{digest(data).removeprefix('sha256:')}"] = data
        return {"digest": digest(data), "size": len(data), **more}

    def json(self, document: object, **more: Any) -> dict[str, Any]:
        """Add a document; returns its descriptor."""
        return self.blob(json.dumps(document).encode(), **more)

    def image(
        self, *layers: bytes, machine: str = "amd64", entry: str = "/grove-operator", zipped: bool = True, **more: Any
    ) -> dict[str, Any]:
        """Add an image of layers; returns its manifest's descriptor."""
        config = self.json({"os": "linux", "architecture": machine, "config": {"Entrypoint": [entry]}})
        packed = [gzip.compress(layer, mtime=0) if zipped else layer for layer in layers]
        manifest = {"config": config, "layers": [self.blob(layer) for layer in packed]}
        return self.json(manifest, platform={"os": "linux", "architecture": machine}, **more)

    def index(self, *descriptors: dict[str, Any]) -> dict[str, bytes]:
        """The whole layout with these in its index."""
        return {**self.files, "index.json": json.dumps({"manifests": list(descriptors)}).encode()}


def changed_layout() -> Layout:
    """A layout that is not shipped: that of 1.35 with one field more in PodSpec."""
    layout = dict(load("1.35"))
    fields = layout["v1.PodSpec"]
    if isinstance(fields, str):
        raise TypeError("v1.PodSpec is a struct")
    layout["v1.PodSpec"] = (*fields, ("Newer", "newer", "*string"))
    return layout


def described(layout: Layout | None = None, *, algorithm: str = "legacy", names: bool = False) -> OperatorScheme:
    """What is read of an operator's image on two platforms, of which a third was not copied."""
    platforms = [
        replace(
            operator(layout, algorithm=algorithm),
            platforms=(Platform(f"linux/{machine}", f"sha256:{machine}", "sha256:0"),),
        )
        for machine in ("amd64", "arm64")
    ]
    found = images.of_platforms(platforms, digest="sha256:" + 64 * "a", missing=["linux/s390x"])
    return replace(found, recognised=recognised(algorithm, names=names))
