"""TLS: whom we trust, and as whom the server sees us."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import certifi
import pytest

from migrator.errors import Unreachable, UsageError
from migrator.kinds import PODS
from migrator.kube import store as kube_store
from tests.support.fake_api import AUTHORITY, CERTIFICATE, POD, Serve
from tests.support.kubeconfigs import ask, kubeconfig, plugin

pytestmark = pytest.mark.usefixtures("nowhere")

#: Shows the client certificate of the tests.
USER = {"client-certificate": str(CERTIFICATE), "client-key": str(CERTIFICATE)}


def with_certificate(path: Path, server: str) -> str:
    """Write a kubeconfig that trusts the server of the tests, and shows it a client certificate."""
    return kubeconfig(path, server, user=USER, **{"certificate-authority": str(AUTHORITY)})


def test_the_client_certificate_of_the_kubeconfig_is_shown(tmp_path: Path, serve: Serve) -> None:
    """To a server whose authority the kubeconfig names."""
    ask(kubeconfig=with_certificate(tmp_path / "config", serve(POD, tls=True).url))


def test_the_client_certificate_of_a_plugin_is_shown(
    tmp_path: Path, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """A credential plugin may answer with a certificate and its key instead of a token; it is started once."""
    status = dict.fromkeys(("clientCertificateData", "clientKeyData"), CERTIFICATE.read_text(encoding="utf-8"))
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    program = f"import json; open({str(tmp_path / 'starts')!r}, 'x'); print(json.dumps({answer!r}))"
    user = plugin(tmp_path / "plugin.py", program)
    cluster = {"certificate-authority": str(AUTHORITY)}
    ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=user, **cluster))
    assert not caplog.records, "the client started it again"


@pytest.mark.parametrize("method", ["load_cert_chain", "load_verify_locations", "set_alpn_protocols"])
def test_connections_can_be_made_at_once(
    tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """None changes the TLS context that other threads use meanwhile: OpenSSL could crash the process."""
    store = kube_store.connect(kubeconfig=with_certificate(tmp_path / "config", serve(POD, tls=True).url))
    monkeypatch.setattr(ssl.SSLContext, method, lambda *_, **__: pytest.fail(f"{method} changes the context"))
    store.get(PODS, "a", "p")


@pytest.mark.parametrize("authority", ["the system's", "the kubeconfig's"])
def test_certificates_are_verified_as_kubectl_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, authority: str
) -> None:
    """Without an authority in the kubeconfig the system's count; what Python 3.13 demands beyond that is not needed."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY) if authority == "the system's" else certifi.where())
    cluster = {} if authority == "the system's" else {"certificate-authority": str(AUTHORITY)}
    ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER, **cluster))


def test_a_certificate_for_another_host_is_refused(tmp_path: Path, serve: Serve) -> None:
    """It names 127.0.0.1 and no other."""
    path = with_certificate(tmp_path / "config", serve(POD, tls=True).url.replace("127.0.0.1", "localhost"))
    with pytest.raises(Unreachable, match=r"certificate is not trusted: .* certificate-authority of the kubeconfig"):
        ask(kubeconfig=path)


def test_an_authority_of_the_kubeconfig_counts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    """Who has a certificate of an authority that the system trusts is not the cluster that the kubeconfig names."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    cluster = {"certificate-authority": certifi.where()}
    with pytest.raises(Unreachable, match=r"certificate is not trusted: .* certificate-authority of the kubeconfig"):
        ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER, **cluster))


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


def test_a_server_that_is_not_verified_leaves_stderr_to_the_log(tmp_path: Path, serve: Serve) -> None:
    """The kubeconfig asks for it; a warning of the HTTP library would stand between the lines of JSON."""
    cluster = {"insecure-skip-tls-verify": True}
    ask(kubeconfig=kubeconfig(tmp_path / "config", serve(POD, tls=True).url, user=USER, **cluster))
