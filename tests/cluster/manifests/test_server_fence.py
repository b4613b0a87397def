"""The policy grove-migrator-fence: only the pod that holds our Lease writes, and the API server itself sees to it."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from testbed.controlplane.client import JSON_PATCH, Answer, Client, Object, eventually
from tests.cluster.manifests.policy_requests import EVENT, HASH, LEASE, replace
from tests.cluster.manifests.site import ACCOUNT, NAMESPACE, WORKLOADS, Site, documents, made, started

pytestmark = pytest.mark.controlplane

FENCE: Final = documents("fence/fence.yaml")
NAME: Final = "grove-migrator-fence"
FIRST, SECOND, PREFIX = "grove-migrator-a1b2c", "grove-migrator-d3e4f", "grove-migrator-a1b2"
TEMPLATE_LABEL: Final = "/metadata/labels/grove.io~1pod-template-hash"
GENERATION_LABEL: Final = "/metadata/labels/grove.io~1podcliqueset-generation-hash"

#: Everything that is fenced: kind, subresource, and a write that every other policy permits.
FENCED: Final = {
    "Pod": ("", replace(TEMPLATE_LABEL, HASH)),
    "PodClique": ("", replace(TEMPLATE_LABEL, HASH)),
    "PodGang": ("", replace(GENERATION_LABEL, HASH)),
    "PodGangMap": ("", replace("/spec/entries/0/podCliqueSetGenerationHash", HASH)),
    "PodCliqueSet/status": ("status", replace("/status/currentGenerationHash", HASH)),
    "PodClique/status": ("status", replace("/status/currentPodTemplateHash", HASH)),
    "PodCliqueScalingGroup/status": ("status", replace("/status/currentPodCliqueSetGenerationHash", HASH)),
    "Deployment/scale": ("scale", replace("/spec/replicas", 0)),
    "ConfigMap": ("", replace("/data/x", "z")),
}


@dataclass
class Fenced:
    """A cluster with the fence, and two pods of the Job."""

    site: Site
    clients: dict[str, Client]
    objects: dict[str, Object]

    def apply(self) -> None:
        """Install the fence."""
        for item in FENCE:
            self.site.admin.apply(item)

    def remove(self) -> None:
        """Delete the fence."""
        for item in reversed(FENCE):
            self.site.admin.delete(item)

    def hold(self, holder: str | None, namespace: str = NAMESPACE) -> None:
        """Put this holder into the Lease; ``None`` deletes the Lease."""
        lease = made(LEASE, "Lease", ACCOUNT, namespace, spec={"holderIdentity": holder, "leaseDurationSeconds": 60})
        if holder is None:
            self.site.admin.delete(lease)
        else:
            self.site.admin.apply(lease)

    def write(self, pod: str, what: str = "Pod") -> Answer:
        """Send the write of `FENCED` as this pod, as a dry run."""
        return self.write_as(self.clients[pod], what)

    def write_as(self, client: Client, what: str = "Pod") -> Answer:
        """Send the write of `FENCED` as whoever a client is, as a dry run."""
        item, (subresource, body) = self.objects[what.partition("/")[0]], FENCED[what]
        path = client.kind_of(item).path(item["metadata"]["namespace"], item["metadata"]["name"], subresource)
        return client.request("PATCH", path, body, query={"dryRun": "All"}, content_type=JSON_PATCH)

    def allowed(self, pod: str) -> bool:
        """Whether this pod may write now."""
        return self.write(pod).status == 200


@contextmanager
def fencing(site: Site) -> Iterator[Fenced]:
    """The fence in force, and a token for each of three pods and for no pod."""
    site.fill()
    admin = site.admin
    objects = {item["kind"]: item for item in site.planted}
    objects["Deployment"] = site.deployment()
    objects["ConfigMap"] = admin.create(made("v1", "ConfigMap", "grove-migrator-run", data={"x": "y"}))
    pods: dict[str, Object | None] = {name: site.job_pod(name) for name in (FIRST, SECOND, PREFIX)}
    clients = {
        name: site.server.client(token=admin.service_account_token(NAMESPACE, ACCOUNT, pod=pod))
        for name, pod in {**pods, "": None}.items()
    }
    found = Fenced(site, clients, objects)
    found.apply()
    found.hold(f"{SECOND}_run-0")
    eventually(lambda: by_fence(found.write(FIRST)), what="the fence is not in force")
    yield found
    for client in clients.values():
        client.close()
    found.remove()
    found.hold(None)


@pytest.fixture(scope="module")
def fenced(site: Site) -> Iterator[Fenced]:
    """The fence on the server of this test process, put there once and removed for good."""
    with fencing(site) as found:
        yield found


@pytest.fixture
def held(fenced: Fenced) -> Fenced:
    """The Lease in the hands of the first pod."""
    fenced.hold(f"{FIRST}_run-1")
    eventually(lambda: fenced.allowed(FIRST), what="the holder may not write")
    return fenced


def by_fence(answer: Answer) -> bool:
    """Whether the fence denied the request."""
    return answer.status == 403 and f"ValidatingAdmissionPolicy '{NAME}'" in answer.body["message"]


@pytest.mark.parametrize("what", FENCED)
def test_each_write_is_the_holders_and_nobody_elses(held: Fenced, what: str) -> None:
    """The pod that holds the Lease may do it; another pod, a pod whose name begins like it, and no pod may not."""
    answer = held.write(FIRST, what)
    assert answer.status == 200, answer.body
    for other in (SECOND, PREFIX, ""):
        answer = held.write(other, what)
        assert by_fence(answer), (other, answer.status, answer.body)


def test_a_takeover_needs_no_fence_and_turns_the_table(held: Fenced) -> None:
    """Another pod takes the Lease although it does not hold it; then it may write, and the former holder may not."""
    path = held.clients[SECOND].kind(LEASE, "Lease").path(NAMESPACE, ACCOUNT)
    body = replace("/spec/holderIdentity", f"{SECOND}_run-2")
    taken = held.clients[SECOND].request("PATCH", path, body, content_type=JSON_PATCH)
    assert taken.status == 200, taken.body
    eventually(lambda: held.allowed(SECOND), what="the new holder may not write")
    assert by_fence(held.write(FIRST))


def test_events_are_not_fenced(held: Fenced) -> None:
    """A pod that has lost the Lease can still report that."""
    path = held.clients[SECOND].kind(EVENT["apiVersion"], "Event").path(WORKLOADS)
    assert held.clients[SECOND].request("POST", path, EVENT, query={"dryRun": "All"}).status == 201


def test_records_are_fenced_at_their_creation_and_deletion_too(held: Fenced) -> None:
    """A table of the record is created and deleted by the holder alone."""
    path = held.clients[FIRST].kind("v1", "ConfigMap").path(NAMESPACE)
    table = made("v1", "ConfigMap", "grove-migrator-tables-0", data={"x": "y"})
    for method, where, body in (("POST", path, table), ("DELETE", f"{path}/grove-migrator-run", None)):
        assert by_fence(held.clients[SECOND].request(method, where, body, query={"dryRun": "All"}))
        assert held.clients[FIRST].request(method, where, body, query={"dryRun": "All"}).status in {200, 201}


@pytest.mark.parametrize("holder", ["", FIRST, "grove-migrator: half migrated, run again"])
def test_a_lease_that_nobody_holds_lets_nobody_write(held: Fenced, holder: str) -> None:
    """Released, held without a run, or parked: no pod's name and underscore begin the holder."""
    held.hold(holder)
    eventually(lambda: not held.allowed(FIRST), what="the former holder may still write")
    assert by_fence(held.write(FIRST))
    assert by_fence(held.write(SECOND))


