"""Credential plugins: when they are started, what they are told, and what is made of their answers."""

from __future__ import annotations

import sys
import threading
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import NotAuthorised
from migrator.kinds import PODS
from migrator.kube import store as kube_store
from migrator.kube.store import KubeCluster
from tests.support.clock import Clock
from tests.support.fake_api import (
    AUTHORITY,
    CERTIFICATE,
    OPS,
    POD,
    THROTTLED,
    Answer,
    FakeApi,
    Seen,
    Serve,
    status,
    store_on,
)
from tests.support.kubeconfigs import ask, kubeconfig, plugin
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("nowhere")

#: A plugin whose token says how often it was started.
COUNTING = """
import json, pathlib
counter = pathlib.Path({counter!r})
counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
status = {{"token": f"token-{{len(counter.read_text())}}"}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


ANSWER = """
import json, os, sys, time
print("log in at https://example.test", file=sys.stderr, flush=True)
time.sleep({seconds})
api, info = "client.authentication.k8s.io/v1", json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert info["spec"] == {spec}, info
print(json.dumps({{"apiVersion": api, "kind": "ExecCredential", "status": {{"token": "sesame"}}}}))
"""


NOT_INTERACTIVE = {"interactive": False}


def test_a_plugin_asks_for_a_login_on_our_stderr(
    tmp_path: Path, secure: FakeApi, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its prompt is shown though stdout is no terminal, it learns that nobody can type, and is named if it is slow."""
    monkeypatch.setattr("migrator.kube.plugin.PATIENCE", 0.01)
    user, waited = plugin(tmp_path / "plugin.py", ANSWER.format(seconds=0.2, spec=NOT_INTERACTIVE)), list[str]()
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user), waiting=waited.append)
    assert capfd.readouterr().err == "log in at https://example.test\n"
    assert waited == [sys.executable]
    assert secure.seen[0].headers["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("fails", [False, True], ids=["", "It fails for the first of them."])
def test_a_late_refusal_of_older_credentials_starts_nothing(tmp_path: Path, serve: Serve, *, fails: bool) -> None:
    """Patches under way may be refused one after the other, and a login may have to be typed."""
    arrived, renewed = threading.Event(), threading.Event()

    def answer(seen: Seen) -> Answer:
        if seen.path.endswith("/late") and not arrived.is_set():
            arrived.set()
            renewed.wait(20)
        return status(401, "expired") if seen.headers["authorization"] == "Bearer token-1" else POD

    api = serve(answer, tls=True)
    ending = "raise SystemExit(len(counter.read_text()) > 1)" if fails else ""
    user = plugin(tmp_path / "plugin.py", COUNTING.format(counter=str(tmp_path / "counter")) + ending)
    store = kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", api.url, user=user))
    with ThreadPoolExecutor() as pool:
        late = pool.submit(store.get, PODS, "a", "late")
        assert arrived.wait(20)
        with pytest.raises(NotAuthorised) if fails else nullcontext():
            store.get(PODS, "a", "p")
        renewed.set()
        with pytest.raises(NotAuthorised) if fails else nullcontext():
            late.result(20)
    assert (tmp_path / "counter").read_text(encoding="utf-8") == "xx"


@table(
    "act",
    ("A read waits long for a server that is busy.", (lambda store: store.get(PODS, "a", "p"),)),
    (
        "A write has less time, and a new certificate needs a new connection.",
        (lambda store: store.patch(PODS, "a", "p", OPS),),
    ),
)
def test_what_a_plugin_takes_is_not_taken_from_the_request(serve: Serve, act: Callable[[KubeCluster], Any]) -> None:
    """It may wait for a person; then the request has all its time, also if it must be sent again."""
    api, time, reads = serve(POD, status(401, "expired"), THROTTLED, POD), Clock(), count()
    store = store_on(api.url, time=time, renewed=lambda: time.advance(120 * next(reads)))
    store.get(PODS, "a", "p")
    act(store)
    refused, again, _ = (seen.query.get("timeout") for seen in api.seen[1:])
    assert again == refused


@pytest.mark.parametrize("name", ["certificate-authority", "certificate-authority-data"])
def test_a_plugin_learns_which_cluster_it_is_for(tmp_path: Path, secure: FakeApi, name: str) -> None:
    """With `provideClusterInfo` it gets the cluster, files as data, and its extension of the kubeconfig as `config`."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.read_bytes())
    data = b64encode(AUTHORITY.read_bytes()).decode()
    authority = {name: data if name.endswith("data") else "ca.crt"}
    told = {"server": secure.url, "tls-server-name": "127.0.0.1", "disable-compression": True}
    cluster = {**told, "certificate-authority-data": data, "config": {"audience": "x"}}
    user = plugin(tmp_path / "plugin.py", ANSWER.format(seconds=0, spec={"interactive": False, "cluster": cluster}))
    user["exec"]["provideClusterInfo"] = True
    extensions = [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}]
    fields = {**told, **authority, "extensions": extensions}
    ask(kubeconfig=kubeconfig(tmp_path / "config", user=user, **fields))


def test_a_plugin_is_found_beside_the_kubeconfig_and_runs_where_we_do(
    tmp_path: Path, secure: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command with a folder is a path from the kubeconfig; the plugin's paths begin where its user is."""
    where = f"import os; assert os.getcwd() == {str(tmp_path / 'home')!r}"
    user = plugin(tmp_path / "login", f"#!{sys.executable}\n{where}" + ANSWER.format(seconds=0, spec=NOT_INTERACTIVE))
    (tmp_path / "login").chmod(0o755)
    user["exec"] |= {"command": "./login", "args": []}
    monkeypatch.chdir(tmp_path / "home")
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))


