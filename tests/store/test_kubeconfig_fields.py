"""Fields of a kubeconfig that cannot be used: named with their entry, by one sentence without a value."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import UsageError
from migrator.kube import store as kube_store
from tests.support.fake_api import CERTIFICATE
from tests.support.kubeconfigs import LOCAL, kubeconfig
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("nowhere")

VERSION = "client.authentication.k8s.io/v1"
TEXT, BOOLEAN = "must be a text, and is", "must be true or false without quotes, and is"
PAIR = {"client-certificate": str(CERTIFICATE), "client-key": str(CERTIFICATE)}
ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nsame\n-----END ENCRYPTED PRIVATE KEY-----\n"


def refused(path: Path, **parts: Any) -> str:
    """What is said of a kubeconfig with these parts; it has no secret and one line."""
    config = kubeconfig(path / "config", **{"server": LOCAL, **parts})
    with pytest.raises(UsageError) as caught:
        kube_store.connect(kubeconfig=config)
    said = str(caught.value)
    assert caught.value.exit_code == 2
    assert "same" not in said
    assert "\n" not in said
    assert config in said
    return said.replace(f"kubeconfig {config}", "")


def plugin(**fields: Any) -> dict[str, Any]:
    return {"exec": {"apiVersion": VERSION, "command": "/bin/true", **fields}}


#: What is said, and of which fields of a cluster.
CLUSTER: dict[str, list[tuple[str, object]]] = {
    # what is quoted would switch verification off, and so would a number
    f"{BOOLEAN} a text": [("insecure-skip-tls-verify", "false"), ("disable-compression", "true")],
    f"{BOOLEAN} a number": [("insecure-skip-tls-verify", 1)],
    f"{TEXT} a number": [("tls-server-name", 5), ("proxy-url", 5), ("server", 5)],
    f"{TEXT} a list": [("certificate-authority", [])],
    "must be a list, and is a mapping": [("extensions", {})],
    "is not the name of a host": [
        ("tls-server-name", name) for name in (".", "x..y", "x" * 300, ".".join(["x" * 60] * 5))
    ],
    "is not base64": [("certificate-authority-data", "sesame!")],
    "is not a PEM certificate": [("certificate-authority-data", base64.b64encode(b"same").decode())],
    "must be http://HOST:PORT or https://HOST:PORT. If kubectl can use it, run `kubectl proxy`": [
        ("proxy-url", proxy)
        for proxy in (
            *("127.0.0.1:9", "http://a:b:9", "ftp://me:sesame@a:9"),
            *("socks5://me:sesame@localhost:1080", "me:sesame@localhost:1080"),
        )
    ],
    # every message of a run has the server in it, so it must hold no secret, also if it is no address
    "has a user or password": [
        ("server", server)
        for server in (
            *("https://me:sesame@127.0.0.1:1", "https://me@127.0.0.1:1", "me:sesame@127.0.0.1:1"),
            *("https:/me:sesame@127.0.0.1:1", "https://me:sesame@127.0.0.1:99999"),
        )
    ],
    "is not an address: it must be http://HOST:PORT or": [
        ("server", server)
        for server in (
            *("nonsense", "http://a:b:c", "https://127.0.0.1:99999", "https://[::1:6443", "https://a..b:6443"),
            # the path of a request would become a part of these
            *("https://127.0.0.1:1/path?a=b", "https://127.0.0.1:1#a"),
        )
    ],
    # kubectl refuses it too, and the client would verify nothing
    "is true beside a certificate-authority: remove one of them": [("insecure-skip-tls-verify", True)],
    "is missing": [("server", "")],  # the client would take http://localhost
}


@pytest.mark.parametrize(("said", "field", "value"), [(said, *row) for said, rows in CLUSTER.items() for row in rows])
def test_a_field_of_the_cluster_is_named(tmp_path: Path, said: str, field: str, value: object) -> None:
    """The client would fail in words of its libraries, or do something else."""
    assert refused(tmp_path, **{field: value}).startswith(f": `{field}` of cluster main {said}")


#: What is said, and of which fields of a user.
USER: dict[str, list[tuple[str, dict[str, Any]]]] = {
    f"{TEXT} a number": [
        ("token", {"token": 5}),
        ("password", {"username": "me", "password": 5}),
        ("exec.env[0].value", plugin(env=[{"name": "A", "value": 5}])),
        ("exec.args[1]", plugin(args=["a", 5])),
    ],
    f"{TEXT} a list": [("exec.installHint", plugin(installHint=["same"]))],
    f"{BOOLEAN} a text": [("exec.provideClusterInfo", plugin(provideClusterInfo="true"))],
    "must be a mapping, and is a text": [("exec.env[0]", plugin(env=["same"])), ("exec", {"exec": "same"})],
    "must be a list, and is a mapping": [("exec.env", plugin(env={"A": "same"}))],
    "must be Never, IfAvailable or Always": [("exec.interactiveMode", plugin(interactiveMode="same"))],
    "is missing": [
        *(("exec.env[1].name", plugin(env=[{"name": "A"}, {"value": "same", **name}])) for name in ({}, {"name": ""})),
        ("exec.command", plugin(command=None)),
        ("username", {"password": "same"}),
        ("client-key", {"client-certificate": str(CERTIFICATE)}),
        ("client-certificate", {"client-key": str(CERTIFICATE)}),
    ],
    # the client may ask a server for a new token that it does not verify
    "is not supported": [
        ("auth-provider", {"auth-provider": {"name": "oidc", "config": {"refresh-token": "{se}same"}}})
    ],
    # kubectl refuses it too
    "is beside a token: remove one of them": [
        ("username", {"username": "me", field: "/dev/null"}) for field in ("token", "tokenFile")
    ],
    "is not base64": [("client-certificate-data", {"client-certificate-data": "sesame!"})],
    "is encrypted": [  # data goes before a file
        ("client-key-data", {**PAIR, "client-key-data": base64.b64encode(ENCRYPTED.encode()).decode()}),
    ],
}


@pytest.mark.parametrize(("said", "field", "user"), [(said, *row) for said, rows in USER.items() for row in rows])
def test_a_field_of_the_user_is_named(tmp_path: Path, said: str, field: str, user: dict[str, Any]) -> None:
    """A user's entry is full of secrets: the field is named, and none of them."""
    assert refused(tmp_path, user=user).startswith(f": `{field}` of user me {said}")


def test_an_encrypted_key_in_a_file_is_named(tmp_path: Path) -> None:
    """OpenSSL would ask for a password, or say that the PEM library failed."""
    (tmp_path / "key").write_text(ENCRYPTED, encoding="utf-8")
    user = {**PAIR, "client-key": str(tmp_path / "key")}
    assert refused(tmp_path, user=user).startswith(": `client-key` of user me is encrypted")


@table(
    "fields",
    ("Booleans.", ({"insecure-skip-tls-verify": False, "disable-compression": True},)),
    ("An address as the server's name.", ({"tls-server-name": "::1"},)),
    ("A name with a dot at its end.", ({"tls-server-name": "kubernetes.default.svc."},)),
    ("A proxy that asks for a password.", ({"proxy-url": "http://me:sesame@127.0.0.1:9"},)),
    (
        "What is empty, or null, is not there.",
        ({"tls-server-name": "", "proxy-url": None, "certificate-authority": ""},),
    ),
)
def test_what_kubectl_accepts_is_accepted(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Nothing is sent yet."""
    assert kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", **fields)).name == LOCAL
