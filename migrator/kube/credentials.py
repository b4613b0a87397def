"""The credentials of a client, which threads share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubernetes.client import Configuration
from urllib3 import PoolManager

from migrator.errors import NotAuthorised, UsageError
from migrator.kube import connections

#: How soon after a failure credentials are read again, in seconds.
_AFTER_FAILURE: Final = 10.0


@dataclass(eq=False)
class Access:
    """What a request is sent with: headers that sign it, and connections that show a client certificate, if any.

    ``until``: when it expires. ``again``: when the credentials are read again.
    """

    headers: Mapping[str, str]
    pool: PoolManager
    until: float
    again: float

    def expire(self) -> None:
        """Read the credentials anew before the next request, because the API server did not accept these."""
        self.until = self.again = -math.inf


class Credentials:
    """They are read at once, and again before they expire; until then a failure to read them again does no harm.

    ``read`` puts address and credentials into a configuration. It returns for how many seconds they are good, and after
    how many they are to be read again.
    """

    def __init__(self, read: Callable[[Configuration], tuple[float, float]], clock: Callable[[], float]) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self._access: Access
        self._tls: tuple[bytes, ...] | None = None
        self._renew()

    def access(self, what: str) -> Access:
        """What to send a request with, which ``what`` names; ``NotAuthorised`` if credentials cannot be read again."""
        if not self._lock.acquire(blocking=self._clock() >= self._access.until):
            return self._access  # another thread reads them again, and these are still good
        try:
            if self._clock() >= self._access.again:
                self._try_again(what)
            return self._access
        finally:
            self._lock.release()

    def _try_again(self, what: str) -> None:
        try:
            self._renew()
        except (UsageError, NotAuthorised) as error:
            if self._clock() >= self._access.until:
                raise NotAuthorised(f"{what}: the credentials cannot be renewed: {error}") from error
            self._access.again = self._clock() + _AFTER_FAILURE

    def _renew(self) -> None:
        configuration = Configuration()
        good, fresh = self._read(configuration)
        # A file with a token may end with a line break, which client-go strips too.
        settings: Iterable[Any] = configuration.auth_settings().values()
        headers = {setting["key"]: setting["value"].strip() for setting in settings}
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise NotAuthorised(  # which is not quoted: a token could be in it
                "the credentials cannot be sent: the token has a line break, or a character other than printable "
                "ASCII; correct it in the kubeconfig, or where its credential plugin gets it"
            )
        tls, self.server = connections.tls_files(configuration), str(configuration.host)
        pool = self._access.pool if tls == self._tls else connections.pool_of(configuration)
        now = self._clock()  # a plugin may have taken seconds
        self._tls, self._access = tls, Access(headers, pool, now + good, now + fresh)
