"""The part of a kubelet that the API server asks for logs, so that `kubectl logs` and Helm get them."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from testbed.controlplane.client import MERGE_PATCH, Client
from testbed.controlplane.server import ControlPlane


@contextmanager
def serving(server: ControlPlane, node: str, log_of: Callable[[str], str]) -> Iterator[None]:
    """A Node object whose kubelet serves logs on 127.0.0.1; ``log_of`` has them by the pod's name."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Answer /containerLogs/<namespace>/<pod>/<container>."""
            parts = urlsplit(self.path).path.strip("/").split("/")
            found = parts[0] == "containerLogs" and len(parts) == 4
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(log_of(parts[2]).encode() if found else b"")

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.socket = _tls(server.directory / "pki").wrap_socket(listener.socket, server_side=True)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    admin = server.client()
    try:
        _register(admin, node, listener.server_port)
        yield
    finally:
        admin.close()
        listener.shutdown()
        listener.server_close()
        thread.join()


def _tls(pki: Path) -> ssl.SSLContext:
    """The API server's own certificate will do: it does not ask kubelets for a particular one."""
    certificate = pki / "server.crt"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate if certificate.exists() else pki / "ca.crt", pki / "server.key")
    return context


def _register(admin: Client, name: str, port: int) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    admin.apply(node)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    path = admin.kind_of(node).path(name=name, subresource="status")
    admin.call("PATCH", path, {"status": status}, content_type=MERGE_PATCH)
