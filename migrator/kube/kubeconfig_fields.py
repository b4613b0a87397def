"""Fields of a kubeconfig's entries that cannot be used, or that the client would misread. Pure.

A message names the field and its entry, and never quotes a value: values are secrets.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from urllib3.exceptions import LocationValueError
from urllib3.util import parse_url

_DATA: Final = "-data"
ADDRESS: Final = "http://HOST:PORT or https://HOST:PORT"
_WITHOUT_PROXY: Final = (
    "If kubectl can use it, run `kubectl proxy`, and give a kubeconfig whose server is http://127.0.0.1:8001."
)
_LONGEST_NAME: Final = 253  # of a host, RFC 1035

#: The types of fields. Kubernetes: ``client-go/tools/clientcmd/api/v1/types.go``.
_CLUSTER: Final = {
    **dict.fromkeys(("server", "tls-server-name", "proxy-url"), str),
    **dict.fromkeys(("certificate-authority", "certificate-authority-data"), str),
    **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), bool),
    "extensions": [{"name": str}],
}
_USER: Final = {
    **dict.fromkeys(("token", "tokenFile", "username", "password"), str),
    **dict.fromkeys(("client-certificate", "client-certificate-data", "client-key", "client-key-data"), str),
    "exec": {
        **dict.fromkeys(("apiVersion", "command", "installHint", "interactiveMode"), str),
        "args": [str],
        "env": [{"name": str, "value": str}],
        "provideClusterInfo": bool,
    },
}
#: Of a file what is needed to choose; what is in its entries counts for those that are chosen.
_FILE: Final = {
    "current-context": str,
    "contexts": [{"name": str, "context": {"cluster": str, "user": str}}],
    "clusters": [{"name": str, "cluster": {}}],
    "users": [{"name": str, "user": {}}],
}
#: What is required of an entry, a plugin, its variables and extensions.
_REQUIRED: Final = frozenset({"apiVersion", "command", "name"})
_KINDS: Final = {
    bool: "a boolean",
    str: "a text",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}

#: A field, and what is wrong with it and what to do.
Fault = tuple[str, str]


def file_faults(document: Any) -> Iterator[Fault]:  # noqa: ANN401 - any YAML
    """The fields around the entries of a file that cannot be used; the field is empty if it is no mapping."""
    return _wrong_types(document, _FILE)


def cluster_faults(cluster: Mapping[str, Any]) -> Iterator[Fault]:
    """The fields of a cluster that cannot be used.

    Only the first counts, because what is looked at after it relies on it.
    """
    yield from _wrong_types(cluster, _CLUSTER)
    if "server" not in cluster:
        yield "server", "is missing: give the address of the API server"
    elif "@" in cluster["server"]:
        yield "server", "has a user or password in the address: move it into the user's entry"
    elif not is_address(cluster["server"]):
        yield "server", f"is not an address: it must be {ADDRESS}"
    if "proxy-url" in cluster and not is_address(cluster["proxy-url"]):
        yield "proxy-url", f"must be {ADDRESS}. {_WITHOUT_PROXY}"
    if "tls-server-name" in cluster and not _is_host(cluster["tls-server-name"]):
        yield "tls-server-name", "is not the name of a host: give the name that the server's certificate has"
    yield from _bad_pem(cluster, "certificate-authority")
    if cluster.get("insecure-skip-tls-verify") and _name_of(cluster, "certificate-authority"):
        yield "insecure-skip-tls-verify", "is true beside a certificate-authority: remove one of them"


def user_faults(user: Mapping[str, Any], read: Callable[[str], bytes]) -> Iterator[Fault]:
    """The same of a user; ``read`` reads a file that it names."""
    yield from _wrong_types(user, _USER)
    if "auth-provider" in user:  # the client may renew its token from a server that it does not verify (_refresh_oidc)
        yield "auth-provider", "is not supported: log in with a credential plugin (`exec`) or a token"
    if user.get("exec", {}).get("interactiveMode", "Never") not in {"Never", "IfAvailable", "Always"}:
        yield "exec.interactiveMode", "must be Never, IfAvailable or Always: correct it"
    if "password" in user and "username" not in user:  # client-go would send neither (transport/config.go:HasBasicAuth)
        yield "username", "is missing: a password needs it"
    if "username" in user and user.keys() & {"token", "tokenFile"}:
        yield "username", "is beside a token: remove one of them"
    yield from _bad_pem(user, "client-certificate")
    yield from _bad_pem(user, "client-key")
    certificate, key = (_name_of(user, name) for name in ("client-certificate", "client-key"))
    if certificate and not key:
        yield "client-key", "is missing: a client certificate needs its key"
    if key and not certificate:
        yield "client-certificate", "is missing: a client key needs its certificate"
    if key and b"ENCRYPTED" in (_decoded(user[key]) if key.endswith(_DATA) else read(user[key])):
        yield key, "is encrypted, and nobody can be asked for its password: decrypt it with `openssl pkey`"


def _wrong_types(value: Any, form: Any, at: str = "") -> Iterator[Fault]:  # noqa: ANN401 - any YAML, a form as above
    """The values that have another type than a form says; that of a mapping and a list has the forms of its values."""
    kind: Any = form if isinstance(form, type) else type(form)
    if type(value) is not kind:
        wanted = "true or false without quotes" if kind is bool else _KINDS[kind]
        yield at, f"must be {wanted}, and is {_KINDS.get(type(value), 'something else')}: correct it"
    elif isinstance(form, list):
        for number, item in enumerate(value):
            yield from _wrong_types(item, form[0], f"{at}[{number}]")
    elif isinstance(form, dict):
        for key, inner in form.items():
            place = f"{at}.{key}".lstrip(".")
            if key in _REQUIRED and value.get(key) in (None, ""):
                yield place, "is missing: set it"
            elif value.get(key) is not None:
                yield from _wrong_types(value[key], inner, place)


def _name_of(entry: Mapping[str, Any], field: str) -> str | None:
    """The field by which it is given: as data, which goes first, or as a file; ``None`` if it is not."""
    return next((name for name in (field + _DATA, field) if name in entry), None)


def _bad_pem(entry: Mapping[str, Any], field: str) -> Iterator[Fault]:
    try:
        decoded = _decoded(entry.get(field + _DATA, ""))
    except (binascii.Error, ValueError):
        yield field + _DATA, "is not base64: copy it again"
        return
    if field + _DATA in entry and b"-----BEGIN" not in decoded:
        yield field + _DATA, f"is not a PEM {'key' if field == 'client-key' else 'certificate'}: copy it again"


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def is_address(text: str) -> bool:
    """Whether a text is the address of a server, or of a proxy that can be used."""
    try:
        address = parse_url(text)
    except LocationValueError:
        return False
    is_web = address.scheme in {"http", "https"} and not (address.query or address.fragment)
    return is_web and bool(address.host and _is_host(address.host))


def _is_host(text: str) -> bool:
    try:
        return len(text.encode("idna")) <= _LONGEST_NAME
    except UnicodeError:  # an empty label, or one of more than 63 letters
        return False
