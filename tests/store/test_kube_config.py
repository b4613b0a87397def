"""Which cluster is meant, and as whom."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml
from kubernetes.client import Configuration
from kubernetes.config import incluster_config

from migrator.cli import connect
from migrator.errors import NotAuthorised, Unreachable, UsageError
from migrator.kinds import PODS
from migrator.kube import store as kube_store
from migrator.kube.credentials import Credentials
from migrator.kube.kubeconfig import find
from migrator.kube.transport import Timing
from tests.support.fake_api import POD, FakeApi, Serve, status
from tests.support.kubeconfigs import ask, kubeconfig, plugin
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("nowhere")


def test_the_flag_names_the_file(tmp_path: Path, secure: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """--kubeconfig wins over the environment, which alone is a list, and its user's token is sent."""
    monkeypatch.setenv("KUBECONFIG", kubeconfig(tmp_path / "wrong", "http://127.0.0.1:1"))
    ask(kubeconfig=kubeconfig(tmp_path / "wrong:right", secure.url))
    assert secure.seen[0].headers["authorization"] == "Bearer sesame"
    assert secure.seen[0].headers["User-Agent"].startswith("grove-migrator/")


def test_the_first_file_names_the_current_context(
    tmp_path: Path, secure: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$KUBECONFIG is a list, merged; missing and empty files are passed over, and the first current context wins."""
    unnamed = kubeconfig(tmp_path / "unnamed", secure.url, current="")
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.touch()
    first = kubeconfig(tmp_path / "first", secure.url, current="other")
    second = kubeconfig(tmp_path / "second", secure.url, current="main")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(missing), str(empty), unnamed, first, second]))
    ask()
    assert secure.seen[0].path.startswith("/other/")


def test_the_home_directory_comes_last(tmp_path: Path, secure: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """~/.kube/config is read where nothing else is said; --context takes another cluster than its current one.

    With `KUBECONFIG=` nothing is said, as to kubectl.
    """
    kubeconfig(tmp_path / "home" / ".kube" / "config", secure.url)
    ask()
    monkeypatch.setenv("KUBECONFIG", "")
    ask(context="other")
    assert [seen.path for seen in secure.seen] == ["/api/v1/namespaces/a/pods/p", "/other/api/v1/namespaces/a/pods/p"]
    assert [connect.connect(None, name).context for name in (None, "other")] == ["main", "other"], "by the flag"


@pytest.mark.parametrize("variable", [False, True])
def test_a_kubeconfig_that_can_be_read_once_is_enough(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, variable: bool
) -> None:
    """`--kubeconfig <(...)` is a pipe: it serves credentials that are read again after a 401 too."""
    api = serve(status(401, "expired"), POD, tls=True)
    read, write = os.pipe()
    os.write(write, Path(kubeconfig(tmp_path / "config", api.url)).read_bytes())
    os.close(write)
    monkeypatch.setenv("KUBECONFIG", f"/dev/fd/{read}")
    flag = None if variable else f"/dev/fd/{read}"
    ask(kubeconfig=flag)
    os.close(read)
    assert [sent.headers["authorization"] for sent in api.seen] == ["Bearer sesame"] * 2


def text_of(folder: Path, **parts: Any) -> str:
    return Path(kubeconfig(folder / "source", "https://example.test", **parts)).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        (None, None, "does not exist"),
        ("a: [", None, "cannot be used: line 2: .*: correct it, or give what"),
        (b"\xff\xfe\0", None, "cannot be used: byte .*: correct it, or give what"),
        (b"[" * 5_000, None, "line 1: it is nested too deeply: .* what `kubectl config view --raw` prints$"),
        ("current-context: ''\ncontexts: [{name: a}, {name: b}]\n", None, "choose one with --context: a, b"),
        *(
            (text, None, "has no context: name the right file with --kubeconfig or ")
            for text in ("", "''", "kind: Config", "current-context: main\ncontexts: []\nclusters: []\n")
        ),
        (
            "current-context: a\ncontexts: [{name: a, context: {cluster: away}}]\n",
            *(None, "context a names the cluster away, which is not in kubeconfig"),
        ),
        ("current-context: a\ncontexts: [{name: a}]\n", None, "context a names no cluster$"),
        *(
            (text, None, "is not what `kubectl config view --raw` prints: correct it$")
            for text in (
                "just text",
                "contexts: {name: sesame}\n",
                "contexts: [{name: [sesame]}]\n",
                *(f"{kind}s: [{{{kind}: {{token: sesame}}}}]\n" for kind in ("context", "cluster", "user")),
                "users: [{name: me, user: sesame}]\n",
            )
        ),
        ({}, "oter", "oter is not in kubeconfig .*, whose contexts are: main, other"),
        ({"name": "you"}, None, "context main names the user me, which is not in kubeconfig"),
        ({"user": {"tokenFile": "/missing/token"}}, None, "cannot be used: /missing/token: No such file or directory$"),
        ({"user": {"tokenFile": "/dev/null"}}, None, "cannot be used: /dev/null: is empty$"),
    ],
)
def test_a_bad_kubeconfig_is_a_usage_error(
    tmp_path: Path, text: str | bytes | dict[str, Any] | None, context: str | None, message: str
) -> None:
    """Whatever cannot be used, or would be used with other rights than it says: one sentence without credentials."""
    path = tmp_path / "config"
    content = text_of(tmp_path, **text) if isinstance(text, dict) else text
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(UsageError, match=message) as caught:
        ask(kubeconfig=str(path), context=context)
    assert str(path) in str(caught.value)
    assert "same" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("variable", "context", "message"),
    [
        (None, None, r"--kubeconfig, \$KUBECONFIG, ~/.kube/config.*in-cluster"),
        (None, "prod", "context prod cannot be found"),
        ("/missing1:/missing2", None, "KUBECONFIG names no file that exists: /missing1:/missing2"),
    ],
)
def test_no_configuration_at_all_names_what_was_tried(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, context: str | None, message: str
) -> None:
    """Without a configuration there is no cluster, and none is guessed."""
    if variable:
        monkeypatch.setenv("KUBECONFIG", variable)
    with pytest.raises(UsageError, match=message):
        kube_store.connect(context=context)


def test_a_file_that_cannot_be_looked_for_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the next file of the list would be used, and may name another cluster."""
    below = tmp_path / "file" / "config"
    below.parent.touch()
    monkeypatch.setenv("KUBECONFIG", f"{below}:{kubeconfig(tmp_path / 'config')}")
    with pytest.raises(UsageError, match=f"^kubeconfig {below} cannot be used: {below}: Not a directory$"):
        kube_store.connect()


@table(
    "change",
    ("JSON with tabs.", (lambda text: json.dumps(yaml.safe_load(text), indent="\t"),)),
    ("A tab before a value.", (lambda text: text.replace("token: ", "token:\t"),)),
    ("The first document counts.", (lambda text: f"{text}---\ncurrent-context: other\n",)),
    ("A name that YAML 1.1 takes for a date.", (lambda text: text.replace(": me\n", ": 2026-11-28\n"),)),
)
def test_what_kubectl_can_read_is_read(tmp_path: Path, secure: FakeApi, change: Callable[[str], str]) -> None:
    """A file that kubectl accepts is not called bad YAML."""
    config = tmp_path / "config"
    text = text_of(tmp_path).replace("https://example.test", secure.url)
    config.write_text(change(text), encoding="utf-8")
    ask(kubeconfig=str(config))
    assert secure.seen[0].headers["authorization"] == "Bearer sesame"


def test_without_a_home_directory_the_pod_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run as a user that nobody knows."""
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(UsageError, match=r"no kubeconfig was found .*in-cluster"):
        kube_store.connect()


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.DependencyWarning")
@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "127.0.0.1:9", "http://me:sesame@a:b:9"])
def test_a_proxy_other_than_http_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """A SOCKS proxy needs a library that we do not have; an address needs a scheme."""
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(
        UsageError, match=r"^the proxy of the variable HTTPS_PROXY cannot be used: give http://HOST:PORT"
    ):
        kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", "https://example.test"))


PROXY = "http://proxy.test:3128"


@table(
    "server variables proxy",
    ("The scheme's own.", ("https://a.test", {"HTTPS_PROXY": PROXY, "HTTP_PROXY": "http://b.test"}, PROXY)),
    ("In small letters too.", ("http://a.test", {"http_proxy": PROXY}, PROXY)),
    ("In capitals rather.", ("https://a.test", {"https_proxy": "http://b.test", "HTTPS_PROXY": PROXY}, PROXY)),
    ("None is for all schemes.", ("https://a.test", {"ALL_PROXY": "socks5://b.test"}, None)),
    ("None for this machine.", ("https://127.0.0.2:6443", {"HTTPS_PROXY": PROXY}, None)),
    ("Nor for its name.", ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, None)),
    ("Nor in IPv6.", ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, None)),
    ("A domain without one.", ("https://a.b.test", {"HTTPS_PROXY": PROXY, "NO_PROXY": "c.test,b.test"}, None)),
    ("With an asterisk.", ("https://a.b.test", {"HTTPS_PROXY": PROXY, "no_proxy": "*.b.test"}, None)),
    ("Networks.", ("https://10.1.2.3", {"HTTPS_PROXY": PROXY, "no_proxy": "10.0.0.0/8"}, None)),
    (
        "A proxy that is not needed may be any.",
        ("https://a.test", {"HTTPS_PROXY": "socks5://b", "NO_PROXY": "*"}, None),
    ),
)
def test_the_proxy_of_the_environment_is_that_of_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str, variables: dict[str, str], proxy: str | None
) -> None:
    """A cluster on this machine, as by kind, has none; ALL_PROXY is for other programs."""
    monkeypatch.delenv("no_proxy")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration()
    find(kubeconfig(tmp_path / "config", server), None, print)[1](configuration)
    assert configuration.proxy == proxy
    assert configuration.no_proxy is None


def test_a_proxy_that_refuses_the_connection_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the proxy beside the API server, without the proxy's password."""
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:sesame@127.0.0.1:1")
    said = (
        r"cannot reach the API server https://example\.test through the proxy http://127\.0\.0\.1:1: Connection refused"
    )
    with pytest.raises(Unreachable, match=said):
        ask(kubeconfig=kubeconfig(tmp_path / "config", "https://example.test"), timing=Timing(sleep=lambda _: None))


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pod around us; the file of its token."""
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first", encoding="utf-8")
    authority.write_bytes(Path(certifi.where()).read_bytes())
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return token


def test_in_a_pod_the_service_account_is_used(pod: Path) -> None:
    """Without a kubeconfig the pod's own token is sent, and read again when it has been rotated."""
    context, read = find(None, None, print)
    assert context is None
    credentials = Credentials(read)
    assert credentials.server == "https://10.0.0.1:443"
    assert credentials.access.headers["authorization"] == "bearer first"
    pod.write_text("second", encoding="utf-8")
    credentials.renew(credentials.access, "get")
    assert credentials.access.headers["authorization"] == "bearer second"


def test_in_a_pod_the_proxy_is_that_of_kubectl_too(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for all schemes is not used."""
    assert pod.exists()
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("ALL_PROXY", "http://proxy.test")
    configuration = Configuration()
    find(None, None, print)[1](configuration)
    assert configuration.proxy is None


def test_a_token_that_cannot_be_read_again_is_not_authorised(tmp_path: Path, serve: Serve) -> None:
    """After a 401 the credentials are read anew, without a line break; a file that has disappeared is no traceback."""
    expired = status(401, "expired")
    api, token = serve(expired, POD, expired, tls=True), tmp_path / "token"
    token.write_text("first", encoding="utf-8")
    store = kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", api.url, user={"tokenFile": str(token)}))
    token.write_text("second\n", encoding="utf-8")
    store.get(PODS, "a", "p")
    assert [seen.headers["authorization"] for seen in api.seen] == ["Bearer first", "Bearer second"]
    token.unlink()
    with pytest.raises(NotAuthorised, match="get Pod a/p: the credentials cannot be renewed: kubeconfig"):
        store.get(PODS, "a", "p")


@table(
    "user sent",
    ("A user without a password has an empty one.", ({"username": "me"}, "Basic bWU6")),
    ("A password is UTF-8.", ({"username": "me", "password": "\u0142"}, "Basic bWU6xYI=")),
    ("The token of a file goes before one in the text.", ({"token": "old", "tokenFile": "token"}, "Bearer sesame")),
)
def test_who_is_meant_as_kubectl_takes_it(tmp_path: Path, secure: FakeApi, user: dict[str, str], sent: str) -> None:
    """A user's entry may have more than one of its fields, or a part of them."""
    (tmp_path / "token").write_text("sesame\n", encoding="utf-8")
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))
    assert secure.seen[0].headers["authorization"] == sent


