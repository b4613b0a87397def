"""Webhooks of the operator that fail closed, served as the operator does: they answer only while it runs."""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml

from migrator.kube.responses import Failure
from testbed.controlplane.client import Answer, Client, Object, eventually
from testbed.operator_installation import NAME
from tests.cluster.site import ACCOUNT, MANIFESTS, NAMESPACE, WORKLOADS, ServedSite

KIND: Final = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")
#: The configurations and their webhooks (Grove's ``operator/charts/templates``): that of PodCliques from alpha.14 on.
GUARD: Final = ("podclique-validating-webhook", "podclique.validating.webhooks.grove.io")
AUTHORIZER: Final = ("authorizer-webhook", "authorizer.webhooks.grove.io")
#: Key and certificate of the Service ``grove-operator.grove-system.svc``.
_CERTIFICATE: Final = Path(__file__).with_name("operator.pem")
_DENIES: Final = "/denies"


def configuration(name: str, webhook: str, port: int = 443, **rest: Any) -> Object:
    """One of the configurations; the authorizer's has the rules for what we write, and denies all of it."""
    authorizer = (name, webhook) == AUTHORIZER
    resources = ["podcliques"] if authorizer else ["podcliques", "podcliques/scale"]
    rules = [{"apiGroups": ["grove.io"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"], "resources": resources}]
    if authorizer:
        rules.append({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]})
        rest["objectSelector"] = {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}}
    certificate = _CERTIFICATE.read_bytes()
    path = _DENIES if authorizer else "/allows"
    hook = {
        "name": webhook,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"name": NAME, "namespace": NAMESPACE, "path": path, "port": port},
            "caBundle": base64.b64encode(certificate[certificate.index(b"-----BEGIN CERT") :]).decode(),
        },
        "failurePolicy": "Fail",
        "matchPolicy": "Exact",
        "rules": [{**rule, "scope": "Namespaced"} for rule in rules],
        "sideEffects": "None",
    }
    return {"apiVersion": KIND[0], "kind": KIND[1], "metadata": {"name": name}, "webhooks": [hook | rest]}


@contextmanager
def served(site: ServedSite, *which: tuple[str, str]) -> Iterator[None]:
    """These webhooks are there, and their Service, which the API server calls as an alias of ``localhost``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Operator) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        server.site = site  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": NAME, "namespace": NAMESPACE}}
        site.client.delete(service)
        site.client.create({**service, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        items = [configuration(*names, server.server_port) for names in which]
        try:
            for item in items:
                site.client.apply(item)
            site.stop_operator()
            eventually(lambda: denied(site), what="nothing is denied")
            site.start_operator()
            yield
        finally:
            for item in (*items, service):
                site.client.delete(item)
            server.shutdown()
    eventually(lambda: not denied(site), what="something is still denied")


class _Operator(BaseHTTPRequestHandler):
    """Answers while the operator has replicas."""

    def do_POST(self) -> None:
        if not self.server.site.replicas():  # type: ignore[attr-defined]
            self.close_connection = True
            return
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {"uid": review["request"]["uid"], "allowed": not self.path.startswith(_DENIES)}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


def denied_by(answer: Answer) -> str:
    """The webhook or policy that stopped a request, as a run reads the answer; empty if none did."""
    error = Failure(answer.status, answer.body).error("it", patching=True)
    return str(getattr(error, "denied_by", ""))


def denied(site: ServedSite) -> str:
    """Who denies an administrator's edit of a PodClique."""
    clique = site.client.list("grove.io/v1alpha1", "PodClique", WORKLOADS)[0]
    return denied_by(site.client.patch(clique, {"metadata": {"labels": {"x": "y"}}}, dry_run=True))


def conditions(client: Client) -> list[Object]:
    return [
        one for item in client.list(*KIND) for hook in item["webhooks"] for one in hook.get("matchConditions") or ()
    ]


def opted_in() -> list[Object]:
    """manifests/job.yaml with what it has commented out for ``--allow GM-202``."""
    text = (MANIFESTS / "job.yaml").read_text(encoding="utf-8")
    text = re.sub(
        r"^# For `--allow.*\n((?:#.*\n)+)", lambda part: re.sub(r"(?m)^# ", "", part[1]), text, flags=re.MULTILINE
    )
    return [item for item in yaml.safe_load_all(text.replace("# - --allow=", "- --allow=")) if item]


@contextmanager
def permitted(site: ServedSite) -> Iterator[None]:
    """Our account may leave itself out of the webhooks until the block ends."""
    for item in opted_in():
        if item["kind"] != "Job":
            site.client.apply(item)
    own = site.server.client(token=site.client.service_account_token(NAMESPACE, ACCOUNT))
    probe = configuration(*AUTHORIZER)
    site.client.apply(probe)
    add = [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]

    def is_limited() -> bool:
        return "must not change metadata" in str(own.patch(probe, add, dry_run=True).body)

    eventually(is_limited, what="the policy is not in force")
    site.client.delete(probe)
    own.close()
    yield
    site.grant()
    name = f"{ACCOUNT}-webhooks.{NAMESPACE}"
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        site.client.delete({"apiVersion": KIND[0], "kind": kind, "metadata": {"name": name}})
