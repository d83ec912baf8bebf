"""The verbs of the library do to the bytes what the commands do, and hear what the commands print."""

import inspect
import os
import re
import shutil
import warnings
from datetime import datetime, timezone
from pathlib import Path

import pytest

import kafkalog_cli as kl
from tests.support.commands import a_broker_on, kafkalog, tree
from tests.support.product import COMMANDS, PathNotFound, apis_for_old_clients

EXAMPLE = Path(__file__).parents[2] / "docs" / "example"
NOW_MS = 1_800_000_000_000
RUN_ID = re.compile(rb"\d{8}T\d{6}\.\d{3}Z-([\w-]+)-[0-9a-f]{4}")
POLICY = {"cleanup.policy": "delete", "retention.ms": 1}
COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": 0}
CALLS = {
    # verb: what the library is called with, what the command is called with
    "roll": ({"force": True}, ["--force"]),
    "retain": ({"config": POLICY}, ["--config", "cleanup.policy=delete", "--config", "retention.ms=1"]),
    "compact": (
        {"config": COMPACTED, "force": True},
        ["--config", "cleanup.policy=compact", "--config", "delete.retention.ms=0", "--force"],
    ),
    "recover": ({"mode": "like-broker"}, ["--like-broker"]),
    "purge": ({"older_than_ms": 0}, ["--older-than", "0s"]),
}
ONE = {
    "truncate": ((60,), {"single_replica": True}, ["--to", "60", "--single-replica"]),
    "delete_records": ((60,), {"single_replica": True}, ["--before", "60", "--single-replica"]),
}
OTHER_COMMANDS = {"dump-log", "dump-index", "ls", "lookup-offset", "lookup-time", "read", "append", "export", "import"}
OTHER_COMMANDS |= {"sql", "warmup", "demo"}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kl.LogWarning)
        yield


def copies(tmp_path):
    """Two log directories at the same place, one after the other: messages and manifests name paths."""
    place = tmp_path / "logs"

    def fresh():
        if place.exists():
            shutil.rmtree(place)
        shutil.copytree(EXAMPLE, place)
        cut = place / "mixed-1" / "00000000000000000000.index"
        cut.write_bytes(cut.read_bytes()[:-8])
        return place

    return fresh


def files(root):
    """(bytes, mode) by path, without names of runs and the manifests, which name the calling program."""
    found = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.name != "manifest.json":
            name = RUN_ID.sub(rb"RUN-\1", os.fsencode(path.relative_to(root)))
            found[name] = RUN_ID.sub(rb"RUN", path.read_bytes()), path.stat().st_mode
    return found


@pytest.mark.parametrize("verb", CALLS)
def test_each_verb_of_the_library_leaves_the_files_of_its_command(tmp_path, verb):
    fresh = copies(tmp_path)
    what, argv = CALLS[verb]
    place = fresh()
    code = kafkalog(verb, place, *argv, "--now", datetime.fromtimestamp(NOW_MS / 1000, timezone.utc).isoformat())[0]
    wanted = files(place)
    run = getattr(kl, verb)(fresh(), now=NOW_MS, **what)
    assert (int(run.exit_code), files(place)) == (code, wanted)
    assert len(run.results) + len(run.errors) == 3
    assert getattr(kl.open(fresh()), verb)(now=NOW_MS, **what).exit_code == code
    assert files(place) == wanted


@pytest.mark.parametrize("verb", ONE)
def test_each_verb_of_a_partition_leaves_the_files_of_its_command(tmp_path, verb):
    fresh = copies(tmp_path)
    place, (args, what, argv) = fresh() / "mixed-0", ONE[verb]
    before = files(place)
    assert kafkalog(verb.replace("_", "-"), place, *argv)[0] == 0
    wanted = files(place)
    fresh()
    log = kl.open_partition(place)
    run = getattr(log, verb)(*args, **what)
    assert files(place) == wanted != before
    assert any("other replicas" in note.message for note in run.notes)
    undone = log.undo(run.results[0].done.manifest.run.run_id)
    assert (undone.exit_code, undone.results[0].undone) == (0, True)


@pytest.mark.parametrize("verb", ["roll", "retain", "compact"])
def test_without_a_time_that_is_given_a_wrong_clock_is_refused(tmp_path, verb):
    place = copies(tmp_path)()
    for path in place.rglob("*.log"):
        os.utime(path, (NOW_MS / 1000 * 2,) * 2)
    before = files(place / "mixed-0")
    for time in ({}, {"now": None}):
        run = getattr(kl, verb)(place, **CALLS[verb][0], **time)
        assert {type(error).__name__ for error in run.errors} == {"Refused"}
        assert all("2084" in str(error) or "clock" in str(error) for error in run.errors), run.errors
        assert files(place / "mixed-0") == before
    assert not getattr(kl, verb)(place, **CALLS[verb][0], now=2 * NOW_MS + 1000).errors


def test_a_dry_run_changes_nothing(tmp_path):
    place = copies(tmp_path)()
    before = tree(place)
    for verb, (what, _) in CALLS.items():
        assert all(one.exit_code in (0, 3) for one in getattr(kl, verb)(place, dry_run=True, **what).results)
    assert tree(place) == before


