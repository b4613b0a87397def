"""The cluster and the identity to use, as kubectl finds them."""

from __future__ import annotations

import logging
import math
import os
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import kube_config
from kubernetes.config.kube_config import KubeConfigMerger
from urllib3 import disable_warnings
from urllib3.exceptions import InsecureRequestWarning, LocationValueError
from urllib3.util import parse_url
from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

from migrator.cluster import CONCURRENCY
from migrator.errors import NotAuthorised, UsageError
from migrator.kube import kubeconfig_fields as fields
from migrator.kube.plugin import CredentialPlugin

DEFAULT: Final = "~/.kube/config"

_ENTRIES: Final = ("clusters", "contexts", "users")

#: So many connections are kept open: one for each patch that may be under way, and some for lists and Leases.
_CONNECTIONS: Final = CONCURRENCY + 8

#: For how long, in seconds, credentials are taken for fresh: in the last minutes of a plugin's token the client starts
#: the plugin whenever it is asked for them.
_FRESH: Final = 1.0

#: What was read from a pipe, as ``--kubeconfig <(...)`` is one, by device and inode: it can be read once.
_READ_ONCE: Final[dict[tuple[int, int], KubeConfigMerger]] = {}


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The kubeconfig files that exist, in the order in which kubectl reads them, as the client has merged them."""

    merged: KubeConfigMerger

    @classmethod
    def read(cls, flag: str | None) -> Kubeconfig:
        """The files of ``--kubeconfig``, else of ``$KUBECONFIG``, else ``~/.kube/config``.

        As with kubectl, missing files are skipped, except for the one that the flag names. Raises ``UsageError`` for
        that one, and for files that cannot be read.
        """
        paths = flag if flag is not None else os.environ.get("KUBECONFIG") or DEFAULT
        path = Path(paths)
        pipe = (path.stat().st_dev, path.stat().st_ino) if path.is_fifo() else None
        if pipe in _READ_ONCE:
            return cls(_READ_ONCE[pipe])
        with _explained(paths):
            kubeconfig = cls(KubeConfigMerger(paths))  # type: ignore[no-untyped-call]
            kubeconfig._name_entries()
        if pipe:
            _READ_ONCE[pipe] = kubeconfig.merged
        if flag is not None and not kubeconfig.files:
            raise UsageError(f"kubeconfig {flag} does not exist")
        return kubeconfig

    def _name_entries(self) -> None:
        """The client would name an entry by all that is in it, tokens included."""
        for kind in _ENTRIES if self.files else ():
            for entry in self.merged.config.value[kind]:
                entry.name = f"{entry.path}, {kind}"

    @property
    def files(self) -> Sequence[str]:
        """Their paths."""
        return list(self.merged.config_files)

    @property
    def current(self) -> str | None:
        """The context of the first file that names one, as with kubectl; the client would take the last file's.

        Kubernetes: ``client-go/tools/clientcmd/loader.go:ClientConfigLoadingRules.Load``.
        """
        named = (document.get("current-context") for document in self.merged.config_files.values())
        return next((str(name) for name in named if name), None)

    def load(self, context: str | None, configuration: Configuration) -> str:
        """Put address and credentials of a context into a configuration, and return its name.

        Raises what :func:`api_client` raises.
        """
        files, read = ", ".join(self.files), cast("Callable[..., None]", config.load_kube_config_from_dict)
        with _explained(files), _complaints() as complaints:
            name = self._chosen(context, files)
            read(self.merged.config, context=name, client_configuration=configuration, persist_config=False)
        if complaints:
            raise NotAuthorised(f"kubeconfig {files}: no credentials: {complaints[0]}")
        return name

    def _chosen(self, context: str | None, files: str) -> str:
        """The context to use.

        Raises ``UsageError`` if there is none, or if the client would use it with other permissions. The client
        takes a user that is not there for nobody, and ignores the fields of impersonation.
        """
        contexts, clusters, users = (self._named(f"{kind}s", kind) for kind in ("context", "cluster", "user"))
        known = ", ".join(map(str, contexts)) or "it has none"
        name = context or self.current
        if name is None:
            raise UsageError(f"kubeconfig {files} has no current context; choose one with --context: {known}")
        if name not in contexts:
            raise UsageError(f"context {name} is not in kubeconfig {files}, whose contexts are: {known}")
        for kind, known_names in (("user", users), ("cluster", clusters)):
            named = contexts[name].get(kind)
            if named not in known_names and (named or kind == "cluster"):
                raise UsageError(f"context {name} names the {kind} {named}, which is not in kubeconfig {files}")
        user = contexts[name].get("user")
        impersonation = ("as", "as-uid", "as-groups", "as-user-extra")
        field = next((field for field in impersonation if users.get(user, {}).get(field)), None)
        if field:
            raise UsageError(
                f"kubeconfig {files}: the user of context {name} acts as another by `{field}`, which is not "
                "supported: choose a context whose user has credentials of its own"
            )
        self._check("cluster", contexts[name]["cluster"], fields.cluster_fault)
        if user:
            self._check("user", user, lambda entry: fields.user_fault(entry, self._reader(user)))
        return name

    def _check(self, kind: str, name: str, fault: Callable[[dict[str, Any]], fields.Fault | None]) -> None:
        """Take the empty fields of an entry away, and raise ``UsageError`` for one that cannot be used."""
        entry = next(entry for entry in self.merged.config.value[f"{kind}s"] if entry.value["name"] == name)
        entry.value[kind] = fields.without_empty(entry.value.get(kind) or {})
        if found := fault(entry.value[kind]):
            field, wrong = found
            raise UsageError(f"kubeconfig {', '.join(self.files)}: `{field}` of {kind} {name} {wrong}")

    def _reader(self, user: str) -> Callable[[str], bytes]:
        """What reads a file that a user's entry names, from the directory of its kubeconfig."""
        entry = next(entry for entry in self.merged.config.value["users"] if entry.value["name"] == user)
        return lambda path: (Path(entry.path).parent / path).read_bytes()

    def _named(self, key: str, kind: str) -> dict[Any, Any]:
        """The entries of a list by name."""
        return {entry.value["name"]: entry.value.get(kind) or {} for entry in self.merged.config.value[key]}


