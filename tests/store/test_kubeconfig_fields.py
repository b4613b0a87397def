"""Fields of a kubeconfig that cannot be used: named with their entry, by one sentence without a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.errors import UsageError
from migrator.kube import store as kube_store
from tests.support.kubeconfigs import LOCAL, kubeconfig
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("nowhere")

TEXT, BOOLEAN = "must be a text: correct it", "must be true or false without quotes: correct it"
OIDC = {"auth-provider": {"name": "oidc", "config": {"refresh-token": "{se}same"}}}
TRUE = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/true"}


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


#: What is said, and of which fields of a cluster.
CLUSTER: dict[str, list[tuple[str, object]]] = {
    # what is quoted would switch verification off, and so would a number
    BOOLEAN: [("insecure-skip-tls-verify", "false"), ("insecure-skip-tls-verify", 1)],
    "is true beside a certificate-authority: remove one of them": [("insecure-skip-tls-verify", True)],
    TEXT: [("tls-server-name", 5), ("proxy-url", 5), ("server", 5)],
    "must be http://HOST:PORT or https://HOST:PORT. If kubectl can use it, run `kubectl proxy`": [
        ("proxy-url", proxy)
        for proxy in (
            *("127.0.0.1:9", "http://a:b:9", "ftp://me:sesame@a:9"),
            *("socks5://me:sesame@localhost:1080", "me:sesame@localhost:1080"),
        )
    ],
    "must be http://HOST:PORT or https://HOST:PORT, without a user or password": [
        ("server", server)
        for server in (
            "",  # the client would take http://localhost
            # every message of a run has the server in it, so it must hold no secret
            *("https://me:sesame@127.0.0.1:1", "https://me@127.0.0.1:1"),
            *("nonsense", "http://a:b:c", "https://127.0.0.1:99999", "https://[::1:6443"),
            # the path of a request would become a part of these
            *("https://127.0.0.1:1/path?a=b", "https://127.0.0.1:1#a"),
        )
    ],
}


@pytest.mark.parametrize(("said", "field", "value"), [(said, *row) for said, rows in CLUSTER.items() for row in rows])
def test_a_field_of_the_cluster_is_named(tmp_path: Path, said: str, field: str, value: object) -> None:
    """The client would fail in words of its libraries, or do something else."""
    assert refused(tmp_path, **{field: value}).startswith(f": `{field}` of context main {said}")


@table(
    "user field said",
    ("A number.", ({"token": 5}, "token", TEXT)),
    ("A client would renew its token from a server that it does not verify.", (OIDC, "auth-provider", "is not")),
    *(
        ("It acts as another.", ({"token": "sesame", field: value}, field, "acts as another, which is not supported"))
        for field, value in (("as", "bob"), ("as-uid", "1"), ("as-groups", ["g"]), ("as-user-extra", {"a": ["b"]}))
    ),
)
def test_a_field_of_the_user_is_named(tmp_path: Path, user: dict[str, Any], field: str, said: str) -> None:
    """It would be used with other rights than it says; a user's entry is full of secrets, and none is quoted."""
    assert refused(tmp_path, user=user).startswith(f": `{field}` of context main {said}")


@table(
    "parts",
    ("Bytes that are not base64.", ({"certificate-authority-data": "sesame!"},)),
    ("A plugin that is a text.", ({"user": {"exec": "sesame"}},)),
    ("A plugin without a command.", ({"user": {"exec": {"apiVersion": "v1", "args": ["sesame"]}}},)),
    ("A variable that is a number.", ({"user": {"exec": {**TRUE, "env": [{"name": "sesame", "value": 5}]}}},)),
    ("A list.", ({"certificate-authority": ["sesame"]},)),
)
def test_what_kubectl_never_writes_is_no_bug(tmp_path: Path, parts: dict[str, Any]) -> None:
    """It is a usage error that names the file."""
    assert refused(tmp_path, **parts).startswith((" cannot be used: ", " is not what `kubectl config view --raw`"))


@table(
    "fields",
    ("A boolean.", ({"insecure-skip-tls-verify": False},)),
    ("A proxy that asks for a password.", ({"proxy-url": "http://me:sesame@127.0.0.1:9"},)),
    (
        "What is empty, or null, is not there.",
        ({"tls-server-name": "", "proxy-url": None, "certificate-authority": ""},),
    ),
)
def test_what_kubectl_accepts_is_accepted(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Nothing is sent yet."""
    assert kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", **fields)).name == LOCAL
