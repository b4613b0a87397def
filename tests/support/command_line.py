"""The command line as a process would call it, with all that it prints; and the example that most tests give it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from migrator import cli
from migrator.cli import connect
from testbed import operator_installation as installation
from testbed.trees import as_list
from tests.support.clock import hurried
from tests.support.memory_store import MemoryCluster
from tests.support.paths import ROOT

DUMP: Final = ROOT / "examples" / "cluster.yaml"
MANIFESTS: Final = ROOT / "examples" / "podcliquesets.yaml"
TO: Final = ("--to", "v0.1.0-alpha.11")
#: The example has no operator to be found.
HOME: Final = ("--operator", "grove-system/grove-operator")
_hurried: Final = hurried(connect.context)


@cache
def _example() -> str:
    return json.dumps(yaml.load(DUMP.read_text(encoding="utf-8"), yaml.CSafeLoader)["items"])


def objects() -> list[dict[str, Any]]:
    """The objects of the example, to be changed at will."""
    items: list[dict[str, Any]] = json.loads(_example())
    return items


def installed(release: str, *, replicas: int = 1) -> list[dict[str, Any]]:
    """The Deployment of an operator, and its pod if it has one."""
    image = installation.image(release)
    pods = [installation.pod(image)] if replicas else []
    return [installation.deployment(image, replicas=replicas, observed=True), *pods]


def written(path: Path, items: Sequence[dict[str, Any]]) -> Path:
    """Write objects as kubectl prints them."""
    path.write_text(json.dumps(as_list(items), indent=2))
    return path


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed."""

    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]

    def column(self, key: str) -> list[Any]:
        """The values of one key in the JSON lines on stdout."""
        return [line[key] for line in self.lines]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The JSON lines on stderr."""
        return [json.loads(line) for line in self.err.splitlines() if line]

    @property
    def last(self) -> dict[str, Any]:
        """The JSON line that stderr ends with."""
        event: dict[str, Any] = json.loads(self.err.splitlines()[-1])
        return event

    @property
    def message(self) -> str:
        """What the last line on stderr says."""
        return str(self.last["message"])

    @property
    def failure(self) -> dict[str, Any]:
        """The error object on stderr; nothing is on stdout, and no traceback anywhere."""
        assert self.out == ""
        assert "Traceback" not in self.err
        (event,) = (event for event in self.events if event["event"] == "failed")
        return event


class Invoke:
    """Calls a command, compares its exit code, and returns what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *given: str | Path) -> None:
        self._capsys, self._monkeypatch, self._given = capsys, monkeypatch, given

    def given(self, *more: str | Path) -> Invoke:
        """The same with these arguments at the end of every command."""
        return Invoke(self._capsys, self._monkeypatch, *more)

    def __call__(self, *arguments: str | Path, code: int | tuple[int, ...] = 0, **options: Any) -> Printed:
        """``grove-migrator ARGUMENTS``, which must exit with ``code``, or one of them."""
        self._capsys.readouterr()
        found = cli.invoke([str(argument) for argument in (*arguments, *self._given)], **options)
        printed = Printed(*self._capsys.readouterr())
        assert found in (code if isinstance(code, tuple) else (code,)), printed.err
        return printed

    def on(self, store: MemoryCluster) -> MemoryCluster:
        self._monkeypatch.setattr(connect, "connect", lambda *_, **__: store)
        self._monkeypatch.setattr(connect, "context", _hurried)
        return store


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    return Invoke(capsys, monkeypatch)
