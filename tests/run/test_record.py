"""The record: tables and runs in ConfigMaps, whole at every moment of a crash."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from migrator.errors import LostRace, LostReply, NotAuthorised, Refused, Unreachable
from migrator.grove.model import Ref, SetHashes
from migrator.planning.tables import FORMAT, decode_tables, encode_tables
from migrator.resources import CONFIG_MAPS
from migrator.run.record import (
    RUN_NAME,
    TABLES_PREFIX,
    CliqueBaseline,
    Kept,
    Recorder,
    ReplicaBaseline,
    RunRecord,
    Table,
    merge,
)
from tests.support.memory_store import Request
from tests.support.small_cluster import SmallCluster

NAMESPACE = "grove-system"
RUN = RunRecord(
    run_id="run-1",
    identity="migrator-x_1",
    source="auto",
    target="v0.1.0-alpha.11",
    started=datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC),
    finished=None,
    state="started",
    operator_replicas=1,
    operator_image="ghcr.io/ai-dynamo/grove/grove-operator:v0.1.0-alpha.9",
    lease="grove-operator-leader-election",
    counts={"pods": 7},
)


class Killed(BaseException):
    """The process dies here: nothing of the tool may catch it."""


def table(uid: str = "u1", *, cliques: int = 2, target: str = "legacy-1.35", digest: str = "d1") -> Table:
    """A table with every field filled."""
    return Table(
        namespace="ns",
        name=f"set-{uid}",
        uid=uid,
        generation=3,
        source="legacy-1.34",
        target=target,
        source_hashes=SetHashes("b565", {"a": "444", "b": "555"}),
        target_hashes=SetHashes("c676", {"a": "777", "b": "888"}),
        template_digest=digest,
        kept=(Kept(Ref("Pod", "ns", "p", "pod-uid"), "/metadata/labels/grove.io~1pod-template-hash", "777"),),
        baseline={
            f"set-{uid}-{i}-a": CliqueBaseline(2, f"2026-01-02T03:04:{i % 60:02}Z", 2, None, None)
            for i in range(cliques)
        },
        group_baseline={"set-0-g": ReplicaBaseline(None, 1, "2026-01-02T03:04:05Z")},
        set_baseline=ReplicaBaseline(1, 1),
    )


def scrambled(number: int) -> list[Table]:
    """So many big tables that compress badly: several pieces."""
    source = random.Random(7)  # noqa: S311 - noise, not secrets
    return [
        replace(
            table(f"u{index:04}"),
            baseline={
                f"set-{index}-{clique}-{source.getrandbits(64):x}": CliqueBaseline(
                    source.randrange(9), f"2026-01-0{source.randrange(1, 9)}T03:04:{source.randrange(60):02}Z", 1, 1
                )
                for clique in range(400)
            },
        )
        for index in range(number)
    ]


@pytest.fixture
def cluster() -> SmallCluster:
    """A cluster without a record."""
    return SmallCluster()


@pytest.fixture
def recorder(cluster: SmallCluster) -> Recorder:
    """A recorder in the operator's namespace."""
    return Recorder(cluster, NAMESPACE)


def pieces(cluster: SmallCluster) -> list[str]:
    """The names of all pieces of tables."""
    return [name for name in cluster.names(CONFIG_MAPS) if name.startswith(TABLES_PREFIX)]


def overwrite(cluster: SmallCluster, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the run record's JSON by hand."""
    body = cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)
    document = json.loads(body["data"]["run.json"])
    change(document)
    body["data"]["run.json"] = json.dumps(document)
    cluster.put(body)


def test_nothing_recorded_is_empty(recorder: Recorder) -> None:
    """No ConfigMap means no run and no tables, not an error."""
    recorded = recorder.load()
    assert recorded.run is None
    assert recorded.tables == {}
    assert recorded.history == ()


