"""Where an operator's binary is found, and what is refused on the way."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tempfile
from typing import Any

import pytest

from migrator.errors import InputError
from migrator.operators import archives, images
from migrator.operators.schemefile import OperatorScheme
from tests.support import operator_files as fakes
from tests.support.operator_files import ELF, OciLayout, binary, digest, tar


@pytest.fixture(autouse=True)
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images.binary, "read", fakes.read)


def read(data: bytes, image: str | None = None) -> OperatorScheme:
    """Read a file."""
    return images.read_file(io.BytesIO(data), tempfile.TemporaryFile, image=image)


def oci(*layers: bytes, **options: Any) -> bytes:
    """An OCI archive with one image."""
    layout = OciLayout()
    return tar(layout.index(layout.image(*layers, **options)))


def docker(
    layer: bytes, *, states: list[str] | None = None, tags: tuple[str, ...] = ("operator:1",)
) -> dict[str, bytes]:
    """What `docker save` wrote before it wrote OCI layouts."""
    config = {"os": "linux", "architecture": "amd64", "config": {"Entrypoint": ["/grove-operator"]}}
    config["rootfs"] = {"diff_ids": [digest(layer)] if states is None else states}
    listed = [{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]} for tag in tags]
    return {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer,
        "manifest.json": json.dumps(listed).encode(),
    }


OPERATOR = tar({"etc/passwd": b"root", "grove-operator": binary()})


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "data",
    [binary(), OPERATOR, tar(OciLayout().files | {"bin/op": binary()}), tar(docker(OPERATOR))],
    ids=["elf", "rootfs", "rootfs-with-oci-file", "docker"],
)
def test_a_file_is_read_whatever_it_is_packed_in(data: bytes, *, packed: bool) -> None:
    """A binary, a root file system and a docker archive, gzipped or not, give the operator, and no image digest."""
    found = read(gzip.compress(data) if packed else data)
    assert [one.name for one in found.platforms] == ["linux/amd64"]
    assert found.image_digest is None


def test_an_oci_image_has_the_digest_of_its_reference() -> None:
    """An OCI archive gives the digest of what its index names, and that of each platform's manifest."""
    layout = OciLayout()
    one, two = layout.image(OPERATOR), layout.image(tar({"grove-operator": binary("arm64")}), machine="arm64")
    note = layout.json({}, platform={"os": "unknown", "architecture": "unknown"})
    index = layout.json({"manifests": [one, two, note]})
    found = read(tar(layout.index(index)))
    assert found.image_digest == index["digest"]
    assert [(p.name, p.manifest) for p in found.platforms] == [
        ("linux/amd64", one["digest"]),
        ("linux/arm64", two["digest"]),
    ]


def test_a_platform_that_was_not_copied_is_named() -> None:
    """Of an index whose other platforms are not in the archive, those are reported as missing."""
    layout = OciLayout()
    one = layout.image(OPERATOR)
    absent = {"digest": digest(b"?"), "platform": {"os": "linux", "architecture": "arm64"}}
    found = read(tar(layout.index(layout.json({"manifests": [one, absent]}))))
    assert found.warnings == ("linux/arm64 is not in the archive; only the other platforms were read",)
    with pytest.raises(InputError, match="none of the image's platforms"):
        read(tar(layout.index(layout.json({"manifests": [absent]}))))


def test_an_index_may_hold_indexes() -> None:
    """Manifests are found behind any number of indexes, each once."""
    layout = OciLayout()
    one = layout.image(OPERATOR)
    inner = layout.json({"manifests": [one]})
    outer = layout.json({"manifests": [inner, inner, one]})
    found = read(tar(layout.index(layout.json({"manifests": [outer]}))))
    assert [(p.name, p.manifest) for p in found.platforms] == [("linux/amd64", one["digest"])]


def test_docker_save_without_compression_keeps_no_digest() -> None:
    """A layout that docker wrote of unpacked layers has manifests of docker's own: their digests are left out."""
    layout = OciLayout()
    made = layout.image(OPERATOR, zipped=False)
    saved = {**layout.index(made), "manifest.json": b"[]"}
    found = read(tar(saved))
    assert (found.image_digest, found.platforms[0].manifest) == (None, None)
    assert read(tar(layout.index(made))).image_digest == made["digest"]