@contextmanager
def _explained(files: str) -> Iterator[None]:
    """Raise a ``UsageError`` for what is wrong in kubeconfig files; it quotes no value, because values are secrets."""
    try:
        yield
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"kubeconfig {files} cannot be used: it is not YAML") from None
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):  # the last has a letter of a password
        raise UsageError(f"kubeconfig {files} cannot be used: it does not have the form of a kubeconfig") from None
    except (config.ConfigException, OSError, ValueError) as error:
        raise UsageError(f"kubeconfig {files} cannot be used: {_first_line(error)}") from error


class Credentials:
    """The credentials of a client, which threads share; ``renew`` reads them anew."""

    def __init__(self, configuration: Configuration, renew: Callable[[], object], clock: Callable[[], float]) -> None:
        self._configuration = configuration
        self._renew = renew
        self._clock = clock
        self._lock = threading.Lock()  # a credential plugin must not be started by every thread at once
        self._headers: Mapping[str, str] = {}
        self._asked = -math.inf
        self._expired = False

    def headers(self, what: str) -> Mapping[str, str]:
        """The headers that sign a request, which ``what`` names; raises ``NotAuthorised`` without any."""
        with self._lock:
            if self._clock() - self._asked < _FRESH:
                return self._headers
            try:
                if self._expired:
                    self._renew()
                settings: Iterable[Any] = self._configuration.auth_settings().values()
            except (UsageError, config.ConfigException, OSError) as error:
                raise NotAuthorised(f"{what}: the credentials cannot be renewed: {_first_line(error)}") from error
            # A file with a token may end with a line break, which client-go strips too.
            headers = {setting["key"]: setting["value"].strip() for setting in settings}
            if not all(value.isascii() and value.isprintable() for value in headers.values()):
                raise NotAuthorised(  # which is not quoted: a token could be in it
                    f"{what}: the credentials cannot be sent: the token has a line break, or a character other than "
                    "printable ASCII; correct it in the kubeconfig, or where its credential plugin gets it"
                )
            self._headers, self._asked, self._expired = headers, self._clock(), False  # a plugin may take seconds
            return headers

    def expire(self) -> None:
        """Read the credentials anew before the next request: the API server did not accept these."""
        self._asked, self._expired = -math.inf, True