def test_what_is_saved_is_loaded(cluster: SmallCluster, recorder: Recorder) -> None:
    """Every field of run and tables survives the way into ConfigMaps and back."""
    recorder.save_run(RUN)
    stand = recorder.save_tables([table("u1"), table("u2")])
    recorded = Recorder(cluster, NAMESPACE).load()
    assert recorded.run == RUN
    assert recorded.tables == stand == {"u1": table("u1"), "u2": table("u2")}


def test_the_configmaps_are_labelled_and_readable(cluster: SmallCluster, recorder: Recorder) -> None:
    """People find the record by its labels, and read who did what without tools."""
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    for name in cluster.names(CONFIG_MAPS):
        labels = cluster.read(CONFIG_MAPS, NAMESPACE, name)["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "grove-migrator"
        assert labels["app.kubernetes.io/managed-by"] != "grove-operator"  # or the authorizer would guard it
    text = json.loads(cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)["data"]["run.json"])
    assert text["run"]["operatorReplicas"] == 1
    assert text["run"]["started"] == "2026-01-02T03:04:05.000678Z"
    assert text["tables"] == ["grove-migrator-tables-0"]


def test_a_run_goes_on_under_its_id_and_the_next_makes_it_history(recorder: Recorder) -> None:
    """The record is the audit trail: a new run id pushes the old run down, the same one replaces it."""
    recorder.save_run(RUN)
    done = replace(RUN, state="done", finished=RUN.started + timedelta(seconds=9), counts={"pods": 9})
    recorder.save_run(done)
    assert recorder.load().history == ()
    recorder.save_run(replace(RUN, run_id="run-2"))
    assert recorder.load().history == (done,)
    for number in range(3, 40):
        recorder.save_run(replace(RUN, run_id=f"run-{number}"))
    history = recorder.load().history
    assert len(history) == 20
    assert history[0].run_id == "run-38"


def test_saving_the_same_again_writes_nothing(cluster: SmallCluster, recorder: Recorder) -> None:
    """A rerun that has nothing new to say does not touch the record."""
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    before = len(cluster.writes())
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    assert len(cluster.writes()) == before


def test_recorded_tables_win(recorder: Recorder) -> None:
    """A tree's first table stands, even if the spec has changed since; new trees are added to it."""
    recorder.save_tables([table("u1", digest="first")])
    stand = recorder.save_tables([table("u1", digest="second"), table("u2")])
    assert stand["u1"].template_digest == "first"
    assert set(stand) == {"u1", "u2"}
    assert recorder.load().tables == stand


def test_a_settled_table_is_replaced(recorder: Recorder) -> None:
    """Where the caller knows that the old table no longer matters, the new one stands, another migration's too."""
    recorder.save_tables([table("u1", digest="first"), table("u2")])
    new = table("u1", digest="second", target="legacy-1.36")
    assert recorder.save_tables([new], replacing={"u1"}) == {"u1": new, "u2": table("u2")}


def test_another_migrations_table_refuses() -> None:
    """An open record of another pair of schemes is named, with the ways to close it."""
    with pytest.raises(Refused, match=r"GM-205.*ns/set-u1.*legacy-1\.34 to legacy-1\.35.*--revert"):
        merge({"u1": table("u1")}, [table("u1", target="canonical-1.34")])


def test_tables_are_encoded_alike() -> None:
    """Equal tables give equal bytes, whatever their order, so that a lost reply can be judged by content."""
    assert encode_tables([table("u1"), table("u2")]) == encode_tables([table("u2"), table("u1")])


def test_large_records_are_cut_below_the_limit(cluster: SmallCluster, recorder: Recorder) -> None:
    """Tables beyond one ConfigMap go into several, each with its metadata below 900 KiB, and come back whole."""
    tables = scrambled(250)
    recorder.save_tables(tables)
    assert len(pieces(cluster)) > 1
    for name in pieces(cluster):
        body = cluster.read(CONFIG_MAPS, NAMESPACE, name)
        assert len(json.dumps(body)) < 900 * 1024
    assert recorder.load().tables == {t.uid: t for t in tables}


