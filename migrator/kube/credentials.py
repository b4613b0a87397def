"""The credentials of a client, which threads share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kubernetes.client import Configuration

from migrator.errors import NotAuthorised, UsageError

#: How long before they expire credentials are read again, in seconds: all attempts of a read may take so long.
_EARLY: Final = 60.0
#: How soon they are read again at the earliest, in seconds: a plugin may print a token that has expired.
_LEAST: Final = 1.0
#: How soon after a failure, in seconds.
_AFTER_FAILURE: Final = 10.0


class Credentials:
    """The headers that sign requests. They are read at once, and again before they expire.

    Until they expire, a failure to read them again does no harm.

    ``read`` puts credentials into the configuration, and returns for how many seconds they are good.
    """

    def __init__(self, configuration: Configuration, read: Callable[[], float], clock: Callable[[], float]) -> None:
        self._configuration = configuration
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self._headers: Mapping[str, str] = {}
        self._until = self._again = -math.inf
        self._renew()

    def headers(self, what: str) -> Mapping[str, str]:
        """The headers for a request, which ``what`` names; raises ``NotAuthorised`` if they cannot be read again."""
        if not self._lock.acquire(blocking=self._clock() >= self._until):
            return self._headers  # another thread reads them again, and these are still good
        try:
            if self._clock() >= self._again:
                self._try_again(what)
            return self._headers
        finally:
            self._lock.release()

    def _try_again(self, what: str) -> None:
        try:
            self._renew()
        except (UsageError, NotAuthorised) as error:
            if self._clock() >= self._until:
                raise NotAuthorised(f"{what}: the credentials cannot be renewed: {error}") from error
            self._again = self._clock() + _AFTER_FAILURE

    def expire(self) -> None:
        """Read the credentials anew before the next request: the API server did not accept these."""
        self._until = self._again = -math.inf

    def _renew(self) -> None:
        lifetime = self._read()
        # A file with a token may end with a line break, which client-go strips too.
        settings: Iterable[Any] = self._configuration.auth_settings().values()
        headers = {setting["key"]: setting["value"].strip() for setting in settings}
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise NotAuthorised(  # which is not quoted: a token could be in it
                "the credentials cannot be sent: the token has a line break, or a character other than printable "
                "ASCII; correct it in the kubeconfig, or where its credential plugin gets it"
            )
        now = self._clock()  # a plugin may have taken seconds
        self._headers, self._until, self._again = headers, now + lifetime, now + max(_LEAST, lifetime - _EARLY)
