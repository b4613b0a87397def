"""What a kubelet puts into the volumes of a pod: ConfigMaps, Secrets, tokens and the pod's own metadata, as files."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from testbed.controlplane.client import Client, Object
from testbed.controlplane.server import ControlPlane

_DEVICES: Final = ("null", "zero", "random", "urandom")
#: Succeeds where this machine permits the mounts of `private_mounts`.
PROBE: Final = (
    "mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work && mount -o remount,bind,ro / && "
    "mount -t overlay overlay -o lowerdir=/run,upperdir=/mnt/upper,workdir=/mnt/work /run"
)
_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class Volumes:
    """The volumes of one pod, each a directory; `write` brings them up to date, as kubelet does from time to time."""

    def __init__(self, control_plane: ControlPlane, client: Client, pod: Object, directory: Path) -> None:
        self._control_plane = control_plane
        self._client = client
        self._pod = pod
        self._directory = directory
        self._token = ""

    def write(self) -> None:
        """Write what has changed, each file in one step. Raises AnswerError where a source is not there (yet)."""
        for volume in self._pod["spec"].get("volumes") or ():
            home = self._directory / volume["name"]
            home.mkdir(parents=True, exist_ok=True)
            for name, content in self._files(volume):
                path = home / name
                if path.exists() and path.read_bytes() == content:
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                fresh = path.with_name(f".{path.name}.new")
                fresh.write_bytes(content)
                fresh.replace(path)

    def mounts(self, container: Object) -> dict[str, Path]:
        """What a container sees where: its mount paths, and the directories behind them."""
        return {
            mount["mountPath"]: self._directory / mount["name"] / mount.get("subPath", "")
            for mount in container.get("volumeMounts") or ()
        }

    def environment(self, container: Object) -> dict[str, str]:
        """A container's environment, with what refers to the pod's own fields."""
        found = {}
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if "fieldRef" in source:
                found[variable["name"]] = self._field(source["fieldRef"]["fieldPath"])
            else:
                found[variable["name"]] = variable.get("value", "")
        return found

    def _files(self, volume: Object) -> Iterator[tuple[str, bytes]]:
        if "projected" in volume:
            for source in volume["projected"]["sources"]:
                yield from self._source(source)
        elif "configMap" in volume or "downwardAPI" in volume:
            yield from self._source(volume)
        elif "secret" in volume:
            yield from self._source({"secret": {**volume["secret"], "name": volume["secret"]["secretName"]}})
        elif "emptyDir" not in volume:
            raise ValueError(f"volume {volume['name']} is of a kind that this kubelet does not know: {sorted(volume)}")

    def _source(self, source: Object) -> Iterator[tuple[str, bytes]]:
        if "serviceAccountToken" in source:
            yield source["serviceAccountToken"]["path"], self._service_account_token().encode()
        elif "downwardAPI" in source:
            for item in source["downwardAPI"].get("items") or ():
                yield item["path"], self._field(item["fieldRef"]["fieldPath"]).encode()
        elif "configMap" in source:
            data = self._get("ConfigMap", source["configMap"]["name"]).get("data") or {}
            yield from _selected(source["configMap"], {name: text.encode() for name, text in data.items()})
        elif "secret" in source:
            secret = self._get("Secret", source["secret"]["name"]).get("data") or {}
            yield from _selected(source["secret"], {name: base64.b64decode(text) for name, text in secret.items()})
        else:
            raise ValueError(f"a projected volume has a source that this kubelet does not know: {sorted(source)}")

    def _get(self, kind: str, name: str) -> Object:
        return self._client.get("v1", kind, name, self._pod["metadata"]["namespace"])

    def _service_account_token(self) -> str:
        if not self._token:
            account = self._pod["spec"].get("serviceAccountName") or "default"
            self._token = self._client.service_account_token(self._pod["metadata"]["namespace"], account, pod=self._pod)
        return self._token

    def _field(self, path: str) -> str:
        by_key = _FIELD.fullmatch(path)
        if by_key:
            return str((self._pod["metadata"].get(by_key[1]) or {}).get(by_key[2], ""))
        value: Any = self._pod
        for step in path.split("."):
            value = value.get(step, {})
        return str(value or "")


def _selected(reference: Object, data: dict[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """All keys, or those that are named, at the paths that they are given."""
    items = reference.get("items")
    if items is None:
        yield from data.items()
        return
    for item in items:
        yield item["path"], data[item["key"]]


def private_mounts(directory: Path, mounts: dict[str, Path], *, read_only: bool) -> str:
    """The shell commands that make mounts seen by one process alone: what is to be seen where.

    A mount point that does not exist is made in a layer over its top-level directory, so the machine's own files stay
    as they are. /dev is made anew: in a layer that a user namespace owns, devices do not work. What lies on /tmp comes
    last: the tests' own directories are usually there. With ``read_only`` nothing else on / can be written to.
    """
    wanted = {os.path.realpath(target): source for target, source in mounts.items()}
    layers = directory / "layers"
    layers.mkdir(exist_ok=True)
    lines = ["set -e", f"mount -t tmpfs tmpfs '{layers}'"]
    for top in sorted({Path(target).parts[1] for target in wanted if not Path(target).exists()}):
        layer = layers / top
        lines.append(f"mkdir -p '{layer}/upper' '{layer}/work'")
        if top == "dev":
            lines += [
                f": > '{layer}/upper/{name}'; mount --bind '/dev/{name}' '{layer}/upper/{name}'" for name in _DEVICES
            ]
            lines.append(f"mount --rbind '{layer}/upper' /dev")
        else:
            layered = f"lowerdir=/{top},upperdir={layer}/upper,workdir={layer}/work"
            lines.append(f"mount -t overlay overlay -o '{layered}' /{top}")
    for target in sorted(wanted, key=lambda target: (target == "/tmp" or target.startswith("/tmp/"), target)):  # noqa: S108
        if wanted[target].is_dir():
            lines.append(f"mkdir -p '{target}'")
        else:
            lines.append(f"mkdir -p '{Path(target).parent}' && : > '{target}'")
        lines.append(f"mount --bind '{wanted[target]}' '{target}'")
    if read_only:
        lines.append("mount -o remount,bind,ro /")
    lines.append('exec setpriv --pdeathsig KILL -- "$@"')
    return "\n".join(lines)