def test_a_plugin_is_looked_for_on_our_path(tmp_path: Path, secure: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by kubectl: a `PATH` among the plugin's own variables is for the programs that it starts."""
    for folder in ("ours", "its"):
        (tmp_path / folder).mkdir()
        program = ANSWER.format(seconds=0, spec=NOT_INTERACTIVE).replace("sesame", folder)
        user = plugin(tmp_path / folder / "login", f"#!{sys.executable}\n{program}")
        (tmp_path / folder / "login").chmod(0o755)
    user["exec"] |= {"command": "login", "args": [], "env": [{"name": "PATH", "value": str(tmp_path / "its")}]}
    monkeypatch.setenv("PATH", str(tmp_path / "ours"))
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))
    assert secure.seen[0].headers["authorization"] == "Bearer ours"


def test_a_variable_without_a_value_is_empty(tmp_path: Path, secure: FakeApi) -> None:
    """As kubectl sets it for the plugin."""
    program = "import os; assert os.environ['A'] == ''\n" + ANSWER.format(seconds=0, spec=NOT_INTERACTIVE)
    user = plugin(tmp_path / "plugin.py", program)
    user["exec"]["env"] = [{"name": "A"}]
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))


STATUS = """print('{"apiVersion": "client.authentication.k8s.io/v1", "status": {%s}}')"""
NOTHING = "printed no ExecCredential of client.authentication.k8s.io/v1 that has credentials"


@table(
    "program said",
    ("It failed.", ("raise SystemExit('sesame')", "ended with exit code 1")),
    ("It printed no JSON.", ("print('sesame')", NOTHING)),
    ("It printed nothing but brackets.", ("print('[' * 200_000)", NOTHING)),
    ("It printed no credentials.", (STATUS % '"token": ""', NOTHING)),
    ("A key without its certificate.", (STATUS % '"token": "sesame", "clientKeyData": "sesame"', NOTHING)),
    ("Another API.", ("""print('{"apiVersion": "v1", "status": {"token": "sesame"}}')""", NOTHING)),
    ("It is not there.", (None, "is not there, or is no program: install it, or put it on PATH")),
)
def test_a_plugin_that_gives_no_credentials_is_named(
    tmp_path: Path, secure: FakeApi, program: str | None, said: str
) -> None:
    """At once, before a request that could only fail; what it printed is not quoted, as it may hold a token."""
    user = plugin(tmp_path / "plugin.py", program or "")
    user["exec"]["command"] = sys.executable if program else "no-such-plugin"
    with pytest.raises(NotAuthorised, match=f"no credentials: the credential plugin .* {said}") as caught:
        ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))
    assert "sesame" not in str(caught.value)
    assert secure.seen == []


def test_a_plugin_that_is_not_there_is_named_with_its_hint(tmp_path: Path, secure: FakeApi) -> None:
    """As by kubectl; a control character in it is not shown."""
    user = plugin(tmp_path / "plugin.py", "")
    user["exec"] |= {"command": "no-such-plugin", "installHint": "See\n\x1bx.test"}
    with pytest.raises(NotAuthorised, match=r"PATH\. See x\.test$"):
        ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))


@table(
    "fields sent",
    ("A token.", ({"token": "sesame"}, "Bearer sesame")),
    ("The token of a file.", ({"tokenFile": "token"}, "Bearer of a file")),
    ("A password.", ({"username": "me", "password": "open"}, "Basic bWU6b3Blbg==")),
    ("A certificate.", ({"client-certificate": str(CERTIFICATE), "client-key": str(CERTIFICATE)}, None)),
)
def test_credentials_beside_a_plugin_are_taken(
    tmp_path: Path, secure: FakeApi, fields: dict[str, str], sent: str | None
) -> None:
    """As kubectl takes them; the plugin is not started."""
    (tmp_path / "token").write_text("of a file", encoding="utf-8")
    user = {**fields, **plugin(tmp_path / "plugin.py", "raise SystemExit(1)")}
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))
    assert secure.seen[0].headers.get("authorization") == sent
