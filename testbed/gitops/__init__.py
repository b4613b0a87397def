"""The CRDs of Argo CD (files of its Go module) and Flux (made of its types by controller-gen, as Flux does it)."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from testbed.crds.generate import CONTROLLER_GEN
from testbed.go_programs import GoProgramError, environment, go

HERE: Final = Path(__file__).resolve().parent

#: The module, and the sum that go.sum would have of it. Nothing of it is built, so it is in no go.mod.
_ARGO_CD: Final = "github.com/argoproj/argo-cd/v3@v3.2.0"
_ARGO_CD_SUM: Final = "h1:m2eGAV+nXQGgzZbH5SyJD5laaPW27mzWXBrgisUHY/0="

#: In the version that go.mod here names.
_HELM_RELEASE: Final = "github.com/fluxcd/helm-controller/api/v2"


def crds() -> list[dict[str, Any]]:
    """Application, AppProject and HelmRelease. Raises GoProgramError where a module cannot be had."""
    return [*_argo_cd(), *_flux()]


def _argo_cd() -> Iterator[dict[str, Any]]:
    done = _run(go(), "mod", "download", "-json", _ARGO_CD, cwd=HERE.parent)
    found = json.loads(done)
    if found["Sum"] != _ARGO_CD_SUM:
        raise GoProgramError(f"{_ARGO_CD} has the sum {found['Sum']}, not {_ARGO_CD_SUM}")
    for name in ("application", "appproject"):
        yield yaml.safe_load((Path(found["Dir"]) / "manifests" / "crds" / f"{name}-crd.yaml").read_bytes())


def _flux() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as output:
        arguments = (f"paths={_HELM_RELEASE}", f"output:crd:dir={output}")
        _run(CONTROLLER_GEN.binary(), "crd:maxDescLen=0,allowDangerousTypes=true", *arguments, cwd=HERE)
        for path in Path(output).iterdir():
            yield yaml.safe_load(path.read_bytes())


def _run(command: str | Path, *arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        [command, *arguments], cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise GoProgramError(f"{' '.join([str(command), *arguments])} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