def test_a_call_takes_the_options_of_the_command(tmp_path):
    place = copies(tmp_path)()
    before = tree(place)
    with a_broker_on(place):
        assert kl.roll(place, force=True, if_offline=True).results == ()
    assert tree(place) == before
    planned = kl.roll(place, force=True, dry_run=True, topic_pattern="mix.*").results
    assert {changed.plan.topic for changed in planned} == {"mixed"}


def test_verbs_raise_errors_and_warn_like_their_commands(tmp_path):
    place = copies(tmp_path)()
    with pytest.warns(kl.LogWarning, match="other replicas"):
        kl.truncate(place / "mixed-0", 60, single_replica=True)
    run = kl.retain(place)
    assert {type(error).__name__ for error in run.errors} == {"Skipped"}
    assert int(run.exit_code) == kafkalog("retain", place)[0] != 0
    with pytest.raises(PathNotFound):
        kl.recover(tmp_path / "nobody")


def test_verify_finds_what_the_command_finds(tmp_path):
    place = copies(tmp_path)()
    log = place / "mixed-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    run = kl.open(place).verify(level="deep")
    assert int(run.exit_code) == kafkalog("verify", "--level", "deep", place)[0] == 4
    assert {one.path.rpartition("/")[2] for one in run.results if one.exit_code == 4} == {"mixed-0"}


def test_every_command_has_a_verb_in_the_library():
    """Of the commands that change logs, and of some that check or describe; each also as a method."""
    names = {name.replace("-", "_") for name in COMMANDS if name not in OTHER_COMMANDS}
    described = {
        "groups",
        "transactions",
        "doctor",
        "cluster",
        "find",
        "stats",
        "inspect",
        "metadump",
        "serve",
        "replay",
    }
    assert names == {*CALLS, *ONE, "undo", "verify", *described}
    for name in names:
        assert callable(getattr(kl, name))
        for kind in (kl.LogDirectory, kl.PartitionLog):
            assert name in dict(inspect.getmembers(kind, inspect.isfunction))


def test_recover_takes_several_paths_and_selects_topics_and_partitions(tmp_path):
    place = copies(tmp_path)()
    run = kl.recover([place / "mixed-0", str(place / "mixed-1")], dry_run=True)
    assert [one.plan.path.rpartition("/")[2] for one in run.results] == ["mixed-0", "mixed-1"]
    assert [one.plan.topic for one in kl.recover(place, topics=["levels"], dry_run=True).results] == ["levels"]
    assert [one.plan.partition for one in kl.recover(place, partitions=[1], dry_run=True).results] == [1]
    with pytest.raises(TypeError):
        kl.recover(place, partitions=0, dry_run=True)


@pytest.mark.parametrize("verb", ["recover", "roll", "retain", "compact", "undo", "purge"])
def test_a_misspelt_option_changes_nothing(tmp_path, verb):
    place = copies(tmp_path)()
    arguments = (place / "mixed-0", "last") if verb == "undo" else (place,)
    with pytest.raises(TypeError, match="unexpected keyword argument 'dryrun'"):
        getattr(kl, verb)(*arguments, dryrun=True)


def test_a_dry_run_of_recover_reports_a_checkpoint_that_would_be_rebuilt(tmp_path):
    place = copies(tmp_path)()
    (place / "recovery-point-offset-checkpoint").write_bytes(b"0\n5\nmixed 0 0\n")
    before = (place / "recovery-point-offset-checkpoint").read_bytes()
    notes = {note.kind: note for note in kl.recover(place, dry_run=True).notes}
    assert "would be rebuilt" in notes["checkpoint-damaged"].message
    assert (place / "recovery-point-offset-checkpoint").read_bytes() == before
    assert "checkpoint-rebuilt" in {note.kind for note in kl.recover(place).notes}


def test_a_server_runs_during_a_block_and_its_notes_are_warnings(tmp_path):
    from tests.support.kafka_client import KafkaClient

    def ask(server):
        host, port = server.bootstrap.split(":")
        with KafkaClient((host, int(port))) as client:
            asked = [{"partition": 1, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}]
            found = client.ask("Fetch", 12, maxBytes=1 << 20, topics=[{"topic": "mixed", "partitions": asked}])
        return found["responses"][0]["partitions"][0]

    logs = shutil.copytree(EXAMPLE, tmp_path / "logs")
    with kl.serve(logs, topics=["mixed"]) as server:
        assert (ask(server)["errorCode"], ask(server)["highWatermark"]) == (0, 125)
        assert server.old_clients is None
    with pytest.raises(ConnectionRefusedError):
        ask(server)
    with kl.serve(logs, old_clients=0) as server:
        host, port = server.old_clients.split(":")
        with KafkaClient((host, int(port)), apis=apis_for_old_clients()) as client:
            found = client.ask(
                "ListOffsets", 0, topics=[{"name": "mixed", "partitions": [{"partitionIndex": 1, "timestamp": -1}]}]
            )
        assert found["topics"][0]["partitions"][0]["oldStyleOffsets"] == [125]
    with kl.serve(logs, at=datetime(2001, 1, 1)) as server:
        assert ask(server)["highWatermark"] == 0
    log = logs / "mixed-1" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes()[:70] + b"damaged" + log.read_bytes()[77:])
    with pytest.warns(kl.LogWarning, match=r"mixed-1.*are not served"), kl.serve(logs) as server:
        assert ask(server)["errorCode"] == 2
