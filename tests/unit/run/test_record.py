"""The record: whole or absent, whatever happens while it is written; and refused where it is not understood."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, Unreachable, Unreadable
from migrator.grove.objects import Ref
from migrator.planning.model import AlreadyNew, SetHashes, Table
from migrator.resources import CONFIG_MAPS
from migrator.run.record import FORMAT, RUN_NAME, TABLES_PREFIX, Recorded, Recorder
from migrator.run.tables import OperatorBefore, RecordState, RunRecord
from tests.support.memory_store import MemoryStore, Request

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
    operator=OperatorBefore(1, "ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.9", "u7"),
    error="HTTP 503",
)


class Killed(BaseException):
    """The process dies here: nothing of the tool may catch it."""


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
        kept=(AlreadyNew(Ref("Pod", "ns", "p", "pod-uid"), "/metadata/labels/grove.io~1pod-template-hash", "777"),),
        run=run,
        pods={"set-0-a": ("00ff", "11ee"), "set-0-b": ()},
    )


def tables(numbers: Iterable[int]) -> tuple[Table, ...]:
    """Several tables."""
    return tuple(table(f"u{number}") for number in numbers)


@pytest.fixture
def cluster() -> MemoryStore:
    """A cluster without a record."""
    return MemoryStore()


@pytest.fixture
def recorder(cluster: MemoryStore) -> Recorder:
    """A recorder in the operator's namespace."""
    return Recorder(cluster, NAMESPACE)


def loaded(cluster: MemoryStore, **options: int) -> Recorded:
    """What another process reads."""
    return Recorder(cluster, NAMESPACE, **options).load()


def pieces(cluster: MemoryStore) -> list[str]:
    """The names of all pieces."""
    return [name for name in cluster.names(CONFIG_MAPS) if name.startswith(TABLES_PREFIX)]


def overwrite(cluster: MemoryStore, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the run record's JSON by hand."""
    body = cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)
    document = json.loads(body["data"]["run.json"])
    change(document)
    body["data"]["run.json"] = json.dumps(document)
    cluster.put(body)


def kill_at(cluster: MemoryStore, number: int, *, applied: bool, verb: str = "") -> None:
    """Let the process die at its write of that number."""
    count = [0]

    def kill(request: Request) -> None:
        if request.number and verb in {"", request.verb}:
            count[0] += 1
            if count[0] == number:
                raise Killed

    (cluster.after if applied else cluster.before).append(kill)


def test_nothing_recorded_is_empty(cluster: MemoryStore) -> None:
    """No ConfigMap, no record."""
    assert loaded(cluster) == Recorded()


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
    assert (text["format"], text["run"]["runId"], text["run"]["operator"]["replicas"]) == (FORMAT, "run-1", 1)
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
    Recorder(cluster, NAMESPACE).save(Recorded(RUN, (table("u2"),)))
    assert recorder.load().tables == (table("u2"),)


def test_the_open_runs_tables_are_told_from_those_of_finished_ones() -> None:
    """Going back covers only what the open run began; while it reverts, that is all."""
    recorded = Recorded(RUN, (table(), table("u2", run="run-0")))
    assert recorded.of_open_run() == {"u1": table()}
    assert recorded.by_set() == {"u1": table(), "u2": table("u2", run="run-0")}
    assert set(replace(recorded, run=replace(RUN, state=RecordState.REVERTING)).of_open_run()) == {"u1", "u2"}
    assert replace(recorded, run=replace(RUN, finished=RUN.started)).of_open_run() == {}


def test_large_records_are_cut_below_the_limit(cluster: MemoryStore) -> None:
    """Each piece is a ConfigMap of its own, and together they are the tables."""
    wanted = Recorded(RUN, tables(range(60)))
    Recorder(cluster, NAMESPACE, piece=400).save(wanted)
    assert len(pieces(cluster)) > 2
    assert loaded(cluster) == wanted
    sizes = [len(json.dumps(cluster.read(CONFIG_MAPS, NAMESPACE, name)["binaryData"])) for name in pieces(cluster)]
    assert max(sizes) < 450


def test_a_sweep_that_fails_does_not_fail_the_commit(cluster: MemoryStore, recorder: Recorder) -> None:
    """Left-over pieces are harmless, and go with the next commit."""
    recorder.save(Recorded(RUN, tables([1])))
    cluster.fail(Unreachable("connection refused"), verb="delete")
    recorder.save(Recorded(RUN, tables([1, 2])))
    assert len(pieces(cluster)) == 2
    recorder.save(Recorded(RUN, tables([1, 2, 3])))
    assert len(pieces(cluster)) == 1
    assert loaded(cluster).tables == tables([1, 2, 3])


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_any_write_leaves_old_or_new_tables(*, applied: bool) -> None:
    """Killed before or after write k, for every k: the old record or the new one is whole, and a rerun ends."""
    old, new = Recorded(RUN, tables([1, 2])), Recorded(RUN, tables(range(1, 30)))
    write, finished = 1, False
    while not finished:
        cluster = MemoryStore()
        Recorder(cluster, NAMESPACE, piece=400).save(old)
        kill_at(cluster, write, applied=applied)
        try:
            Recorder(cluster, NAMESPACE, piece=400).save(new)
            finished = True
        except Killed:
            (cluster.after if applied else cluster.before).clear()
            assert loaded(cluster) in (old, new), f"write {write}"
            Recorder(cluster, NAMESPACE, piece=400).save(new)
        assert loaded(cluster) == new
        write += 1
    assert write > 6


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
def test_lost_replies_are_found_out(cluster: MemoryStore, recorder: Recorder, verb: str) -> None:
    """A write that was applied without an answer is recognised by its content."""
    recorder.save(Recorded(RUN, tables([1])))
    cluster.lose_reply(verb=verb, times=2)
    wanted = Recorded(replace(RUN, state=RecordState.DONE), tables([1, 2]))
    recorder.save(wanted)
    assert loaded(cluster) == wanted


