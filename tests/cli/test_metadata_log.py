"""verify, doctor, cluster and recover on the metadata log of a KRaft node, its snapshots and its records."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.commands import kafkalog
from tests.support.metadata_logs import topic_id
from tests.support.metadata_nodes import (
    BAD_RECORDS,
    END,
    GOOD_RECORDS,
    LOG,
    METADATA,
    SNAPSHOT,
    append,
    begin_at_snapshot,
    copy_of,
    flip_at,
    positions,
)


@pytest.fixture
def disk(corpus, tmp_path):
    return copy_of(corpus, tmp_path / "data")


def objects(*command):
    code, out, _ = kafkalog(*command, "--format", "json")
    return code, [json.loads(line) for line in out.splitlines()]


def findings(disk, *more):
    code, found = objects("verify", disk, *more)
    return code, [one for one in found if one["type"] == "finding" and one["severity"] == "corruption"]


def actions(disk):
    _, found = objects("doctor", disk)
    return [one["action"] for one in found if one["type"] == "start-step"]


def voters(disk, *ids):
    path = disk / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    path.write_text(json.dumps(state | {"currentVoters": [{"voterId": one} for one in ids]}))


def test_verify_finds_nothing_in_a_sound_metadata_log(disk):
    assert findings(disk) == (0, [])
    assert not {"does-not-start", "cuts"} & {*actions(disk)}


@pytest.mark.parametrize("first", [0, 90])
def test_damage_in_the_log_is_reported_with_the_cut_and_its_losses(disk, first):
    if first:
        begin_at_snapshot(disk)
        log = disk / METADATA / f"{first:020d}.log"
        data = bytearray(log.read_bytes())
        data[-100] ^= 0x55
        log.write_bytes(data)
    else:
        flip_at(disk, 121)
    code, [found] = findings(disk)
    assert code == 4
    assert found["kind"] == "crc-mismatch"
    assert f"cuts the metadata log at offset {found['first_offset']} when it starts" in found["broker_effect"]
    assert "snapshot 90-1" in found["broker_effect"]
    assert "PartitionChangeRecord" in found["broker_effect"] or first
    assert "only voter" in found["next_step"]
    assert not {"mv", "kafkalog"} & {shlex.split(one)[0] for one in found["next_step"].split("`")[1::2]}
    assert "cuts" in actions(disk)


def test_lost_topics_and_settings_are_named(disk):
    append(disk, *GOOD_RECORDS["topic"], *GOOD_RECORDS["setting-of-no-topic"])
    flip_at(disk, 121)
    _, [found] = findings(disk)
    assert "the topics new, the settings retention.ms of topic no" in found["broker_effect"]


def test_damage_below_the_newest_snapshot_loses_all_after_the_snapshot(disk):
    flip_at(disk, 50)
    _, [found] = findings(disk)
    effect = found["broker_effect"]
    assert "at offset 50" in effect
    assert "begins it anew at 90" in effect
    assert f"{END - 90} offsets are lost" in effect


def test_a_torn_end_loses_no_record(disk):
    log = disk / METADATA / LOG
    log.write_bytes(log.read_bytes() + bytes(7))
    code, found = objects("verify", disk)
    [tail] = [one for one in found if one.get("path", "").endswith(".log") and one["type"] == "finding"]
    assert (code, tail["next_step"]) == (3, "nothing has to be done")
    assert "no record that can be read is lost" in tail["broker_effect"]


def test_with_other_voters_the_node_fetches_what_it_cut(disk):
    voters(disk, 1, 2, 3)
    flip_at(disk, 121)
    _, [found] = findings(disk)
    assert found["next_step"] == (
        "nothing has to be done while the other voters (2, 3) run: the node fetches the rest from them"
    )


def test_with_other_voters_the_step_empties_the_directory_but_for_the_vote(disk):
    voters(disk, 1, 2, 3)
    begin_at_snapshot(disk)
    (disk / METADATA / SNAPSHOT).unlink()
    _, [found] = findings(disk)
    assert found["kind"] == "metadata-snapshot-missing"
    for command in found["next_step"].split("`")[1::2]:
        subprocess.run(shlex.split(command), check=True)
    assert [path.name for path in (disk / METADATA).iterdir()] == ["quorum-state"]
    assert (disk.parent / METADATA / f"{90:020d}.log").exists()


@pytest.mark.parametrize("name", [LOG, SNAPSHOT])
def test_a_single_file_gets_the_steps_of_a_metadata_log(disk, name):
    flip_at(disk, 121)
    (disk / METADATA / SNAPSHOT).write_bytes(bytes(300))
    code, [found] = findings(disk / METADATA / name)
    assert code == 4
    assert "--salvage" not in found["next_step"]
    assert f"mv -nT {disk / METADATA} " not in found["next_step"]


def test_a_comparison_with_another_voter_does_not_advise_to_replace_the_directory(disk, corpus):
    flip_at(disk, 121)
    _, found = findings(disk / METADATA, "--against", corpus / "internal" / "data" / METADATA)
    [missing] = [one for one in found if one["kind"] == "records-missing"]
    assert missing["next_step"].startswith(f"`kafkalog verify {disk / METADATA}`")


def test_salvage_leaves_the_metadata_log_out_and_refuses_it_by_name(disk, tmp_path):
    code, _, err = kafkalog("recover", disk / METADATA, "--salvage", tmp_path / "one")
    assert (code, "vote and its snapshots" in err) == (14, True)
    assert not (tmp_path / "one" / METADATA).exists()
    assert kafkalog("recover", disk, "--salvage", tmp_path / "all")[0] == 0
    assert (tmp_path / "all" / "in-a-0").exists()
    assert not (tmp_path / "all" / METADATA).exists()


def cut(data, size):
    return data[:size]


SNAPSHOTS = {
    "random": (lambda data: bytes(at * 7919 % 251 for at in range(len(data))), True),
    "empty": (lambda data: b"", True),
    "no-header": (lambda data: data[12 + int.from_bytes(data[8:12], "big") :], True),
    "zeros-after-it": (lambda data: data + bytes(40), True),
    "crc": (lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:], True),
    "half": (lambda data: cut(data, 1000), True),
    "torn-footer": (lambda data: cut(data, len(data) - 30), False),
}
"""The damage, and whether a node of Kafka 4.2 ends at it: it does not notice that the end is missing."""


@pytest.mark.parametrize("damage", SNAPSHOTS)
def test_a_damaged_snapshot_is_found_and_can_be_moved_away_where_the_log_begins_at_0(disk, damage):
    spoil, ends = SNAPSHOTS[damage]
    path = disk / METADATA / SNAPSHOT
    path.write_bytes(spoil(path.read_bytes()))
    code, [found] = findings(disk)
    assert (code, found["kind"], found["path"]) == (4, "metadata-snapshot-damaged", str(path))
    assert ("does-not-start" in actions(disk)) is ends
    assert kafkalog("cluster", disk)[0] == 4
    subprocess.run(shlex.split(found["next_step"].split("`")[1]), check=True)
    assert findings(disk) == (0, [])


def test_a_damaged_snapshot_that_the_log_needs_is_to_be_restored(disk):
    begin_at_snapshot(disk)
    (disk / METADATA / SNAPSHOT).write_bytes(b"")
    _, [found] = findings(disk)
    assert found["next_step"].startswith(
        "restore the file from a backup of this directory; this node is the only voter"
    )


@pytest.mark.parametrize(
    ("name", "says", "action"),
    [
        (f"{100:020d}-{1:010d}.checkpoint", "in the middle of a batch", None),
        (f"{999:020d}-{1:010d}.checkpoint", "past the end of the log, 145", "does-not-start"),
        (f"{90:020d}-{9:010d}.checkpoint", "its name 9", "cuts"),
    ],
)
def test_a_snapshot_under_another_name_is_found(disk, name, says, action):
    (disk / METADATA / SNAPSHOT).rename(disk / METADATA / name)
    _, [found] = findings(disk)
    assert says in found["message"]
    assert found["next_step"].startswith("`mv -nT ")
    assert ({"does-not-start", "cuts"} & {*actions(disk)}) == ({action} if action else set())


@pytest.mark.parametrize(("content", "ends"), [(b"", True), (bytes(range(256)), True), (None, False)])
def test_a_damaged_bootstrap_checkpoint_is_found(disk, content, ends):
    path = disk / "bootstrap.checkpoint"
    whole = path.read_bytes()
    path.write_bytes(whole[:18] + bytes([whole[18] ^ 1]) + whole[19:] if content is None else content)
    code, [found] = findings(disk)
    assert (code, found["path"]) == (4, str(path))
    assert ("does-not-start" in actions(disk)) is ends  # a node does not look at the CRC
    assert findings(path)[0] == 4
    subprocess.run(shlex.split(found["next_step"].split("`")[1]), check=True)
    assert findings(disk) == (0, [])


@pytest.mark.parametrize("content", [b"version: 0\ntopic_id: 8Cy_xF2SQQ2u1pVgY0WmCA", b"\xff"])
@pytest.mark.parametrize("name", ["partition.metadata", "leader-epoch-checkpoint"])
def test_a_small_file_at_which_the_node_ends_is_moved_away(disk, name, content):
    (disk / METADATA / name).write_bytes(content)
    _, [found, *_] = findings(disk)
    assert found["path"] == str(disk / METADATA / name)
    assert "does-not-start" in actions(disk)
    subprocess.run(shlex.split(found["next_step"].split("`")[1]), check=True)
    assert findings(disk) == (3 if "epoch" in name else 0, [])


def test_a_file_in_the_place_of_the_metadata_log_is_found(disk):
    (disk / METADATA).rename(disk.parent / METADATA)
    (disk / METADATA).touch()
    code, [found] = findings(disk)
    assert (code, found["kind"]) == (4, "metadata-log-lost")
    assert "nothing has to be done" not in found["next_step"]
    assert actions(disk).count("does-not-start") == 1
    assert "sets-aside" not in actions(disk)


@pytest.mark.parametrize("name", ["5-1.checkpoint", f"{0:020}.checkpoint"])
def test_a_file_named_like_a_snapshot_has_one_finding(disk, name):
    (disk / METADATA / name).touch()
    assert [one["kind"] for one in findings(disk)[1]] == ["bad-name"]


def test_a_damaged_vote_of_the_only_controller_needs_no_other_controllers(disk):
    (disk / METADATA / "quorum-state").write_text("")
    code, [found] = findings(disk)
    assert (code, found["kind"]) == (4, "quorum-state-damaged")
    assert found["message"].startswith("its first line is no JSON object")
    assert "with the other controllers running" not in found["next_step"]
    subprocess.run(shlex.split(found["next_step"].split("`")[1]), check=True)
    assert findings(disk)[0] == 0


@pytest.mark.parametrize("content", [None, b"", b"\x07" * 9000])
def test_a_metadata_log_that_lost_all_records_after_its_snapshot_is_found(disk, content):
    log = disk / METADATA / f"{0:020}.log"
    log.unlink()
    if content is not None:
        log.write_bytes(content)
    code, found = findings(disk)
    assert code == 4
    [one] = [one for one in found if one["kind"] == "metadata-log"]
    assert "all records after it are lost" in one["broker_effect"]
    assert "backup" in one["next_step"]
    assert "cuts" in actions(disk)


@pytest.mark.parametrize("name", BAD_RECORDS)
def test_a_record_that_no_controller_can_apply_is_named(disk, name):
    bad = BAD_RECORDS[name]
    append(disk, *bad.values, key=bad.key)
    code, [found] = findings(disk)
    assert code == bad.code
    assert found["kind"] == ("metadata-newer" if code == 12 else "metadata-record")
    assert found["first_offset"] == END + len(bad.values) - 1
    assert bad.says in found["message"]
    assert "does-not-start" in actions(disk)
    code, _, err = kafkalog("cluster", disk)
    assert code == bad.code
    assert bad.says in err


@pytest.mark.parametrize("name", GOOD_RECORDS)
def test_a_record_that_a_controller_applies_is_no_finding(disk, name):
    append(disk, *GOOD_RECORDS[name])
    assert findings(disk) == (0, [])
    assert kafkalog("cluster", disk)[0] == 0


def test_the_printed_commands_remove_a_bad_record_from_the_log_of_the_only_voter(disk):
    before = (disk / METADATA / LOG).read_bytes()
    append(disk, *BAD_RECORDS["broker-epoch"].values)
    _, [found] = findings(disk)
    for command in found["next_step"].split("`")[1::2]:
        subprocess.run(shlex.split(command), check=True)
    assert (disk / METADATA / LOG).read_bytes() == before
    assert (disk.parent / METADATA / LOG).stat().st_size > len(before)
    assert findings(disk) == (0, [])


def steps(disk, action):
    _, found = objects("doctor", disk)
    return [one for one in found if one["type"] == "start-step" and one["action"] == action]


def test_partitions_of_topics_that_the_cut_loses_are_set_aside(disk):
    (disk / METADATA / SNAPSHOT).unlink()
    flip_at(disk, 60)
    assert {Path(one["path"]).name for one in steps(disk, "sets-aside")} == {"__share_group_state-0"}


def test_the_newest_snapshot_is_that_of_the_largest_epoch(disk):
    """OffsetAndEpoch.compareTo: by the epoch first. A log behind it begins anew (KafkaRaftLog.truncateToLatestSnapshot)."""
    folder = disk / METADATA
    shutil.copy(folder / SNAPSHOT, folder / f"{40:020d}-{9:010d}.checkpoint")
    [cut] = steps(disk, "cuts")
    assert "begins it anew at 40, the end of its newest snapshot" in cut["message"]


def test_another_topic_id_of_the_metadata_log_ends_the_start(disk):
    (disk / METADATA / "partition.metadata").write_text("version: 0\ntopic_id: 8Cy_xF2SQQ2u1pVgY0WmCA")
    assert findings(disk)[0] == 4
    [step] = steps(disk, "does-not-start")
    assert "that of __cluster_metadata is AAAAAAAAAAAAAAAAAAAAAQ" in step["message"]


def test_a_bootstrap_checkpoint_with_an_unknown_feature_is_read(disk):
    """BatchFileReader checks no CRC, and nothing replays its records while the metadata log has some."""
    path = disk / "bootstrap.checkpoint"
    path.write_bytes(path.read_bytes().replace(b"group.version", b"group!version"))
    code, [found] = findings(disk)
    assert (code, found["path"]) == (4, str(path))
    assert not steps(disk, "does-not-start")


def test_a_batch_with_offsets_past_the_end_of_the_log_ends_the_start(disk):
    """No CRC covers the base offset, and the log loader does not cut there."""
    path = disk / METADATA / LOG
    data = bytearray(path.read_bytes())
    at = next(at for base, _, at, _ in positions(data) if base == 121)
    data[at + 6] ^= 0x40
    path.write_bytes(data)
    assert any("16505, and the log ends at 145" in step["message"] for step in steps(disk, "does-not-start"))


def test_a_log_whose_last_segments_are_empty_ends_the_start_and_the_printed_step_lets_it_start(disk):
    """The node reads until the end of the log, which is where its last segment begins (tried with Kafka 4.2.0)."""
    begin_at_snapshot(disk)
    (disk / METADATA / f"{90:020d}.log").write_bytes(b"")
    (disk / METADATA / f"{END:020d}.log").touch()
    code, found = findings(disk)
    assert code == 4
    [waiting] = [one for one in found if one["kind"] == "metadata-log"]
    assert "waits for offsets 90 to 144 for ever" in waiting["message"]
    assert len(steps(disk, "does-not-start")) == 1
    subprocess.run(shlex.split(waiting["next_step"].split("`")[1]), check=True)
    assert not steps(disk, "does-not-start")


def test_partitions_of_topics_after_the_newest_snapshot_are_set_aside_where_the_log_ends_before_it(disk):
    log = disk / METADATA / LOG
    log.write_bytes(bytes(range(256)) * 2)
    made = disk / "made-0"
    shutil.copytree(disk / "in-a-0", made)
    (made / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id(77)}\n")
    assert [one["path"] for one in steps(disk, "sets-aside")] == [str(made)]