def test_a_thousand_sets_of_fifty_cliques_fit(cluster: SmallCluster, recorder: Recorder) -> None:
    """1,000 PodCliqueSets with 50,000 PodCliques (100,000 pods) take a handful of ConfigMaps."""
    recorder.save_tables(table(f"0b5e2f60-4d3c-4b7e-9c55-{index:012}", cliques=50) for index in range(1000))
    assert 1 <= len(pieces(cluster)) <= 5
    assert len(recorder.load().tables) == 1000


def test_one_set_of_fifty_thousand_cliques_fits(recorder: Recorder) -> None:
    """No table is too big: it is the stream that is cut, not the list of tables."""
    recorder.save_tables([table(cliques=50_000)])
    assert len(recorder.load().tables["u1"].baseline) == 50_000


def test_stale_pieces_are_swept(cluster: SmallCluster, recorder: Recorder) -> None:
    """After a commit nothing but the pieces it names remains."""
    recorder.save_tables([table("u1")])
    recorder.save_tables([table("u2")])
    named = json.loads(cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)["data"]["run.json"])["tables"]
    assert pieces(cluster) == named


def test_a_sweep_that_fails_does_not_fail_the_commit(cluster: SmallCluster, recorder: Recorder) -> None:
    """Left-over pieces are harmless, and go with the next commit."""
    recorder.save_tables([table("u1")])
    cluster.fail(lambda: Unreachable("connection refused"), verb="delete")
    recorder.save_tables([table("u2")])
    assert len(pieces(cluster)) == 2
    recorder.save_tables([table("u3")])
    assert len(pieces(cluster)) == 1
    assert set(recorder.load().tables) == {"u1", "u2", "u3"}


@pytest.mark.parametrize("applied", [False, True])
def test_a_crash_at_any_write_leaves_old_or_new_tables(*, applied: bool) -> None:
    """Killed before or after write k, for every k: the old tables or the new ones are whole, and a rerun ends."""
    old, new = [table("u1"), table("u2")], [table(f"u{number}") for number in range(3, 30)]
    both = {t.uid: t for t in (*new, *old)}
    write, finished = 0, False
    while not finished:
        cluster = SmallCluster()
        Recorder(cluster, NAMESPACE, piece=400).save_tables(old)
        hooks = cluster.after if applied else cluster.before
        count = [0]

        def kill(request: Request, at: int = write, count: list[int] = count) -> None:
            if request.number:
                count[0] += 1
                if count[0] == at + 1:
                    raise Killed

        hooks.append(kill)
        try:
            Recorder(cluster, NAMESPACE, piece=400).save_tables(new)
            finished = True
        except Killed:
            hooks.clear()
            found = Recorder(cluster, NAMESPACE, piece=400).load().tables
            assert found in ({t.uid: t for t in old}, both), f"write {write}"
            Recorder(cluster, NAMESPACE, piece=400).save_tables(new)
        assert Recorder(cluster, NAMESPACE, piece=400).load().tables == both
        write += 1
    assert write > 6


@pytest.mark.parametrize("verb", ["create", "patch", "delete"])
def test_lost_replies_are_found_out(cluster: SmallCluster, recorder: Recorder, verb: str) -> None:
    """A write that was applied without an answer is recognised by its content."""
    recorder.save_run(RUN)
    recorder.save_tables([table("u1")])
    cluster.lose_reply(verb=verb, times=2)
    recorder.save_tables([table("u2")])
    recorder.save_run(replace(RUN, state="writing"))
    recorded = recorder.load()
    assert set(recorded.tables) == {"u1", "u2"}
    assert recorded.run is not None
    assert recorded.run.state == "writing"


def test_lost_replies_are_bounded(cluster: SmallCluster, recorder: Recorder) -> None:
    """A server that never answers ends in LostReply, and nothing was committed."""
    cluster.fail(lambda: LostReply("no reply"), verb="create", times=100)
    with pytest.raises(LostReply):
        recorder.save_run(RUN)
    with pytest.raises(LostReply):
        recorder.save_tables([table()])
    assert recorder.load().run is None