def test_a_lease_without_a_spec_lets_nobody_write(held: Fenced) -> None:
    """Absent fields do not make the policy fail: it denies with its own words."""
    lease = held.site.admin.get(LEASE, "Lease", ACCOUNT, NAMESPACE)
    assert held.site.admin.patch(lease, [{"op": "remove", "path": "/spec"}]).status == 200
    eventually(lambda: not held.allowed(FIRST), what="the former holder may still write")
    answer = held.write(FIRST)
    assert by_fence(answer)
    assert "grove-migrator writes only from the pod that holds the Lease" in answer.body["message"]


def test_a_missing_lease_stops_nobody(held: Fenced) -> None:
    """Before the first run there is no Lease; compare-and-swap is the proof then, as it is without the fence."""
    held.hold(None)
    eventually(lambda: held.allowed(SECOND), what="the Lease is still seen")
    assert held.write(FIRST).status == 200


def test_nobody_else_is_fenced(held: Fenced) -> None:
    """The administrator may write anything, whether or not anybody holds a Lease."""
    for holder in (f"{SECOND}_run-2", None):
        held.hold(holder)
        eventually(lambda wanted=holder is None: held.allowed(FIRST) is wanted, what="the Lease is not seen")
        assert held.write_as(held.site.admin).status == 200


def test_a_fence_that_denies_without_its_lease_would_stop_everybody(held: Fenced) -> None:
    """The trap: with `Fail` and `Deny` a missing Lease is 422 with causes for every user, kubelets too."""
    admin, strict = held.site.admin, copy.deepcopy(FENCE)
    strict[0]["spec"]["failurePolicy"] = "Fail"
    strict[1]["spec"]["paramRef"]["parameterNotFoundAction"] = "Deny"
    try:
        for item in strict:
            admin.apply(item)
        held.hold(None)
        eventually(lambda: held.write(FIRST).status == 422, what="the Lease is still seen")
        answer = held.write_as(held.site.admin)
    finally:
        held.apply()
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert NAME in answer.body["message"]
    assert answer.body["details"]["causes"]


