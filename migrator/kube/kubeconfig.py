"""The cluster and the identity to use, as kubectl finds them.

No message quotes a value of a kubeconfig: values are secrets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config.kube_config import FileOrData
from urllib3.exceptions import LocationValueError
from urllib3.util import parse_url

from migrator import kubectl_yaml
from migrator.errors import NotAuthorised, UsageError
from migrator.kube import connections, plugin
from migrator.kube.credentials import Read

DEFAULT: Final = "~/.kube/config"

_THIS_MACHINE: Final = "localhost,127.0.0.0/8,::1"

_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")

#: The fields that the client, or a connection, would take in another type too: a text would switch verification off.
_TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("server", "tls-server-name", "proxy-url", "token", "username", "password"), str),
    "insecure-skip-tls-verify": bool,
}
_AUTHORITY: Final = frozenset({"certificate-authority", "certificate-authority-data"})
_ADDRESS: Final = "http://HOST:PORT or https://HOST:PORT"
_WITHOUT_PROXY: Final = (
    "If kubectl can use it, run `kubectl proxy`, and give a kubeconfig whose server is http://127.0.0.1:8001."
)

#: Fields that client-go takes instead of a plugin (``plugin/pkg/client/auth/exec/exec.go:UpdateTransportConfig``).
_BEFORE_PLUGIN: Final = frozenset({"token", "tokenFile", "username", "client-certificate", "client-certificate-data"})

_file_or_data: Any = FileOrData  # the client has no types
_from_pod = cast("Callable[..., None]", config.load_incluster_config)


def find(flag: str | None, context: str | None, waiting: Callable[[str], object]) -> tuple[str | None, Read]:
    """The context to use, ``None`` in a pod, and what reads its address and credentials.

    The files are those of ``--kubeconfig``, else of ``$KUBECONFIG``, else ``~/.kube/config``; without any it is the pod
    that we run in. As with kubectl, missing files are skipped, except for the one that the flag names. They are read
    once, so that a pipe is enough and another current context changes nothing; a file that they name is read each time.
    ``waiting`` gets the name of a credential plugin that takes long. Raises :class:`~migrator.errors.UsageError` if
    nothing is usable; so does what reads, and :class:`~migrator.errors.NotAuthorised` if a credential plugin fails.
    """
    paths = [flag] if flag is not None else (os.environ.get("KUBECONFIG") or DEFAULT).split(os.pathsep)
    found = {path: _document(path) for path in dict.fromkeys(map(os.path.expanduser, filter(None, paths)))}
    if documents := {path: document for path, document in found.items() if document is not None}:
        files = ", ".join(documents)
        with _explained(files):
            chosen = _choose(documents, context, files)
        return chosen.name, lambda configuration: chosen.read(configuration, waiting)
    if flag is not None:
        raise UsageError(f"kubeconfig {flag} does not exist")
    if context is not None:
        raise UsageError(f"context {context} cannot be found, because there is no kubeconfig; use --kubeconfig FILE")
    if os.environ.get("KUBECONFIG"):
        raise UsageError(f"KUBECONFIG names no file that exists: {os.environ['KUBECONFIG']}")
    return None, _read_pod


def _document(path: str) -> dict[str, Any] | None:
    """What is in a file: its first document, which is the one that kubectl takes; ``None`` if there is no file."""
    document: Any = None
    with _explained(path):
        try:
            with Path(path).open("rb") as file:
                document = next((value for value, _ in kubectl_yaml.documents(file, "")), None)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{error}: correct it, or give what `kubectl config view --raw` prints") from None
    return document or {}


def _read_pod(configuration: Configuration) -> None:
    try:
        _from_pod(client_configuration=configuration, try_refresh_token=False)
    except (config.ConfigException, OSError) as error:
        raise UsageError(
            f"no kubeconfig was found (--kubeconfig, $KUBECONFIG, {DEFAULT}), and no in-cluster configuration either "
            f"({_said(error).rstrip('.')}): give --kubeconfig FILE"
        ) from error
    configuration.proxy, configuration.no_proxy = _proxy(str(configuration.host)), None


class _Entry(NamedTuple):
    """An entry of a list in a kubeconfig: its fields that are set, and the folder where its relative paths begin."""

    fields: dict[str, Any] = {}  # noqa: RUF012 - never changed
    folder: Path = Path()

    def file_or_data(self, field: str) -> Any:  # noqa: ANN401 - the client's
        """What is given as a file or as data; data goes first."""
        return _file_or_data(self.fields, field, file_base_path=str(self.folder))


class _Chosen(NamedTuple):
    """A context with its cluster and its user."""

    files: str
    name: str
    cluster: _Entry
    user: _Entry

    def read(self, configuration: Configuration, waiting: Callable[[str], object]) -> None:
        """See :data:`~migrator.kube.credentials.Read`."""
        cluster = self.cluster
        # Credentials are never sent without TLS, as by client-go (``tools/clientcmd/client_config.go:ClientConfig``).
        user = self.user if cluster.fields["server"].lower().startswith("https:") else _Entry()
        with _explained(self.files):
            if "exec" in user.fields and not user.fields.keys() & _BEFORE_PLUGIN:
                user = user._replace(fields=self._ask_plugin(waiting))
            configuration.host = cluster.fields["server"].rstrip("/")
            configuration.verify_ssl = not cluster.fields.get("insecure-skip-tls-verify", False)
            configuration.tls_server_name = cluster.fields.get("tls-server-name")
            configuration.proxy = cluster.fields.get("proxy-url") or _proxy(configuration.host)
            configuration.no_proxy = None
            configuration.ssl_ca_cert = cluster.file_or_data("certificate-authority").as_file()
            configuration.cert_file = user.file_or_data("client-certificate").as_file()
            configuration.key_file = user.file_or_data("client-key").as_file()
            if token := _token(user):
                configuration.api_key["BearerToken"] = f"Bearer {token}"
            elif "username" in user.fields:
                pair = f"{user.fields['username']}:{user.fields.get('password', '')}"
                configuration.api_key["BearerToken"] = connections.basic(pair)

    def _ask_plugin(self, waiting: Callable[[str], object]) -> dict[str, str]:
        entry, told = {**self.user.fields["exec"]}, None
        if entry.get("provideClusterInfo"):
            authority = self.cluster.file_or_data("certificate-authority").as_data()
            told = {**self.cluster.fields, "certificate-authority-data": authority}
        if os.sep in entry["command"]:  # as client-go (tools/clientcmd/loader.go:GetAuthInfoFileReferences)
            entry["command"] = str(self.user.folder / entry["command"])
        try:
            return plugin.run(entry, told, waiting)
        except NotAuthorised as error:
            raise NotAuthorised(f"kubeconfig {self.files}: no credentials: {error}") from error


def _proxy(server: str) -> str | None:
    """The proxy of the environment, as Go chooses it (``net/http``, ``ProxyFromEnvironment``).

    The client would send what is for this machine through it too, and has ALL_PROXY, which kubectl does not know.
    """
    name = f"{urlsplit(server).scheme}_proxy"
    bypassed = ",".join((_THIS_MACHINE, os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""))
    variable = next(filter(os.environ.get, (name.upper(), name)), None)
    if variable is None or should_bypass_proxies(server, bypassed.replace("*.", ".")):
        return None
    if not _is_address(os.environ[variable]):
        raise UsageError(f"the proxy of the variable {variable} cannot be used: give {_ADDRESS}")
    return os.environ[variable]


def _token(user: _Entry) -> str | None:
    """The token of a user; that of a file goes before one in the kubeconfig, as by client-go (``rest/config.go``)."""
    token, path = user.fields.get("token"), user.fields.get("tokenFile")
    if path and not (token := (user.folder / path).read_text("utf-8", "replace").strip()):
        raise ValueError(f"{path}: is empty")
    return token


def _choose(documents: Mapping[str, Any], context: str | None, files: str) -> _Chosen:
    """The context to use, with entries that are usable.

    Raises ``UsageError`` if there is none, and where the official client would send other credentials than kubectl: it
    sends none for a user that is not there, ignores the fields of impersonation, and takes the current context of the
    last file. kubectl takes that of the first that names one
    (``client-go/tools/clientcmd/loader.go:ClientConfigLoadingRules.Load``).
    """
    contexts, clusters, users = (_entries(documents, kind) for kind in ("context", "cluster", "user"))
    if not contexts:
        raise UsageError(f"kubeconfig {files} has no context: name the right file with --kubeconfig or $KUBECONFIG")
    known = ", ".join(contexts)
    current = (document.get("current-context") for document in documents.values())
    name = context or next(filter(None, current), None)
    if name is None:
        raise UsageError(f"kubeconfig {files} has no current context; choose one with --context: {known}")
    if name not in contexts:
        raise UsageError(f"context {name} is not in kubeconfig {files}, whose contexts are: {known}")
    named = contexts[name].fields
    if "cluster" not in named:
        raise UsageError(f"kubeconfig {files}: context {name} names no cluster")
    for kind, entries in (("user", users), ("cluster", clusters)):
        if kind in named and named[kind] not in entries:
            raise UsageError(f"context {name} names the {kind} {named[kind]}, which is not in kubeconfig {files}")
    cluster, user = clusters[named["cluster"]], users.get(named.get("user", ""), _Entry())
    if fault := next(_faults(cluster.fields, user.fields), None):
        field, wrong = fault
        raise UsageError(f"kubeconfig {files}: `{field}` of context {name} {wrong}")
    return _Chosen(files, name, cluster, user)


def _faults(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields that cannot be used, each with what is wrong; only the first counts."""
    for field, value in (*cluster.items(), *user.items()):
        if not isinstance(value, kind := _TYPES.get(field, object)):
            yield field, f"must be {'true or false without quotes' if kind is bool else 'a text'}: correct it"
    # Every message of a run has the address in it; what is before an @ would be a secret.
    if "@" in cluster.get("server", "") or not _is_address(cluster.get("server", "")):
        yield "server", f"must be {_ADDRESS}, without a user or password: correct it"
    if "proxy-url" in cluster and not _is_address(cluster["proxy-url"]):
        yield "proxy-url", f"must be {_ADDRESS}. {_WITHOUT_PROXY}"
    if cluster.get("insecure-skip-tls-verify") and cluster.keys() & _AUTHORITY:  # which would count for nothing
        yield "insecure-skip-tls-verify", "is true beside a certificate-authority: remove one of them"
    if "auth-provider" in user:  # the client may renew its token from a server that it does not verify (_refresh_oidc)
        yield "auth-provider", "is not supported: log in with a credential plugin (`exec`) or a token"
    for field in filter(user.get, _IMPERSONATION):
        yield field, "acts as another, which is not supported: choose a context whose user has credentials of its own"


