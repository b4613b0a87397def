"""Connections that deliver nothing late, and whose answers take no longer than they may.

A connection that is given up, or whose process ends, is reset: what the kernel has not sent yet is thrown away. Without
that it is sent as soon as the network is back, long after our hold on the Lease (measured: 52 s after, 16 of 16).
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import struct
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from kubernetes.client import ApiClient, Configuration
from urllib3 import PoolManager, disable_warnings
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import InsecureRequestWarning, NewConnectionError
from urllib3.util import parse_url
from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

from migrator.cluster import CONCURRENCY
from migrator.errors import UsageError

#: For how many seconds the kernel tries to send what is not acknowledged, also for a process that is stopped.
_UNACKNOWLEDGED: Final = 10.0
#: ``l_onoff`` and ``l_linger`` of ``SO_LINGER``: to close is to reset, at once (``man 7 socket``).
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)

_BUFFER: Final = 1 << 16

#: So many connections are kept open: one for each patch that may be under way, and some for lists and Leases.
_KEPT: Final = CONCURRENCY + 8


def pool_of(configuration: Configuration) -> PoolManager:
    """The official client's pool for a configuration, which makes such connections.

    Raises :class:`~migrator.errors.UsageError` for a certificate, or a name of the server, that cannot be used.
    """
    configuration.connection_pool_maxsize = _KEPT
    # urllib3 does not send the user and password that stand in the address of a proxy.
    if configuration.proxy and (secret := parse_url(configuration.proxy).auth):
        configuration.proxy_headers = {"proxy-authorization": basic(unquote(secret))}
    pool: PoolManager = ApiClient(configuration).rest_client.pool_manager
    if not configuration.verify_ssl:
        disable_warnings(InsecureRequestWarning)  # the kubeconfig asks for it, and stderr holds the log alone
    # The context has certificate and key already, and urllib3 would read the key as UTF-8.
    pool.connection_pool_kw |= {"ssl_context": _tls(configuration), "cert_file": None, "key_file": None}
    options = [*HTTPConnection.default_socket_options, (socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)]
    if (user_timeout := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:  # Linux's
        options.append((socket.IPPROTO_TCP, user_timeout, int(_UNACKNOWLEDGED * 1000)))
    pool.connection_pool_kw["socket_options"] = options
    pool.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return pool


def basic(secret: str) -> str:
    """The header for ``user:password``, in UTF-8 as by Go (``net/http``, ``Request.SetBasicAuth``)."""
    return f"Basic {b64encode(secret.encode()).decode()}"


def tls_files(configuration: Configuration) -> tuple[bytes, ...]:
    """What is in the files of certificates and keys; a pool goes on showing what it was made with.

    client-go reads them for each new connection, and closes those that show another certificate than the newest
    (``transport/cert_rotation.go:loadClientCert``; of a plugin ``exec.go:refreshCredsLocked``).
    """
    paths = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    with _loading("certificate or key"):
        return tuple(Path(path).read_bytes() for path in paths if path)


class _LoadedContext(ssl.SSLContext):
    """A TLS context that has its certificates and is not changed any more, so that threads can share it.

    urllib3 loads the certificates again for each connection, and OpenSSL can crash if another thread connects
    meanwhile. (It also sets ``verify_mode``, to what it is, which does no harm.)
    """

    def load_verify_locations(self, *_: object, **__: object) -> None:
        """They are loaded."""

    def set_alpn_protocols(self, *_: object) -> None:
        """They are set."""


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """As kubectl verifies: Python 3.13 also demands an authority key identifier, which a certificate may lack."""
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(ALPN_PROTOCOLS)
    if configuration.ssl_ca_cert:
        with _loading("certificate-authority"):
            context.load_verify_locations(configuration.ssl_ca_cert)
    else:
        context.load_default_certs()
    if configuration.cert_file:  # without a password OpenSSL would ask for that of an encrypted key
        with _loading("client-certificate with its client-key"):
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password="")
    with _loading("server or tls-server-name"):
        name = configuration.tls_server_name or parse_url(str(configuration.host)).host
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
    context.__class__ = _LoadedContext  # from now on
    return context


@contextmanager
def _loading(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(f"the {what} of the kubeconfig cannot be used: {error}") from error


class _TimedReader(io.RawIOBase):
    """The bytes of one answer, all of which must come within the time that a single read had."""

    def __init__(self, sock: socket.socket) -> None:
        limit = sock.gettimeout()
        self._sock = sock
        self._bytes: Any = sock.makefile("rb", buffering=0)
        self._ends = None if limit is None else time.monotonic() + limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # noqa: ANN401 - any writable buffer
        if self._ends is not None:
            left = self._ends - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer was not complete in time")
            self._sock.settimeout(left)
        read: int | None = self._bytes.readinto(buffer)
        return read

    def close(self) -> None:
        self._bytes.close()
        super().close()


class _TimedResponse(http.client.HTTPResponse):
    """An answer with a time limit as a whole.

    urllib3's limit is for each read, so an answer that sends a byte now and then could last for ever.
    """

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:  # noqa: ANN401 - http.client's
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_TimedReader(sock), _BUFFER)


class _Http(HTTPConnection):
    response_class = _TimedResponse


class _Https(HTTPSConnection):
    response_class = _TimedResponse

    def connect(self) -> None:
        """Connect; if the TLS handshake is not answered, as by a server that restarts, nothing of a request was sent.

        urllib3 has one error for that and for an answer that does not come.
        """
        try:
            super().connect()
        except (TimeoutError, ConnectionError, ssl.SSLEOFError) as error:
            raise NewConnectionError(self, str(error)) from error


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https