def test_a_binding_without_a_namespace_would_ask_a_tenants_lease(held: Fenced) -> None:
    """The trap: without `paramRef.namespace` a Lease in the namespace of the object decides, so anybody's could."""
    binding = copy.deepcopy(FENCE[1])
    assert binding["spec"]["paramRef"].pop("namespace") == NAMESPACE
    held.hold(f"{SECOND}_of-a-tenant", WORKLOADS)
    try:
        held.site.admin.apply(binding)
        eventually(lambda: held.allowed(SECOND), what="the tenant's Lease does not decide")
        assert by_fence(held.write(FIRST))
    finally:
        held.apply()
        held.hold(None, WORKLOADS)
        eventually(lambda: held.allowed(FIRST) and not held.allowed(SECOND), what="the fence is not back")


def test_a_fence_that_is_deleted_and_created_again_goes_by_the_lease_of_then(tmp_path: Path) -> None:
    """The trap, and why the fence is not a hook: the API server never looks at the Lease again before it restarts.

    A former holder may write, and the present one may not.
    """
    with started(tmp_path / "own") as site:
        site.prepare()
        site.grant()
        with fencing(site) as found:
            found.hold(f"{FIRST}_run-1")
            eventually(lambda: found.allowed(FIRST) and not found.allowed(SECOND), what="the Lease is not seen")
            found.remove()
            eventually(lambda: found.allowed(SECOND), what="the fence is still in force")
            found.hold(f"{SECOND}_run-2")
            found.apply()
            eventually(lambda: by_fence(found.write(SECOND)), what="the Lease is seen: Kubernetes has mended it")
            assert found.allowed(FIRST)


#: Opens a connection, stops where a process is paused between its last look and its write, and then writes.
_PAUSED: Final = """
import os, signal, ssl, sys
from http.client import HTTPSConnection
from urllib.parse import urlsplit
url, ca, path, body = sys.argv[1:]
at = urlsplit(url)
tls = ssl.create_default_context(cafile=ca)
tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
connection = HTTPSConnection(at.hostname, at.port, context=tls, timeout=60)
connection.connect()
os.kill(os.getpid(), signal.SIGSTOP)
headers = {"Authorization": "Bearer " + os.environ["TOKEN"], "Content-Type": "application/json-patch+json"}
connection.request("PATCH", path, body, headers)
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


@pytest.mark.parametrize("taken", [True, False], ids=["Lease taken over", "Lease kept"])
def test_a_paused_process_is_denied_when_it_wakes_up(held: Fenced, *, taken: bool) -> None:
    """SIGSTOP before the patch, takeover, SIGCONT: the patch is denied. Without a takeover it is applied."""
    site, item = held.site, held.objects["Pod"]
    path = site.admin.kind_of(item).path(WORKLOADS, item["metadata"]["name"])
    before = site.admin.call("GET", path)["metadata"]["labels"]
    token = site.admin.service_account_token(NAMESPACE, ACCOUNT, pod=site.job_pod(FIRST))
    body = json.dumps(replace(TEMPLATE_LABEL, HASH))
    arguments = [sys.executable, "-c", _PAUSED, site.server.url, str(site.server.ca), path, body]
    environment = {**os.environ, "TOKEN": token}
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        if taken:
            held.hold(f"{SECOND}_run-2")
            eventually(lambda: held.allowed(SECOND), what="the new holder may not write")
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=60)
    assert out.startswith("403 " if taken else "200 "), out
    after = site.admin.call("GET", path)["metadata"]["labels"]
    if taken:
        assert NAME in out
        assert after == before
    else:
        assert after == {**before, "grove.io/pod-template-hash": HASH}
        site.admin.patch(item, {"metadata": {"labels": before}})


def test_a_second_api_server_denies_the_former_holder_too(held: Fenced, tmp_path: Path) -> None:
    """The takeover goes through one server, the late write through another: its own watch of the Lease decides."""
    token = held.site.admin.service_account_token(NAMESPACE, ACCOUNT, pod=held.site.job_pod(FIRST))
    with held.site.server.another(tmp_path / "second") as server, closing(server.client(token=token)) as elsewhere:
        there = Fenced(held.site, {FIRST: elsewhere}, held.objects)
        eventually(lambda: there.allowed(FIRST), what="the holder may not write through the second server")
        held.hold(f"{SECOND}_run-2")
        eventually(lambda: not there.allowed(FIRST), what="the second server lets the former holder write")
        assert by_fence(there.write(FIRST))