def test_the_slower_of_two_writers_loses(cluster: SmallCluster, recorder: Recorder) -> None:
    """Another migrator's record, written between our read and our write, is not overwritten."""
    recorder.save_run(RUN)
    other = replace(RUN, run_id="other")
    cluster.meanwhile(lambda: Recorder(cluster, NAMESPACE).save_run(other), verb="patch")
    with pytest.raises(LostRace, match="somebody else"):
        recorder.save_run(replace(RUN, state="writing"))
    assert recorder.load().run == other


def test_the_slower_of_two_first_writers_loses(cluster: SmallCluster, recorder: Recorder) -> None:
    """The same where there was no record before."""
    other = replace(RUN, run_id="other")
    cluster.meanwhile(lambda: Recorder(cluster, NAMESPACE).save_run(other), verb="create")
    with pytest.raises(LostRace, match="somebody else"):
        recorder.save_run(RUN)


def test_an_annotated_record_is_still_ours(cluster: SmallCluster, recorder: Recorder) -> None:
    """Somebody else's annotation between our read and our write does not matter: the text decides."""
    recorder.save_run(RUN)
    annotations = {"annotations": {"a": "b"}}
    cluster.meanwhile(
        lambda: cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body["metadata"].update(annotations)),
        verb="patch",
    )
    recorder.save_run(replace(RUN, state="writing"))
    assert cluster.read(CONFIG_MAPS, NAMESPACE, RUN_NAME)["metadata"]["annotations"] == {"a": "b"}


def test_an_unreadable_cluster_fails_closed(cluster: SmallCluster, recorder: Recorder) -> None:
    """A record that may not be read is never taken for absent."""
    cluster.fail(lambda: NotAuthorised("configmaps is forbidden"), verb="get")
    with pytest.raises(NotAuthorised):
        recorder.load()


def test_a_newer_format_refuses(cluster: SmallCluster, recorder: Recorder) -> None:
    """What a later version wrote is left to that version."""
    recorder.save_run(RUN)
    overwrite(cluster, lambda document: document.update(format=FORMAT + 1))
    with pytest.raises(Refused, match=rf"format {FORMAT + 1}.*Run the version"):
        recorder.load()
    with pytest.raises(Refused):
        recorder.save_run(RUN)


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.pop("format"),
        lambda document: document.pop("run"),
        lambda document: document["run"].pop("state"),
        lambda document: document["run"].update(started="yesterday"),
        lambda document: document["run"].update(started=5),
        lambda document: document.update(run=[]),
        lambda document: document.update(tablesSha256="0" * 64),
        lambda document: document["tables"].append("grove-migrator-tables-9"),
        lambda document: document.update(tables=[]) or document.update(tables=["grove-migrator-run"]),
    ],
)
def test_a_garbled_run_record_refuses(
    cluster: SmallCluster, recorder: Recorder, change: Callable[[dict[str, Any]], None]
) -> None:
    """Whatever is missing or wrong, the refusal names the ConfigMap and how to go on."""
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    overwrite(cluster, change)
    with pytest.raises(Refused, match=r"grove-system/grove-migrator-.*kubectl -n grove-system delete configmap"):
        recorder.load()


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_a_run_record_that_is_no_object_refuses(cluster: SmallCluster, recorder: Recorder, text: str) -> None:
    """A ConfigMap of our name with anything else in it refuses too."""
    recorder.save_run(RUN)
    cluster.edit(CONFIG_MAPS, NAMESPACE, RUN_NAME, lambda body: body["data"].update({"run.json": text}))
    with pytest.raises(Refused):
        recorder.load()


def test_a_configmap_without_our_key_refuses(cluster: SmallCluster, recorder: Recorder) -> None:
    """An empty ConfigMap of our name is a record that somebody emptied."""
    cluster.add(CONFIG_MAPS, {"metadata": {"namespace": NAMESPACE, "name": RUN_NAME}})
    with pytest.raises(Refused):
        recorder.load()


