"""Connections: whom we trust, as whom the server sees us, and what is never sent or awaited too late."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import certifi
import pytest
from kubernetes.client import Configuration

from migrator.errors import MigratorError, Unreachable, UsageError
from migrator.kinds import LEASES, PODS
from migrator.kube import connections
from migrator.kube import store as kube_store
from migrator.kube.store import KubeCluster
from migrator.kube.transport import Timing
from tests.support.fake_api import AUTHORITY, CERTIFICATE, OPS, POD, RENEWED, Drip, FakeApi, Serve, status, store_on
from tests.support.kubeconfigs import LOCAL, ask, kubeconfig, plugin
from tests.support.tables import table

pytestmark = pytest.mark.usefixtures("nowhere")

#: Shows the client certificate of the tests.
USER = {"client-certificate": str(CERTIFICATE), "client-key": str(CERTIFICATE)}


#: A plugin that answers with the key and the certificate of a file, and with a token.
PLUGIN = """
import json, pathlib
pem = pathlib.Path({path!r}).read_text()
status = {{"clientCertificateData": pem, "clientKeyData": pem, "token": "sesame"}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


def test_token_and_certificate_of_a_plugin_are_both_shown(tmp_path: Path, serve: Serve) -> None:
    """A credential plugin may answer with a token, a certificate with its key, or all of them."""
    user, api = plugin(tmp_path / "plugin.py", PLUGIN.format(path=str(CERTIFICATE))), serve(POD, tls=True)
    ask(kubeconfig=kubeconfig(tmp_path / "config", api.url, user=user))
    (seen,) = api.seen
    assert seen.certificate == "tests of grove-migrator"
    assert seen.headers["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("by_plugin", [False, True])
def test_a_renewed_certificate_is_shown(tmp_path: Path, serve: Serve, *, by_plugin: bool) -> None:
    """A connection shows the certificate that it was made with, so a new certificate needs new connections."""
    pem, api = tmp_path / "current.pem", serve(status(401, "expired"), POD, tls=True)
    pem.write_bytes(CERTIFICATE.read_bytes())
    files = {"client-certificate": str(pem), "client-key": str(pem)}
    user = plugin(tmp_path / "plugin.py", PLUGIN.format(path=str(pem))) if by_plugin else files
    store = kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", api.url, user=user))
    pem.write_bytes(RENEWED.read_bytes())
    store.get(PODS, "a", "p")
    assert [seen.certificate.split()[0] for seen in api.seen] == ["tests", "renewed"]


def test_paths_begin_at_the_file_that_names_them(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's certificate is beside the kubeconfig of the user, not beside that of the cluster."""
    one, other, api = tmp_path / "one", tmp_path / "other", serve(POD, tls=True)
    kubeconfig(one / "config", api.url, name="nobody")
    kubeconfig(other / "config", user={"client-certificate": "me.pem", "client-key": "me.pem"})
    (other / "me.pem").write_bytes(CERTIFICATE.read_bytes())
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(one / "config"), str(other / "config")]))
    ask()
    assert api.seen[0].certificate == "tests of grove-migrator"


@pytest.mark.parametrize("method", ["load_cert_chain", "load_verify_locations", "set_alpn_protocols"])
def test_connections_can_be_made_at_once(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """None changes the TLS context that other threads use meanwhile: OpenSSL could crash the process."""
    store = kube_store.connect(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER))
    monkeypatch.setattr(ssl.SSLContext, method, lambda *_, **__: pytest.fail(f"{method} changes the context"))
    store.get(PODS, "a", "p")


@pytest.mark.parametrize("authority", ["the system's", "the kubeconfig's"])
def test_certificates_are_verified_as_kubectl_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, authority: str
) -> None:
    """Without an authority in the kubeconfig the system's count; what Python 3.13 demands beyond that is not needed."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY) if authority == "the system's" else certifi.where())
    cluster = {"certificate-authority": ""} if authority == "the system's" else {}
    ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER, **cluster))


@table(
    "host cluster",
    ("It names 127.0.0.1 and no other.", ("localhost", {})),
    ("The kubeconfig's authority counts alone.", ("127.0.0.1", {"certificate-authority": certifi.where()})),
)
def test_the_certificate_of_another_server_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, host: str, cluster: dict[str, str]
) -> None:
    """Who has a certificate of an authority that the system trusts is not the cluster that the kubeconfig names."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    url = serve(POD, tls=True).url.replace("127.0.0.1", host)
    with pytest.raises(Unreachable, match=r"certificate is not trusted: .* certificate-authority of the kubeconfig"):
        ask(kubeconfig=kubeconfig(tmp_path / "config", url, **cluster))


@pytest.mark.parametrize(
    ("whose", "said"),
    [
        ("cluster", "the certificate-authority of the kubeconfig cannot be used: "),
        ("user", "the client-certificate with its client-key of the kubeconfig cannot be used: "),
    ],
)
def test_a_certificate_that_is_none_is_a_usage_error(tmp_path: Path, whose: str, said: str) -> None:
    """Nothing is sent with it, and nothing of it is quoted."""
    (tmp_path / "bad.crt").write_text("sesame", encoding="utf-8")
    bad = str(tmp_path / "bad.crt")
    parts: dict[str, Any] = {"user": {"client-certificate": bad, "client-key": bad}}
    path = kubeconfig(tmp_path / "config", **(parts if whose == "user" else {"certificate-authority": bad}))
    with pytest.raises(UsageError, match=said) as refused:
        kube_store.connect(kubeconfig=path)
    assert "same" not in str(refused.value)


