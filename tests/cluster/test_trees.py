"""Trees on the API server are what an operator of their release would leave."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.hashing.podcliqueset import PodCliqueSetHashes, hash_pod_clique_set
from migrator.hashing.schemes import by_name
from testbed import workloads
from testbed.controlplane.client import Client, Object
from testbed.controlplane.crds import apply_crds
from testbed.controlplane.server import ControlPlane
from testbed.controlplane.trees import plant
from testbed.trees import State, of_kind

pytestmark = pytest.mark.controlplane

HASH = "grove.io/pod-template-hash"
GROVE = "grove.io/v1alpha1"


def legacy(pcs: Object) -> PodCliqueSetHashes:
    """The hashes of an operator of alpha.4 to alpha.9."""
    return hash_pod_clique_set(pcs, by_name("legacy-1.34"))


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("alpha.3", {"rollingUpdateProgress"}),
        ("alpha.8", {"rollingUpdateProgress", "updateProgress"}),
        ("alpha.9", {"updateProgress"}),
    ],
)
def test_a_tree_is_stored_whole(
    control_plane: ControlPlane, api: Client, namespace: str, line: str, progress: set[str]
) -> None:
    """Every kind is there with its owners and the hashes of the set as stored, in the progress fields of its line."""
    apply_crds(control_plane, line)
    pcs = workloads.disaggregated(namespace=namespace, replicas=2)
    objects = plant(api, pcs, legacy, State(line, updated=True))
    hashes = legacy(api.get(GROVE, "PodCliqueSet", "disagg", namespace))
    assert of_kind(objects, "PodCliqueSet")[0]["status"]["currentGenerationHash"] == hashes.generation_hash
    fields = {name for item in objects for name in item.get("status", {})}
    assert {name for name in fields if name.lower().endswith("updateprogress")} == progress
    uids = {item["metadata"]["uid"] for item in objects}
    for item in objects:
        owners = item["metadata"].get("ownerReferences", [])
        assert {owner["uid"] for owner in owners} <= uids
        assert bool(owners) is (item["kind"] != "PodCliqueSet")
    for clique in of_kind(objects, "PodClique"):
        name = clique["metadata"]["name"].rpartition("-")[2]
        assert clique["metadata"]["labels"][HASH] == hashes.pod_template_hashes[name]
        assert clique["status"]["currentPodTemplateHash"] == hashes.pod_template_hashes[name]
    counts = {kind: api.count(GROVE, kind, namespace) for kind in ("PodCliqueScalingGroup", "PodClique")}
    assert counts == {"PodCliqueScalingGroup": 2, "PodClique": 10}
    assert api.count("v1", "Pod", namespace, selector=HASH) == 18


def test_defaults_of_the_crd_are_hashed(control_plane: ControlPlane, api: Client, namespace: str) -> None:
    """Hashes are those of the set as the server returns it, not as it was written."""
    apply_crds(control_plane, "alpha.9")
    pcs = workloads.standalone(namespace=namespace)
    for port in pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["ports"]:
        del port["protocol"]
    seen: list[Object] = []

    def noting(stored: Object) -> PodCliqueSetHashes:
        seen.append(stored)
        return legacy(stored)

    plant(api, pcs, noting)
    ports = seen[0]["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["ports"]
    assert {port["protocol"] for port in ports} == {"TCP"}


def test_leftovers_keep_what_they_had(control_plane: ControlPlane, api: Client, namespace: str) -> None:
    """Under OnDelete some pods, their PodClique and its scaling group keep older hashes; labels are the new ones."""
    apply_crds(control_plane, "alpha.9")
    pcs = workloads.disaggregated(namespace=namespace, on_delete=True)
    state = State("alpha.9", updated=True, leftovers={"decode": "4f4f"}, older_generation="5d5d")
    objects = plant(api, pcs, legacy, state)
    hashes = legacy(objects[0])
    decode = next(item for item in of_kind(objects, "PodClique") if item["metadata"]["name"].endswith("-decode"))
    assert decode["metadata"]["labels"][HASH] == hashes.pod_template_hashes["decode"]
    status = decode["status"]
    assert (status["currentPodTemplateHash"], status["currentPodCliqueSetGenerationHash"]) == ("4f4f", "5d5d")
    group = of_kind(objects, "PodCliqueScalingGroup")[0]
    assert group["status"]["currentPodCliqueSetGenerationHash"] == "5d5d"
    frontend = next(item for item in of_kind(objects, "PodClique") if item["metadata"]["name"].endswith("-frontend"))
    assert frontend["status"]["currentPodCliqueSetGenerationHash"] == hashes.generation_hash
    assert "4f4f" in {pod["metadata"]["labels"][HASH] for pod in of_kind(objects, "Pod")}


def test_maps_hold_the_generation_hash(control_plane: ControlPlane, api: Client, namespace: str) -> None:
    """In the line with PodGangMaps each map's entries and each PodGang's label hold it, and pods name their PodGang."""
    apply_crds(control_plane, "podgangmap")
    pcs = workloads.disaggregated(namespace=namespace, replicas=2)
    objects = plant(api, pcs, legacy, State("podgangmap", pod_gangs=True, finalizers=True))
    value = legacy(objects[0]).generation_hash
    entries: list[Any] = [entry for item in of_kind(objects, "PodGangMap") for entry in item["spec"]["entries"]]
    assert {(entry["role"], entry["podCliqueSetGenerationHash"]) for entry in entries} == {
        ("Anchor", value),
        ("Tail", value),
    }
    gangs = {item["metadata"]["name"]: item for item in of_kind(objects, "PodGang")}
    assert len(gangs) == 4
    label = "grove.io/podcliqueset-generation-hash"
    assert {gang["metadata"]["labels"][label] for gang in gangs.values()} == {value}
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in of_kind(objects, "Pod")} == set(gangs)
    references = [
        reference["name"]
        for gang in gangs.values()
        for group in gang["spec"]["podgroups"]
        for reference in group["podReferences"]
    ]
    assert sorted(references) == sorted(pod["metadata"]["name"] for pod in of_kind(objects, "Pod"))
    held = api.get(GROVE, "PodCliqueSet", "disagg", namespace)["metadata"]["finalizers"]
    assert held == ["grove.io/podcliqueset.grove.io"]
