"""The record: what a table says of a set; whole or absent, however it is written; refused where not understood."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, Refused, Unreadable
from migrator.grove.objects import Ref
from migrator.hashing.podcliqueset import SetHashes
from migrator.planning.model import AlreadyNew, Table
from migrator.planning.planner import template_digest
from migrator.resources import CONFIG_MAPS
from migrator.run import record
from migrator.run.record import RUN_NAME, Recorded, Recorder, RecordState, RunRecord
from tests.support.builders import DELETION, LABEL, LATER, World, clique
from tests.support.memory_store import MemoryStore

NAMESPACE = "grove-system"
RUN = RunRecord(
    run_id="run-1",
    identity="migrator-x_1",
    version="1.0",
    source="auto",
    target="v0.1.0-alpha.11",
    started=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    finished=None,
    state=RecordState.WRITING,
    operator=record.OperatorBefore(1, "ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.9", "u7"),
    error="HTTP 503",
)


def table(uid: str = "u1", *, run: str = "run-1") -> Table:
    """A table with every field filled."""
    return Table(
        namespace="ns",
        name=f"set-{uid}",
        uid=uid,
        generation=3,
        source="legacy-1.34",
        target="legacy-1.35",
        source_hashes=SetHashes("b565", {"a": "444", "b": "555"}),
        target_hashes=SetHashes("c676", {"a": "777", "b": "888"}),
        template_digest="d1",
        kept=(AlreadyNew(Ref("Pod", "ns", "p", "pod-uid"), LABEL, "777"),),
        run=run,
        pods={"set-0-a": ("00ff", "11ee"), "set-0-b": ()},
    )


@pytest.fixture
def cluster() -> MemoryStore:
    """A cluster without a record."""
    return MemoryStore()


@pytest.fixture
def recorder(cluster: MemoryStore) -> Recorder:
    """A recorder in the operator's namespace, which has read that there is no record."""
    made = Recorder(cluster, NAMESPACE)
    made.load()
    return made


def loaded(cluster: MemoryStore) -> Recorded:
    """What another process reads."""
    return Recorder(cluster, NAMESPACE).load()


def overwrite(cluster: MemoryStore, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the run record's JSON by hand."""
    body = cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)
    document = json.loads(body["data"]["run.json"])
    change(document)
    body["data"]["run.json"] = json.dumps(document)
    cluster.put(body)


def test_what_is_saved_is_loaded(cluster: MemoryStore, recorder: Recorder) -> None:
    """Every field, by any process; a field that this version does not know, as ``layouts`` once was, is ignored."""
    wanted = Recorded(RUN, (table(),))
    recorder.save(wanted)
    assert loaded(cluster) == wanted == recorder.load()
    overwrite(cluster, lambda document: document["run"].update(layouts={"own-1": {"PodSpec": ["a", {"b": 1}]}}))
    assert loaded(cluster) == wanted


