"""The hashes that real operators store are those that the tool computes of the objects read back."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from migrator.grove.objects import LABEL_PART_OF, LABEL_POD_CLIQUE, LABEL_POD_TEMPLATE_HASH
from testbed import workloads
from testbed.controlplane.client import Object, eventually
from tests.cluster.site import WORKLOADS
from tests.e2e.lab import photo, samples
from tests.e2e.lab.builds import BUILDS, Build, need
from tests.e2e.lab.lab import Lab
from tests.faults.ownership import clique_of
from tests.golden.vectors import cases

pytestmark = pytest.mark.upgrade

_TOGETHER = 20  # so many templates in one set: one hash is over all of them


@pytest.fixture(params=BUILDS.values(), ids=lambda build: build.name)
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Lab, Build]]:
    build: Build = request.param
    need(build.name)
    with Lab(tmp_path / "lab") as lab:
        lab.install(build)
        yield lab, build


def test_every_stored_hash_is_the_one_that_the_tool_computes(installed: tuple[Lab, Build]) -> None:
    """Sets of all shapes and startup types: generation hash, PodCliques' labels and status, and pods' labels."""
    lab, build = installed
    sets = samples.all_sets(on_delete=build.on_delete)
    for number, startup in enumerate(("InOrder", "Explicit", "AnyOrder")):
        kind = f"CliqueStartupType{startup}"
        sets.append(workloads.disaggregated(f"by-{number}", namespace=WORKLOADS, startup=kind))
    for pcs in sets:
        lab.client.create(pcs)
    now = lab.settle(lambda found: len(found.of(photo.SET)) == len(sets))
    expected = lab.hashes(build.scheme)
    assert len(expected) == len(sets)
    for pcs in now.of(photo.SET):
        assert pcs["status"]["currentGenerationHash"] == expected[pcs["metadata"]["name"]]["generationHash"]
    for item in (*now.of(photo.CLIQUE), *now.of(photo.POD)):
        labels = item["metadata"]["labels"]
        name = item["metadata"]["name"] if item["kind"] == photo.CLIQUE else labels[LABEL_POD_CLIQUE]
        clique = clique_of(now.objects[photo.CLIQUE, name])
        of_cliques = expected[labels[LABEL_PART_OF]]["podTemplateHashes"]
        assert labels[LABEL_POD_TEMPLATE_HASH] == of_cliques[clique], item["kind"]


def test_every_template_that_the_api_accepts_hashes_alike(installed: tuple[Lab, Build]) -> None:
    """Thousands of templates, with each field of a pod spec set in turn: the operator's hash is the tool's."""
    lab, build = installed
    texts = [case.text for case in cases.templates()]
    with ThreadPoolExecutor(8) as pool:
        accepted = [found for found in pool.map(lambda text: _accepted(lab, text), texts) if found is not None]
    assert len(accepted) > len(texts) * 0.8
    created = 0
    for first in range(0, len(accepted), _TOGETHER):
        created += _create(lab, f"templates-{first}", accepted[first : first + _TOGETHER])
    eventually(lambda: len(_stored(lab)) == created, what="sets without a generation hash", seconds=300)
    expected = {name: found["generationHash"] for name, found in lab.hashes(build.scheme).items()}
    assert _stored(lab) == expected


def _set(name: str, cliques: Sequence[Object]) -> Object:
    """A set of no replicas: the operator stores its generation hash, and makes nothing else of its templates."""
    named = []
    for number, clique in enumerate(cliques):
        spec = {**clique["spec"], "roleName": f"role-{number}"}
        named.append({**copy.deepcopy(clique), "name": f"c{number}", "spec": spec})
    return workloads.pod_clique_set(name, named, namespace=WORKLOADS, replicas=0)


def _accepted(lab: Lab, text: bytes) -> Object | None:
    """A clique of a template, if it is JSON at all and a set with it passes the API server and the webhooks."""
    try:
        template: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(template, dict):
        return None
    shown = {key: value for key, value in template.items() if key in ("labels", "annotations")}
    pod_spec = _completed(template.get("podSpec") or {})
    clique = {**shown, "spec": {"replicas": 1, "minAvailable": 1, "podSpec": pod_spec}}
    return clique if _post(lab, _set("probe", [clique]), dry_run=True) else None


def _completed(pod_spec: Any) -> Any:
    """A pod spec with what the CRD requires, where the case is about something else: containers, and their names."""
    if not isinstance(pod_spec, dict):
        return pod_spec
    found = {"containers": [{"name": "c"}], **pod_spec}
    for key in ("containers", "initContainers"):
        for number, container in enumerate(found[key] if isinstance(found.get(key), list) else ()):
            if isinstance(container, dict):
                container.setdefault("name", f"{key[0]}{number}")
    return found


def _create(lab: Lab, name: str, cliques: Sequence[Object]) -> int:
    """One set of many cliques, or one of each where they do not go together; returns how many were made."""
    if _post(lab, _set(name, cliques)):
        return 1
    return sum(_post(lab, _set(f"{name}-{number}", [clique])) for number, clique in enumerate(cliques))


def _post(lab: Lab, pcs: Object, *, dry_run: bool = False) -> bool:
    path = lab.client.kind(photo.GROVE, photo.SET).path(WORKLOADS)
    return lab.client.request("POST", path, pcs, query={"dryRun": "All"} if dry_run else None).status == 201


def _stored(lab: Lab) -> dict[str, str]:
    """The generation hashes that the operator has stored, by the name of the set."""
    found = lab.client.list(photo.GROVE, photo.SET, WORKLOADS)
    stored = {pcs["metadata"]["name"]: pcs.get("status", {}).get("currentGenerationHash") for pcs in found}
    return {name: value for name, value in stored.items() if value}
