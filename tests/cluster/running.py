"""``grove-migrator run`` as a process of this machine that can be caught among its writes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from migrator.grove.objects import LABEL_POD_TEMPLATE_HASH
from testbed.controlplane.client import Client, eventually
from tests.support.paths import ROOT

#: How long a run may take, in seconds.
SECONDS: Final = 300
#: The program, one patch at a time: each is slow, or it is killed before its write of a number.
_DISTURBED: Final = """
import os, signal, sys, time
from itertools import count
from urllib3 import PoolManager
send, writes, pods, at = PoolManager.urlopen, count(1), count(1), int(sys.argv.pop(1))
def disturbed(self, method, url, **options):
    if method == "PATCH" and not at:
        time.sleep(0.12)
    if method == "PATCH" and "dryRun" not in url:
        counts = "webhookconf" in url or "/pods/" in url and next(pods) in {3, 4}
        if counts and next(writes) == at:
            os.kill(os.getpid(), signal.SIGKILL)
    return send(self, method, url, **options)
PoolManager.urlopen = disturbed
from migrator.cli import connect
connect.CONCURRENCY = 1
from migrator.__main__ import main
main()
"""


def killed(at: int, *arguments: str | Path) -> bool:
    """A command, killed before its write of this number; false if it ends well before that.

    Those to a webhook configuration count, and two of those to pods.
    """
    command = (sys.executable, "-c", _DISTURBED, str(at), *map(str, arguments))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-3000:]
    return done.returncode != 0


class Running:
    """A run, one patch at a time; a context manager, at whose end it is killed if it has not ended."""

    def __init__(self, directory: Path, client: Client, kubeconfig: Path, *arguments: str) -> None:
        self._client = client
        self._before = self._hashes()
        where = ("--kubeconfig", str(kubeconfig), "-o", "json", "--log-format=json")
        command = (sys.executable, "-c", _DISTURBED, "0", "run", *arguments, "--stop-operator", *where)
        directory.mkdir()
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def until_it_writes(self, pods: int = 1) -> None:
        """Wait until so many pods have new hashes, while it is still at work."""

        def changed() -> int:
            now = self._hashes()
            return sum(now.get(uid) != value for uid, value in self._before.items())

        eventually(lambda: self.process.poll() is not None or changed() >= pods, what="the run writes nothing")
        assert self.process.poll() is None, self.log

    def finish(self) -> Any:
        """Wait for its end, which must be a good one; its result."""
        assert self.process.wait(SECONDS) == 0, self.log[-3000:]
        return json.loads(self._out.read_text(encoding="utf-8"))

    def _hashes(self) -> dict[str, str]:
        """The hash of each pod, by its uid."""
        found = [pod["metadata"] for pod in self._client.list("v1", "Pod", selector=LABEL_POD_TEMPLATE_HASH)]
        return {metadata["uid"]: metadata["labels"][LABEL_POD_TEMPLATE_HASH] for metadata in found}
