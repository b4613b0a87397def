"""Pod templates hold secrets: whatever is printed, logged, recorded or left behind, no value of a template is in it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from migrator.kinds import LEASES
from migrator.run.leases import RECORD
from testbed import trees
from testbed.workloads import disaggregated, standalone
from tests.support.builders import hashes_of
from tests.support.command_line import HOME, Invoke, written
from tests.support.memory_store import MemoryCluster

MARK = "s3cr3t"
FROM, TO = "legacy-1.34", "v0.1.0-alpha.11"

#: Identifiers, which Kubernetes shows in many places, and what must parse as a number with a unit.
KEPT = {"name", "limits", "requests", "sizeLimit"}

Object = dict[str, Any]


def planted(value: Any, numbers: Iterator[int], key: str = "") -> Any:
    """The value with a mark of its own in place of every string below it, but for those that are kept."""
    if key in KEPT:
        return value
    if isinstance(value, dict):
        return {name: planted(item, numbers, name) for name, item in value.items()}
    if isinstance(value, list):
        return [planted(item, numbers, key) for item in value]
    return f"{MARK}-{next(numbers)}-{value}" if isinstance(value, str) else value


def grown() -> list[Object]:
    """Two sets with all that they own, and a mark in every string of every template: labels, annotations, pod spec."""
    numbers, found = itertools.count(), [standalone(), disaggregated()]
    for clique in (clique for pcs in found for clique in pcs["spec"]["template"]["cliques"]):
        clique |= {part: planted(clique[part], numbers) for part in ("labels", "annotations")}
        clique["spec"]["podSpec"] = planted(clique["spec"]["podSpec"], numbers)
    assert next(numbers) > 100
    return [item for pcs in found for item in trees.grow(pcs, hashes_of(pcs, FROM))]


def template_of(pcs: Object) -> Object:
    container: Object = pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]
    return container


def kept_by(store: MemoryCluster) -> str:
    """All that runs leave in a cluster beside hashes: Leases, one of them with the record."""
    return "\n".join(json.dumps(item) for item in store.everything(LEASES))


@pytest.fixture
def silent(invoke: Invoke) -> Callable[..., None]:
    """Run a command that ends with this code, and see that no mark comes out of it anywhere; -v says the most."""

    def run(*arguments: str | Path, expect: str = "", code: int | tuple[int, ...] = 0) -> None:
        captured = invoke(*arguments, code=code)
        everything = captured.out + captured.err
        assert MARK not in everything, arguments
        assert expect in everything, f"{arguments}: {everything[:2000]}"
        assert everything, arguments

    return run


@pytest.fixture
def cluster(invoke: Invoke) -> MemoryCluster:
    """The grown sets as a cluster, which the command line finds."""
    return invoke.on(MemoryCluster(*grown()))


def test_what_reads_a_dump_prints_no_value(tmp_path: Path, silent: Callable[..., None]) -> None:
    """Hashes, and plans in every form."""
    dump = written(tmp_path / "dump.json", grown())
    assert MARK in dump.read_text()
    silent("hash", "-f", dump)
    for target in (TO, "canonical-1.34", "legacy-1.33"):
        for form in ("table", "json", "html"):
            silent("plan", "-f", dump, "--to", target, "-o", form, "-v")


def test_a_cluster_is_left_without_a_value(cluster: MemoryCluster, silent: Callable[..., None]) -> None:
    """Neither logs, the record nor the Lease of a dry run, a run, a revert and checks."""
    silent("run", "--to", TO, *HOME, "--dry-run", "-v", expect="Dry run")
    silent("verify", "--to", TO, "-v", code=7)
    silent("verify", "--to", FROM, "-v")
    silent("run", "--to", TO, *HOME, "-v", expect="Migrated 2 sets")
    assert MARK not in kept_by(cluster)
    assert RECORD in kept_by(cluster)
    silent("verify", "--to", TO, "-v")
    silent("run", "--revert", "--from", "auto", "--to", TO, *HOME, "-v")
    assert MARK not in kept_by(cluster)


def test_a_refusal_names_fields_and_no_value(
    cluster: MemoryCluster, tmp_path: Path, silent: Callable[..., None]
) -> None:
    """A spec that was edited, in every form of the plan and as a refused run."""
    edited = grown()
    template_of(edited[0])["image"] = f"{MARK}-edited"
    dump = written(tmp_path / "edited.json", edited)
    for form in ("table", "json", "html"):
        silent("plan", "-f", dump, "--to", TO, "-o", form, "-v", expect="GM-1")
    pcs = next(item for item in edited if item["kind"] == "PodCliqueSet")
    cluster.put(pcs)
    silent("run", "--to", TO, "-v", expect="GM-1", code=3)
    assert MARK not in kept_by(cluster)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (lambda item: item["resources"]["limits"].update(cpu=f"{MARK}-cpu"), "limits"),
        (lambda item: item.update(env=f"{MARK}-list"), "env"),
        (lambda item: item["env"].append(f"{MARK}-item"), "env[2]"),
        (lambda item: item["env"].append({"name": "A", "value": {MARK: MARK}}), "env[2].value"),
        (lambda item: item.update(stdin=f"{MARK}-bool"), "stdin"),
        (lambda item: item["ports"][0].update(containerPort=f"{MARK}-port"), "containerPort"),
        (lambda item: item["readinessProbe"].update(periodSeconds=f"{MARK}-int"), "periodSeconds"),
    ],
    ids=["quantity", "list", "item", "string", "boolean", "port", "integer"],
)
def test_what_cannot_be_decoded_is_named_by_its_path(
    tmp_path: Path, silent: Callable[..., None], change: Callable[[Object], object], where: str
) -> None:
    """A value of a wrong type or form: the path is said, the value is not."""
    objects = grown()
    change(template_of(objects[0]))
    dump = written(tmp_path / "dump.json", objects)
    silent("hash", "-f", dump, expect=where, code=2)
    silent("plan", "-f", dump, "--to", TO, "-v", expect=where, code=(0, 2))


@pytest.mark.parametrize(
    "text",
    [
        f'{{"kind": "List", "items": [{{"a": "{MARK}" "{MARK}"}}]}}',
        f"kind: List\nitems:\n  - env: [{MARK}\n  - {MARK}: {{{MARK}\n",
        f"kind: List\nitems:\n  - value: *{MARK}\n",
        f"kind: List\nitems:\n  - value: !{MARK} x\n",
        f"kind: List\na: {MARK}\na: {MARK}\nitems: []\n",
        f"{MARK}\x00\x01",
        f'{{"kind": "{MARK}"}}',
        f'{{"kind": "List", "items": "{MARK}"}}',
    ],
    ids=["JSON", "YAML", "alias", "tag", "duplicate key", "control characters", "kind", "items"],
)
def test_what_cannot_be_read_is_not_quoted(tmp_path: Path, silent: Callable[..., None], text: str) -> None:
    """A parser's complaint often quotes what it stumbled upon; line and column must do."""
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    silent("plan", "-f", path, "--to", TO, "-v", code=2)
    silent("hash", "-f", path, code=(0, 2))