def test_later_layers_replace_and_remove_files() -> None:
    """A file of an upper layer hides the one below, and whiteouts remove what they name."""
    old, new = tar({"grove-operator": binary(minor="1.33")}), tar({"grove-operator": binary(minor="1.34")})
    assert read(oci(old, new)).layout == fakes.load("1.34")
    for whiteout in (".wh.grove-operator", ".wh..wh..opq"):
        upper = tar({whiteout: b"", "bin/one": binary()})
        assert read(oci(old, upper)).layout == fakes.load("1.35")


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """A tar's header for something without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info.tobuf()


END = bytes(2 * tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    "upper",
    [
        member("bin/.wh.old") + END,
        member(".wh.bin") + END,
        member("bin", tarfile.SYMTYPE, "usr") + END,
        member("bin/old", tarfile.DIRTYPE) + END,
        member("./bin//.wh.old") + END,
        member("bin/.wh..wh..opq") + END,
    ],
    ids=["whiteout", "above", "link", "directory", "spelling", "opaque"],
)
def test_what_a_layer_hides_is_not_read(upper: bytes) -> None:
    """A file below is hidden by a whiteout of it or of what it is in, and by what takes the place of either."""
    lower = tar({"bin/old": binary(minor="1.33"), "new": binary(minor="1.34")})
    assert read(oci(lower, upper, entry="/bin/old")).layout == fakes.load("1.34")


@pytest.mark.parametrize(
    "hostile",
    [
        member("a", tarfile.SYMTYPE, "b") + member("b", tarfile.SYMTYPE, "a"),
        member("a", tarfile.SYMTYPE, "a"),
        member("grove-operator", tarfile.SYMTYPE, "/etc/passwd") + member("x", tarfile.LNKTYPE, "../../etc/passwd"),
        member("pipe", tarfile.FIFOTYPE) + member("device", tarfile.CHRTYPE),
    ],
    ids=["circle", "itself", "outside", "devices"],
)
def test_links_lead_nowhere_else(hostile: bytes) -> None:
    """Links in a circle or out of the archive, and devices, are not followed; the operator beside them is read."""
    for name in ("bin/op", "../../op", "/op"):
        assert read(hostile + tar({name: binary()})).platforms[0].name == "linux/amd64"


class Scratch(list[Any]):
    """Makes the files that are unpacked into, and keeps them."""

    def __call__(self) -> Any:
        """One more file."""
        self.append(tempfile.TemporaryFile())  # noqa: SIM115 - who asked for it closes it
        return self[-1]


def test_a_gzip_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacking stops at a limit, and what was unpacked is closed."""
    scratch = Scratch()
    monkeypatch.setattr(archives, "_LARGEST_UNPACKED", 1 << 20)
    with pytest.raises(InputError, match="holds more than 1 MiB; no operator does"):
        images.read_file(io.BytesIO(gzip.compress(bytes(5 << 20))), scratch)
    assert [one.closed for one in scratch] == [True]


def test_scratch_files_are_closed() -> None:
    """What layers are unpacked into is closed in the end."""
    scratch = Scratch()
    images.read_file(io.BytesIO(gzip.compress(oci(OPERATOR))), scratch)
    assert [one.closed for one in scratch] == [True, True]


def test_a_file_of_more_zeros_than_its_archive_is_not_read() -> None:
    """A sparse file that claims a terabyte is left alone."""
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {"GNU.sparse.size": str(1 << 40), "GNU.sparse.map": "0,4", "GNU.sparse.name": "sparse"}
    info.size = len(ELF)
    data = info.tobuf(tarfile.PAX_FORMAT) + ELF.ljust(tarfile.BLOCKSIZE, b"\0") + tar({"op": binary()})
    assert read(data).platforms[0].name == "linux/amd64"


def _header(at: int, data: bytes) -> bytes:
    """A tar whose first header is changed, with its sum put right."""
    made = bytearray(OPERATOR)
    made[at : at + len(data)] = data
    made[148:156] = b" " * 8
    made[148:156] = b"%06o\0 " % sum(made[:512])
    return bytes(made)


def _pax(records: bytes) -> bytes:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, len(records)
    return info.tobuf() + records.ljust(tarfile.BLOCKSIZE, b"\0") + OPERATOR


TWO = tar({"grove-operator": binary(), "other": 2000 * b"1"})


def test_the_entry_point_decides_among_programs() -> None:
    """An image's entry point is the operator though others are in it; a wrapper as entry point is looked behind."""
    both = tar({"grove-operator": binary(), "backup/operator": binary(minor="1.34"), "init": ELF + b" other"})
    assert read(oci(both)).layout == fakes.load("1.35")
    with pytest.raises(InputError, match="more than one operator: grove-operator, backup/operator"):
        read(oci(both, entry="/init"))
    one = tar({"init": ELF + b" other", "grove-operator": binary(), "copy": binary()})
    assert read(oci(one, entry="/init")).platforms[0].name == "linux/amd64"


def _wrong_blob() -> bytes:
    layout = OciLayout()
    files = layout.index(layout.image(OPERATOR))
    name = max(files, key=lambda path: len(files[path]))
    return tar({**files, name: files[name][:-1] + b"?"})


