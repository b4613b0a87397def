"""The credentials of a client, which threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubernetes.client import Configuration
from urllib3 import PoolManager

from migrator.errors import NotAuthorised, UsageError
from migrator.kube import connections

#: Puts address and credentials into a configuration.
Read = Callable[[Configuration], None]


@dataclass(frozen=True)
class Access:
    """What a request is sent with: headers that sign it, and connections that show a client certificate, if any."""

    headers: Mapping[str, str]
    pool: PoolManager


class Credentials:
    """They are read at once, and again when the API server does not accept them any more."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self.access: Access  # what to send the next request with
        self._tls_files: tuple[bytes, ...] | None = None  # what the pool was made with
        self._renew()

    def renew(self, refused: Access, what: str) -> None:
        """Read them again after a request, which ``what`` names, was refused, unless another thread has tried that.

        Raises ``NotAuthorised`` if they cannot be read again.
        """
        with self._lock:
            if self.access is refused:
                try:
                    self._renew()
                except (UsageError, NotAuthorised) as error:
                    # Another object: requests under way with the refused one start no plugin, which may ask a person.
                    self.access = replace(refused)
                    raise NotAuthorised(f"{what}: the credentials cannot be renewed: {error}") from error

    def _renew(self) -> None:
        configuration = Configuration()
        self._read(configuration)
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
        pool = self.access.pool if tls_files == self._tls_files else connections.pool_of(configuration)
        self.access, self._tls_files = Access(headers, pool), tls_files