def test_credentials_are_not_sent_in_the_clear(tmp_path: Path, api: FakeApi) -> None:
    """As kubectl, which asks a plugin for none either: the server may be `kubectl proxy`, which has its own."""
    user = plugin(tmp_path / "plugin.py", "raise SystemExit(1)")
    for credentials in ({"token": "sesame"}, user):
        ask(kubeconfig=kubeconfig(tmp_path / "config", api.url, user=credentials))
    assert [seen.headers.get("authorization") for seen in api.seen] == [None, None]


def test_the_proxy_of_a_cluster_is_used_with_its_password(tmp_path: Path, api: FakeApi) -> None:
    """As kubectl uses it, whatever `no_proxy` says, which is about the variables."""
    proxy = api.url.replace("//", "//me:open@")
    ask(kubeconfig=kubeconfig(tmp_path / "config", "http://example.test", **{"proxy-url": proxy}))
    assert api.seen[0].target.startswith("http://example.test/")
    assert api.seen[0].headers["proxy-authorization"] == "Basic bWU6b3Blbg=="


@pytest.mark.parametrize("token", ["alibaba\nsesame", "alibaba\r\nImpersonate-User: sesame", "sésame"])
def test_a_token_that_does_not_fit_into_a_header_is_not_authorised(tmp_path: Path, secure: FakeApi, token: str) -> None:
    """A line break or a letter outside ASCII in a token is named; its value is not, and nothing is sent."""
    path = kubeconfig(tmp_path / "config", secure.url, user={"token": token})
    with pytest.raises(NotAuthorised, match="the credentials cannot be sent") as refused:
        ask(kubeconfig=path)
    assert not [word for word in ("alibaba", "same") if word in str(refused.value)]
    assert secure.seen == []