def _platforms(machine: str, *others: bytes) -> bytes:
    layout = OciLayout()
    made = [layout.image(OPERATOR)]
    made += [layout.image(tar({"grove-operator": other}), machine=machine) for other in others]
    return tar(layout.index(layout.json({"manifests": made})))


def _two_images() -> bytes:
    layout = OciLayout()
    one = layout.image(OPERATOR, annotations={"org.opencontainers.image.ref.name": "one"})
    two = layout.image(tar({"grove-operator": binary(minor="1.34")}), annotations={"io.containerd.image.name": "two"})
    return tar(layout.index(one, two))


def _layer(data: bytes, system: str = "linux") -> bytes:
    layout = OciLayout()
    config = layout.json({"os": system, "architecture": "amd64", "config": None})
    return tar(layout.index(layout.json({"config": config, "layers": [layout.blob(data)]}, annotations=None)))


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"#!/bin/sh\n", "neither an ELF file"),
        (b"", "neither an ELF file"),
        (b"\x28\xb5\x2f\xfd" + bytes(600), "zstd"),
        (gzip.compress(OPERATOR)[:-40], "damaged or cut off"),
        (OPERATOR[:700], "damaged or cut off"),
        (_wrong_blob(), "another digest; get the image again"),
        (tar(OciLayout().index({"digest": "sha512:00"})), "only sha256 is known"),
        (_platforms("arm64", binary("amd64")), "states linux/arm64, but its operator is for linux/amd64"),
        (_platforms("arm64", binary("arm64", minor="1.34")), "hash differently"),
        (_platforms("arm64", binary("arm64", "canonical")), "hash differently"),
        (_two_images(), "has 2 images .one, two.: select one with .grove-migrator scheme ARCHIVE --image NAME"),
        (tar(docker(OPERATOR, states=[digest(b"?")])), "layer 1 is not the sha256:"),
        (tar(docker(OPERATOR, states=[])), "lacks layers"),
        (tar(docker(OPERATOR, tags=("a:1", "b:1"))), "has 2 images .a:1, b:1."),
        (tar({"manifest.json": b"[{}]"}), "contents cannot be understood"),
        (tar({"manifest.json": b'{"schemaVersion": 2}'}), "not of the kind that .docker save. writes"),
        (_layer(b"\x28\xb5\x2f\xfd" + bytes(600)), "compressed with zstd"),
        (_layer(OPERATOR, system="windows"), "states windows/amd64, but its operator is for linux/amd64"),
        (tar({"manifest.json": b"?"}), "manifest.json is not JSON"),
        (tar({"readme": b"text"}), "no Grove operator is in it: there is no ELF file"),
        (tar({"init": ELF + b" other"}), "no Grove operator is in it: init: it is a Go program"),
        (tar({"init": ELF + b" strange"}), "init: it was built with 'go1.99'"),
        (tar({"one": binary(), "two": binary(minor="1.34")}), "more than one operator: one, two"),
        (TWO[:1024], "damaged or cut off"),
        (TWO[:1200], "damaged or cut off"),
        (TWO[:1024] + b"?" + TWO[1025:], "damaged or cut off"),
        (_header(124, b"\xff" * 11 + b"\0"), "a negative size"),
        (_header(124, b"\x80" + b"\x7f" * 11), "cannot be understood"),
        (_pax(b"99999999999999999999 size=1\n"), "cannot be understood|damaged"),
        (_pax(b"25 GNU.sparse.map=a,b,c\n"), "cannot be understood|damaged"),
        (2000 * _pax(b"")[:512].replace(b"x", b"L") + OPERATOR, "cannot be understood|damaged"),
        (tar({**OciLayout().files, "index.json": 200_000 * b"["}), "cannot be understood"),
        (tar({**OciLayout().files, "index.json": b"[]"}), "cannot be understood"),
        (tar({**OciLayout().files, "index.json": b"{}"}), "has no image; save it again"),
        (gzip.compress(OPERATOR) + b"more", "damaged or cut off"),
    ],
)
def test_what_cannot_be_trusted_is_refused(data: bytes, refusal: str) -> None:
    """A wrong file, or one that is damaged or cut off anywhere, is refused by what was found; never is a part read."""
    with pytest.raises(InputError, match=refusal):
        read(data)


@pytest.mark.parametrize(("name", "minor"), [("one", "1.35"), ("two", "1.34")])
def test_an_image_is_chosen_by_name(name: str, minor: str) -> None:
    """Of several images in an archive the named one is read."""
    assert read(_two_images(), name).layout == fakes.load(minor)
    with pytest.raises(InputError, match=r"has 2 images .one, two., not three: select one"):
        read(_two_images(), "three")


def test_a_root_file_system_has_no_images() -> None:
    """A name of an image beside a root file system is refused."""
    with pytest.raises(InputError, match="has no image one"):
        read(OPERATOR, "one")