def test_the_run_is_for_people_and_the_rest_for_us(cluster: MemoryStore, recorder: Recorder) -> None:
    """Plain JSON with Kubernetes' spelling; labels say whose it is."""
    recorder.save(Recorded(RUN, (table(),)))
    body = cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)
    text = json.loads(body["data"]["run.json"])
    assert (text["format"], text["run"]["runId"], text["run"]["operator"]["replicas"]) == (record.FORMAT, "run-1", 1)
    assert text["run"]["started"] == "2026-01-02T03:04:05.000678Z"
    assert body["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "grove-migrator"


def test_the_same_again_writes_nothing(cluster: MemoryStore, recorder: Recorder) -> None:
    """A rerun that has nothing new to say leaves no trace."""
    recorder.save(Recorded(RUN, (table(),)))
    before = len(cluster.writes())
    recorder.save(recorder.load())
    assert len(cluster.writes()) == before


def test_tables_are_read_again_only_where_the_record_has_changed(cluster: MemoryStore, recorder: Recorder) -> None:
    """A run looks at every step."""
    recorder.save(Recorded(RUN, (table(),)))
    before = len(cluster.requests)
    recorder.load()
    assert len(cluster.requests) == before + 1
    other = Recorder(cluster, NAMESPACE)
    other.load()
    other.save(Recorded(RUN, (table("u2"),)))
    assert recorder.load().tables == (table("u2"),)


def test_the_open_runs_tables_are_told_from_those_of_finished_ones() -> None:
    """Going back covers only what the open run began; while it reverts, that is all."""
    recorded = Recorded(RUN, (table(), table("u2", run="run-0")))
    assert recorded.of_open_run() == {"u1": table()}
    assert recorded.by_set() == {"u1": table(), "u2": table("u2", run="run-0")}
    assert set(replace(recorded, run=replace(RUN, state=RecordState.REVERTING)).of_open_run()) == {"u1", "u2"}
    assert replace(recorded, run=replace(RUN, finished=RUN.started)).of_open_run() == {}


def test_a_record_that_a_configmap_cannot_hold_is_refused(cluster: MemoryStore, recorder: Recorder) -> None:
    """Nothing is written, so a run ends before its first patch."""
    recorder.save(Recorded(RUN))
    large = replace(table(), pods={"a": tuple(token_hex(8) for _ in range(record.MOST // 8))})
    with pytest.raises(Refused, match=r"the record of 1 set has 1,[0-9,]+ bytes, and a ConfigMap holds 1,048,576"):
        recorder.save(Recorded(RUN, (large,)))
    assert recorder.load() == loaded(cluster) == Recorded(RUN)


def test_lost_replies_are_bounded(cluster: MemoryStore, recorder: Recorder) -> None:
    """A server that never answers ends in LostReply, and nothing was committed."""
    cluster.fail(LostReply("no reply"), verb="create", times=100)
    with pytest.raises(LostReply):
        recorder.save(Recorded(RUN, (table(),)))
    assert loaded(cluster) == Recorded()


def test_a_record_that_was_not_read_is_not_replaced(cluster: MemoryStore, recorder: Recorder) -> None:
    """It may be another run's by now."""
    recorder.save(Recorded(RUN))
    with pytest.raises(LostRace, match="was not read"):
        Recorder(cluster, NAMESPACE).save(Recorded(replace(RUN, run_id="run-2")))


def test_the_slower_of_two_writers_loses(cluster: MemoryStore, recorder: Recorder) -> None:
    """What others wrote since it was read is not ours to replace, the first record included."""
    other = Recorder(cluster, NAMESPACE)
    other.load()
    recorder.save(Recorded(RUN))
    with pytest.raises(LostRace):
        other.save(Recorded(replace(RUN, run_id="run-2")))
    other.load()
    cluster.meanwhile(lambda: recorder.save(Recorded(replace(RUN, state=RecordState.DONE))), verb="patch")
    with pytest.raises(LostRace):
        other.save(Recorded(replace(RUN, run_id="run-2")))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("format"),
        lambda document: document.update(format=record.FORMAT + 1),
        lambda document: document.pop("run"),
        lambda document: document["run"].pop("state"),
        lambda document: document["run"].update(started="yesterday"),
        lambda document: document["run"].update(started=5),
        lambda document: document["run"].update(revert="no"),
        lambda document: document.update(run=[]),
        lambda document: document.update(tablesDigest="0" * 64),
    ],
)
def test_a_garbled_run_record_refuses(cluster: MemoryStore, recorder: Recorder, change: Callable[[Any], Any]) -> None:
    """Whatever is missing or wrong, the refusal names the ConfigMap and how to go on."""
    recorder.save(Recorded(RUN, (table(),)))
    overwrite(cluster, change)
    with pytest.raises(Unreadable, match=r"grove-system/grove-migrator-.*kubectl -n grove-system delete configmap"):
        loaded(cluster)


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_run_record_that_is_not_an_object_refuses(cluster: MemoryStore, recorder: Recorder, text: str) -> None:
    """A ConfigMap of our name with anything else in it, or nothing, refuses too."""
    recorder.save(Recorded(RUN))
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body["data"].update({"run.json": text}))
    with pytest.raises(Unreadable):
        loaded(cluster)
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body.pop("data"))
    with pytest.raises(Unreadable):
        loaded(cluster)


@pytest.mark.parametrize(
    "text", ["", "{}[", "5", '{"tables": 5, "layouts": {}}', '{"tables": [{"uid": "u"}], "layouts": {}}']
)
def test_tables_that_are_whole_and_wrong_refuse(cluster: MemoryStore, recorder: Recorder, text: str) -> None:
    """Tables that the run names, and whose contents this version does not know, or that are not gzip at all."""
    recorder.save(Recorded(RUN, (table(),)))
    stream = gzip.compress(text.encode()) if text else b"not gzip"
    data = {"tables.json.gz": base64.b64encode(stream).decode()}
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body.update(binaryData=data))
    overwrite(cluster, lambda document: document.update(tablesDigest=hashlib.sha256(stream).hexdigest()))
    with pytest.raises(Unreadable):
        loaded(cluster)