def _is_address(text: str) -> bool:
    """Whether a text is the address of a server, or of a proxy that can be used."""
    try:
        address = parse_url(text)
    except LocationValueError:
        return False
    is_web = address.scheme in {"http", "https"} and not (address.query or address.fragment)
    return is_web and bool(address.host)


def _entries(documents: Mapping[str, Any], kind: str) -> dict[str, _Entry]:
    """The entries of all files by name, of which the first counts; to kubectl an empty field is not set."""
    entries: dict[str, _Entry] = {}
    for path, document in documents.items():
        for item in document.get(f"{kind}s") or ():
            fields = {key: value for key, value in (item.get(kind) or {}).items() if value is not None and value != ""}
            entries.setdefault(item["name"], _Entry(fields, Path(path).absolute().parent))
    return entries


@contextmanager
def _explained(files: str) -> Iterator[None]:
    """Raise a ``UsageError`` for what is wrong in kubeconfig files."""
    try:
        yield
    except (AttributeError, KeyError, TypeError):  # a list in place of a mapping, an entry without its name
        raise UsageError(f"kubeconfig {files} is not what `kubectl config view --raw` prints: correct it") from None
    except (config.ConfigException, OSError, ValueError) as error:
        raise UsageError(f"kubeconfig {files} cannot be used: {_said(error)}") from None


def _said(error: Exception) -> str:
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
