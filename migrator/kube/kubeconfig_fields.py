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

_CERTIFICATE: Final = b"-----BEGIN"
_DATA: Final = "-data"
_WITHOUT_PROXY: Final = (
    "If kubectl can use it, run `kubectl proxy`, and give a kubeconfig whose server is http://127.0.0.1:8001."
)
_LONGEST_NAME: Final = 253  # of a host, RFC 1035

#: The form of a field: what it must be, and the type.
_TEXT: Final = ("a text", str)
_BOOLEAN: Final = ("true or false without quotes", bool)
_LIST: Final = ("a list", list)
_MAPPING: Final = ("a mapping", dict)

#: Kubernetes: ``client-go/tools/clientcmd/api/v1/types.go``.
_CLUSTER: Final = {
    **dict.fromkeys(("server", "tls-server-name", "proxy-url"), _TEXT),
    **dict.fromkeys(("certificate-authority", "certificate-authority-data"), _TEXT),
    **dict.fromkeys(("insecure-skip-tls-verify", "disable-compression"), _BOOLEAN),
}
_USER: Final = {
    **dict.fromkeys(("token", "tokenFile", "username", "password"), _TEXT),
    **dict.fromkeys(("client-certificate", "client-certificate-data", "client-key", "client-key-data"), _TEXT),
    "exec": _MAPPING,
}
_EXEC: Final = {
    **dict.fromkeys(("apiVersion", "command"), _TEXT),
    **dict.fromkeys(("args", "env"), _LIST),
    "provideClusterInfo": _BOOLEAN,
}
_PAIR: Final = ("client-certificate", "client-key")
_KINDS: Final = {
    bool: "a boolean",
    str: "a text",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "a mapping",
}

Fault = tuple[str, str]


def without_empty(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are set: kubectl takes an empty text for no text."""
    return {field: value for field, value in entry.items() if value is not None and value != ""}


def cluster_fault(cluster: Mapping[str, Any]) -> Fault | None:
    """The first field of a cluster that cannot be used, and what is wrong with it and what to do."""
    return next(_cluster_faults(cluster), None)


def user_fault(user: Mapping[str, Any], read: Callable[[str], bytes]) -> Fault | None:
    """The first field of a user that cannot be used, and what is wrong with it; ``read`` reads a file that it names."""
    return next(_user_faults(user, read), None)


def _cluster_faults(cluster: Mapping[str, Any]) -> Iterator[Fault]:
    yield from _wrong_types(cluster, _CLUSTER)
    if "server" not in cluster:
        yield "server", "is missing: give the address of the API server"
    elif "@" in cluster["server"]:
        yield "server", "has a user or password in the address: move it into the user's entry"
    elif cluster["server"].count("[") != cluster["server"].count("]"):  # Python's URLs fail at it
        yield "server", "is not an address: give https://HOST:PORT"
    if "proxy-url" in cluster and not _is_proxy(cluster["proxy-url"]):
        yield "proxy-url", f"must be http://HOST:PORT or https://HOST:PORT. {_WITHOUT_PROXY}"
    if "tls-server-name" in cluster and not _is_host(cluster["tls-server-name"]):
        yield "tls-server-name", "is not the name of a host: give the name that the server's certificate has"
    yield from _bad_pem(cluster, "certificate-authority")


def _user_faults(user: Mapping[str, Any], read: Callable[[str], bytes]) -> Iterator[Fault]:
    yield from _wrong_types(user, _USER)
    yield from _plugin_faults(user.get("exec"))
    if "auth-provider" in user:  # the client may renew its token from a server that it does not verify (_refresh_oidc)
        yield "auth-provider", "is not supported: log in with a credential plugin (`exec`) or a token"
    yield from _bad_pem(user, "client-certificate")
    yield from _bad_pem(user, "client-key")
    certificate, key = (next((n for n in (name, name + _DATA) if n in user), None) for name in _PAIR)
    if certificate and not key:
        yield _PAIR[1], "is missing: a client certificate needs its key"
    if key and not certificate:
        yield _PAIR[0], "is missing: a client key needs its certificate"
    if key and b"ENCRYPTED" in (_decoded(user[key]) if key.endswith(_DATA) else read(user[key])):
        yield key, "is encrypted, and nobody can be asked for its password: decrypt it with `openssl pkey`"


def _plugin_faults(plugin: Mapping[str, Any] | None) -> Iterator[Fault]:
    if plugin is None:
        return
    yield from _wrong_types(plugin, _EXEC, "exec.", required=("apiVersion", "command"))
    for number, argument in enumerate(plugin.get("args") or ()):
        yield from _wrong_type(f"exec.args[{number}]", argument, _TEXT)
    for number, variable in enumerate(plugin.get("env") or ()):
        place = f"exec.env[{number}]"
        yield from _wrong_type(place, variable, _MAPPING)
        yield from _wrong_types(variable, {"name": _TEXT, "value": _TEXT}, f"{place}.", required=("name", "value"))


def _wrong_types(
    entry: Mapping[str, Any], forms: Mapping[str, tuple[str, type]], prefix: str = "", required: tuple[str, ...] = ()
) -> Iterator[Fault]:
    for field, form in forms.items():
        if entry.get(field) is not None:
            yield from _wrong_type(prefix + field, entry[field], form)
        elif field in required:
            yield prefix + field, "is missing: set it"


def _wrong_type(field: str, value: object, form: tuple[str, type]) -> Iterator[Fault]:
    what, kind = form
    if type(value) is not kind:
        yield field, f"must be {what}, and is {_KINDS.get(type(value), 'something else')}: correct it"


def _bad_pem(entry: Mapping[str, Any], field: str) -> Iterator[Fault]:
    if (text := entry.get(field + _DATA)) is None:
        return
    try:
        decoded = _decoded(text)
    except (binascii.Error, ValueError):
        yield field + _DATA, "is not base64: copy it again"
        return
    if _CERTIFICATE not in decoded:
        yield field + _DATA, f"is not a PEM {'key' if field == 'client-key' else 'certificate'}: copy it again"


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _is_proxy(text: str) -> bool:
    try:
        address = parse_url(text)
    except LocationValueError:
        return False
    return address.scheme in {"http", "https"} and bool(address.host)


def _is_host(text: str) -> bool:
    try:
        return len(text.encode("idna")) <= _LONGEST_NAME
    except UnicodeError:  # an empty label, or one of more than 63 letters
        return False
