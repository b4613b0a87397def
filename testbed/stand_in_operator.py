"""A stand-in for Grove's operator that runs in a pod: ``python -m testbed.stand_in_operator RELEASE``.

It does what concerns hashes, as a release does: it elects a leader by the Lease of that name, and where the generation
hash of a set is not the one that its release computes, it deletes every pod with another template hash and writes its
own. All else of Grove is left out.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import urllib3

from migrator.hashing import podcliqueset
from migrator.hashing.schemes import Scheme
from migrator.releases.table import named
from testbed import operator_installation as installation
from testbed.controlplane.client import NOT_FOUND, AnswerError, Client, Object

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_GROVE: Final = "grove.io/v1alpha1"
_HASH: Final = "grove.io/pod-template-hash"
_LEASE_SECONDS: Final = 15
_LOOK_SECONDS: Final = 1.0
_CONFLICT: Final = 409


class Election:
    """The operator's Lease, as client-go's leader election treats it: a foreign one is free once it stands still."""

    def __init__(self, client: Client, namespace: str, identity: str) -> None:
        self._client, self._identity = client, identity
        self._path = client.kind("coordination.k8s.io/v1", "Lease").path(namespace)
        self._seen: tuple[Any, float] = (None, 0.0)

    def held(self) -> bool:
        """Take the Lease or renew it; whether it is ours."""
        answer = self._client.request("GET", f"{self._path}/{installation.LEASE}")
        if answer.status == NOT_FOUND:
            lease: Object = {"metadata": {"name": installation.LEASE}, "spec": {}}
            return self._write("POST", self._path, lease)
        spec = answer.body["spec"]
        if spec != self._seen[0]:
            self._seen = (spec, time.monotonic())
        still = time.monotonic() - self._seen[1] > spec.get("leaseDurationSeconds", _LEASE_SECONDS)
        if spec.get("holderIdentity") not in {None, "", self._identity} and not still:
            return False
        return self._write("PUT", f"{self._path}/{installation.LEASE}", answer.body)

    def release(self) -> None:
        """Give up the Lease if it is ours, as operators do at a graceful end."""
        answer = self._client.request("GET", f"{self._path}/{installation.LEASE}")
        if answer.status != NOT_FOUND and answer.body["spec"].get("holderIdentity") == self._identity:
            self._write("PUT", f"{self._path}/{installation.LEASE}", answer.body, holder="")

    def _write(self, method: str, path: str, lease: Object, holder: str | None = None) -> bool:
        lease["spec"] |= {
            "holderIdentity": self._identity if holder is None else holder,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime()),
        }
        answer = self._client.request(method, path, lease)
        return answer.status != _CONFLICT and answer.status < 300


class Operator:
    """Rolls PodCliqueSets as a release of Grove would, by its hashes."""

    def __init__(self, client: Client, scheme: Scheme) -> None:
        self._client, self._scheme = client, scheme

    def reconcile(self) -> None:
        """Look at every set once."""
        for pcs in self._client.list(_GROVE, "PodCliqueSet"):
            hashes = podcliqueset.SetHasher(pcs).under(self._scheme)
            if pcs.get("status", {}).get("currentGenerationHash") != hashes.generation:
                sys.stdout.write(f"{pcs['metadata']['name']}: {hashes.generation}\n")
                self._roll(pcs, set(hashes.templates.values()))
                status = {"currentGenerationHash": hashes.generation}
                self._client.patch(pcs, {"status": status}, subresource="status")

    def _roll(self, pcs: Object, hashes: set[str]) -> None:
        """Delete every pod of a set with another template hash than these."""
        metadata = pcs["metadata"]
        selector = f"app.kubernetes.io/part-of={metadata['name']},{_HASH}"
        for pod in self._client.list("v1", "Pod", metadata["namespace"], selector=selector):
            if pod["metadata"]["labels"][_HASH] not in hashes:
                self._client.delete(pod)


def main() -> None:
    """Be the operator of a release until SIGTERM comes; an API server that is away is waited for."""
    scheme = named(sys.argv[1]).scheme
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    token = (_ACCOUNT / "token").read_text(encoding="utf-8")
    client = Client(f"https://{host}:{port}", token=token, ca=_ACCOUNT / "ca.crt")
    operator, election = Operator(client, scheme), None
    try:
        while True:
            try:
                election = election or Election(
                    client, (_ACCOUNT / "namespace").read_text(encoding="utf-8"), os.environ["HOSTNAME"]
                )
                if election.held():
                    operator.reconcile()
            except (AnswerError, urllib3.exceptions.HTTPError) as error:
                sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
            time.sleep(_LOOK_SECONDS)
    finally:
        if election is not None:
            election.release()


if __name__ == "__main__":
    main()
