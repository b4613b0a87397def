"""The cluster and the identity to use, as kubectl finds them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import yaml
from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config.kube_config import ConfigNode, KubeConfigMerger

from migrator.errors import NotAuthorised, UsageError
from migrator.kube import kubeconfig_fields as fields
from migrator.kube import plugin

DEFAULT: Final = "~/.kube/config"

_IMPERSONATION: Final = ("as", "as-uid", "as-groups", "as-user-extra")

#: For how long the token of a file is good after it was read, in seconds: the kubelet rotates it long before it
#: expires. So it is read each minute, as by client-go (``transport/token_source.go:NewCachedFileTokenSource``).
_FILE_TOKEN: Final = 120.0

#: Puts address and credentials into a configuration, and returns for how many seconds the credentials are good.
Read = Callable[[Configuration], float]

_from_kubeconfig = cast("Callable[..., None]", config.load_kube_config_from_dict)
_from_pod = cast("Callable[..., None]", config.load_incluster_config)


def find(flag: str | None, context: str | None, waiting: Callable[[str], object]) -> tuple[str | None, Read]:
    """The context to use, ``None`` in a pod, and what reads its address and credentials.

    The files are those of ``--kubeconfig``, else of ``$KUBECONFIG``, else ``~/.kube/config``; without any it is the pod
    that we run in. As with kubectl, missing files are skipped, except for the one that the flag names. They are read
    once, so that a pipe is enough and another current context changes nothing; a file that they name is read each time.
    ``waiting`` gets the name of a credential plugin that takes long. Raises :class:`~migrator.errors.UsageError` if
    nothing is usable; so does what reads, and :class:`~migrator.errors.NotAuthorised` if a credential plugin fails.
    """
    paths = flag if flag is not None else os.environ.get("KUBECONFIG") or DEFAULT
    with _explained(paths):
        merged = KubeConfigMerger(paths)  # type: ignore[no-untyped-call]
    if merged.config_files:
        files = ", ".join(merged.config_files)
        with _explained(files):
            chosen = _choose(merged, context, files)
        return chosen.name, lambda configuration: chosen.read(configuration, waiting)
    if flag is not None:
        raise UsageError(f"kubeconfig {flag} does not exist")
    if context is not None:
        raise UsageError(f"context {context} cannot be found, because there is no kubeconfig; use --kubeconfig FILE")
    if os.environ.get("KUBECONFIG"):
        raise UsageError(f"KUBECONFIG names no file that exists: {os.environ['KUBECONFIG']}")
    return None, _read_pod


def _read_pod(configuration: Configuration) -> float:
    try:
        _from_pod(client_configuration=configuration, try_refresh_token=False)
    except (config.ConfigException, OSError) as error:
        raise UsageError(
            f"no kubeconfig was found (--kubeconfig, $KUBECONFIG, {DEFAULT}), and no in-cluster configuration either "
            f"({_first_line(error).rstrip('.')}): give --kubeconfig FILE"
        ) from error
    return _FILE_TOKEN


class _Entry(NamedTuple):
    """An entry of a list in a kubeconfig: its fields that are set, and the file that it is in."""

    name: str = ""
    fields: dict[str, Any] = {}  # noqa: RUF012 - never changed
    path: str = ""

    def node(self, kind: str) -> ConfigNode:
        """The entry as the client takes it."""
        return ConfigNode(kind, {"name": self.name, kind: self.fields}, self.path)  # type: ignore[no-untyped-call]

    @property
    def folder(self) -> Path:
        """Where its relative paths begin."""
        return Path(self.path).absolute().parent


class _Chosen(NamedTuple):
    """A context with its cluster and its user."""

    files: str
    name: str
    cluster: _Entry
    user: _Entry

    def read(self, configuration: Configuration, waiting: Callable[[str], object]) -> float:
        """See :data:`Read`."""
        user = self.user
        lifetime = _FILE_TOKEN if "tokenFile" in user.fields and "token" not in user.fields else math.inf
        if "exec" in user.fields and not user.fields.keys() & {"token", "tokenFile"}:
            try:
                answered, lifetime = plugin.run(user.fields["exec"], self.cluster.fields, user.folder, waiting)
            except NotAuthorised as error:
                raise NotAuthorised(f"kubeconfig {self.files}: no credentials: {error}") from error
            kept = {field: value for field, value in user.fields.items() if field != "exec"}
            user = user._replace(fields=kept | answered)  # else the client starts it again for a certificate
        context = _Entry(self.name, {"cluster": self.cluster.name, "user": user.name})
        lists = {
            "contexts": [context.node("context")],
            "clusters": [self.cluster.node("cluster")],
            "users": [user.node("user")],
        }
        with _explained(self.files):
            _from_kubeconfig(lists, context=self.name, client_configuration=configuration, persist_config=False)
        return lifetime


def _choose(merged: KubeConfigMerger, context: str | None, files: str) -> _Chosen:
    """The context to use, with entries that are usable.

    Raises ``UsageError`` if there is none, and where the client would be somebody else: it takes a user that is not
    there for nobody, ignores the fields of impersonation, and takes the current context of the last file. kubectl takes
    that of the first that names one (``client-go/tools/clientcmd/loader.go:ClientConfigLoadingRules.Load``).
    """
    contexts, clusters, users = (_entries(merged, kind) for kind in ("context", "cluster", "user"))
    known = ", ".join(map(str, contexts)) or "it has none"
    current = (document.get("current-context") for document in merged.config_files.values())
    name = context or next((str(name) for name in current if name), None)
    if name is None:
        raise UsageError(f"kubeconfig {files} has no current context; choose one with --context: {known}")
    if name not in contexts:
        raise UsageError(f"context {name} is not in kubeconfig {files}, whose contexts are: {known}")
    named = contexts[name].fields
    for kind, entries in (("user", users), ("cluster", clusters)):
        if named.get(kind) not in entries and (kind in named or kind == "cluster"):
            raise UsageError(f"context {name} names the {kind} {named.get(kind)}, which is not in kubeconfig {files}")
    cluster, user = clusters[named["cluster"]], users.get(named.get("user"), _Entry())
    if field := next((field for field in _IMPERSONATION if user.fields.get(field)), None):
        raise UsageError(
            f"kubeconfig {files}: the user of context {name} acts as another by `{field}`, which is not "
            "supported: choose a context whose user has credentials of its own"
        )
    faults = {
        f"cluster {cluster.name}": fields.cluster_faults(cluster.fields),
        f"user {user.name}": fields.user_faults(user.fields, lambda path: (user.folder / path).read_bytes()),
    }
    for entry, (field, wrong) in ((entry, fault) for entry, found in faults.items() for fault in found):
        raise UsageError(f"kubeconfig {files}: `{field}` of {entry} {wrong}")
    return _Chosen(files, name, cluster, user)


def _entries(merged: KubeConfigMerger, kind: str) -> dict[Any, _Entry]:
    """The entries of a list by name; kubectl takes an empty text for no text."""
    nodes = merged.config.value[f"{kind}s"]
    return {
        node.value["name"]: _Entry(
            node.value["name"],
            {key: value for key, value in (node.value.get(kind) or {}).items() if value is not None and value != ""},
            node.path,
        )
        for node in nodes
    }


@contextmanager
def _explained(files: str) -> Iterator[None]:
    """Raise a ``UsageError`` for what is wrong in kubeconfig files; it quotes no value, because values are secrets."""
    try:
        yield
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        raise UsageError(f"kubeconfig {files} cannot be used: it is not YAML") from None
    except (KeyError, TypeError, AttributeError, UnicodeEncodeError):  # the last has a letter of a password
        raise UsageError(f"kubeconfig {files} cannot be used: it does not have the form of a kubeconfig") from None
    except (config.ConfigException, OSError, ValueError) as error:
        said = _first_line(error)
        if said.startswith("Invalid kube-config file. Expected"):  # it names an entry by all that is in it
            said = "it does not have the form of a kubeconfig"
        raise UsageError(f"kubeconfig {files} cannot be used: {said}") from None


def _first_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return next(iter(str(error).splitlines()), "") or type(error).__name__
