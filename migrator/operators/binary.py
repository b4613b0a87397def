"""One operator's binary: everything that is read from it, in one value."""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from migrator.errors import InputError
from migrator.hashing import layouts
from migrator.operators import layout
from migrator.operators.algorithm import Functions, recognise
from migrator.operators.elf import Elf
from migrator.operators.goinfo import BuildInfo, build_info, module_data
from migrator.operators.gotypes import GoTypes
from migrator.operators.schemefile import OperatorScheme

_API, _MACHINERY, _SPEW = "k8s.io/api", "k8s.io/apimachinery", "github.com/davecgh/go-spew"
#: The version with which our hashes were compared with Go's; k8s.io/apimachinery is tested with every known minor.
_TESTED_SPEW: Final = "v1.1.2-0.20180830191138-d8f796af33cc"
_RELEASE: Final = re.compile(r"[./]version\.gitVersion=([\w.+-]+)")


#: The errors that a damaged file causes where no check of ours finds it.
_DAMAGED: Final = (LookupError, OverflowError, RecursionError, ValueError, struct.error)


def read(file: BinaryIO) -> OperatorScheme:
    """Read an operator's program file.

    Raises :class:`~migrator.errors.InputError` for another file, and as :func:`recognise` does.
    """
    try:
        return _read(file)
    except _DAMAGED as error:
        raise InputError(f"its contents cannot be understood ({error!r}): copy it again") from error


def _read(file: BinaryIO) -> OperatorScheme:
    elf = Elf(file)
    info = build_info(elf)
    module = module_data(elf, info.go_minor)
    types = GoTypes(elf, module)
    recognised = recognise(Functions(elf, module), types)
    found = layout.read(types)
    release = _RELEASE.search(info.settings.get("-ldflags", ""))
    file.seek(0)
    labels = {
        "platform": f"linux/{elf.architecture}",
        "sha256": hashlib.file_digest(file, "sha256").hexdigest(),  # type: ignore[arg-type]  # it has readinto
        "go": info.go,
        "commit": info.commit,
        "release": release[1] if release else "",
        **{name: info.modules.get(name, "") for name in (_API, _MACHINERY, _SPEW)},
    }
    return OperatorScheme(
        recognised=recognised,
        layout=found,
        labels={name: text for name, text in labels.items() if text},
        warnings=tuple(_warnings(info, found)),
    )


def _warnings(info: BuildInfo, found: layouts.Layout) -> Iterator[str]:
    machinery, spew = (info.modules.get(name, "(unknown)") for name in (_MACHINERY, _SPEW))
    tested = [minor.replace("1.", "0.", 1) for minor in layouts.minors()]
    if not any(re.fullmatch(rf"v{re.escape(minor)}\.\d+", machinery) for minor in tested):
        yield f"{_MACHINERY} {machinery} is not {tested[0]} to {tested[-1]}, with which our hashes were compared"
    if spew != _TESTED_SPEW:
        yield f"{_SPEW} {spew} is not {_TESTED_SPEW}, with which our hashes were compared"
    if layouts.name_of(found) not in layouts.minors():
        yield "its layout is that of no known k8s.io/api minor; compare the file's sha256 with that of its source"
