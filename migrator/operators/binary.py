"""One operator's binary: everything that is read from it, in one value."""

from __future__ import annotations

import re
from typing import BinaryIO, Final

from migrator.operators import buildinfo, layout, moduledata
from migrator.operators.algorithm import recognise
from migrator.operators.archives import as_input_error, sha256_of
from migrator.operators.elf import Elf
from migrator.operators.functions import Functions
from migrator.operators.gotypes import GoTypes
from migrator.operators.schemefile import OperatorScheme, Platform

_API, _MACHINERY, _SPEW = "k8s.io/api", "k8s.io/apimachinery", "github.com/davecgh/go-spew"
#: The versions with which our hashes were compared with Go's.
_TESTED_MACHINERY: Final = re.compile(r"v0\.3[3-7]\.\d+")
_TESTED_SPEW: Final = "v1.1.2-0.20180830191138-d8f796af33cc"
_RELEASE: Final = re.compile(r"[./]version\.gitVersion=([\w.+-]+)")


def read(file: BinaryIO) -> OperatorScheme:
    """Read an operator's ELF file; raises ``InputError`` for another file, and as :func:`recognise` does."""
    with as_input_error():
        elf = Elf(file)
        info = buildinfo.read(elf)
        module = moduledata.find(elf, info.go_minor)
        types = GoTypes(elf, module)
        recognised = recognise(Functions(elf, module), types)
        release = _RELEASE.search(info.settings.get("-ldflags", ""))
        labels = {
            "go": info.go,
            "commit": info.commit,
            "release": release[1] if release else "",
            **{name: info.modules.get(name, "") for name in (_API, _MACHINERY, _SPEW)},
        }
        machinery, spew = (info.modules.get(name, "(unknown)") for name in (_MACHINERY, _SPEW))
        warnings = []
        if not _TESTED_MACHINERY.fullmatch(machinery):
            warnings.append(f"{_MACHINERY} {machinery} is not 0.33 to 0.37, with which our hashes were compared")
        if spew != _TESTED_SPEW:
            warnings.append(f"{_SPEW} {spew} is not {_TESTED_SPEW}, with which our hashes were compared")
        return OperatorScheme(
            recognised=recognised,
            layout=layout.read(types),
            platforms=(Platform(f"linux/{elf.architecture}", None, f"sha256:{sha256_of(file)}"),),
            labels={name: text for name, text in labels.items() if text},
            warnings=tuple(warnings),
        )
