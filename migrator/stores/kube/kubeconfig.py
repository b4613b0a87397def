"""The cluster and the identity to use, as kubectl finds them."""

from __future__ import annotations

import difflib
import logging
import os
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException
from urllib3.exceptions import LocationValueError
from urllib3.util.ssl_ import create_urllib3_context

from migrator.errors import NotAuthorised, UsageError
from migrator.stores.kube import contexts


def api_client(kubeconfig: str | None, context: str | None) -> ApiClient:
    """A client whose pool makes connections to the cluster; nothing is sent yet.

    The configuration is that of ``--kubeconfig``, else ``$KUBECONFIG``, else ``~/.kube/config``, else the pod's
    that we run in. Raises :class:`~migrator.errors.UsageError` where none of them is usable, and
    :class:`~migrator.errors.NotAuthorised` where a credential plugin fails.
    """
    configuration = Configuration()
    files = contexts.files(kubeconfig)
    if files:
        _load_files(files, context, configuration)
    elif context is not None:
        raise UsageError(
            f"context {context} cannot be found, because there is no kubeconfig; name one with --kubeconfig"
        )
    else:
        _load_in_cluster(configuration)
    if not configuration.host.startswith(("http://", "https://")):
        raise UsageError(
            f"the kubeconfig's server {configuration.host} is not an address: it must begin with http:// or https://"
        )
    try:
        client = ApiClient(configuration)
        client.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _tls(configuration)
    except (ImportError, LocationValueError) as error:  # what urllib3 raises without PySocks, and for no address
        raise UsageError(
            "the proxy cannot be used: only http://HOST:PORT and https://HOST:PORT are possible"
        ) from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the certificates of the kubeconfig cannot be used: {error}") from error
    return client


def _tls(configuration: Configuration) -> ssl.SSLContext:
    """As kubectl verifies: Python 3.13 also demands an authority key identifier, which clusters' certificates may lack.

    To a given context urllib3 adds the kubeconfig's authority and certificate, but not the system's authorities.
    """
    context = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not configuration.ssl_ca_cert and not configuration.ca_cert_data:
        context.load_default_certs()
    return context


def _load_files(files: Sequence[str], context: str | None, configuration: Configuration) -> None:
    named = ", ".join(files)
    try:
        known = contexts.names(files)
        if context is not None and context not in known:
            close = difflib.get_close_matches(context, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known) or 'none'}"
            raise UsageError(f"context {context} is not in kubeconfig {named}; {hint}")
        chosen = context or contexts.current(files)
        user, entry = contexts.user_of(files, chosen)
        if user and entry is None:
            raise UsageError(f"context {chosen} names the user {user}, which is not in kubeconfig {named}")
        if field := contexts.impersonation(entry or {}):
            raise UsageError(
                f"kubeconfig {named}: the user of context {chosen} acts as another by `{field}`, which is not "
                "supported: choose a context whose user has credentials of its own"
            )
        with _complaints() as complaints:
            load: Callable[..., None] = config.load_kube_config
            load(
                config_file=os.pathsep.join(files),
                context=chosen,
                client_configuration=configuration,
                persist_config=False,
            )
    except UnicodeEncodeError:  # not quoted: it has a letter of the password
        raise NotAuthorised(
            f"kubeconfig {named}: the credentials cannot be sent: the user name or the password has a character "
            "outside Latin-1"
        ) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"kubeconfig {named} cannot be used: it does not have the form of a kubeconfig") from error
    except (ConfigException, OSError, yaml.YAMLError, ValueError) as error:
        raise UsageError(f"kubeconfig {named} cannot be used: {_first_line(error)}") from error
    if complaints:
        raise NotAuthorised(f"kubeconfig {named}: no credentials: {complaints[0]}")


def _load_in_cluster(configuration: Configuration) -> None:
    try:
        load: Callable[..., None] = config.load_incluster_config
        load(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise UsageError(
            f"no cluster is named: there is neither a kubeconfig (--kubeconfig, $KUBECONFIG, {contexts.DEFAULT}) nor "
            f"an in-cluster configuration ({_first_line(error).rstrip('.')})"
        ) from error


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """The errors that the client logs meanwhile: when a credential plugin fails it logs an error and goes on."""
    logged: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logged.append(record.getMessage())

    root, listener = logging.getLogger(), Listener(logging.ERROR)
    root.addHandler(listener)
    try:
        yield logged
    finally:
        root.removeHandler(listener)


def _first_line(error: Exception) -> str:
    # The client names a user's entry by all that is in it, tokens included.
    return re.sub(r"/\{.*\}", "", next(iter(str(error).splitlines()), "")) or type(error).__name__
