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
PROXY = "must be http://HOST:PORT or https://HOST:PORT. If kubectl can use it, run `kubectl proxy`"
ENCRYPTED = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nsame\n-----END ENCRYPTED PRIVATE KEY-----\n"


def refused(path: Path, **parts: Any) -> str:
    """What is said of a kubeconfig with these parts; it has no secret and one line."""
    config = kubeconfig(path / "config", **{"server": LOCAL, **parts})
    with pytest.raises(UsageError) as caught:
        kube_store.connect(kubeconfig=config)
    said = str(caught.value)
    assert (caught.value.exit_code, "same" in said, "\n" in said) == (2, False, False)
    assert config in said
    return said.replace(f"kubeconfig {config}", "")


def plugin(**fields: Any) -> dict[str, Any]:
    """A user with a credential plugin."""
    return {"exec": {"apiVersion": VERSION, "command": "/bin/true", **fields}}


@table(
    "field value said",
    ("A quoted boolean would switch verification off.", ("insecure-skip-tls-verify", "false", f"{BOOLEAN} a text")),
    ("So would a number.", ("insecure-skip-tls-verify", 1, f"{BOOLEAN} a number")),
    ("Every boolean of a cluster.", ("disable-compression", "true", f"{BOOLEAN} a text")),
    ("A name of a host.", ("tls-server-name", 5, f"{TEXT} a number")),
    ("A dot.", ("tls-server-name", ".", "is not the name of a host")),
    ("An empty label.", ("tls-server-name", "x..y", "is not the name of a host")),
    ("Too long a label.", ("tls-server-name", "x" * 300, "is not the name of a host")),
    ("Too long a name.", ("tls-server-name", ".".join(["x" * 60] * 5), "is not the name of a host")),
    ("An address with half a bracket.", ("server", "https://[::1:6443", "is not an address: it must be")),
    ("A proxy.", ("proxy-url", 5, f"{TEXT} a number")),
    ("A proxy without a scheme.", ("proxy-url", "127.0.0.1:9", "must be http://HOST:PORT or https://HOST:PORT")),
    *(
        ("A proxy of another kind, or with a password, and a way out.", ("proxy-url", proxy, PROXY))
        for proxy in ("ftp://me:sesame@a:9", "socks5://me:sesame@localhost:1080", "me:sesame@localhost:1080")
    ),
    ("A proxy with a bad port.", ("proxy-url", "http://a:b:9", "must be http://HOST:PORT or https://HOST:PORT")),
    ("Bad base64.", ("certificate-authority-data", "sesame!", "is not base64")),
    ("No certificate.", ("certificate-authority-data", base64.b64encode(b"same").decode(), "is not a PEM certificate")),
    ("Extensions, which a plugin may be told.", ("extensions", {}, "must be a list, and is a mapping")),
    ("A list.", ("certificate-authority", [], f"{TEXT} a list")),
    *(
        (
            "Every message of a run has the server in it, so it must hold no secret.",
            ("server", server, "has a user or p"),
        )
        for server in ("https://me:sesame@127.0.0.1:1", "https://me@127.0.0.1:1", "me:sesame@127.0.0.1:1")
    ),
    *(
        ("Nor if it is no address.", ("server", server, "has a user or password"))
        for server in ("https:/me:sesame@127.0.0.1:1", "https://me:sesame@127.0.0.1:99999")
    ),
    *(
        (
            "An address has a scheme, and a port.",
            ("server", server, "is not an address: it must be http://HOST:PORT or"),
        )
        for server in ("nonsense", "http://a:b:c", "https://127.0.0.1:99999")
    ),
    ("A server that is a number.", ("server", 5, f"{TEXT} a number")),
    ("No server: the client would take http://localhost.", ("server", "", "is missing")),
)
def test_a_field_of_the_cluster_is_named(tmp_path: Path, field: str, value: object, said: str) -> None:
    """The client would fail in words of its libraries, or do something else."""
    assert refused(tmp_path, **{field: value}).startswith(f": `{field}` of cluster main {said}")


@table(
    "user field said",
    ("A token.", ({"token": 5}, "token", f"{TEXT} a number")),
    ("A password.", ({"username": "me", "password": 5}, "password", f"{TEXT} a number")),
    (
        "A plugin's variable without value.",
        (plugin(env=[{"name": "A", "value": "same"}, {"name": "B"}]), "exec.env[1].value", "is missing"),
    ),
    ("Without name.", (plugin(env=[{"value": "same"}]), "exec.env[0].name", "is missing")),
    (
        "A variable that is a number.",
        (plugin(env=[{"name": "A", "value": 5}]), "exec.env[0].value", f"{TEXT} a number"),
    ),
    ("A variable that is a text.", (plugin(env=["same"]), "exec.env[0]", "must be a mapping, and is a text")),
    ("No list of variables.", (plugin(env={"A": "same"}), "exec.env", "must be a list, and is a mapping")),
    ("A plugin's argument.", (plugin(args=["a", 5]), "exec.args[1]", f"{TEXT} a number")),
    ("A plugin's command.", (plugin(command=None), "exec.command", "is missing")),
    ("A plugin's boolean.", (plugin(provideClusterInfo="true"), "exec.provideClusterInfo", f"{BOOLEAN} a text")),
    ("A password without a user.", ({"password": "same"}, "username", "is missing: a password needs it")),
    (
        "A mode that kubectl does not know.",
        (plugin(interactiveMode="same"), "exec.interactiveMode", "must be Never, IfAvailable or Always"),
    ),
    ("A text for people.", (plugin(installHint=["same"]), "exec.installHint", f"{TEXT} a list")),
    ("A plugin.", ({"exec": "same"}, "exec", "must be a mapping, and is a text")),
    (
        "A way to log in that the client does badly.",
        (
            {"auth-provider": {"name": "oidc", "config": {"refresh-token": "{se}same"}}},
            "auth-provider",
            "is not supported",
        ),
    ),
    ("Bad base64.", ({"client-certificate-data": "sesame!"}, "client-certificate-data", "is not base64")),
    ("A certificate without its key.", ({"client-certificate": str(CERTIFICATE)}, "client-key", "is missing")),
    ("A key without its certificate.", ({"client-key": str(CERTIFICATE)}, "client-certificate", "is missing")),
    (
        "A key that is encrypted.",
        (
            {"client-certificate": str(CERTIFICATE), "client-key-data": base64.b64encode(ENCRYPTED.encode()).decode()},
            "client-key-data",
            "is encrypted",
        ),
    ),
)
def test_a_field_of_the_user_is_named(tmp_path: Path, user: dict[str, Any], field: str, said: str) -> None:
    """A user's entry is full of secrets: the field is named, and none of them."""
    assert refused(tmp_path, user=user).startswith(f": `{field}` of user me {said}")


def test_an_encrypted_key_in_a_file_is_named(tmp_path: Path) -> None:
    """OpenSSL would ask for a password, or say that the PEM library failed."""
    (tmp_path / "key").write_text(ENCRYPTED, encoding="utf-8")
    user = {"client-certificate": str(CERTIFICATE), "client-key": str(tmp_path / "key")}
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
