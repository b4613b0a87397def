"""The checked-in CRDs are Grove's own, and the lines differ where its releases do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from testbed.crds.lines import LINES, load

KINDS = {"PodCliqueSet", "PodClique", "PodCliqueScalingGroup", "PodGang"}


def _schema(line: str, kind: str) -> dict[str, Any]:
    crd = next(crd for crd in load(line) if crd["spec"]["names"]["kind"] == kind)
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return schema


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_groves_kinds(line: str) -> None:
    """Every line has the four kinds; topologies came with alpha.4, and only the newest has PodGangMaps."""
    kinds = {crd["spec"]["names"]["kind"] for crd in load(line)}
    topology = {"alpha.3": set(), "alpha.6": {"ClusterTopology"}, "alpha.8": {"ClusterTopology"}}.get(
        line, {"ClusterTopologyBinding"}
    )
    assert kinds == KINDS | topology | ({"PodGangMap"} if line == "podgangmap" else set())


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("alpha.3", {"rollingUpdateProgress"}),
        ("alpha.6", {"rollingUpdateProgress"}),
        ("alpha.8", {"rollingUpdateProgress", "updateProgress"}),
        ("alpha.9", {"updateProgress"}),
        ("alpha.11", {"updateProgress"}),
    ],
)
@pytest.mark.parametrize("kind", sorted(KINDS - {"PodGang"}))
def test_progress_has_the_name_of_its_release(line: str, names: set[str], kind: str) -> None:
    """An update's progress is rollingUpdateProgress up to alpha.6, both in alpha.8, updateProgress afterwards."""
    status = _schema(line, kind)["status"]["properties"]
    assert {name for name in status if name.endswith(("updateProgress", "UpdateProgress"))} == names


@pytest.mark.parametrize(
    ("line", "present", "absent"),
    [
        ("alpha.3", set(), {"hostnameOverride", "workloadRef"}),
        ("alpha.6", {"hostnameOverride"}, {"workloadRef"}),
        ("alpha.9", {"hostnameOverride"}, {"workloadRef"}),
        ("alpha.11", {"hostnameOverride", "workloadRef"}, set()),
    ],
)
def test_pod_spec_is_that_of_the_api_minor(line: str, present: set[str], absent: set[str]) -> None:
    """The pod spec knows the fields of its k8s.io/api minor and no others."""
    pod_spec = set(_schema(line, "PodClique")["spec"]["properties"]["podSpec"]["properties"])
    assert present <= pod_spec
    assert not absent & pod_spec


def test_a_directory_of_crds_is_used_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GROVE_CRDS_DIR replaces the generated CRDs, and a line that it lacks is an error, not a fallback."""
    (tmp_path / "alpha.9").mkdir()
    text = "kind: CustomResourceDefinition\nmetadata: {name: x}\n---\nkind: ConfigMap\n"
    (tmp_path / "alpha.9" / "x.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("GROVE_CRDS_DIR", str(tmp_path))
    assert load("alpha.9") == [{"kind": "CustomResourceDefinition", "metadata": {"name": "x"}}]
    with pytest.raises(FileNotFoundError, match=r"alpha\.11"):
        load("alpha.11")
