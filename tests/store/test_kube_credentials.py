"""Credentials that threads share: a login that hangs must not keep a Lease from being renewed."""

from __future__ import annotations

import threading

from kubernetes.client import Configuration

from migrator.kube.credentials import Credentials


def test_a_slow_renewal_holds_up_nobody_while_the_old_credentials_are_good() -> None:
    """A credential plugin may wait for a person, and the Lease is renewed by another thread."""
    now, asked, answered = [0.0], threading.Event(), threading.Event()

    def read(_: Configuration) -> tuple[float, float]:
        if now[0]:
            asked.set()
            answered.wait(20)
        return 100.0, 40.0

    credentials = Credentials(read, lambda: now[0])
    now[0] = 50.0
    slow = threading.Thread(target=credentials.access, args=("slow",), daemon=True)
    slow.start()
    assert asked.wait(20)
    other = threading.Thread(target=credentials.access, args=("other",), daemon=True)
    other.start()
    other.join(5)
    held_up = other.is_alive()
    answered.set()
    slow.join(20)
    assert not held_up