@table(
    "cluster",
    ("A name that is none.", ({"tls-server-name": "."},)),
    ("Or too long.", ({"tls-server-name": "a" * 300},)),
    ("Of which a part is empty.", ({"tls-server-name": "a..b"},)),
    ("A byte that no name has.", ({"tls-server-name": "\0"},)),
    ("A proxy would be asked for it.", ({"server": "https://a..b", "proxy-url": "http://127.0.0.1:9"},)),
)
def test_a_server_that_no_certificate_can_name_is_a_usage_error(tmp_path: Path, cluster: dict[str, Any]) -> None:
    """TLS would fail on it with an error of Python."""
    path = kubeconfig(tmp_path / "config", **{"server": LOCAL, **cluster})
    with pytest.raises(UsageError, match=r"^the server or tls-server-name of the kubeconfig cannot be used: "):
        kube_store.connect(kubeconfig=path)


def test_a_key_needs_no_other_text_in_utf_8(tmp_path: Path, secure: FakeApi) -> None:
    """`openssl pkcs12` writes the name of a key before it, in the encoding of who gave it."""
    (tmp_path / "key.pem").write_bytes(b"friendlyName: M\xfcller\n" + CERTIFICATE.read_bytes())
    user = {"client-certificate": str(CERTIFICATE), "client-key": str(tmp_path / "key.pem")}
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user=user))
    assert secure.seen[0].certificate == "tests of grove-migrator"


def test_a_key_without_its_certificate_is_not_used(tmp_path: Path, secure: FakeApi) -> None:
    """As with kubectl; whatever it is."""
    ask(kubeconfig=kubeconfig(tmp_path / "config", secure.url, user={"token": "sesame", "client-key-data": "AP8="}))
    assert secure.seen[0].certificate == ""


def test_a_server_that_is_not_verified_leaves_stderr_to_the_log(tmp_path: Path, serve: Serve) -> None:
    """The kubeconfig asks for it; a warning of the HTTP library would stand between the lines of JSON."""
    cluster = {"insecure-skip-tls-verify": True, "certificate-authority": None}
    ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER, **cluster))


BEGINNINGS = {
    "body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n",
    "headers": b"HTTP/1.1 200 OK\r\nX: ",
}
REQUESTS: dict[str, Callable[[KubeCluster], object]] = {
    "get": lambda store: store.get(PODS, "a", "p"),
    "list": lambda store: store.list(PODS, dict),
    "patch": lambda store: store.within(lambda: 3.0).patch(PODS, "a", "p", OPS),
    "lease": lambda store: store.patch(LEASES, "a", "p", OPS),
}


@pytest.mark.parametrize(
    ("request_of", "begin"), [*((one, "body") for one in REQUESTS), ("get", "headers"), ("patch", "headers")]
)
def test_one_answer_has_a_time_limit_as_a_whole(serve: Serve, request_of: str, begin: str) -> None:
    """A byte now and then keeps each read alive, and for ever held a run."""
    store = store_on(serve(Drip(BEGINNINGS[begin])).url, longest=0.3)
    began = time.monotonic()
    with pytest.raises(MigratorError):
        REQUESTS[request_of](store)
    assert time.monotonic() - began < 8


def test_the_last_byte_does_not_start_the_time_anew(serve: Serve) -> None:
    """A server that hangs after a byte has what is left of the limit, not all of it once more."""
    store = store_on(serve(Drip(BEGINNINGS["body"], seconds=2.0)).url, longest=3.75)  # two thirds for the answer
    began = time.monotonic()
    with pytest.raises(MigratorError):
        store.patch(PODS, "a", "p", OPS)
    assert time.monotonic() - began < 3.7


def test_what_is_not_sent_when_a_connection_ends_is_thrown_away() -> None:
    """The kernel would send it as soon as the network is back, long after our hold on the Lease."""
    pool = connections.pool_of(Configuration())
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        connection = pool.connection_from_url(f"http://127.0.0.1:{port}")._new_conn()
        connection.connect()
        sock = connection.sock
        assert struct.unpack("ii", sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)) == (1, 0)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
        connection.close()


@pytest.mark.parametrize("begins", ["silence", "the end"])
def test_a_write_whose_connection_is_not_made_was_not_sent(tmp_path: Path, begins: str) -> None:
    """A load balancer accepts the connection before it knows that its server restarts, and TLS never begins."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted = list[socket.socket]()

        def accept() -> None:
            with suppress(OSError):  # the end of the test
                while True:
                    accepted.append(server.accept()[0])
                    if begins == "the end":
                        accepted[-1].close()

        threading.Thread(target=accept, daemon=True).start()
        path = kubeconfig(tmp_path / "config", f"https://127.0.0.1:{server.getsockname()[1]}")
        store = kube_store.connect(kubeconfig=path, timing=Timing(longest=3.0))
        with pytest.raises(Unreachable, match="cannot reach the API server"):
            store.patch(PODS, "a", "p", OPS)
    assert len(accepted) > 1
