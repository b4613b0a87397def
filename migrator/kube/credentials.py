"""The credentials of a client, which threads share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kubernetes.client import Configuration
from urllib3 import PoolManager

from migrator.errors import NotAuthorised, UsageError
from migrator.kube import connections

#: How soon after a failure credentials are read again, in seconds.
_AFTER_FAILURE: Final = 10.0


class Lifetime(NamedTuple):
    """For how many seconds credentials are good, and after how many they are to be read again; never by default."""

    good_for: float = math.inf
    read_again_after: float = math.inf


#: Puts address and credentials into a configuration.
Read = Callable[[Configuration], Lifetime]


@dataclass(eq=False)
class Access:
    """What a request is sent with: headers that sign it, and connections that show a client certificate, if any.

    Both times are on the clock of its :class:`Credentials`.
    """

    headers: Mapping[str, str]
    pool: PoolManager
    expires: float
    read_again: float

    def expire(self) -> None:
        """Read the credentials anew before the next request, because the API server did not accept these."""
        self.expires = self.read_again = -math.inf


class Credentials:
    """They are read at once, and again before they expire; until then a failure to read them again does no harm."""

    def __init__(self, read: Read, clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self._access: Access
        self._tls_files: tuple[bytes, ...] | None = None  # what the pool was made with
        self._renew()

    def access(self, what: str) -> Access:
        """What to send a request with, which ``what`` names; ``NotAuthorised`` if credentials cannot be read again."""
        is_expired = self._clock() >= self._access.expires
        if not self._lock.acquire(blocking=is_expired):
            return self._access  # another thread reads them again, and these are still good
        try:
            if self._clock() >= self._access.read_again:
                self._renew_or_keep(what)
            return self._access
        finally:
            self._lock.release()

    def _renew_or_keep(self, what: str) -> None:
        try:
            self._renew()
        except (UsageError, NotAuthorised) as error:
            if self._clock() >= self._access.expires:
                raise NotAuthorised(f"{what}: the credentials cannot be renewed: {error}") from error
            self._access.read_again = self._clock() + _AFTER_FAILURE

    def _renew(self) -> None:
        configuration = Configuration()
        lifetime = self._read(configuration)
        # A file with a token may end with a line break, which client-go strips too.
        settings: Iterable[Any] = configuration.auth_settings().values()
        headers = {setting["key"]: setting["value"].strip() for setting in settings}
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise NotAuthorised(  # which is not quoted: a token could be in it
                "the credentials cannot be sent: the token has a line break, or a character other than printable "
                "ASCII; correct it in the kubeconfig, or where its credential plugin gets it"
            )
        self.server = str(configuration.host)
        tls_files = connections.tls_files(configuration)
        pool = self._access.pool if tls_files == self._tls_files else connections.pool_of(configuration)
        now = self._clock()  # a plugin may have taken seconds
        self._access = Access(headers, pool, now + lifetime.good_for, now + lifetime.read_again_after)
        self._tls_files = tls_files
