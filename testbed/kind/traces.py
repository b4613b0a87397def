"""What an engine in namespaces has on its machine besides processes, which end with it: control groups, a directory."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import time
from pathlib import Path
from typing import Final

_NAME: Final = "grove-kind-"
_HOMES: Final = Path("/tmp")  # noqa: S108 - a random name follows; the paths of sockets must be short
_CGROUPS: Final = Path("/sys/fs/cgroup")
_SECONDS: Final = 30


def home(name: str) -> Path:
    """The directory of an engine."""
    return _HOMES / name


def remove(name: str) -> None:
    """Remove an engine's directory, and its control groups once the last process in them has ended."""
    deadline = time.monotonic() + _SECONDS
    while (paths := _cgroups(name)) and time.monotonic() < deadline:
        for path in sorted(paths, key=lambda found: len(found.parts), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()
        time.sleep(0.1)
    shutil.rmtree(home(name), ignore_errors=True)


def frozen(cgroup: str) -> set[Path]:
    """The control groups of an engine whose processes are frozen now."""
    found = _below(_CGROUPS / "freezer" / cgroup, "freezer.state")
    return {path for path in found if _read(path).strip() in {b"FREEZING", b"FROZEN"}}


def thaw(state: Path) -> None:
    """Let the processes of a control group go on."""
    with contextlib.suppress(OSError):
        state.write_text("THAWED", encoding="utf-8")


def new() -> str:
    """A name for an engine's directory and its control group."""
    return f"{_NAME}{secrets.token_hex(4)}"


def make(cgroup: str) -> None:
    """Make an engine's directory, and its control group in each hierarchy."""
    home(cgroup).mkdir()
    roots = [_CGROUPS] if (_CGROUPS / "cgroup.controllers").exists() else [p for p in _CGROUPS.iterdir() if p.is_dir()]
    for root in roots:
        made = root / cgroup
        made.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):  # version 1 begins with none
            with contextlib.suppress(OSError):
                (made / name).write_text((root / name).read_text(encoding="utf-8"), encoding="utf-8")


def _cgroups(cgroup: str) -> list[Path]:
    roots = [_CGROUPS / cgroup, *_CGROUPS.glob(f"*/{cgroup}")]
    found = [root for root in roots if root.is_dir()]
    return [*found, *(path for root in found for path in _below(root, "*") if path.is_dir())]


def _below(directory: Path, pattern: str) -> list[Path]:
    """What is below a directory of control groups; nothing if one of them goes while it is looked at."""
    try:
        return list(directory.rglob(pattern))
    except OSError:
        return []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