@pytest.mark.parametrize("data", [None, {}, {"tables.json.gz": "not base64!"}, {"tables.json.gz": "bm90IHRoZWlycw=="}])
def test_damaged_tables_refuse(cluster: MemoryStore, recorder: Recorder, data: dict[str, str] | None) -> None:
    """Tables that are gone, or are not those that the run names, are never half believed."""
    recorder.save(Recorded(RUN, (table(),)))
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body.update(binaryData=data))
    with pytest.raises(Unreadable, match=RUN_NAME):
        loaded(cluster)


def test_delete_forgets_everything_of_ours(cluster: MemoryStore, recorder: Recorder) -> None:
    """A lost reply is no error, and twice is fine."""
    recorder.save(Recorded(RUN, (table(),)))
    cluster.lose_reply(verb="delete")
    for _ in range(2):
        recorder.delete()
    assert cluster.names(CONFIG_MAPS) == []


# --- from a tree's plan to its table: what a revert must leave, and what verification compares with -----------------


def test_the_table_has_both_schemes_hashes_and_the_spec() -> None:
    """All that a rerun or a revert needs, even if the spec changes."""
    world = World().grow(namespace="ns")
    world.pcs["metadata"]["generation"] = world.pcs["status"]["observedGeneration"] = 3
    plan = world.decide()
    found = record.table_of(plan)
    assert (found.namespace, found.name, found.uid, found.generation) == ("ns", "web", plan.tree.ref.uid, 3)
    assert (found.source, found.target) == ("legacy-1.34", "legacy-1.35")
    assert (found.source_hashes, found.target_hashes) == (world.hashes(found.source), world.hashes(found.target))
    assert found.template_digest == template_digest(plan.tree.pcs)


def test_values_that_were_the_targets_before_are_kept() -> None:
    """They are not ours to turn back; values of the source are not listed."""
    world = World().grow()
    new = world.hashes("legacy-1.35")
    world.put("Pod", "web-0-front-1", LABEL, new.templates["front"])
    world.pcs["status"]["currentGenerationHash"] = new.generation
    kept = record.table_of(world.decide()).kept
    assert [(value.ref.kind, value.ref.name, value.field, value.value) for value in kept] == [
        ("Pod", "web-0-front-1", LABEL, new.templates["front"]),
        ("PodCliqueSet", "web", "/status/currentGenerationHash", new.generation),
    ]
    pod = world.of("Pod", "web-0-front-1")["metadata"]
    assert [value.ref.uid for value in kept] == [pod["uid"], world.pcs["metadata"]["uid"]]


def test_what_both_schemes_give_alike_is_not_kept() -> None:
    """Nobody wrote it before us: the source's operator did."""
    world = World().grow(cliques=[clique("front", containers=("a", "b")), clique("work")])
    assert record.table_of(world.decide("auto", "canonical-1.34")).kept == ()


def test_the_pods_that_live_are_recorded_by_their_uids() -> None:
    """Per PodClique: 8-byte digests of the uids of its non-terminating pods, sorted; one without pods is there too."""
    world = World().grow(pods=3)
    world.put("Pod", "web-0-front-1", DELETION, LATER)
    found = record.pods_of(world.snapshot().trees[0])["web-0-front"]
    assert found == tuple(sorted(record.pod_id(world.of("Pod", f"web-0-front-{n}")["metadata"]["uid"]) for n in (0, 2)))
    assert [len(one) for one in found] == [16, 16]
    world.objects = [item for item in world.objects if item["kind"] != "Pod"]
    assert record.pods_of(world.snapshot().trees[0])["web-0-front"] == ()


@pytest.mark.parametrize("leaves", [("PodClique", "web-0-sg-1-work"), ("PodCliqueScalingGroup", "web-0-sg")])
def test_pods_that_go_whatever_happens_are_not_recorded(leaves: tuple[str, str]) -> None:
    """A PodClique that is being deleted takes its pods along, alone or with its scaling group."""
    world = World().grow().put(*leaves, DELETION, LATER)
    (tree,) = world.snapshot().trees
    found = set(record.pods_of(tree))
    assert "web-0-front" in found
    assert "web-0-sg-1-work" not in found


def test_a_tree_without_a_source_has_no_table() -> None:
    """Nothing explains it, so nothing of it can be translated."""
    with pytest.raises(ValueError, match="no source"):
        record.table_of(replace(World().grow().decide(), source=None))
