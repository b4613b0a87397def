"""The credentials of a client, which threads share."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kubernetes.client import Configuration

from migrator.errors import NotAuthorised, UsageError


class Credentials:
    """The headers that sign requests. They are read at once, and again when they expire.

    ``read`` puts credentials into the configuration, and returns for how many seconds they are good.
    """

    def __init__(self, configuration: Configuration, read: Callable[[], float], clock: Callable[[], float]) -> None:
        self._configuration = configuration
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self._headers: Mapping[str, str] = {}
        self._until = -math.inf
        self._renew()

    def headers(self, what: str) -> Mapping[str, str]:
        """The headers for a request, which ``what`` names; raises ``NotAuthorised`` if they cannot be read again."""
        with self._lock:
            if self._clock() >= self._until:
                try:
                    self._renew()
                except UsageError as error:
                    raise NotAuthorised(f"{what}: the credentials cannot be renewed: {error}") from error
            return self._headers

    def expire(self) -> None:
        """Read the credentials anew before the next request: the API server did not accept these."""
        self._until = -math.inf

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
        self._headers, self._until = headers, self._clock() + lifetime  # a plugin may take seconds
