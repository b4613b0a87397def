"""``grove-migrator run`` as a process of this machine that can be caught among its writes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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


@dataclass(frozen=True, slots=True)
class Running:
    """A run, one patch at a time."""

    process: subprocess.Popen[bytes]
    _written: Path

    @property
    def log(self) -> str:
        return self._written.read_text(encoding="utf-8")


@contextmanager
def running(log: Path, client: Client, kubeconfig: Path, *arguments: str, pods: int) -> Iterator[Running]:
    """A run in the block, which begins once so many pods have new hashes, and ends with the run."""
    before = _hashes(client)
    where = ("--kubeconfig", str(kubeconfig), "--log-format=json")
    command = (sys.executable, "-c", _DISTURBED, "0", "run", *arguments, "--stop-operator", *where)
    quiet = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    with log.open("wb") as err, subprocess.Popen(command, **quiet, stderr=err) as process:
        run = Running(process, log)

        def has_written() -> bool:
            now = _hashes(client)
            return process.poll() is not None or sum(now.get(uid) != value for uid, value in before.items()) >= pods

        try:
            eventually(has_written, what="the run writes nothing")
            assert process.poll() is None, run.log
            yield run
            process.wait(SECONDS)
        finally:
            process.kill()


def _hashes(client: Client) -> dict[str, str]:
    """The hash of each pod, by its uid."""
    found = [pod["metadata"] for pod in client.list("v1", "Pod", selector=LABEL_POD_TEMPLATE_HASH)]
    return {metadata["uid"]: metadata["labels"][LABEL_POD_TEMPLATE_HASH] for metadata in found}