def test_lost_replies_are_bounded(cluster: MemoryStore, recorder: Recorder) -> None:
    """A server that never answers ends in LostReply, and nothing was committed."""
    cluster.fail(LostReply("no reply"), verb="create", times=100)
    for recorded in (Recorded(RUN), Recorded(RUN, tables([1]))):
        with pytest.raises(LostReply):
            recorder.save(recorded)
    assert loaded(cluster) == Recorded()


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


def test_tables_that_another_run_replaces_while_they_are_read(cluster: MemoryStore, recorder: Recorder) -> None:
    """The pieces that were named are gone: what is recorded by now is read instead, and nobody is told to delete it."""
    recorder.save(Recorded(RUN, tables([1])))
    reads = [0]

    def replace_them(request: Request) -> None:
        if request.verb == "get" and request.name.startswith(TABLES_PREFIX):
            reads[0] += 1
            if reads[0] == 1:
                recorder.save(Recorded(RUN, tables([1, 2])))

    cluster.before.append(replace_them)
    assert loaded(cluster).tables == tables([1, 2])


def test_an_annotated_record_is_still_ours(cluster: MemoryStore, recorder: Recorder) -> None:
    """Only its text counts."""
    recorder.save(Recorded(RUN))
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body["metadata"].update(annotations={"a": "b"}))
    recorder.save(Recorded(replace(RUN, state=RecordState.DONE)))


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("format"),
        lambda document: document.update(format=FORMAT + 1),
        lambda document: document.pop("run"),
        lambda document: document["run"].pop("state"),
        lambda document: document["run"].update(started="yesterday"),
        lambda document: document["run"].update(started=5),
        lambda document: document["run"].update(revert="no"),
        lambda document: document.update(run=[]),
        lambda document: document.update(tablesDigest="0" * 64),
        lambda document: document["tables"].append("grove-migrator-tables-9"),
        lambda document: document.update(tables=["grove-migrator-run"]),
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
    "garble",
    [
        lambda body: body.pop("binaryData"),
        lambda body: body["binaryData"].update({"tables.json.gz": "not base64!"}),
        lambda body: body["binaryData"].update({"tables.json.gz": base64.b64encode(b"not gzip").decode()}),
    ],
)
def test_a_garbled_or_deleted_piece_refuses(
    cluster: MemoryStore, recorder: Recorder, garble: Callable[[dict[str, Any]], object]
) -> None:
    """Tables that were damaged are never half believed."""
    recorder.save(Recorded(RUN, (table(),)))
    cluster.edit(CONFIG_MAPS, NAMESPACE, f"{TABLES_PREFIX}0", garble)
    with pytest.raises(Unreadable, match=f"{TABLES_PREFIX}0"):
        loaded(cluster)
    cluster.drop(CONFIG_MAPS, NAMESPACE, f"{TABLES_PREFIX}0")
    with pytest.raises(Unreadable, match="it is gone"):
        loaded(cluster)


@pytest.mark.parametrize(
    "text", ["{}[", "5", '{"tables": 5, "layouts": {}}', '{"tables": [{"uid": "u"}], "layouts": {}}']
)
def test_tables_that_are_whole_and_wrong_refuse(cluster: MemoryStore, recorder: Recorder, text: str) -> None:
    """Pieces that the run record names, and whose contents this version does not know."""
    recorder.save(Recorded(RUN, (table(),)))
    stream = gzip.compress(text.encode())
    data = {"tables.json.gz": base64.b64encode(stream).decode()}
    cluster.edit(CONFIG_MAPS, NAMESPACE, f"{TABLES_PREFIX}0", lambda body: body.update(binaryData=data))
    overwrite(cluster, lambda document: document.update(tablesDigest=hashlib.sha256(stream).hexdigest()))
    with pytest.raises(Unreadable, match=f"{TABLES_PREFIX}0"):
        loaded(cluster)


def test_delete_all_forgets_everything_of_ours(cluster: MemoryStore, recorder: Recorder) -> None:
    """After a revert or a verification nothing of ours remains, left-overs included; twice is fine."""
    metadata = {"namespace": NAMESPACE, "name": f"{TABLES_PREFIX}notes"}
    cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    recorder.save(Recorded(RUN, (table(),)))
    cluster.fail(Unreachable("connection refused"), verb="delete")
    recorder.save(Recorded(RUN, (table("u2"),)))
    cluster.lose_reply(verb="delete")
    recorder.delete_all()
    recorder.delete_all()
    assert cluster.names(CONFIG_MAPS) == [f"{TABLES_PREFIX}notes"]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("write", [1, 2])
def test_a_crash_while_forgetting_is_no_damage(
    cluster: MemoryStore, recorder: Recorder, write: int, *, applied: bool
) -> None:
    """Killed at any deletion: what is left is the whole record or none, and forgetting again ends it."""
    recorder.save(Recorded(RUN, (table(),)))
    kill_at(cluster, write, applied=applied, verb="delete")
    with pytest.raises(Killed):
        recorder.delete_all()
    (cluster.after if applied else cluster.before).clear()
    assert loaded(cluster).tables in ((), (table(),))
    again = Recorder(cluster, NAMESPACE)
    again.load()
    again.delete_all()
    assert cluster.names(CONFIG_MAPS) == []
