"""A file as a cluster: what can be read in it, and what it cannot have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migrator.errors import NotFound
from migrator.kinds import LEASES, POD_CLIQUE_SETS, PODS
from tests.store.dump.dumps import OBJECTS, PCS, read
from tests.support.memory_objects import CONFIG_MAPS


def test_reading_what_is_there(tmp_path: Path) -> None:
    """Namespace and labels, the kinds of a group, and what a dump cannot have."""
    other = {**PCS, "metadata": {"name": "other", "uid": "u3", "labels": {"app": "batch"}}}
    store = read(tmp_path, "\n".join(map(json.dumps, [*OBJECTS, other])))

    def name(item: dict[str, Any]) -> str:
        return str(item["metadata"]["name"])

    assert store.list(POD_CLIQUE_SETS, name) == ("demo", "other")
    assert store.list(POD_CLIQUE_SETS, name, namespace="default") == ("other",)
    assert store.list(POD_CLIQUE_SETS, name, label_selector="app") == ("demo", "other")
    assert store.list(PODS, name, label_selector="grove.io/pod-template-hash", metadata_only=True) == ("p",)
    assert store.kinds("grove.io") == (POD_CLIQUE_SETS,)
    assert store.short_names("grove.io") == {}
    assert not store.is_cluster
    for absent in (
        lambda: store.list(LEASES, name),
        lambda: store.get(PODS, "a", "p"),
        lambda: store.create(CONFIG_MAPS, "a", {"metadata": {"name": "c"}}),
        lambda: store.patch(PODS, "a", "p", ()),
    ):
        with pytest.raises(NotFound):
            absent()


@pytest.mark.parametrize("labels", [["app"], {"app": 1}, "app", 5, None])
def test_labels_of_the_wrong_shape_are_for_the_reader(tmp_path: Path, labels: Any) -> None:
    """A file may hold anything: what is listed is checked by its reader, and listing does not fail."""
    store = read(tmp_path, json.dumps({**PCS, "metadata": {**PCS["metadata"], "labels": labels}}))
    assert store.list(POD_CLIQUE_SETS, len, label_selector="missing") == ()
    assert len(store.list(POD_CLIQUE_SETS, len)) == 1