@pytest.mark.parametrize(
    "garble",
    [
        lambda body: body.pop("binaryData"),
        lambda body: body["binaryData"].update({"tables.json.gz": "no base64!"}),
        lambda body: body["binaryData"].update({"tables.json.gz": base64.b64encode(b"no gzip").decode()}),
    ],
)
def test_a_garbled_piece_refuses(
    cluster: SmallCluster, recorder: Recorder, garble: Callable[[dict[str, Any]], None]
) -> None:
    """Tables that were damaged are never half believed."""
    recorder.save_tables([table()])
    cluster.edit(CONFIG_MAPS, NAMESPACE, f"{TABLES_PREFIX}0", garble)
    with pytest.raises(Refused, match=f"{TABLES_PREFIX}0"):
        recorder.load()


def test_a_deleted_piece_refuses(cluster: SmallCluster, recorder: Recorder) -> None:
    """A piece that the run record names and nobody has is an error, not an empty table."""
    recorder.save_tables([table()])
    cluster.drop(CONFIG_MAPS, NAMESPACE, f"{TABLES_PREFIX}0")
    with pytest.raises(Refused, match="it is gone"):
        recorder.load()


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b broken",
        gzip.compress(b"\xff", mtime=0),
        gzip.compress(b"{}", mtime=0),
        gzip.compress(json.dumps({"format": FORMAT, "tables": [{"uid": "u"}]}).encode(), mtime=0),
        gzip.compress(json.dumps({"format": FORMAT, "tables": 5}).encode(), mtime=0),
        encode_tables([table()])[:-9],
    ],
)
def test_tables_that_cannot_be_decoded_raise_value_error(data: bytes) -> None:
    """One kind of error for every kind of damage."""
    with pytest.raises(ValueError, match=r".+"):
        decode_tables(data)


def test_delete_all_forgets_everything(cluster: SmallCluster, recorder: Recorder) -> None:
    """After a revert or a verification nothing of ours remains, left-overs included; twice is fine."""
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    cluster.fail(lambda: Unreachable("connection refused"), verb="delete")
    recorder.save_tables([table("u2")])
    recorder.delete_all()
    recorder.delete_all()
    assert cluster.names(CONFIG_MAPS) == []


def test_delete_all_leaves_other_configmaps(cluster: SmallCluster, recorder: Recorder) -> None:
    """Only ConfigMaps with our labels and our names are ours."""
    cluster.add(CONFIG_MAPS, {"metadata": {"namespace": NAMESPACE, "name": f"{TABLES_PREFIX}notes"}})
    recorder.save_tables([table()])
    recorder.delete_all()
    assert cluster.names(CONFIG_MAPS) == [f"{TABLES_PREFIX}notes"]


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("write", [0, 1])
def test_a_crash_while_forgetting_is_no_damage(
    cluster: SmallCluster, recorder: Recorder, write: int, *, applied: bool
) -> None:
    """Killed at any deletion: what is left is the whole record or none, and forgetting again ends it."""
    recorder.save_run(RUN)
    recorder.save_tables([table()])
    hooks = cluster.after if applied else cluster.before
    count = [0]

    def kill(request: Request) -> None:
        if request.verb == "delete":
            count[0] += 1
            if count[0] == write + 1:
                raise Killed

    hooks.append(kill)
    with pytest.raises(Killed):
        recorder.delete_all()
    hooks.clear()
    assert recorder.load().tables in ({}, {"u1": table()})
    recorder.delete_all()
    assert cluster.names(CONFIG_MAPS) == []


def test_a_lost_reply_to_a_deletion_is_repeated(cluster: SmallCluster, recorder: Recorder) -> None:
    """Deleting what is gone is success."""
    recorder.save_tables([table()])
    cluster.lose_reply(verb="delete")
    recorder.delete_all()
    assert cluster.names(CONFIG_MAPS) == []