def api_client(
    flag: str | None, context: str | None, waiting: Callable[[str], object] = lambda _plugin: None
) -> tuple[ApiClient, str | None, Callable[[], object]]:
    """A client whose pool makes connections to the cluster, the context, and what reads its credentials anew.

    Nothing is sent yet. The configuration is that of ``--kubeconfig``, else ``$KUBECONFIG``, else ``~/.kube/config``,
    else the pod's that we run in. ``waiting`` gets the name of a credential plugin that takes long. Raises
    :class:`~migrator.errors.UsageError` if none of them is usable, and :class:`~migrator.errors.NotAuthorised` if a
    credential plugin fails.
    """
    configuration = Configuration()
    configuration.connection_pool_maxsize = _CONNECTIONS
    # The client has no other way in. It starts plugins at every renewal, so this stays.
    setattr(kube_config, "ExecProvider", partial(CredentialPlugin, waiting=waiting))  # noqa: B010 - it has no types
    chosen = load(flag, context, configuration)
    try:
        address = parse_url(configuration.host)
    except LocationValueError:
        address = None
    if address is None or address.scheme not in {"http", "https"} or not address.host:
        raise UsageError(
            f"the kubeconfig's server {configuration.host} is not an address: it must be http://HOST:PORT or "
            "https://HOST:PORT"
        )
    try:
        client = ApiClient(configuration)
        client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _tls(configuration)
    except (ImportError, LocationValueError) as error:  # what urllib3 raises without PySocks, and for no address
        variables = (name for name, value in os.environ.items() if value and value == configuration.proxy)
        raise UsageError(
            f"the proxy of the variable {next(variables, 'HTTPS_PROXY')} cannot be used: give http://HOST:PORT or "
            "https://HOST:PORT"
        ) from error
    if not configuration.verify_ssl:
        disable_warnings(InsecureRequestWarning)  # the kubeconfig asks for it, and stderr holds the log alone
    return client, chosen, lambda: load(flag, chosen, configuration)  # whatever the current context is by then


def load(flag: str | None, context: str | None, configuration: Configuration) -> str | None:
    """Put address and credentials into a configuration; raises what :func:`api_client` raises.

    Returns the context that was used; ``None`` in a pod.
    """
    kubeconfig, read = Kubeconfig.read(flag), cast("Callable[..., None]", config.load_incluster_config)
    if kubeconfig.files:
        return kubeconfig.load(context, configuration)
    if context is not None:
        raise UsageError(f"context {context} cannot be found, because there is no kubeconfig; use --kubeconfig FILE")
    if os.environ.get("KUBECONFIG"):
        raise UsageError(f"KUBECONFIG names no file that exists: {os.environ['KUBECONFIG']}")
    try:
        read(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise UsageError(
            f"no cluster is named: there is neither a kubeconfig (--kubeconfig, $KUBECONFIG, {DEFAULT}) nor an "
            f"in-cluster configuration ({_first_line(error).rstrip('.')})"
        ) from error
    return None


@contextmanager
def _loading(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise UsageError(f"the {what} of the kubeconfig cannot be used: {error}") from error


class _Finished(ssl.SSLContext):
    """A TLS context that is not changed any more, so that threads can share it.

    urllib3 loads the certificates again for each connection, and OpenSSL can crash if another thread connects
    meanwhile. (It also sets ``verify_mode``, to what it is, which does no harm.)
    """

    def load_verify_locations(self, *_: object, **__: object) -> None:
        """They are loaded."""

    def load_cert_chain(self, *_: object, **__: object) -> None:
        """It is loaded."""

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
    context.__class__ = _Finished
    return context


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """The errors that the client logs meanwhile: when a credential plugin fails it logs an error and goes on."""
    logged: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            cause = sys.exception()  # it is logged where it is caught
            if isinstance(cause, FileNotFoundError):
                logged.append(f"the credential plugin {cause.filename} is not there: install it, or put it on PATH")
            else:
                logged.append(record.getMessage())

    root, listener = logging.getLogger(), Listener(logging.ERROR)
    root.addHandler(listener)
    try:
        yield logged
    finally:
        root.removeHandler(listener)


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return next(iter(str(error).splitlines()), "") or type(error).__name__
